#!/bin/sh
# Everything that docs/training.md says of repair, from nothing: stories, a teacher of them, its compressed files, their
# repairs, what the engine says of each, and the curves. Stop it at any time: what is done is not done again.
#
#     tools/train/repair.sh             JOBS=2 for two runs at once; to begin anew, delete OUT (build/repair)
set -eu
cd "$(dirname "$0")/../.."
OUT=${OUT:-build/repair} JOBS=${JOBS:-1} VENV=${VENV:-build/train/venv}
PYTHON=$VENV/bin/python
export VENV

tools/train/setup.sh
make cutaway model
[ -e "$OUT/stories.json" ] || $PYTHON tools/train/stories.py "$OUT"
$PYTHON tools/train/repair.py "$OUT/begin.gguf" - "$OUT/stories.json" "$OUT/teacher.gguf" --hard 1 --steps 500 \
	--batch 16 --lr 4e-3 --decay 0.1
$PYTHON tools/train/repairs.py "$OUT" docs/repair.csv docs/repair_steps.csv --jobs "$JOBS"
python3 tools/train/curves.py --value kl --said "divergence from the teacher, nats a token" docs/repair_steps.csv \
	--runs full rank-4 own-reverse qat-3 qat-2 > docs/repair.svg
