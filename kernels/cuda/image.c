/* See image.h. If there is nvcc, the Makefile compiles the kernels and defines the file's name and
 * architectures. */
#include "kernels/cuda/image.h"

#ifdef CUTAWAY_CUDA_IMAGE
__asm__(".section .rodata\n"
		".balign 64\n"
		".globl cu_image_data\n"
		"cu_image_data:\n"
		".incbin \"" CUTAWAY_CUDA_IMAGE "\"\n"
		".previous\n");
extern const unsigned char cu_image_data[];

const struct cu_image cu_image = { cu_image_data, CUTAWAY_CUDA_TOOLKIT, CUTAWAY_CUDA_ARCHS };
#else
const struct cu_image cu_image = { .archs = "" };
#endif
