#!/bin/sh
# Builds every tests/fuzz/fuzz_*.c with libFuzzer, ASan and UBSan, runs each for SECONDS (default 10) from its
# corpus, and prints TAP. What crashes a target is left in build-fuzz/.
#
#	tests/fuzz/run.sh [SECONDS [TARGET …]]        TARGET as in fuzz_TARGET.c; default: all
#
# A corpus is a folder of small files, tests/fuzz/corpus/TARGET/; what a run finds is kept beside the build.
# A line "FUZZ_OPTIONS: …" in a target's source adds to libFuzzer's options.
set -u
cd "$(dirname "$0")/../.." || exit 1
seconds=${1:-10}
[ $# -gt 0 ] && shift
build=build-fuzz
if [ $# -eq 0 ]; then
	set -- $(ls tests/fuzz/fuzz_*.c | sed 's,.*/fuzz_,,; s,\.c$,,')
fi
if ! command -v clang >/dev/null; then
	echo "1..0 # SKIP clang is not installed"
	exit 0
fi

# The kernels are left out: no target runs a model, so what names them may stay unresolved.
sanitize=-fsanitize=address,undefined
objects=$(find base event engine fold trace sessions serve tui tests/support/tiny*.c tests/support/timeline_dump.c -name "*.c" 2>/dev/null | LC_ALL=C sort |
	sed "s,\(.*\)\.c$,$build/\1.o,")
mkdir -p $build
make -k -j"$(getconf _NPROCESSORS_ONLN)" CC=clang BUILD=$build \
	CFLAGS="-O1 -g1 $sanitize,fuzzer-no-link -fno-sanitize-recover=undefined" $objects \
	>$build/make.log 2>&1 || grep -E 'error|No rule' $build/make.log | sed 's/^/# /'
rm -f $build/libfuzz.a
ar rcs $build/libfuzz.a $(ls $objects 2>/dev/null)

echo "1..$#"
n=0
failed=0
for target; do
	n=$((n + 1))
	source=tests/fuzz/fuzz_$target.c
	log=$build/$target.log
	mkdir -p $build/found/$target tests/fuzz/corpus/$target
	if ! clang -std=c11 -D_GNU_SOURCE -I. -O1 -g1 $sanitize,fuzzer -fno-sanitize-recover=undefined \
		-o $build/fuzz_$target "$source" $build/libfuzz.a -lncursesw -ltinfo -lreadline -lsqlite3 \
		-lutf8proc -lnettle -lxxhash -lmd4c -lmicrohttpd -lcjson -lm -pthread -no-pie -Wl,--unresolved-symbols=ignore-all >"$log" 2>&1; then
		echo "not ok $n - $target (does not build)"
		tail -n 12 "$log" | sed 's/^/# /'
		failed=1
		continue
	fi
	options=$(sed -n 's/.*FUZZ_OPTIONS: *\([-a-z0-9_= ]*\).*/\1/p' "$source")
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
