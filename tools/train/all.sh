#!/bin/sh
# Everything from nothing to the files in demos/models: environment, data, features, three drafters, their files,
# references for the tests, figures and curves. Stop it at any time: what is done is not done again.
#
#     tools/train/all.sh [eagle] [model] [medusa]        (without a name: all three)
#
# On two quiet cores each training takes less than an hour (docs/training.md has the minutes). ROUNDS, WORKERS, OUT and
# MODEL may be set, and BEGIN=1 to go on from the files in demos/models; to begin anew, delete OUT (build/train).
set -eu
cd "$(dirname "$0")/../.."
OUT=${OUT:-build/train} MODEL=${MODEL:-models/SmolLM2-135M-Instruct.Q4_1.gguf} ROUNDS=${ROUNDS:-3}
WORKERS=${WORKERS:-$(nproc)} BEGIN=${BEGIN:-} VENV=${VENV:-build/train/venv}
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
	eagle) file=eagle options='--steps 2000 --lr 1.5e-3 --temperature 0.5 --deep 3 --later 0.6 --feature-weight 0.05' ;;
	model) file=draft options='--steps 450 --lr 1e-3 --temperature 0.5' ;;
	medusa) file=medusa options='--steps 600 --lr 1e-3 --temperature 0.5' ;;
	*) echo "all.sh: $kind is no drafter: eagle, model or medusa" >&2; exit 2 ;;
	esac
	[ -z "$BEGIN" ] || options="$options --lr 6e-4 --begin demos/models/$file.gguf"
	# shellcheck disable=SC2086
	$PYTHON tools/train/train.py "$kind" "$OUT/features" "$MODEL" "$OUT/out" --name "$file" --workers "$WORKERS" $options
	$PYTHON tools/train/export.py "$OUT/out/$file.ckpt" "$MODEL" "demos/models/$file.gguf" \
		--features "$OUT/features" --vocab 3072 --reference "tests/data/draft_$file.json"
	cp "$OUT/out/$file.csv" "docs/training_$file.csv"
done
python3 tools/train/curves.py docs/training_*.csv > docs/training.svg
$PYTHON tools/train/figures.py "$MODEL" "$OUT/features" demos/models/*.gguf
