#!/usr/bin/env bash
# Fetches what llama.cpp ships for its own tests, chat templates and vocabularies, for tests of ours: into build/vendor/models,
# once. It comes in the source archive of llama-cpp-python, which pip fetches and checks; nothing of it is part of this project.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.3.36 out=build/vendor
mkdir -p "$out"
exec 9>"$out/.lock"
flock 9 # two tests ask for it
[ ! -e "$out/models/.whole-$version" ] || exit 0
work=$out/fetch.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
	--dest "$work" "llama-cpp-python==$version"
tar -xzf "$work/llama_cpp_python-$version.tar.gz" -C "$work" --strip-components=3 \
	"llama_cpp_python-$version/vendor/llama.cpp/models"
touch "$work/models/.whole-$version"
rm -rf "$out/models"
mv "$work/models" "$out/models"
