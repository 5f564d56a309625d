/* What a CUDA file of this project may use: the language itself, and the few functions below that
 * need an instruction of their own. Private to kernels/cuda/.
 *
 * Every .cu file is compiled twice: by nvcc for a GPU, and by g++ for the tests, where cuda_shim.h
 * (tests/cuda/shim/) implements the same names with fibers on the CPU. So: no inline assembly, no
 * warp or memory intrinsic outside this file, no C++ beyond what C has too, no float atomics, no
 * estimate instructions (docs/arithmetic.md, rule 2). All arithmetic on floats comes from arith.h
 * or is + - * / and k_fma, compiled with --fmad=false.
 *
 * Threads: a block is CU_THREADS wide, one-dimensional. Blocks of a call meet only through the
 * acquire/release functions here. */
#pragma once

#include <stdint.h>

#include "kernels/arith.h"

#ifndef __CUDACC__
#include "tests/cuda/shim/cuda_shim.h"
#endif

#define CU_FN static __device__ __forceinline__
#define CU_LARGE_FN static __device__ __noinline__

enum { CU_THREADS = 256, CU_WARP = 32, CU_WARPS = CU_THREADS / CU_WARP };

/* Before a loop of constant bounds whose counter indexes registers, or whose iterations should
 * overlap. */
#ifdef __CUDACC__
#define CU_UNROLL _Pragma("unroll")
#define CU_NO_UNROLL _Pragma("unroll 1") /* … with few iterations: saves instruction cache */
#define CU_UNROLL_2 _Pragma("unroll 2")  /* … so that two iterations overlap */
#define CU_UNROLL_4 _Pragma("unroll 4")
#define CU_UNROLL_8 _Pragma("unroll 8")
#else
#define CU_UNROLL
#define CU_NO_UNROLL
#define CU_UNROLL_2
#define CU_UNROLL_4
#define CU_UNROLL_8
#endif

#ifdef __CUDACC__

/* Barrier of the block. Tests name each call by file and line, so that they can leave it out and
 * check that this is detected: so at most one call in a line. */
#define CU_SYNC() __syncthreads()
#define CU_SYNC_WARP() __syncwarp()

CU_FN int cu_thread(void)
{
	const int thread = (int)threadIdx.x;

	__builtin_assume(thread >= 0); /* so that / and % by powers of two are one instruction */
	return thread;
}
CU_FN int cu_block(void)
{
	return (int)blockIdx.x;
}
CU_FN int cu_n_blocks(void)
{
	return (int)gridDim.x;
}

/* The dynamic shared memory of the block, aligned to 128. */
CU_FN unsigned char *cu_shared_memory(void)
{
	extern __shared__ __align__(128) unsigned char cu_shared_bytes[];

	return cu_shared_bytes;
}

/* The value of `v` in lane `lane` / in lane (own ^ mask); all 32 lanes call it together. */
CU_FN int32_t cu_shuffle(int32_t v, int lane)
{
	return __shfl_sync(0xffffffffu, v, lane);
}
CU_FN int32_t cu_shuffle_xor(int32_t v, int mask)
{
	return __shfl_xor_sync(0xffffffffu, v, mask);
}
CU_FN float cu_shuffle_float(float v, int lane)
{
	return __shfl_sync(0xffffffffu, v, lane);
}
CU_FN float cu_shuffle_xor_float(float v, int mask)
{
	return __shfl_xor_sync(0xffffffffu, v, mask);
}

/* The greatest, and the sum, of the values of all 32 lanes, in every lane. */
CU_FN uint32_t cu_warp_max(uint32_t v)
{
	return __reduce_max_sync(0xffffffffu, v);
}
CU_FN int32_t cu_warp_sum(int32_t v)
{
	return __reduce_add_sync(0xffffffffu, v);
}
/* Bit i: whether `v` holds in lane i; in every lane. */
CU_FN uint32_t cu_ballot(bool v)
{
	return __ballot_sync(0xffffffffu, v);
}
/* How many bits are set. */
CU_FN int32_t cu_ones(uint32_t bits)
{
	return __popc(bits);
}

/* c[16 x 8] += a[16 x 32] b[32 x 8] of signed bytes, exact in int32, by the tensor cores: PTX ISA,
 * mma.m16n8k32. With g = lane / 4 and t = lane % 4: a[0] holds row g, k 4t … 4t + 3; a[1] row g +
 * 8; a[2], a[3] the same rows, k + 16. b[0] holds column g, k 4t … 4t + 3; b[1] k + 16. c[0], c[1]
 * are row g, columns 2t and 2t + 1; c[2], c[3] row g + 8. */
