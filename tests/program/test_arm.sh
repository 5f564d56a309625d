#!/bin/sh
# The kernels for ARM on a processor that is not: the C tests of the kernels, cross-compiled into build-arm/ and run by
# qemu as on one with products of matrices (i8mm) and dot products (neon); one that lacks them falls back on less. Each
# begins by the known answers that opening a back end asks for (kernels/selfcheck.c). TAP.
cd "$(dirname "$0")/../.." || exit 1
cross=aarch64-linux-gnu
if [ "$(uname -m)" = aarch64 ]; then
	echo "1..0 # SKIP this is an ARM machine: its C tests are these"
	exit 0
fi
for tool in $cross-gcc qemu-aarch64; do
	if ! command -v $tool >/dev/null; then
		echo "1..0 # SKIP $tool is not installed"
		exit 0
	fi
done

mkdir -p build-arm
if ! echo '#include <stdio.h>' | $cross-gcc -x c -c -o /dev/null - 2>/dev/null; then
	echo "1..0 # SKIP $cross-gcc has no C library"
	exit 0
fi

tests="arith attention codes columns experts fastops format_rules kernels pick round route"
echo "1..$(($(echo $tests | wc -w) + 4))"
n=0
failed=0
check() { # description, log of a program that speaks TAP, its exit status
	n=$((n + 1))
	if [ "$3" = 0 ] && grep -q '^1\.\.' "$2"; then
		echo "ok $n - $1"
	else
		failed=1
		echo "not ok $n - $1"
		sed 's/^/# /' "$2"
	fi
}
emulate() { # processor, test
	qemu-aarch64 -cpu "$1" -L /usr/$cross "build-arm/cross/test_$2" >"build-arm/$2.log" 2>&1
	echo $? >"build-arm/$2.status"
}

make -j"$(getconf _NPROCESSORS_ONLN)" BUILD=build-arm CUDA=0 CC=$cross-gcc \
	EXTRA_CFLAGS="-DEMULATED -Itests/support/cross" cross-tests >build-arm/make.log 2>&1
status=$?
echo 1..1 >>build-arm/make.log
check "they compile, without a warning" build-arm/make.log "$status$(grep -c warning: build-arm/make.log | sed 's/^0$//')"
# the slowest beside all others
emulate max kernels &
for t in $tests; do
	[ "$t" = kernels ] || emulate max "$t"
done
wait
for t in $tests; do
	check "$t on i8mm and neon" "build-arm/$t.log" "$(cat "build-arm/$t.status")"
done
for best in max:i8mm neoverse-n1:neon cortex-a57:scalar; do
	emulate ${best%:*} isa
	grep -q "here: ${best#*:}\$" build-arm/isa.log || echo 1 >build-arm/isa.status
	check "the processor ${best%:*} has ${best#*:}, and no other" build-arm/isa.log "$(cat build-arm/isa.status)"
done
exit $failed
