/* Kernels for the tests of the shim itself: right and wrong on purpose, as their names
 * say. p is device memory that the test has laid out. */
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/stage.h"

#define SAMPLE_KERNELS(X)                                                                          \
	X(right_nothing)                                                                               \
	X(right_index)                                                                                 \
	X(right_shuffle)                                                                               \
	X(right_mma_k32)                                                                               \
	X(right_mma_k16)                                                                               \
	X(right_copy)                                                                                  \
	X(right_integers)                                                                              \
	X(right_order)                                                                                 \
	X(right_together)                                                                              \
	X(right_neighbour)                                                                             \
	X(right_lanes)                                                                                 \
	X(right_grid)                                                                                  \
	X(right_readers)                                                                               \
	X(right_all_read)                                                                              \
	X(right_follow)                                                                                \
	X(wrong_divergent_block)                                                                       \
	X(wrong_divergent_warp)                                                                        \
	X(wrong_left_barrier)                                                                          \
	X(wrong_left_warp)                                                                             \
	X(wrong_deadlock)                                                                              \
	X(wrong_misaligned_stream)                                                                     \
	X(wrong_misaligned_copy)                                                                       \
	X(wrong_bounds_read)                                                                           \
	X(wrong_bounds_write)                                                                          \
	X(wrong_bounds_shared)                                                                         \
	X(wrong_host_memory)                                                                           \
	X(wrong_other_stack)                                                                           \
	X(wrong_freed)                                                                                 \
	X(wrong_unwritten_global)                                                                      \
	X(wrong_unwritten_shared)                                                                      \
	X(wrong_unwritten_memcpy)                                                                      \
	X(wrong_race_warps)                                                                            \
	X(wrong_race_warps_back)                                                                       \
	X(wrong_race_lanes)                                                                            \
	X(wrong_race_blocks)                                                                           \
	X(wrong_race_atomic)                                                                           \
	X(wrong_flag_without_order)                                                                    \
	X(wrong_reader_of_many)                                                                        \
	X(wrong_copy_not_waited)                                                                       \
	X(wrong_copy_of_another)                                                                       \
	X(wrong_misaligned_read)                                                                       \
	X(wrong_index_outside)                                                                         \
	X(wrong_overflow)                                                                              \
	X(wrong_race_shared)                                                                           \
	X(wrong_race_memset)                                                                           \
	X(wrong_read_before)                                                                           \
	X(wrong_write_before)                                                                          \
	X(wrong_other_shared)                                                                          \
	X(wrong_bounds_atomic)                                                                         \
	X(wrong_bounds_memcpy)                                                                         \
	X(wrong_bounds_copy)                                                                           \
	X(wrong_unwritten_atomic)                                                                      \
	X(wrong_copy_to_global)                                                                        \
	X(wrong_copy_source)                                                                           \
	X(wrong_copy_written)                                                                          \
	X(wrong_shuffle_lane)                                                                          \
	X(wrong_short_warp)                                                                            \
	X(wrong_shift)                                                                                 \
	X(wrong_division)                                                                              \
	X(wrong_difference)                                                                            \
	X(wrong_product)                                                                               \
	X(wrong_order_of_sum)

