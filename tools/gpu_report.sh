#!/bin/bash
# All that only a machine with an NVIDIA GPU can tell, unattended: tools/gpu_report.sh [SECONDS] (300 without it). Whether the bits are
# right, how fast, where the time goes (stages, ncu), compute-sanitizer. A part that fails or takes too long is noted, and the next one
# begins. Results go to $OUT, or build/gpu-report without it, the moment they are there:
#   report.txt   what was tried, how it ended, how long it took, what it said; the table at its end
#   log.txt      the output of every part
#   bench.jsonl  a line for each figure: {"model": …, "figure": …, runs …}
#   ncu-*.csv    what ncu said
# A second run with the same $OUT, or with GPU_REPORT_DONE=FILE (an earlier report.txt), leaves out what ended 'ok'.
#
# Where nothing can be built: `tools/gpu_report.sh --pack [--free]` puts programs (--free: that free of the fixed order, too) and libraries
# into build/gpu.tar.xz, which is used if it is there, or $GPU_PACKAGE. GPU_ARCHS: for which GPUs (90). Nothing is downloaded. With
# CUTAWAY_CUDA_DRIVER (the shim of tests/cuda/shim) or GPU_REPORT_SMALL=1 models are tiny, so that the script can be tried without a GPU.
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C.UTF-8
tmp=$(mktemp -d "${GPU_REPORT_TMP:-/dev/shm}/gpu-report.XXXXXX" 2>/dev/null || mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 130' INT TERM

pack() { # the C library must be the machine's own, so nothing of it goes in
	set -e
	make cuda CUDA_ARCHS="${GPU_ARCHS:-90}"
	make build/tests/mktiny CUDA_ARCHS="${GPU_ARCHS:-90}"
	cp cutaway build/tests/mktiny "$tmp"
	[ "$1" != --free ] || make free-order-cuda CUDA_ARCHS="${GPU_ARCHS:-90}"
	[ "$1" != --free ] || cp build-free/cutaway "$tmp/cutaway-free"
	strip "$tmp"/*
	mkdir "$tmp/lib"
	ldd "$tmp/cutaway" "$tmp/mktiny" | awk '$2 == "=>" { print $3 }' | sort -u |
		grep -vE '/(lib(c|m|dl|pthread|rt|resolv|util|nss[a-z_]*)|ld-linux[^/]*)\.so' | xargs cp -L -t "$tmp/lib"
	tar -C "$tmp" -c . | xz -T2 -6 >build/gpu.tar.xz
	echo "build/gpu.tar.xz: $(stat -c %s build/gpu.tar.xz) bytes, of at most 40,000,000"
	[ "$(stat -c %s build/gpu.tar.xz)" -le 40000000 ]
}
if [ "$1" = --pack ]; then
	pack "$2" # not in a condition, where set -e would mean nothing
	exit
fi

budget=${1:-300}
out=${OUT:-build/gpu-report}
mkdir -p "$out" || exit 1
report=$out/report.txt log=$out/log.txt bench=$out/bench.jsonl
[ -z "$GPU_REPORT_DONE" ] || cp -n "$(dirname "$GPU_REPORT_DONE")"/{bench.jsonl,ncu-*.csv} "$out" 2>/dev/null
touch "$report" "$log" "$bench" || exit 1
sed -n 's/^ok - \(.*\) ([0-9]* s)$/\1/p' "$report" ${GPU_REPORT_DONE:+"$GPU_REPORT_DONE"} >"$tmp/done"
failed=0
say() { echo "$*" | tee -a "$report"; }
left() { echo $((budget - SECONDS)); }
is_done() { grep -qxF -e "$1" "$tmp/done"; }
fail() { say "$*" && failed=$((failed + 1)); }

# try LIMIT LINES WHAT COMMAND …: stopped after LIMIT seconds, or when the whole time is over. The last LINES that it says are told.
try() {
	local limit=$1 lines=$2 what=$3 begun=$SECONDS status
	[ "$limit" -le "$(left)" ] || limit=$(left)
	[ "$limit" -ge 5 ] || { fail "skip - $what: no time is left" && return 1; }
	echo "=== $what: ${*:4}" >>"$log"
	timeout -k 2 "$limit" bash -c '"$@"' - "${@:4}" >"$tmp/out" 2>&1 </dev/null
	status=$?
	tail -c 200000 "$tmp/out" >>"$log"
	if [ $status -eq 0 ]; then
		say "ok - $what ($((SECONDS - begun)) s)"
	else
		fail "not ok - $what: exit status $status ($((SECONDS - begun)) s of $limit)"
		[ "$lines" -ge 5 ] || lines=5
	fi
	tail -n "$lines" "$tmp/out" | cut -c1-200 | sed 's/^/#   /' | tee -a "$report"
	return $status
}
# part LIMIT LINES WHAT MODEL COMMAND …: unless an earlier run has it. MODEL: what need() makes first.
part() { is_done "$3" || { need $4 && try "${@:1:3}" "${@:5}"; }; }

# need SIZE TYPE [LAYERS]: a model of that shape is $model. Without arguments: it is there.
need() {
	local shape dim layers heads kv ffn vocab embedding=$2
	[ -n "$1" ] || return 0
	model=$tmp/$1-$2-$3.gguf
	[ ! -f "$model" ] || return 0
	case $1 in
		135M) shape="576 30 9 3 1536 49152" embedding=Q8_0 ;;
		1B) shape="2048 16 32 8 8192 128256" ;;
		8B) shape="4096 32 32 8 14336 128256" ;;
	esac
	[ -z "$small" ] || shape="64 2 4 2 128 600"
	read -r dim layers heads kv ffn vocab <<<"$shape"
	try 60 0 "a model of shape $*" "$mktiny" --repeat --type "$2" --embd-type "$embedding" --dim "$dim" --layers "${3:-$layers}" \
		--heads "$heads" --kv-heads "$kv" --ffn "$ffn" --vocab "$vocab" --ctx 4096 "$model"
}

# ---- the programs ----

say "=== $(date '+%F %T'), $budget s"
cutaway=./cutaway mktiny=build/tests/mktiny free='' own=$LD_LIBRARY_PATH package=$GPU_PACKAGE
# The shim goes with the program built here, not with one that was packed.
[ -n "$package$CUTAWAY_CUDA_DRIVER" ] || package=build/gpu.tar.xz
if [ -f "$package" ]; then
	try 60 0 "$package is unpacked" tar -C "$tmp" -xJf "$package" || exit 1
	export LD_LIBRARY_PATH=$tmp/lib${own:+:$own}
	cutaway=$tmp/cutaway mktiny=$tmp/mktiny free=$tmp/cutaway-free
elif [ -z "$CUTAWAY_CUDA_DRIVER" ]; then
	free=build-free/cutaway
	arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .)
	try 420 0 "programs are built for sm_$arch alone" make CUDA=1 CUDA_ARCHS="$arch" cutaway "$mktiny" || exit 1
fi
{ "$cutaway" --version; "$cutaway" devices; nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv 2>/dev/null; } 2>&1 | tee -a "$report"
"$cutaway" devices --json | grep -q '"usable":[[:space:]]*true' || { say "no device can be used: nothing is tested" && exit 1; }
small=${GPU_REPORT_SMALL:-${CUTAWAY_CUDA_DRIVER:+1}}
types=$("$mktiny" --types | cut -d ' ' -f 1) sizes="Q4_1 F16 Q8_0" certified="Q4_1 F16 Q8_0 Q6_K MXFP4" runs=9 ctx=2048 skip=
few=24 many=128 words=310 seconds=8 models=99
[ -z "$small" ] || types="Q4_1 Q8_0 F16" sizes=Q4_1 certified=Q4_1 runs=2 ctx=256 few=4 many=8 words=20 seconds=18 models=5
export cutaway model skip small ncu sanitizer tmp out log bench own runs TMPDIR=$tmp XDG_CACHE_HOME=$tmp/cache XDG_DATA_HOME=$tmp/data XDG_STATE_HOME=$tmp/state
table() { LD_LIBRARY_PATH=$own python3 "tools/bench/$1" "${@:2}"; } # the package's libraries are not for python

# ---- is it right? ----

equal() { # TOKENS PROMPT: each hash of the GPU's is the CPU's
	local back
	for back in "cuda" cpu; do
		"$cutaway" run --backend $back --model "$model" --raw --greedy --max-tokens "$1" --json --no-record "$2" >"$tmp/${back%% *}" 2>"$tmp/error" || break
	done
	cat "$tmp/error"
	grep -q hash "$tmp/cpu" && cmp "$tmp/cpu" "$tmp/cuda"
}
each() { # TOKENS MODEL …
	local equals=0 differ=''
	for model in "${@:2}"; do
		equal "$1" 'the cat and the king sat' && equals=$((equals + 1)) || differ="$differ $(basename "$model" .gguf)"
	done
	echo "$equals equal to the CPU; different:${differ:- none}"
	[ -z "$differ" ] && [ $equals -gt 0 ]
}
certificate() { # SECONDS: in so short a proof the GPU may have no part, and that would be none
	"$cutaway" certify --quick --seconds "$1" "$model" >"$tmp/proof" || { cat "$tmp/proof" && return 1; }
	cat "$tmp/proof"
	echo "equal cases on the GPU: $(grep -cE '^equal .*kernels.*cuda' "$tmp/proof")" | grep '[1-9]'
}
verify() { # FROM TO: a recording of one back end, computed again by the other
	"$cutaway" run --backend "$1" --model "$model" --raw --max-tokens 40 --record "$tmp/$1.db" hello >/dev/null &&
		"$cutaway" verify --backend "$2" --model "$model" "$tmp/$1.db"
}
export -f table equal each certificate verify

for type in $types; do
	wide=
	"$mktiny" --types | grep -q "^$type 256" && wide="--dim 256 --ffn 512"
	"$mktiny" --type "$type" $wide --seed 3 "$tmp/type-$type.gguf" || exit 1
done
part 60 1 "every format, $many tokens: every hash is the CPU's" '' each $many "$tmp"/type-*.gguf
deep=$(seq -f 'the %g. king' 1 $words | tr '\n' ' ')
part 40 0 "a long prompt, 135M: every hash is the CPU's" '135M Q4_1' equal $few "$deep"
part 60 1 "models of tests/data/zoo and of the family" '' each $few $(ls tests/data/zoo/*.gguf demos/models/family/*.gguf | head -n $models)
for type in $certified; do
	model=$tmp/type-$type.gguf part $((seconds + 40)) 1 "certificate, $type" '' certificate $seconds
done
real=models/SmolLM2-135M-Instruct.Q4_1.gguf
[ -n "$small" ] || [ ! -f $real ] || model=$real part 40 1 "certificate, the real model" '' certificate 20
model=$tmp/type-Q4_1.gguf part 20 1 "the GPU's recording verifies on the CPU" '' verify cuda cpu
model=$tmp/type-Q4_1.gguf part 20 1 "the CPU's recording verifies on the GPU" '' verify cpu cuda

# ---- how fast? ----

line() { # NAME FIGURE MORE: into bench.jsonl, and for people
	echo "{\"model\":\"$1\",\"figure\":\"$2\",$3" >>"$bench" && table gpu_table.py --last "$bench"
}
turns() { # NAME FIGURE SECONDS: single runs, as many as there are within the time
	yes '' | head -n "$runs" | timeout "$3" "$cutaway" bench --only "$2" --turns --ctx 2048 --packed-cache off --backend cuda --model "$model" |
		grep '^[0-9]' >"$tmp/values" && line "$1" "$2" "\"bytes\":$(stat -Lc %s "$model"),\"runs\":[$(paste -sd, "$tmp/values")]}"
}
whole() { # NAME FIGURE CONTEXT: as the bench measures it
	"$cutaway" bench --json --only "$2" --ctx "$3" --packed-cache off --backend cuda --model "$model" >"$tmp/values" &&
		line "$1" "$2" "$(cut -c 2- "$tmp/values")"
}
arrivals() { # REQUESTS WORDS TOKENS
	awk -v n="$1" -v of="$2,$3" 'BEGIN { print "TIMESTAMP,ContextTokens,GeneratedTokens"
		for (i = 0; i < n; i++) printf "2026-01-01 00:%02d:%02d.0,%s\n", i / 60, i % 60, of }' >"$tmp/trace.csv"
}
quiet() { # NAME FIGURE SLOTS REQUESTS WORDS TOKENS RATE: not recorded
	arrivals "$4" "$5" "$6"
	"$cutaway" load --json --quiet --arrivals "trace:$tmp/trace.csv" --requests 0 --rate "$7" --slots "$3" --ctx 2048 --pages 1024 \
		--prefix-cache off --packed-cache off --backend cuda --model "$model" >"$tmp/values" &&
		line "$1-off" "$2" "\"slots\":$3,\"load\":$(cat "$tmp/values")}"
}
stages() { # TOKENS PROMPT [NAME], or TOKENS SEQUENCES: where a recorded token's time goes; of NAME a layer's attention is a figure
	roof() { sed -n "s/.*\"$1\":\([0-9][0-9.]*\).*/\1/p" "$bench" | tail -1; }
	rm -f "$tmp/stages.db"
	if [ "$2" -gt 0 ] 2>/dev/null; then
		arrivals "$2" 3 "$1"
		"$cutaway" load --quiet --arrivals "trace:$tmp/trace.csv" --requests 0 --rate 1000 --slots "$2" --ctx 2048 --pages 1024 \
			--packed-cache off --record "$tmp/stages.db" --backend cuda --model "$model" >/dev/null
	else
		"$cutaway" run --record "$tmp/stages.db" --raw --max-tokens "$1" --backend cuda --model "$model" "$2" >/dev/null
	fi && table stages.py "$tmp/stages.db" --reads "$(roof read_gb_s | grep . || echo 4800)" \
		--integers "$(roof int_gmac_s | grep . || echo 990000)" >"$tmp/stages.txt" && cat "$tmp/stages.txt" &&
		{ [ -z "$3" ] || line "$3" attention "\"attention\":$(awk -v n="${small:+2}" '/^prefill/ { exit } $1 == "attention" { print $2 / (n ? n : 30) }' "$tmp/stages.txt")}"; }
}
export -f line turns whole quiet stages arrivals

[ -n "$small" ] || part 20 1 "135M: read_gb_s" '135M Q4_1' whole 135M read_gb_s $ctx # the shim takes half a minute
for figure in decode_tok_s decode_1k_tok_s prefill_tok_s batch16_tok_s batch64_tok_s; do
	part 16 1 "135M: $figure" '135M Q4_1' turns 135M $figure 14
done
# Requests one after the other, or all at once. Words of a model of mktiny are three tokens each, and there are some 70 around them.
part 20 1 "135M: decode_tok_s, not recorded" '135M Q4_1' quiet 135M decode_tok_s 1 3 3 $many 1000
part 20 1 "135M: decode_1k_tok_s, not recorded" '135M Q4_1' quiet 135M decode_1k_tok_s 1 3 $words $many 1000
part 20 1 "135M: prefill_tok_s, not recorded" '135M Q4_1' quiet 135M prefill_tok_s 1 5 142 1 4
for n in 16 64; do
	part 20 1 "135M: batch${n}_tok_s, not recorded" '135M Q4_1' quiet 135M batch${n}_tok_s $n $n 3 $many 1000
done
part 75 1 "135M: record_percent" '135M Q4_1' whole 135M record_percent $ctx
part 20 40 "135M: where a token's time goes" '135M Q4_1' stages $many 'Once upon a time' 135M
part 20 40 "135M, 1,024 tokens deep: where a token's time goes" '135M Q4_1' stages $many "$deep" 135M-deep
part 20 40 "135M, 64 sequences: where a token's time goes" '135M Q4_1' stages $many 64
for figure in decode_tok_s prefill_tok_s; do
	[ ! -x "$free" ] || cutaway=$free part 16 1 "135M without the fixed order: $figure" '135M Q4_1' turns 135M-free $figure 14
done
for type in $sizes; do
	for figure in decode_tok_s prefill_tok_s batch64_tok_s; do
		part 22 1 "1B $type: $figure" "1B $type" turns 1B-$type $figure 20
	done
	part 20 1 "1B $type: decode_tok_s, not recorded" "1B $type" quiet 1B-$type decode_tok_s 1 2 3 $few 1000
	[ $type != Q4_1 ] || part 20 40 "1B, 64 sequences: where a token's time goes" "1B $type" stages $few 64
	[ $type != Q4_1 ] || part 20 40 "1B: where a token's time goes" "1B $type" stages $few 'Once upon a time'
	rm -f "$tmp/1B-$type-.gguf"
done
# What comes after these is worth more, unless an earlier run has it.
is_done initcheck && reserve=20 || reserve=130
for type in $sizes; do
	if [ "$(left)" -gt $reserve ] || [ -n "$small" ]; then
		part 50 1 "8B $type: decode_tok_s" "8B $type" turns 8B-$type decode_tok_s 47
	else
		is_done "8B $type: decode_tok_s" || fail "skip - 8B $type: decode_tok_s: too little time is left"
	fi
	rm -f "$tmp/8B-$type-.gguf"
done

# ---- why? ----

profile() { # NAME PROMPT OPTION …: after the self-check, launches of few steps of two layers; one of each kernel is told
	local spilled=l1tex__t_requests_pipe_lsu_mem_local_op metrics=gpu__time_duration.sum,smsp__inst_executed.sum,dram__bytes_read.sum
	metrics=$metrics,smsp__issue_active.avg.pct_of_peak_sustained_active
	"$ncu" --csv --page raw --print-units base --clock-control none --log-file "$out/ncu-$1.csv" --launch-skip ${skip:-100} --launch-count 90 --section LaunchStats \
		--section WarpStateStats --metrics "$metrics,${spilled}_ld.sum,${spilled}_st.sum" "${@:3}" \
		"$cutaway" run --backend cuda --model "$model" --raw --greedy --max-tokens 8 --no-record "$2" >/dev/null && table gpu_table.py --ncu "$out/ncu-$1.csv" || { grep ^== "$out/ncu-$1.csv" | tail -5 && return 1; }
}
sanitize() { # TOOL: each kind of line that it says, with its number
	"$sanitizer" --tool "$1" --error-exitcode 9 --log-file "$tmp/said" "$cutaway" run --backend cuda --model "$model" --raw --max-tokens 4 \
		--no-record 'hello hello hello hello' >/dev/null
	local status=$?
	tail -c 200000 "$tmp/said" >>"$log"
	grep -E 'SUMMARY|hazard|Error|Invalid|Uninitialized|Barrier' "$tmp/said" | sort | uniq -c | sort -rn | head -8
	return $status
}
find_tool() { command -v "$1" || find /usr/local/cuda*/ /opt/nvidia -name "$1" -type f 2>/dev/null | head -1; }
export -f profile sanitize
if [ -n "$CUTAWAY_CUDA_DRIVER" ]; then
	say "skip - ncu, compute-sanitizer: this is no GPU"
else
	ncu=$(find_tool ncu) sanitizer=$(find_tool compute-sanitizer)
	# Weights come from memory, keys and values from the cache, as in a run.
	part 45 30 "ncu, 135M" '135M Q4_1 2' profile 135M hello
	# of one kind there are few, the self-check's among them
	skip=0 part 45 30 "ncu, 135M, attention 1,024 tokens deep" '135M Q4_1 2' profile 135M-deep "$deep" --kernel-name regex:attention --cache-control none
	part 45 30 "ncu, 1B" '1B Q4_1 2' profile 1B hello
	for tool in racecheck memcheck synccheck initcheck; do
		model=$tmp/type-Q4_1.gguf part 50 8 $tool '' sanitize $tool
	done
fi

table gpu_table.py "$bench" | tee -a "$report"
say "$failed parts failed or were left out; $SECONDS s"
[ "$failed" -eq 0 ]
