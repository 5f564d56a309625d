/* The names of kernels/cuda/device.cuh for g++: what a kernel asks of a GPU is asked of the fibers
 * of shim.c here, one for each thread. Included by device.cuh alone, behind arith.h.
 *
 * Whatever makes threads wait is a macro, so that the place in the source is known: barriers and
 * rendezvous check that all come to the same one, a test can leave one out (shim.h), and a deadlock
 * says who waits where. Shuffles and matrix products meet without ordering memory, as on a GPU.
 * Thread: code of kernels only. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tests/cuda/shim/site.h"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline, unused))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)

struct __align__(8) uint2
{
	uint32_t x, y;
};
struct __align__(16) uint4
{
	uint32_t x, y, z, w;
};
struct __align__(8) int2
{
	int32_t x, y;
};
struct __align__(16) int4
{
	int32_t x, y, z, w;
};
struct __align__(8) float2
{
	float x, y;
};
struct __align__(16) float4
{
	float x, y, z, w;
};

#define SHIM_INLINE static inline __attribute__((always_inline, unused))

SHIM_INLINE uint2 make_uint2(uint32_t x, uint32_t y)
{
	return { x, y };
}
SHIM_INLINE uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
	return { x, y, z, w };
}
SHIM_INLINE int2 make_int2(int32_t x, int32_t y)
{
	return { x, y };
}
SHIM_INLINE int4 make_int4(int32_t x, int32_t y, int32_t z, int32_t w)
{
	return { x, y, z, w };
}
SHIM_INLINE float2 make_float2(float x, float y)
{
	return { x, y };
}
SHIM_INLINE float4 make_float4(float x, float y, float z, float w)
{
	return { x, y, z, w };
}

/* The three-dimensional names, of which these kernels use x alone. */
struct shim_x {
	unsigned x;
};
#define threadIdx (shim_x{ (unsigned)shim_thread() })
#define blockIdx (shim_x{ (unsigned)shim_block() })
#define gridDim (shim_x{ (unsigned)shim_n_blocks() })
#define blockDim (shim_x{ (unsigned)shim_n_threads() })

#define cu_thread() shim_thread()
#define cu_block() shim_block()
#define cu_n_blocks() shim_n_blocks()
#define cu_shared_memory() shim_shared()

#define CU_SYNC() shim_sync(SHIM_HERE(SHIM_SYNC))
#define CU_SYNC_WARP() shim_sync_warp(SHIM_HERE(SHIM_SYNC_WARP))

#define cu_shuffle(v, lane)                                                                        \
	((int32_t)shim_shuffle(SHIM_HERE(SHIM_SHUFFLE), (uint32_t)(int32_t)(v), (lane)))
#define cu_shuffle_xor(v, mask)                                                                    \
	((int32_t)shim_shuffle(                                                                        \
		SHIM_HERE(SHIM_SHUFFLE), (uint32_t)(int32_t)(v), (shim_thread() & 31) ^ (mask)))
#define cu_shuffle_float(v, lane)                                                                  \
	(k_float(shim_shuffle(SHIM_HERE(SHIM_SHUFFLE), k_bits(v), (lane))))
#define cu_shuffle_xor_float(v, mask)                                                              \
	(k_float(shim_shuffle(SHIM_HERE(SHIM_SHUFFLE), k_bits(v), (shim_thread() & 31) ^ (mask))))

SHIM_INLINE uint32_t shim_warp_max(struct shim_site *at, uint32_t v)
{
	for (int mask = 16; mask; mask /= 2) {
		const uint32_t other = shim_shuffle(at, v, (shim_thread() & 31) ^ mask);

		v = other > v ? other : v;
	}
	return v;
}
SHIM_INLINE int32_t shim_warp_sum(struct shim_site *at, int32_t v)
{
	for (int mask = 16; mask; mask /= 2)
		v += (int32_t)shim_shuffle(at, (uint32_t)v, (shim_thread() & 31) ^ mask);
	return v;
}
SHIM_INLINE int32_t cu_ones(uint32_t bits)
{
	return __builtin_popcount(bits);
}
#define cu_ballot(v)                                                                               \
	((uint32_t)shim_warp_sum(                                                                      \
		SHIM_HERE(SHIM_SHUFFLE), (int32_t)((uint32_t) !!(v) << (shim_thread() & 31))))
