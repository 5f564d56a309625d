#!/bin/bash
# All that only a machine with an NVIDIA GPU can tell, unattended and within a time: tools/gpu_report.sh [SECONDS]
# (1,500 without it). Tests, certificate, recordings verified both ways, compute-sanitizer on a tiny model, and the
# figures of the table in docs/performance.md, each part with a limit of its own. A part that fails or takes too long is
# noted, and the next one begins. Results go to $OUT, or build/gpu-report without it:
#   report.txt   what was tried, how it ended, how long it took; the table at its end
#   log.txt      the output of every part
#   bench.jsonl  a line for each run of the bench: {"part": …, figures …}
#
# Where nothing can be installed: `tools/gpu_report.sh --pack` on a machine that can build (nvcc, make cuda) puts programs and
# libraries into build/gpu, which is then used if it is there. Nothing is downloaded. With CUTAWAY_CUDA_DRIVER (the
# shim of tests/cuda/shim) or GPU_REPORT_SMALL=1 models are tiny, so that the script itself can be tried without a GPU.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8

pack() { # programs, and the libraries that they need beyond the C library
	set -e
	make tests-build && make cuda && make free-order-cuda
	rm -rf build/gpu && mkdir -p build/gpu/lib
	cp cutaway build/tests/mktiny build/gpu
	cp build-free/cutaway build/gpu/cutaway-free
	strip build/gpu/cutaway build/gpu/cutaway-free build/gpu/mktiny
	ldd cutaway build/tests/mktiny | awk '$2 == "=>" { print $3 }' | grep -vE '/(libc|libm|libdl|libpthread|librt)\.so' |
		sort -u | xargs -I{} cp -L {} build/gpu/lib
	du -sh build/gpu
}
if [ "$1" = --pack ]; then
	pack
	exit
fi

