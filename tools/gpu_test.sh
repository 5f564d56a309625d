#!/bin/sh
# What only a machine with an NVIDIA GPU can tell: `make test-gpu`. The kernels' known answers, the certificate
# with the GPU's rows, a recording of the GPU verified on the CPU and the other way round, the three ways of
# running, and compute-sanitizer. Prints what failed; exit status 0 only if nothing did.
cd "$(dirname "$0")/.." || exit 1
unset CUTAWAY_CUDA_DRIVER
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0
try() { # description, command …
	what=$1
	shift
	if "$@" >"$tmp/out" 2>&1; then
		echo "ok - $what"
	else
		echo "not ok - $what"
		tail -20 "$tmp/out" | sed 's/^/# /'
		failed=$((failed + 1))
	fi
}
./cutaway devices || exit 1
if ! ./cutaway devices --json | grep -q '"usable":[[:space:]]*true'; then
	echo "no device can be used: nothing is tested"
	exit 1
fi
for type in Q4_1 Q8_0 Q5_1 IQ4_NL F16 BF16 F32; do
	build/tests/mktiny --type $type --seed 3 "$tmp/$type.gguf" || exit 1
done
for type in Q4_K Q5_K Q6_K; do
	build/tests/mktiny --type $type --dim 256 --ffn 512 --seed 3 "$tmp/$type.gguf" || exit 1
done
for model in "$tmp"/*.gguf; do
	try "certificate, $(basename "$model")" ./cutaway certify --quick --model "$model"
done
[ -f models/SmolLM2-135M-Instruct.Q4_1.gguf ] && try "certificate of the real model" ./cutaway certify
answer() { # backend, mode
	./cutaway run --backend "$1" ${2:+--cuda-mode $2} --model "$tmp/Q4_1.gguf" --raw --greedy --max-tokens 200 \
		--json --no-record hello
}
answer cpu >"$tmp/cpu.json" || exit 1
for mode in launches graph persistent; do
	answer cuda $mode >"$tmp/$mode.json"
	try "200 tokens, $mode: every hash is the CPU's" cmp "$tmp/cpu.json" "$tmp/$mode.json"
done
for back in cpu cuda; do
	try "recorded on $back" ./cutaway run --backend $back --model "$tmp/Q4_1.gguf" --raw --record "$tmp/$back.db" hello
done
try "the GPU's recording verifies on the CPU" ./cutaway verify --backend cpu --model "$tmp/Q4_1.gguf" "$tmp/cuda.db"
try "the CPU's recording verifies on the GPU" ./cutaway verify --backend cuda --model "$tmp/Q4_1.gguf" "$tmp/cpu.db"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -z "$sanitizer" ]; then
	echo "not ok - compute-sanitizer is not there: it is part of the CUDA toolkit"
	failed=$((failed + 1))
else
	for tool in memcheck racecheck initcheck synccheck; do
		for mode in launches persistent; do
			try "$tool, $mode" timeout 600 "$sanitizer" --tool $tool --error-exitcode 9 ./cutaway run \
				--backend cuda --cuda-mode $mode --model "$tmp/Q4_1.gguf" --raw --max-tokens 6 --no-record \
				--spec ngram:4 'hello hello hello hello'
		done
	done
fi
echo "$failed failed"
[ "$failed" -eq 0 ]