#define cu_warp_max(v) shim_warp_max(SHIM_HERE(SHIM_SHUFFLE), (v))
#define cu_warp_sum(v) shim_warp_sum(SHIM_HERE(SHIM_SHUFFLE), (v))

SHIM_INLINE void shim_mma_k32(
	struct shim_site *at, int32_t c[4], const uint32_t a[4], const uint32_t b[2])
{
	struct shim_fragments f = { { c[0], c[1], c[2], c[3] }, { a[0], a[1], a[2], a[3] },
		{ b[0], b[1] } };

	shim_mma(at, &f, 32);
	for (int i = 0; i < 4; i++)
		c[i] = f.c[i];
}
SHIM_INLINE void shim_mma_k16(struct shim_site *at, int32_t c[4], const uint32_t a[2], uint32_t b)
{
	struct shim_fragments f = { { c[0], c[1], c[2], c[3] }, { a[0], a[1], 0, 0 }, { b, 0 } };

	shim_mma(at, &f, 16);
	for (int i = 0; i < 4; i++)
		c[i] = f.c[i];
}
#define cu_mma_k32(c, a, b) shim_mma_k32(SHIM_HERE(SHIM_MMA), (c), (a), (b))
#define cu_mma_k16(c, a, b) shim_mma_k16(SHIM_HERE(SHIM_MMA), (c), (a), (b))

SHIM_INLINE int32_t cu_dp4a(uint32_t a, uint32_t b, int32_t c)
{
	uint32_t sum = (uint32_t)c; /* wraps, as the instruction does */

	for (int i = 0; i < 32; i += 8)
		sum += (uint32_t)((int8_t)(a >> i) * (int8_t)(b >> i));
	return (int32_t)sum;
}
SHIM_INLINE uint32_t cu_permute(uint32_t a, uint32_t b, uint32_t selector)
{
	uint64_t both = (uint64_t)b << 32 | a;
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v |= (uint32_t)(uint8_t)(both >> 8 * (selector >> 4 * i & 7)) << 8 * i;
	return v;
}

#define cu_anything(p, bytes) shim_anything((p), (bytes))

#define SHIM_STREAM(type, p)                                                                       \
	(__extension__({                                                                               \
		const void *p_ = (p);                                                                      \
		shim_aligned(SHIM_HERE(SHIM_STREAM_READ), p_, sizeof(type));                               \
		*(const type *)p_;                                                                         \
	}))
#define cu_stream16(p) SHIM_STREAM(uint4, p)
#define cu_stream8(p) SHIM_STREAM(uint2, p)
#define cu_stream4(p) SHIM_STREAM(uint32_t, p)
SHIM_INLINE void cu_prefetch(const void *p)
{
	(void)p;
}
#define cu_copy16(shared, global) shim_copy16(SHIM_HERE(SHIM_COPY), (shared), (global))
#define cu_copy_commit() shim_copy_commit()
#define cu_copy_wait(left) shim_copy_wait(SHIM_HERE(SHIM_COPY_WAIT), (left))

SHIM_INLINE float cu_f16(uint16_t h)
{
	return k_f16_to_f32(h);
}
SHIM_INLINE uint16_t cu_to_f16(float x)
{
	return k_f32_to_f16(x);
}

SHIM_INLINE float cu_127_over(float x)
{
	return 127.0f / x;
}

#define cu_arrive(p, by) shim_arrive(SHIM_HERE(SHIM_ARRIVE), (p), (by))
#define cu_acquire(p) shim_acquire(SHIM_HERE(SHIM_ACQUIRE), (p))
#define cu_swap_if(p, was, is) shim_swap_if(SHIM_HERE(SHIM_ATOMIC), (p), (was), (is))
#define cu_count(p) shim_count(SHIM_HERE(SHIM_ATOMIC), (p))
#define cu_max_int(p, v) shim_max_int(SHIM_HERE(SHIM_ATOMIC), (p), (v))
#define cu_relax() shim_relax(SHIM_HERE(SHIM_RELAX))
/* Here a kernel begins when the one before has ended; the checker acts as if it had not. */
#define cu_follow() shim_follow()
#define cu_now() shim_now()
