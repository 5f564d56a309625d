#!/bin/sh
# docs/layers.svg is what tools/layers.py makes of the folders and the rules of layers.sh. TAP.
cd "$(dirname "$0")/../.." || exit 1
echo "1..1"
if found=$(tools/layers.py --check 2>&1); then
	echo "ok 1 - the picture of the layers is that of the folders"
else
	echo "not ok 1 - the picture of the layers is that of the folders"
	echo "$found" | sed 's/^/# /'
fi
