#!/usr/bin/env bash
# Installs the packages that are missing, after saying which: setup.sh build|model|test|mpi|peer …
# setup.sh --check GROUP … installs nothing: it says what is missing and how to get it, and fails.
# Debian and Ubuntu: through apt-get as root or with sudo; without either the exact command is printed.
# Elsewhere: says what is needed.
set -euo pipefail

# shellcheck disable=SC2034  # the groups are read by name
build=(gcc libc6-dev libncurses-dev libreadline-dev libsqlite3-dev libutf8proc-dev nettle-dev libxxhash-dev libmd4c-dev
	libmicrohttpd-dev libcjson-dev libcurl4-openssl-dev)
# shellcheck disable=SC2034
model=(python3 python3-pip ca-certificates)
# `test` also needs the fuzzer and sanitizer runtimes of clang, a package of its own on newer systems.
# Terminal types and the sources of locales are for the tests of terminals; rsvg-convert draws PNGs.
# shellcheck disable=SC2034
test=(libcmocka-dev libsimde-dev g++ tmux sqlite3 python3 python3-venv curl clang clang-format lld locales ncurses-term
	librsvg2-bin openmpi-bin libopenmpi-dev)
test_if_known=(libclang-rt-dev)
# Elsewhere than on ARM, the tests of its kernels: a cross compiler and an emulator.
[ "$(uname -m)" = aarch64 ] || test+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)
# Ranks that are processes.
# shellcheck disable=SC2034
mpi=(openmpi-bin libopenmpi-dev)
# Only `make bench-peer` asks for these: pip compiles llama.cpp.
# shellcheck disable=SC2034
peer=(python3 python3-venv g++ cmake ninja-build)

dnf=(gcc make ncurses-devel readline-devel sqlite-devel utf8proc-devel nettle-devel xxhash-devel md4c-devel
	libmicrohttpd-devel cjson-devel libcurl-devel
	python3 python3-pip)
dnf_test=(libcmocka-devel simde-devel gcc-c++ tmux sqlite clang clang-tools-extra compiler-rt libasan libubsan glibc-locale-source
	ncurses-term librsvg2-tools openmpi-devel)
pacman=(gcc make ncurses readline sqlite libutf8proc nettle xxhash md4c libmicrohttpd cjson curl python python-pip)
pacman_test=(cmocka simde tmux clang compiler-rt librsvg openmpi)

wants() { # is $1 among the groups asked for?
	local group
	for group in "${groups[@]}"; do [ "$group" != "$1" ] || return 0; done
	return 1
}

has_headers() { # does what `build` brings compile, however it came here?
	local headers='#include <ncurses.h>
#include <stdio.h>
#include <readline/readline.h>
#include <sqlite3.h>
#include <utf8proc.h>
#include <nettle/sha2.h>
#include <xxhash.h>
#include <md4c.h>
#include <microhttpd.h>
#include <cjson/cJSON.h>
#include <curl/curl.h>'
	# shellcheck disable=SC2086  # CC may be two words
	${CC:-cc} -fsyntax-only -x c - <<<"$headers" >/dev/null 2>&1
}

elsewhere() { # not a Debian system: nothing is installed, but say what is missing
	if { ! wants build || has_headers; } &&
		{ ! wants model || python3 -m pip --version >/dev/null 2>&1; } &&
		{ ! wants mpi || command -v mpicc >/dev/null; } &&
		{ ! wants peer || { python3 -m venv --help && command -v c++ && command -v cmake; } >/dev/null; } &&
		{ ! wants test || { command -v tmux && command -v clang && command -v sqlite3; } >/dev/null; }; then
		return 0
	fi
	wants test || { dnf_test=() pacman_test=(); }
	! wants mpi || { dnf_test+=(openmpi-devel) pacman_test+=(openmpi); }
	cat >&2 <<-END
		cutaway needs a C compiler and the development files of ncurses (wide), readline, sqlite3, utf8proc,
		nettle, xxhash, md4c, libmicrohttpd, cJSON and libcurl; python3 with pip to fetch the model; for the tests cmocka, SIMDe, tmux, the sqlite3
		shell, clang, the sources of locales and the types of terminals; for ranks an MPI with mpicc; for bench-peer python3's venv, a C++ compiler and cmake. Please install what is missing
		and call make again:
		  Fedora:  sudo dnf install ${dnf[*]} ${dnf_test[*]}
		  Arch:    sudo pacman -S --needed ${pacman[*]} ${pacman_test[*]}
	END
	return 1
}

missing_of() { # those of the given packages that are not installed
	dpkg-query -W -f '${Package} ${Status}\n' "$@" 2>/dev/null |
		awk -v want="$*" '/ install ok installed$/ { have[$1] = 1 }
			END { n = split(want, w, " "); for (i = 1; i <= n; i++) if (!(w[i] in have)) print w[i] }'
}

has_fuzzer() { # can clang build a fuzz target?
	clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null <<-END
		#include <stddef.h>
		#include <stdint.h>
		int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) { return data && size > 9 ? 0 : 0; }
	END
}

check=
if [ "${1:-}" = --check ]; then
	check=1
	shift
fi
groups=("$@")
[ $# -gt 0 ] || groups=(build model)
if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	elsewhere
	exit
fi

packages=()
for group in "${groups[@]}"; do
	case $group in
	build | model | test | mpi | peer)
		declare -n list=$group
		packages+=("${list[@]}")
		;;
	*)
		echo "usage: setup.sh build|model|test|mpi|peer …" >&2
		exit 2
		;;
	esac
done
# what somebody installed otherwise is there, too
[ -z "$check" ] || ! has_headers || exit 0
mapfile -t missing < <(missing_of "${packages[@]}" | sort -u)
optional=()
if wants test && ! has_fuzzer; then optional=("${test_if_known[@]}"); fi
[ $((${#missing[@]} + ${#optional[@]})) -gt 0 ] || exit 0

as_root() { # the command that installs what is missing
	echo "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]} ${optional[*]}"
}

if [ -n "$check" ]; then
	echo "cutaway needs packages that are not installed. 'make chat' and 'make test' install them; or run as root:" >&2
	as_root >&2
	exit 1
fi
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	if ! command -v sudo >/dev/null; then
		echo "cutaway needs packages that are not installed, and this is neither root nor is sudo here." >&2
		echo "Please run as root:" >&2
		as_root >&2
		exit 1
	fi
	sudo=(sudo)
fi
echo "cutaway is about to install with apt-get: ${missing[*]} ${optional[*]}"
apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get)
"${apt[@]}" update -q
for package in "${optional[@]}"; do
	if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); fi
done
"${apt[@]}" install -q -y --no-install-recommends "${missing[@]}"
