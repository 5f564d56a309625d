/* The AVX-512 products emulated (avx512_simde.c), as a back end for tests. Thread: the caller's. */
#ifndef CUTAWAY_TESTS_AVX512_SIMDE_H
#define CUTAWAY_TESTS_AVX512_SIMDE_H

#include <string.h>

#include "kernels/context.h"

#ifdef __x86_64__
extern const struct k_isa simde_isa;

/* A context whose kernels are those of AVX-512, on any processor with AVX2; *out is NULL
 * without. */
static inline int simde_open(struct k_ctx **out, int n_threads, struct err *e)
{
	static struct k_isa named;
	bool can = false;

	*out = NULL;
	for (const char *const *isa = k_isas(); *isa; isa++)
		can = can || !strncmp(*isa, "avx2", 4);
	if (!can)
		return 0;
	if (k_open(out, "cpu", "avx2", n_threads, e))
		return -1;
	named = simde_isa;
	named.name = "avx512 by SIMDe";
	(*out)->isa = &named;
	return 0;
}
#else
static inline int simde_open(struct k_ctx **out, int n_threads, struct err *e)
{
	(void)n_threads;
	(void)e;
	*out = NULL;
	return 0;
}
#endif

#endif
