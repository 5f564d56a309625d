/* The definitions of plain ops (kernels/op/ops.h), compiled for a processor: a fused multiply-add
 * is an instruction here, and loops over columns become vectors. The bits are the reference's. */
#include "kernels/cpu/isa.h"

#define X(name, NAME)                                                                              \
	void k_vec8_##name(struct k_op *op, int tid, int n_threads, void *scratch)                     \
	{                                                                                              \
		const struct k_##name *a = &op->u.name;                                                    \
		int64_t lo, hi;                                                                            \
                                                                                                   \
		(void)scratch;                                                                             \
		k_split(k_##name##_units(a), tid, n_threads, &lo, &hi);                                    \
		for (int64_t unit = lo; unit < hi; unit++)                                                 \
			k_##name##_unit(a, unit);                                                              \
	}
K_PLAIN_ALONE(X)
#undef X
