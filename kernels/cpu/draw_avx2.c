/* The sampler's passes, compiled for AVX2 and FMA. See draw.h. */
#ifdef __x86_64__
#include "kernels/cpu/draw_body.h"

const struct k_draw_passes k_draw_avx2 = { pass_scale, pass_weigh, pass_contest, pass_wait_ids,
	pass_arrive_ids };
#endif
