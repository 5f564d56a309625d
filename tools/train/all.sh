#!/bin/sh
# Everything from nothing to the files in demos/models: environment, data, features, three drafters, their files,
# references for the tests, figures and curves. Stop it at any time: what is done is not done again.
#
#     tools/train/all.sh [eagle] [model] [medusa]        (without a name: all three)
#
# On two quiet cores each drafter takes less than an hour. ROUNDS, THREADS, OUT and MODEL may be set; to begin anew,
# delete OUT (build/train).
set -eu
cd "$(dirname "$0")/../.."
OUT=${OUT:-build/train} MODEL=${MODEL:-models/SmolLM2-135M-Instruct.Q4_1.gguf} ROUNDS=${ROUNDS:-4}
THREADS=${THREADS:-$(nproc)} VENV=${VENV:-build/train/venv}
PYTHON=$VENV/bin/python
export VENV
[ $# -gt 0 ] || set -- eagle model medusa

tools/train/setup.sh
make cutaway model build/tools/train/features
$PYTHON tools/train/data.py "$OUT/data" --rounds "$ROUNDS" --model "$MODEL"
$PYTHON tools/train/features.py "$OUT/data" "$MODEL" "$OUT/features"
$PYTHON tools/train/target.py "$MODEL" "$OUT/features"
for kind; do
	case $kind in
	eagle) file=eagle steps=2400 ;;
	model) file=draft steps=2400 ;;
	medusa) file=medusa steps=1600 ;;
	*) echo "all.sh: $kind is no drafter: eagle, model or medusa" >&2; exit 2 ;;
	esac
	$PYTHON tools/train/train.py "$kind" "$OUT/features" "$MODEL" "$OUT/out" --name "$file" --steps "$steps" \
		--threads "$THREADS"
	$PYTHON tools/train/export.py "$kind" "$OUT/out/$file.ckpt" "$MODEL" "demos/models/$file.gguf" \
		--features "$OUT/features" --reference "tests/data/draft_$file.json" --figures "$OUT/out/$file.export.json"
	cp "$OUT/out/$file.csv" "docs/training_$file.csv"
done
python3 tools/train/curves.py docs/training_*.csv > docs/training.svg
python3 tools/train/figures.py "$OUT/out"
