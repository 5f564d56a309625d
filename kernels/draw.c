/* The scalar version of the sampler's passes, and the choice among versions. See draw.h. */
#include <string.h>

#include "kernels/cpu/draw_body.h"
#include "kernels/cpu/isa.h"

const struct k_draw_passes k_draw_scalar = { pass_scale, pass_weigh, pass_contest, pass_wait_ids,
	pass_arrive_ids };

const struct k_draw_passes *k_draw_passes(void)
{
#ifdef __x86_64__
	if (strcmp(k_isas()[0], k_isa_scalar.name))
		return &k_draw_avx2;
#endif
	return &k_draw_scalar;
}
