/* Contexts of every instruction set that tests can run: those of this processor, and matrix
 * products of those that it may lack, emulated on AVX2 (AVX-512's by avx512_simde.c, AVX-VNNI's by
 * avxvnni_emulated.c). Thread: the caller's. */
#pragma once

#include "kernels/context.h"

#ifdef __x86_64__
extern const struct k_isa simde_isa, emulated_vnni_isa;
#endif

struct contexts {
	struct k_ctx **ctx; /* [n] */
	int n;
};

/* Adds a context for each instruction set and each of the n numbers of threads; "scalar", which has
 * the reference's functions, only if asked for. However many there are, all find room. -1 and
 * e: one does not open; what was opened is for contexts_close(). */
int contexts_open(struct contexts *all, const int *threads, int n, bool scalar, struct err *e);
void contexts_close(struct contexts *all);