extern "C" __global__ void right_nothing(int32_t *p)
{
	(void)p;
}
/* p[block * threads + thread] = that */
extern "C" __global__ void right_index(int32_t *p)
{
	const int i = cu_block() * shim_n_threads() + cu_thread();

	p[i] = i;
}
/* Each warp: lane l gets the value of lane (5 l + 1) % 32, then of l ^ 7, as int and float. */
extern "C" __global__ void right_shuffle(int32_t *p)
{
	const int i = cu_thread(), lane = i % 32;
	const int32_t v = cu_shuffle(100 * i, (5 * lane + 1) % 32);

	p[i] = cu_shuffle_xor(v, 7);
	p[i] += (int32_t)cu_shuffle_xor_float(cu_shuffle_float((float)i, (lane + 1) % 32), 1);
}
/* p: a [16][32], b [8][32] bytes by column, then c [16][8] int32 to be added to */
extern "C" __global__ void right_mma_k32(int8_t *p)
{
	const int g = cu_thread() % 32 / 4, t = cu_thread() % 4;
	const int8_t *pa = p, *pb = p + 16 * 32;
	int32_t *pc = (int32_t *)(p + 24 * 32);
	uint32_t a[4], b[2];
	int32_t c[4];

	for (int i = 0; i < 4; i++)
		memcpy(&a[i], pa + (g + i % 2 * 8) * 32 + i / 2 * 16 + 4 * t, 4);
	for (int i = 0; i < 2; i++)
		memcpy(&b[i], pb + g * 32 + i * 16 + 4 * t, 4);
	for (int i = 0; i < 4; i++)
		c[i] = pc[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
	cu_mma_k32(c, a, b);
	for (int i = 0; i < 4; i++)
		pc[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
extern "C" __global__ void right_mma_k16(int8_t *p) /* the same with [16][16], [8][16] */
{
	const int g = cu_thread() % 32 / 4, t = cu_thread() % 4;
	int32_t *pc = (int32_t *)(p + 24 * 16);
	uint32_t a[2], b;
	int32_t c[4];

	for (int i = 0; i < 2; i++)
		memcpy(&a[i], p + (g + i * 8) * 16 + 4 * t, 4);
	memcpy(&b, p + 16 * 16 + g * 16 + 4 * t, 4);
	for (int i = 0; i < 4; i++)
		c[i] = pc[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
	cu_mma_k16(c, a, b);
	for (int i = 0; i < 4; i++)
		pc[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = c[i];
}
/* p[0 … 255] goes to shared memory and back to p[256 … 511], two groups, the first waited for
 * alone */
extern "C" __global__ void right_copy(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory();
	const int i = cu_thread();

	if (i < 32)
		cu_copy16(s + 4 * i, p + 4 * i);
	cu_copy_commit();
	if (i < 32)
		cu_copy16(s + 128 + 4 * i, p + 128 + 4 * i);
	cu_copy_commit();
	cu_copy_wait(1);
	CU_SYNC();
	if (i < 128)
		p[256 + i] = s[i];
	cu_copy_wait(0);
	CU_SYNC();
	if (i >= 128 && i < 256)
		p[256 + i] = s[i];
}
extern "C" __global__ void right_integers(int32_t *p)
{
	if (cu_thread())
		return;
	p[0] = cu_dp4a(0x80ff7f01u, 0x7f02ff80u, 5); /* 1·−128 + 127·−1 + −1·2 + −128·127 + 5 */
	p[1] = (int32_t)cu_permute(0x33221100u, 0x77665544u, 0x7b50u);
	p[2] = cu_to_f16(1.0f / 3.0f);
	p[3] = (int32_t)k_bits(cu_f16(0x3555));
}
/* Who comes when: thread i takes p[0] and puts it to p[1 + i] */
extern "C" __global__ void right_order(uint32_t *p)
{
	p[1 + cu_block() * shim_n_threads() + cu_thread()] = cu_arrive(p, 1);
}
extern "C" __global__ void wrong_divergent_block(int32_t *p)
{
	if (cu_thread() < 32)
		CU_SYNC();
	else
		CU_SYNC(), p[0] = 0;
	/* not on the same line: */
	if (cu_thread() < 32)
		CU_SYNC();
	else
		p[0] = 0, CU_SYNC();
}
extern "C" __global__ void wrong_divergent_warp(int32_t *p)
{
	if (cu_thread() % 2)
		p[0] = cu_shuffle(1, 0);
	else
		p[1] = cu_shuffle(2, 0);
}
extern "C" __global__ void wrong_left_barrier(int32_t *p)
{
	if (cu_thread() == 7)
		return;
	CU_SYNC();
	p[0] = 0;
}
extern "C" __global__ void wrong_left_warp(int32_t *p)
{
	if (cu_thread() == 7)
		return;
	p[0] = cu_shuffle(1, 0);
}
extern "C" __global__ void wrong_deadlock(int32_t *p)
{
	if (cu_thread() < 16)
		CU_SYNC_WARP();
	else
		CU_SYNC();
	(void)p;
}
/* Waits for a count that does not come, unless all blocks of the launch are there. */
extern "C" __global__ void right_together(uint32_t *p)
{
	cu_arrive(p, 1);
	while (cu_acquire(p) < (uint32_t)(cu_n_blocks() * shim_n_threads()))
		cu_relax();
}
extern "C" __global__ void wrong_misaligned_stream(uint32_t *p)
{
	p[0] = cu_stream8(p + 1).x;
}
extern "C" __global__ void wrong_misaligned_copy(uint32_t *p)
{
	cu_copy16(cu_shared_memory(), p + 2);
}

/* ---- what only the checked build sees ---- */

/* Each thread reads what a thread of another warp wrote to shared memory, twice. */
extern "C" __global__ void right_neighbour(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory();
	const int i = cu_thread();

	for (int turn = 0; turn < 2; turn++) {
		s[i] = i + turn;
		CU_SYNC();
		p[i] = s[(i + 32) % shim_n_threads()];
		CU_SYNC();
	}
}
extern "C" __global__ void wrong_race_warps(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory();
	const int i = cu_thread();

	p[i] = i;
	CU_SYNC_WARP();
	s[i] = p[(i + 32) % shim_n_threads()];
}
extern "C" __global__ void wrong_race_warps_back(int32_t *p) /* a write that others still read */
{
	int32_t *s = (int32_t *)cu_shared_memory();
	const int i = cu_thread();

	for (int turn = 0; turn < 2; turn++) {
		s[i] = i + turn;
		CU_SYNC();
		p[i] = s[(i + 32) % shim_n_threads()];
	}
}
extern "C" __global__ void right_lanes(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory();
	const int i = cu_thread();

	s[i] = i;
	CU_SYNC_WARP();
	p[i] = s[i ^ 1];
}
extern "C" __global__ void wrong_race_lanes(int32_t *p) /* a shuffle orders no memory */
{
	int32_t *s = (int32_t *)cu_shared_memory();
	const int i = cu_thread();

	p[i] = cu_shuffle(i, i & 31);
	s[i] = cu_shuffle(p[i ^ 1], i & 31);
}
/* p[0] counts arrivals, p[1 + block] what a block has, p[1 + blocks + block] what it sees of the
 * next: the grid barrier's way. */
extern "C" __global__ void right_grid(int32_t *p)
{
	uint32_t *gate = (uint32_t *)p;
	const int b = cu_block(), n = cu_n_blocks();

	if (cu_thread() == 40)
		p[1 + b] = 10 * b;
	CU_SYNC();
	if (cu_thread() == 0) {
		cu_arrive(gate, 1);
		while (cu_acquire(gate) < (uint32_t)n)
			cu_relax();
	}
	CU_SYNC();
	if (cu_thread() == 50)
		p[1 + n + b] = p[1 + (b + 1) % n];
}
extern "C" __global__ void wrong_race_blocks(int32_t *p)
{
	p[0] = cu_block();
}
extern "C" __global__ void wrong_race_atomic(int32_t *p)
{
	if (cu_thread() == 0)
		p[0] = 1;
	else
		cu_max_int(p, 2);
}
/* The flag comes after the value, but nothing says so to the memory. */
extern "C" __global__ void wrong_flag_without_order(int32_t *p)
{
	if (cu_thread())
		return;
	if (cu_block() == 0) {
		p[1] = 7;
		cu_max_int(p, 1);
	} else {
		while (cu_swap_if(p, 2, 2) < 1)
			cu_relax();
		p[2] = p[1];
	}
}
/* All read p[0]; then, after a barrier, one writes. */
extern "C" __global__ void right_readers(int32_t *p)
{
	const int32_t v = p[0];

	CU_SYNC();
	if (cu_thread() == 77)
		p[0] = v + 1;
}
/* More readers of a byte than the checker keeps, of many blocks, at many times. */
extern "C" __global__ void right_all_read(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory();

	s[cu_thread()] = 0;
	for (int turn = 0; turn < 40; turn++) {
		s[cu_thread()] += p[turn % 4];
		CU_SYNC_WARP();
	}
}
/* As right_readers, but without its barrier: somebody of another warp has read, however many others
 * have. */
extern "C" __global__ void wrong_reader_of_many(int32_t *p)
{
	const int32_t v = p[0];

	CU_SYNC_WARP();
	if (cu_thread() == 77)
		p[0] = v + 1;
}
extern "C" __global__ void wrong_bounds_read(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory();

	s[cu_thread()] = p[cu_thread() + 1]; /* of as many as there are threads */
}
extern "C" __global__ void wrong_bounds_write(int32_t *p)
{
	p[cu_thread() - 1] = 0; /* as threads below 0 would */
}
extern "C" __global__ void wrong_bounds_shared(int32_t *p)
{
	((int32_t *)cu_shared_memory())[CU_SHARED_BYTES / 4 - 3 + cu_thread() % 4] = *p;
}
extern "C" __global__ void wrong_host_memory(int32_t *const *p)
{
	**p = 1;
}
extern "C" __global__ void wrong_other_stack(int32_t *p)
{
	int32_t *volatile *s = (int32_t *volatile *)cu_shared_memory();
	volatile int32_t own = cu_thread();

	if (cu_thread() == 0)
		*s = (int32_t *)&own;
	CU_SYNC();
	p[cu_thread()] = **s;
	CU_SYNC();
}
extern "C" __global__ void wrong_freed(int32_t *const *p)
{
	**p = 1;
}
extern "C" __global__ void wrong_unwritten_global(int32_t *p)
{
	if (cu_thread() == 3)
		p[0] = p[99];
}
extern "C" __global__ void wrong_unwritten_shared(int32_t *p)
{
	p[cu_thread()] = ((int32_t *)cu_shared_memory())[cu_thread()];
}
extern "C" __global__ void wrong_unwritten_memcpy(int32_t *p)
{
	if (cu_thread() == 3)
		memcpy(p, p + 90, 4 * (size_t)(p[0] + 10)); /* too long for the compiler to do itself */
}
extern "C" __global__ void wrong_copy_not_waited(int32_t *p)
{
	int32_t *s = (int32_t *)cu_shared_memory() + 4 * cu_thread();

	cu_copy16(s, p + 4 * cu_thread());
	cu_copy_commit();
	cu_copy_wait(1);
	p[4 * cu_thread()] = s[0];
}
extern "C" __global__ void wrong_copy_of_another(int32_t *p) /* waited for, but no barrier */
{
	int32_t *s = (int32_t *)cu_shared_memory();

	cu_copy16(s + 4 * cu_thread(), p + 4 * cu_thread());
	cu_copy_commit();
	CU_SYNC_WARP();
	cu_copy_wait(0);
	if (s[4 * (cu_thread() ^ 1)] == 12345)
		p[0] = 1;
}
extern "C" __global__ void wrong_misaligned_read(int32_t *p)
{
	p[0] = (int32_t)((const uint4 *)(p + 2))->y;
}
extern "C" __global__ void wrong_index_outside(int32_t *p)
{
	int32_t four[4] = { 1, 2, 3, 4 };

	p[cu_thread()] = four[p[0] + 4];
}
extern "C" __global__ void wrong_overflow(int32_t *p)
{
	p[1] = (0x7fffffff - p[0]) + cu_thread();
}
/* two lanes write one place of shared memory */
extern "C" __global__ void wrong_race_shared(int32_t *p)
{
	((int32_t *)cu_shared_memory())[cu_thread() / 2] = p[0];
}
/* … and two warps, by a call of the C library */
extern "C" __global__ void wrong_race_memset(int32_t *p)
{
	memset((char *)cu_shared_memory(), 0, (size_t)(p[0] + 100));
}
/* what the kernel in front may still write, or read */
extern "C" __global__ void wrong_read_before(int32_t *p)
{
	const int32_t was = p[cu_thread()];

	cu_follow();
	p[cu_thread()] = was + 1;
}
extern "C" __global__ void wrong_write_before(int32_t *p)
{
	p[cu_thread()] = 1;
	cu_follow();
}
extern "C" __global__ void right_follow(int32_t *p)
{
	cu_follow();
	p[cu_thread()]++;
}
/* a pointer to shared memory that went to another block */
extern "C" __global__ void wrong_other_shared(int32_t *p)
{
	int32_t **q = (int32_t **)(void *)p, *own = (int32_t *)cu_shared_memory();

	if (cu_thread())
		return;
	if (cu_block() == 0) {
		own[0] = 7;
		*q = own;
		cu_arrive((uint32_t *)p + 8, 1);
	} else {
		while (!cu_acquire((uint32_t *)p + 8))
			cu_relax();
		p[9] = **q;
	}
}
extern "C" __global__ void wrong_bounds_atomic(int32_t *p)
{
	cu_max_int(p + 256, 1);
}
extern "C" __global__ void wrong_bounds_memcpy(int32_t *p)
{
	if (cu_thread() == 0)
		memcpy(cu_shared_memory(), p, (size_t)(p[0] + 1028));
}
extern "C" __global__ void wrong_bounds_copy(int32_t *p)
{
	cu_copy16(cu_shared_memory(), p + 256);
}
extern "C" __global__ void wrong_unwritten_atomic(int32_t *p)
{
	(void)p;
	cu_max_int((int32_t *)cu_shared_memory(), 1);
}
extern "C" __global__ void wrong_copy_to_global(int32_t *p)
{
	cu_copy16(p, p + 4);
}
/* it changes while the copy is under way */
extern "C" __global__ void wrong_copy_source(int32_t *p)
{
	if (cu_thread() == 0)
		cu_copy16(cu_shared_memory(), p);
	cu_copy_commit();
	CU_SYNC_WARP();
	if (cu_thread() == 1)
		p[0]++;
	CU_SYNC_WARP();
	cu_copy_wait(0);
}
/* what is written there is lost when it comes */
extern "C" __global__ void wrong_copy_written(int32_t *p)
{
	if (cu_thread())
		return;
	cu_copy16(cu_shared_memory(), p);
	cu_copy_commit();
	*(int32_t *)cu_shared_memory() = 1;
}
extern "C" __global__ void wrong_shuffle_lane(int32_t *p)
{
	p[cu_thread()] = cu_shuffle(1, 32 + p[0]);
}
/* for a block of fewer threads than a warp */
extern "C" __global__ void wrong_short_warp(int32_t *p)
{
	p[cu_thread()] = cu_shuffle(1, 0);
}
extern "C" __global__ void wrong_shift(int32_t *p)
{
	p[cu_thread()] = 1 << (p[cu_thread()] + 32);
}
extern "C" __global__ void wrong_division(int32_t *p)
{
	p[cu_thread()] = 7 / p[cu_thread()];
}
extern "C" __global__ void wrong_difference(int32_t *p)
{
	p[cu_thread()] = (p[cu_thread()] - 0x7fffffff) - (2 + cu_thread());
}
extern "C" __global__ void wrong_product(int32_t *p)
{
	p[cu_thread()] = (p[cu_thread()] + 0x10001) * 0x10001;
}
/* No race, since only atomics meet, and yet whoever comes first decides the bits: floats added as
 * they come. p[0]: a lock, p[1]: the sum. */
extern "C" __global__ void wrong_order_of_sum(int32_t *p)
{
	const float mine = 1.0f / (float)(1 + cu_block() * shim_n_threads() + cu_thread());

	for (;;) {
		const int32_t was = cu_swap_if(p + 1, 0x7fffffff, 0x7fffffff);

		if (cu_swap_if(p + 1, was, (int32_t)k_bits(k_float((uint32_t)was) + mine)) == was)
			break;
	}
}