budget=${1:-1500}
out=${OUT:-build/gpu-report}
mkdir -p "$out" || exit 1
tmp=$(mktemp -d "${GPU_REPORT_TMP:-/dev/shm}/gpu-report.XXXXXX" 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM
report=$out/report.txt log=$out/log.txt bench=$out/bench.jsonl
for file in "$report" "$log" "$bench"; do : >"$file" || exit 1; done
failed=0
say() { echo "$*" | tee -a "$report"; }
left() { echo $((budget - SECONDS)); }

# try LIMIT DESCRIPTION COMMAND …: stopped after LIMIT seconds, or when the whole time is over.
try() {
	local limit=$1 what=$2 begun=$SECONDS status
	shift 2
	[ "$limit" -le "$(left)" ] || limit=$(left)
	if [ "$limit" -lt 5 ]; then
		say "skip - $what: no time is left"
		failed=$((failed + 1))
		return 1
	fi
	echo "=== $what: $*" >>"$log"
	timeout -k 5 "$limit" "$@" >"$tmp/out" 2>&1
	status=$?
	cat "$tmp/out" >>"$log"
	if [ $status -eq 0 ]; then
		say "ok - $what ($((SECONDS - begun)) s)"
	else
		say "not ok - $what: exit status $status ($((SECONDS - begun)) s of $limit)"
		tail -5 "$tmp/out" | cut -c1-300 | sed 's/^/#   /' | tee -a "$report"
		failed=$((failed + 1))
	fi
	return $status
}

# ---- the programs ----

if [ -x build/gpu/cutaway ]; then
	here=$PWD/build/gpu
	export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
	cutaway=$here/cutaway free=$here/cutaway-free mktiny=$here/mktiny
else
	free=build-free/cutaway
	cutaway=./cutaway mktiny=build/tests/mktiny
	if [ ! -f build/cuda/kernels.fatbin ] && [ -z "$CUTAWAY_CUDA_DRIVER" ]; then
		arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
		try 420 "nvcc compiles the kernels for sm_$arch alone" make CUDA_ARCHS="$arch" build/cuda/kernels.fatbin
	fi
	try 300 "the program and its tests are built" make ${arch:+CUDA_ARCHS="$arch"} cutaway "$mktiny"
fi
{ "$cutaway" --version; "$cutaway" devices; nvidia-smi 2>/dev/null; } 2>&1 | tee -a "$log" | head -12 | tee -a "$report"
if ! "$cutaway" devices --json | grep -q '"usable":[[:space:]]*true'; then
	say "no device can be used: nothing is tested"
	exit 1
fi
unset XDG_CACHE_HOME
export XDG_CACHE_HOME=$tmp/cache XDG_DATA_HOME=$tmp/data XDG_STATE_HOME=$tmp/state
small=${GPU_REPORT_SMALL:-${CUTAWAY_CUDA_DRIVER:+1}}

# ---- is it right? ----

types=$("$mktiny" --types | cut -d ' ' -f 1)
for type in $types; do
	wide=
	"$mktiny" --types | grep -q "^$type 256" && wide="--dim 256 --ffn 512"
	"$mktiny" --type $type $wide --seed 3 "$tmp/$type.gguf" || exit 1
done
cat >"$tmp/equal" <<'END'
"$1" run --backend cpu --model "$2" --raw --greedy --max-tokens "$4" --json --no-record hello >"$2.cpu" &&
	"$1" run --backend cuda --cuda-mode "$3" --model "$2" --raw --greedy --max-tokens "$4" --json --no-record hello >"$2.gpu" &&
	grep -q hash "$2.cpu" && cmp "$2.cpu" "$2.gpu"
END
tokens=200
[ -z "$small" ] || tokens=10
for mode in launches graph persistent; do
	try 60 "$tokens tokens, $mode: every hash is the CPU's" sh "$tmp/equal" "$cutaway" "$tmp/Q4_1.gguf" $mode $tokens
done
for type in $types; do
	try 40 "certificate, $type" "$cutaway" certify --quick --seconds 10 --model "$tmp/$type.gguf"
done
for back in cpu cuda; do
	try 30 "recorded on $back" "$cutaway" run --backend $back --model "$tmp/Q4_1.gguf" --raw --max-tokens 40 \
		--record "$tmp/$back.db" hello
done
try 30 "the GPU's recording verifies on the CPU" "$cutaway" verify --backend cpu --model "$tmp/Q4_1.gguf" "$tmp/cuda.db"
try 30 "the CPU's recording verifies on the GPU" "$cutaway" verify --backend cuda --model "$tmp/Q4_1.gguf" "$tmp/cpu.db"
real=models/SmolLM2-135M-Instruct.Q4_1.gguf
[ -f $real ] && [ -z "$small" ] && try 90 "certificate of the real model" "$cutaway" certify --quick --model $real

# ---- how fast? ----

shape() { # NAME TYPE HEAD-TYPE DIM LAYERS HEADS KV-HEADS FFN VOCAB
	local vocab=$9 layers=$5
	[ -z "$small" ] || vocab=600 layers=1
	try 150 "a model of shape $1, $2" "$mktiny" --repeat --type "$2" --embd-type "$3" --dim "$4" --layers "$layers" \
		--heads "$6" --kv-heads "$7" --ffn "$8" --vocab "$vocab" --ctx 4096 "$tmp/$1-$2.gguf"
}
figures() { # PART PROGRAM FIGURE OPTION …
	local part=$1 program=$2 figure=$3
	shift 3
	try "${figure_limit:-60}" "$part: $figure" "$program" bench --json --only "$figure" --ctx 2048 --packed-cache off "$@" ||
		return
	grep '^{' "$tmp/out" | sed "s/^{/{\"part\":\"$part\",\"only\":\"$figure\",/" >>"$bench"
}
model=$real
if [ ! -f $real ] || [ -n "$small" ]; then
	if [ -n "$small" ]; then
		shape 135M Q4_1 Q8_0 64 30 4 2 128 49152
	else
		shape 135M Q4_1 Q8_0 576 30 9 3 1536 49152
	fi
	model=$tmp/135M-Q4_1.gguf
fi
for figure in read_gb_s decode_tok_s decode_1k_tok_s prefill_tok_s batch16_tok_s batch64_tok_s record_percent; do
	figures 135M "$cutaway" $figure --backend cuda --model "$model"
done
for mode in launches graph; do
	figures "135M $mode" "$cutaway" decode_tok_s --backend cuda --cuda-mode $mode --model "$model"
done
if [ -x "$free" ]; then
	for figure in decode_tok_s decode_1k_tok_s prefill_tok_s; do
		figures "135M exact again" "$cutaway" $figure --backend cuda --model "$model"
		figures "135M free" "$free" $figure --backend cuda --model "$model"
	done
else
	say "skip - the build without the fixed order is not here: make free-order-cuda"
fi
try 60 "135M: a recorded answer" "$cutaway" run --record "$tmp/stages.db" --max-tokens 200 --backend cuda --model "$model" "Once upon a time" &&
	try 60 "135M: where a token's time goes" tools/bench/stages.py "$tmp/stages.db" --reads 4800 --integers 990000
cp "$tmp/out" "$out/profile.txt"
for type in Q4_1 Q8_0 F16; do
	if [ -n "$small" ]; then
		shape 1B $type $type 64 16 4 2 128 128256 || continue
	else
		shape 1B $type $type 2048 16 32 8 8192 128256 || continue
	fi
	figures "1B $type" "$cutaway" decode_tok_s --backend cuda --model "$tmp/1B-$type.gguf"
	rm -f "$tmp/1B-$type.gguf"
done
for type in Q4_1 Q8_0 F16; do
	[ "$(left)" -gt 240 ] || [ -n "$small" ] || continue
	if [ -n "$small" ]; then
		shape 8B $type $type 128 32 4 2 256 128256 || continue
	else
		shape 8B $type $type 4096 32 32 8 14336 128256 || continue
	fi
	figure_limit=120 figures "8B $type" "$cutaway" decode_tok_s --backend cuda --model "$tmp/8B-$type.gguf"
	rm -f "$tmp/8B-$type.gguf"
done

# ---- compute-sanitizer: last, since it is slow ----

sanitizer=$(command -v compute-sanitizer || find /usr/local/cuda*/ -name compute-sanitizer -type f 2>/dev/null | head -1)
if [ -n "$CUTAWAY_CUDA_DRIVER" ]; then
	say "skip - compute-sanitizer: this is no GPU"
elif [ -z "$sanitizer" ]; then
	say "not ok - compute-sanitizer is not there: it is part of the CUDA toolkit"
	failed=$((failed + 1))
else
	for tool in memcheck synccheck racecheck initcheck; do
		for mode in launches persistent; do
			try 75 "$tool, $mode" "$sanitizer" --tool $tool --error-exitcode 9 "$cutaway" run --backend cuda --cuda-mode $mode \
				--model "$tmp/Q4_1.gguf" --raw --max-tokens 4 --no-record 'hello hello hello hello'
		done
	done
fi

# ---- the table ----

python3 - "$bench" <<'END' | tee -a "$report"
import json, sys
runs = [json.loads(line) for line in open(sys.argv[1])]
def value(part, only, figure=None):
    return next((r.get(figure or only) for r in runs if r["part"] == part and r["only"] == only), None)
def show(x, form="{:,.0f}"):
    return "-" if x is None else form.format(x)
print("\n| figure | measured |\n| --- | --- |")
print("| copy bandwidth, GB/s |", show(value("135M", "read_gb_s")), "|")
for figure, name in (("decode_tok_s", "135M Q4_1 decode, tok/s"), ("decode_1k_tok_s", "… 1,024 tokens deep"),
                     ("prefill_tok_s", "prefill 512, 135M, tok/s"), ("batch16_tok_s", "16 sequences, tok/s"),
                     ("batch64_tok_s", "64 sequences, tok/s")):
    print(f"| {name} |", show(value("135M", figure)), "|")
print("| recording on against off, % |", show(value("135M", "record_percent"), "{:.2f}"), "|")
for mode in ("launches", "graph"):
    print(f"| decode, {mode} |", show(value("135M " + mode, "decode_tok_s")), "|")
for figure in ("decode_tok_s", "decode_1k_tok_s", "prefill_tok_s"):
    a, b = value("135M exact again", figure), value("135M free", figure)
    cost = 100 * (b / a - 1) if a and b else None
    print(f"| {figure}: exact, free, cost of exactness |", show(a), ";", show(b), ";", show(cost, "{:.1f} %"), "|")
for size in ("1B", "8B"):
    for kind in ("Q4_1", "Q8_0", "F16"):
        p = f"{size} {kind}"
        share = value(p, "decode_tok_s", "bandwidth_fraction")
        print(f"| {p} decode, tok/s; share of copy bandwidth |", show(value(p, "decode_tok_s")), ";",
              show(share and 100 * share, "{:.0f} %"), "|")
END
say "$failed parts failed or were left out; $SECONDS s"
[ "$failed" -eq 0 ]
