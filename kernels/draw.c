/* The plain version of the sampler's passes, and the choice. See draw.h. */
#include "kernels/draw_body.h"

const struct k_draw_passes k_draw_scalar = {pass_scale, pass_weigh, pass_contest, pass_wait_ids,
											pass_arrive_ids};

const struct k_draw_passes *k_draw_passes(void)
{
#ifdef __x86_64__
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return &k_draw_avx2;
#endif
	return &k_draw_scalar;
}
