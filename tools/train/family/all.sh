#!/bin/sh
# The family of docs/family.md: texts, training, files, table. Three hours of two cores, resumable: what is there is not made
# again. all.sh [FOLDER]: where the files go, demos/models/family if it is not said.
set -eu
cd "$(dirname "$0")/../../.."
FOLDER=${1:-demos/models/family}
DATA=${DATA:-build/train/family}
VENV=${VENV:-build/train/venv}
HERE=tools/train/family
JOBS=${JOBS:-$(nproc)}
VENV="$VENV" tools/train/setup.sh
mkdir -p "$DATA"
[ -e "$DATA/text.pt" ] || "$VENV/bin/python" $HERE/text.py "$DATA"

members="multi-head grouped single latent shared window one-global mamba2 based jamba experts s4d mamba1 lightning
	jamba-experts one-global-shared relu relu2"
recalling="multi-head single latent shared window one-global mamba2 based jamba experts s4d mamba1 lightning"
{
	for name in $members; do echo "member.py $name $DATA --seed 1"; done
	echo "member.py diffusion $DATA --size 2M --steps 3000"
	for name in $recalling; do echo "recall.py $name $DATA"; done
	for name in multi-head window one-global mamba2 based jamba; do echo "recall.py $name $DATA --task many"; done
	echo "recall.py s4d $DATA --task delay"
	echo "mend.py mend-small $DATA --steps 2000"
	# what is close, and what is compared with it, is trained three times
	for seed in 2 3; do
		for name in multi-head grouped single window one-global mamba2 based jamba; do echo "member.py $name $DATA --seed $seed"; done
	done
} | OMP_NUM_THREADS=1 xargs -P "$JOBS" -L 1 sh -c 'python=$0 folder=$1 tool=$2; shift 2; "$python" "$folder/$tool" "$@"' "$VENV/bin/python" $HERE

"$VENV/bin/python" $HERE/mend.py mend "$DATA" --begin mend-small --steps 900 --tokens 1024 --lr 2e-3
"$VENV/bin/python" $HERE/export.py "$DATA" "$FOLDER"
"$VENV/bin/python" $HERE/table.py "$DATA" "$FOLDER" docs/family.md