CU_FN void cu_mma_k32(int32_t c[4], const uint32_t a[4], const uint32_t b[2])
{
	asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		"{%0,%1,%2,%3};"
		: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/* The same with k = 16: a[0] row g, a[1] row g + 8, b column g, k 4t … 4t + 3. */
CU_FN void cu_mma_k16(int32_t c[4], const uint32_t a[2], uint32_t b)
{
	asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
		"{%0,%1,%2,%3};"
		: "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
		: "r"(a[0]), "r"(a[1]), "r"(b));
}

/* Waits until the kernels before have ended and what they wrote is here, then lets the next one
 * begin: a kernel that was launched early (CUDA Programming Guide, programmatic dependent launch)
 * may do in front of it what depends on none, as load weights. PTX ISA, griddepcontrol. */
CU_FN void cu_follow(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* These bytes may be anything: what is computed from them is not used. For the tests, which stop at
 * a read of bytes that were never written. */
#define cu_anything(p, bytes) ((void)0)

/* Bytes of the eight in (b, a) chosen by the low three bits of each nibble of `selector`. */
CU_FN uint32_t cu_permute(uint32_t a, uint32_t b, uint32_t selector)
{
	return __byte_perm(a, b, selector);
}

/* Weights: read once in a step, so they bypass the L1 cache. p aligned to the width. */
CU_FN uint4 cu_stream16(const void *p)
{
	uint4 v;
	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
				 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
				 : "l"(p));
	return v;
}
CU_FN uint2 cu_stream8(const void *p)
{
	uint2 v;
	asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];"
				 : "=r"(v.x), "=r"(v.y)
				 : "l"(p));
	return v;
}
CU_FN uint32_t cu_stream4(const void *p)
{
	uint32_t v;
	asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
	return v;
}
/* Prefetches the line of p to the L2 cache. Has no effect on results. */
CU_FN void cu_prefetch(const void *p)
{
	asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
/* Copies 16 bytes to shared memory without passing through registers: visible after cu_copy_wait()
 * (and a CU_SYNC for other threads). Groups end at cu_copy_commit(). */
CU_FN void cu_copy16(void *shared, const void *global)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
					 (uint32_t)__cvta_generic_to_shared(shared)),
				 "l"(global)
				 : "memory");
}
CU_FN void cu_copy_commit(void)
{
	asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most `left` (a constant) of this thread's groups are under way. */
#define cu_copy_wait(left) asm volatile("cp.async.wait_group %0;" ::"n"(left) : "memory")

/* f16 to f32, exact; f32 to f16, to nearest even (arith.h does the same in integers). */
CU_FN float cu_f16(uint16_t h)
{
	float x;
	asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
	return x;
}
CU_FN uint16_t cu_to_f16(float x)
{
	uint16_t h;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
	return h;
}

/* 127 / x, correctly rounded, of a normal x from 2^-100 up: a reciprocal, and two corrections by an
 * exact remainder (Markstein 1990), as compilers divide, but without their branches. */
CU_FN float cu_127_over(float x)
{
	const float by = x < 0x1p126f ? 1.0f : 0x1p-64f, y = x * by;
	float r, q;

	asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(y));
	r = k_fma(r, k_fma(-y, r, 1.0f), r);
	q = 127.0f * r;
	q = k_fma(k_fma(-y, q, 127.0f), r, q);
	return k_fma(k_fma(-y, q, 127.0f), r, q) * by;
}

/* Order between blocks: what a thread wrote before a release is visible to a thread that acquires
 * the value. cu_arrive returns the value before. For a whole block: CU_SYNC, one thread arrives;
 * the others get the result through shared memory and a CU_SYNC. */
CU_FN uint32_t cu_arrive(uint32_t *p, uint32_t by)
{
	uint32_t old;
	asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;"
				 : "=r"(old)
				 : "l"(p), "r"(by)
				 : "memory");
	return old;
}
/* Stores `is` if *p is `was`; returns what it was. */
CU_FN int32_t cu_swap_if(int32_t *p, int32_t was, int32_t is)
{
	return atomicCAS((int *)p, (int)was, (int)is);
}
/* Adds 1; in shared memory, lanes that count the same word are added up by the hardware. */
CU_FN void cu_count(int32_t *p)
{
	atomicAdd((int *)p, 1);
}
/* Nanoseconds of the device's clock. */
CU_FN uint64_t cu_now(void)
{
	uint64_t t;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
	return t;
}

#endif /* __CUDACC__ */
