#!/bin/sh
# What nvcc made of the kernels keeps to docs/arithmetic.md, rules 1 and 2. TAP. Needs nvcc (`make cuda`).
cd "$(dirname "$0")/../.." || exit 1
ptx=build/cuda/kernels.ptx
if [ ! -f "$ptx" ]; then
	echo "1..0 # SKIP $ptx is not there: nvcc makes it (make cuda)"
	exit 0
fi
n=0
none() { # description, extended regular expression of instructions that must not occur
	n=$((n + 1))
	found=$(sed 's,//.*,,' "$ptx" | grep -nE "$2" | head -5)
	if [ -z "$found" ]; then
		echo "ok $n - $1"
	else
		echo "not ok $n - $1"
		echo "$found" | sed 's/^/# /'
	fi
}
some() { # the same, of what must
	n=$((n + 1))
	if grep -qE "$2" "$ptx"; then echo "ok $n - $1"; else echo "not ok $n - $1"; fi
}
none "subnormals are kept" '\.ftz\b'
none "nothing is estimated" '\.approx|\b(ex2|lg2|tanh|sin|cos|rsqrt)\.'
none "sums and products are rounded each, to nearest" '\b(add|sub|mul|div|rcp|sqrt)\.((r[zmp]|full)(\.[a-z]+)*\.)?f(32|64)\b'
none "fused only where it is written, to nearest" '\b(mad|fma)\.(rz|rm|rp|f32|f64)'
none "no float atomics" '\b(atom|red)[.a-z0-9_:]*\.(f16|f16x2|bf16|bf16x2|f32|f64)\b'
none "no float tensor cores" '\b(w?mma|wgmma|tcgen05)[.a-z0-9_:]*\.(f16|bf16|tf32|f32|e4m3|e5m2)\b'
none "no maximum of what may be a NaN: only against a number" '\b(min|max)[.a-z]*\.f(16|32|64).*%[a-z]+[0-9]+, %[a-z]+[0-9]+;'
some "the tensor cores multiply bytes" 'mma\.sync[.a-z0-9]*m16n8k32[.a-z0-9]*s32\.s8\.s8\.s32'
some "chains are fused" 'fma\.rn\.f32'
echo "1..$n"
