/* Machines for predictions: what their makers publish, dense (without sparsity), and where.
 *
 * A line: id, name, memory bandwidth in GB/s, peak operations in Gop/s of 8-bit integers, 16-bit
 * floats and 32-bit floats (a multiply-add is two), memory in GB; 0: not published. A data sheet
 * that gives figures with sparsity is halved. No number here was measured: see the event `roof`. */
#pragma once

/* clang-format off */
#define MACHINES(X)                                                                                \
	X(pi5, "Raspberry Pi 5", 17.1, 614, 307, 154, 16,                                              \
		"product brief: LPDDR4X-4267, 32 bits; Cortex-A76 guide: two 128-bit pipes, 4 x 2.4 GHz")  \
	X(laptop, "laptop, Ryzen 7 7840U", 89.6, 3379, 0, 845, 64,                                     \
		"AMD product page: 2 channels DDR5-5600, 8 x 3.3 GHz; Zen 4: two 256-bit FMA a cycle")     \
	X(m1, "Apple M1", 68.25, 0, 0, 2600, 16,                                                       \
		"Apple newsroom, November 2020: GPU of 2.6 teraflops; LPDDR4X-4266, 128 bits")             \
	X(m4-max, "Apple M4 Max", 546, 0, 0, 0, 128,                                                   \
		"Apple newsroom, October 2024: bandwidth and memory; peak not published")                  \
	X(rtx4090, "GeForce RTX 4090", 1008, 660600, 165200, 82600, 24,                                \
		"NVIDIA Ada GPU architecture whitepaper 1.1, appendix A; f16 with f32 accumulate")         \
	X(a100, "A100 SXM 80 GB", 2039, 624000, 312000, 19500, 80,                                     \
		"NVIDIA A100 Tensor Core GPU data sheet")                                                  \
	X(h100, "H100 SXM", 3350, 1979000, 989000, 67000, 80,                                          \
		"NVIDIA H100 Tensor Core GPU data sheet; its peaks are with sparsity: half of them")       \
	X(h200, "H200 SXM", 4800, 1979000, 989000, 67000, 141,                                         \
		"NVIDIA H200 Tensor Core GPU data sheet; its peaks are with sparsity: half of them")
/* clang-format on */
