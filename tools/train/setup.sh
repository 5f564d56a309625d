#!/bin/sh
# The virtual environment of the trainers, build/train/venv: torch, gguf and xxhash from PyPI. The program needs none
# of it. About 6 GB, since PyPI's torch brings CUDA along.
set -eu
cd "$(dirname "$0")/../.."
VENV=${VENV:-build/train/venv}
if "$VENV/bin/python" -c 'import torch, gguf, xxhash' 2>/dev/null; then
	exit 0
fi
python3 -m venv "$VENV"
"$VENV/bin/pip" install --quiet 'torch>=2.9' numpy gguf xxhash
