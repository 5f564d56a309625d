/* Matrix products of instruction sets that this processor may lack, emulated on AVX2, as back ends
 * for tests: AVX-512's (avx512_simde.c) and AVX-VNNI's (avxvnni_emulated.c). Thread: the
 * caller's. */
#ifndef CUTAWAY_TESTS_EMULATED_H
#define CUTAWAY_TESTS_EMULATED_H

#include <string.h>

#include "kernels/context.h"

enum { N_EMULATED = 2 };
#ifdef __x86_64__
extern const struct k_isa simde_isa, emulated_vnni_isa;
#endif

/* A context whose kernels are those of set i, on any processor with AVX2; *out is NULL without. */
static inline int emulated_open(struct k_ctx **out, int i, int n_threads, struct err *e)
{
	*out = NULL;
#ifdef __x86_64__
	static struct k_isa named[N_EMULATED];
	bool can = false;

	for (const char *const *isa = k_isas(); *isa; isa++)
		can = can || !strncmp(*isa, "avx2", 4);
	if (!can)
		return 0;
	if (k_open(out, "cpu", "avx2", n_threads, e))
		return -1;
	named[i] = i ? emulated_vnni_isa : simde_isa;
	named[i].name = i ? "avxvnni, emulated" : "avx512 by SIMDe";
	(*out)->isa = &named[i];
#else
	(void)i, (void)n_threads, (void)e;
#endif
	return 0;
}

#endif
