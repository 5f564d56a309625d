/* Kernels for the tests of the shim itself: what they do is right or wrong on purpose, as their
 * names say. p is device memory that the test has laid out. */
#ifndef CUTAWAY_TESTS_CUDA_SHIM_WRONG_CUH
#define CUTAWAY_TESTS_CUDA_SHIM_WRONG_CUH

#include "kernels/cuda/device.cuh"

#define WRONG_KERNELS(X)                                                                           \
	X(nothing)                                                                                     \
	X(index)                                                                                       \
	X(shuffle)                                                                                     \
	X(mma_k32)                                                                                     \
	X(mma_k16)                                                                                     \
	X(copy)                                                                                        \
	X(integers)                                                                                    \
	X(order)                                                                                       \
	X(divergent_block)                                                                             \
	X(divergent_warp)                                                                              \
	X(left_barrier)                                                                                \
	X(left_warp)                                                                                   \
	X(deadlock)                                                                                    \
	X(never)                                                                                       \
	X(misaligned_stream)                                                                           \
	X(misaligned_copy)

extern "C" __global__ void wrong_nothing(int32_t *p)
{
	(void)p;
}
/* p[block * threads + thread] = that */
extern "C" __global__ void wrong_index(int32_t *p)
{
	const int i = cu_block() * shim_n_threads() + cu_thread();

	p[i] = i;
}
/* Each warp: lane l gets the value of lane (5 l + 1) % 32, then of l ^ 7, as int and float. */
extern "C" __global__ void wrong_shuffle(int32_t *p)
{
	const int i = cu_thread(), lane = i % 32;
	const int32_t v = cu_shuffle(100 * i, (5 * lane + 1) % 32);

	p[i] = cu_shuffle_xor(v, 7);
	p[i] += (int32_t)cu_shuffle_xor_float(cu_shuffle_float((float)i, (lane + 1) % 32), 1);
}
/* p: a [16][32], b [8][32] bytes by column, then c [16][8] int32 to be added to */
extern "C" __global__ void wrong_mma_k32(int8_t *p)
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
extern "C" __global__ void wrong_mma_k16(int8_t *p) /* the same with [16][16], [8][16] */
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
/* p[0 … 255] goes to shared memory and back to p[256 … 511], two groups, the first waited for alone */
extern "C" __global__ void wrong_copy(int32_t *p)
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
extern "C" __global__ void wrong_integers(int32_t *p)
{
	if (cu_thread())
		return;
	p[0] = cu_dp4a(0x80ff7f01u, 0x7f02ff80u, 5); /* 1·−128 + 127·−1 + −1·2 + −128·127 + 5 */
	p[1] = (int32_t)cu_permute(0x33221100u, 0x77665544u, 0x7b50u);
	p[2] = cu_to_f16(1.0f / 3.0f);
	p[3] = (int32_t)k_bits(cu_f16(0x3555));
}
/* Who comes when: thread i takes p[0] and puts it to p[1 + i] */
extern "C" __global__ void wrong_order(uint32_t *p)
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
		p[0] = 0,
		CU_SYNC();
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
extern "C" __global__ void wrong_never(uint32_t *p)
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

#endif
