#!/bin/sh
# Runs every fuzz target, tests/fuzz/fuzz_*.c as `make fuzz` builds it with libFuzzer, ASan and UBSan, for SECONDS (default 10) from
# its corpus, and prints TAP. What crashes a target is left in build-asan/tests/fuzz/.
#
#	tests/fuzz/run.sh [SECONDS [TARGET …]]        TARGET as in fuzz_TARGET.c; default: all
#
# A corpus is a folder of small files, tests/fuzz/corpus/TARGET/; what a run finds is kept beside the build.
# A line "FUZZ_OPTIONS: …" in a target's source adds to libFuzzer's options.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:-10}
[ $# -gt 0 ] && shift
build=build-asan/tests/fuzz
if [ $# -eq 0 ]; then
	set -- $(ls tests/fuzz/fuzz_*.c | sed 's,.*/fuzz_,,; s,\.c$,,')
fi
if ! command -v clang >/dev/null; then
	echo "1..0 # SKIP clang is not installed"
	exit 0
fi

echo "1..$#"
n=0
failed=0
for target; do
	n=$((n + 1))
	if [ ! -x $build/fuzz_$target ]; then
		echo "not ok $n - $target (it is not built: call make fuzz)"
		failed=1
		continue
	fi
	log=$build/$target.log
	mkdir -p $build/found/$target tests/fuzz/corpus/$target
	options=$(sed -n 's/.*FUZZ_OPTIONS: *\([-a-z0-9_= ]*\).*/\1/p' tests/fuzz/fuzz_$target.c)
	if $build/fuzz_$target -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
		-malloc_limit_mb=64 -artifact_prefix=$build/crash-$target- -print_final_stats=1 $options \
		$build/found/$target tests/fuzz/corpus/$target >"$log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		echo "ok $n - $target (${runs:-?} inputs in $seconds s)"
	else
		echo "not ok $n - $target"
		grep -vE '^#[0-9]+[[:space:]]+(NEW|REDUCE|pulse|INITED|RELOAD)' "$log" | tail -n 60 | sed 's/^/# /'
		failed=1
	fi
done
exit $failed
