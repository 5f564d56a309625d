#!/bin/sh
# The small models in demos/models/family that lessons round and distil, from nothing: a teacher of stories in F16, the same in Q4_1,
# and two students of one beginning, one by the stories' tokens alone, one by the teacher's distributions; heads for the teacher, and the teacher
# trained with heads of its own. These are runs of docs/training.md, *Repair*, whose teacher is used if it is there. Twenty minutes.
set -eu
cd "$(dirname "$0")/../.."
OUT=${OUT:-build/repair} VENV=${VENV:-build/train/venv} FOLDER=${FOLDER:-demos/models/family}
PYTHON=$VENV/bin/python
export VENV

tools/train/setup.sh
make cutaway model
[ -e "$OUT/stories.json" ] || $PYTHON tools/train/stories.py "$OUT"
$PYTHON tools/train/repair.py "$OUT/begin.gguf" - "$OUT/stories.json" "$OUT/teacher.gguf" --hard 1 --steps 500 \
	--batch 16 --lr 4e-3 --decay 0.1
rounded() { # IN OUT OPTIONS
	in=$1 out=$FOLDER/$2
	shift 2
	rm -f "$out"
	./cutaway quantize "$@" "$in" "$out"
}
student() { # NAME WEIGHT-OF-LABELS
	$PYTHON tools/train/repair.py "$OUT/student.gguf" "$OUT/teacher.gguf" "$OUT/stories.json" "$OUT/$1.gguf" --hard "$2" \
		--steps 150 --lr 4e-3
	rounded "$OUT/$1.gguf" "stories-$1.gguf" --format f16
}
rounded "$OUT/teacher.gguf" stories-f16.gguf --format f16
rounded "$FOLDER/stories-f16.gguf" stories-q4_1.gguf --format q4_1 --keep token_embd
student labels 1
student distilled 0

# Medusa's heads for it, and the model that was trained with heads of its own: docs/training.md, *Heads with their model*.
$PYTHON tools/train/heads.py "$OUT" build/heads docs/heads.csv
cp build/heads/heads-heads.gguf "$FOLDER/stories-heads.gguf"
cp build/heads/joint-keep-heads.gguf "$FOLDER/stories-together-heads.gguf"
rounded build/heads/joint-keep.gguf stories-together.gguf --format q8_0
