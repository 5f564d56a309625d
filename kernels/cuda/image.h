/* The compiled kernels in the program. Private to kernels/cuda/; constant. */
#pragma once

struct cu_image {
	const void *data; /* a fat binary, which includes its size; NULL: built without nvcc */
	/* of the compiler: 13000 is CUDA 13.0; a driver of an older major may refuse it */
	int toolkit;
	const char *archs; /* "sm_80 sm_90 compute_90"; "" without */
};
extern const struct cu_image cu_image;
