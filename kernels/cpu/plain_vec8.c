/* The definitions of plain ops (kernels/op/ops.h), compiled for a processor: a fused multiply-add
 * is an instruction here, and loops over columns become vectors. The bits are the reference's. */
#include "kernels/cpu/isa.h"

#define X(name) K_BY_UNITS(k_vec8_##name, name)
K_PLAIN_ALONE(X)
#undef X
