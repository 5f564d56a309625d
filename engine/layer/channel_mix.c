/* The channel mix of RWKV-7: token shift, then a feed-forward with squared ReLU. See layer.h. A
 * sequence keeps the last normed row. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void channel_mix_load(struct model_loader *l, void *params)
{
	struct channel_mix *a = params;

	residual_load(l, &a->on, 0);
	a->shift = layer_floats(l, "channel_mix_lerp_k.weight", a->dim, 1);
	layer_matrix(l, &a->up, "channel_mix_key.weight", a->width, a->dim);
	layer_matrix(l, &a->down, "channel_mix_value.weight", a->dim, a->width);
}

STATE_MEMORY(channel_mix, (size_t)a->dim)

static void channel_mix_need(const void *params, struct forward_needs *n)
{
	const struct channel_mix *a = params;

	n->ops += 5;
	residual_need(&a->on, 0, n);
	n->mixed.x = n->act.x = true; /* products by floats may read them */
	forward_widen(&n->wide, a->width);
	forward_reads(&n->mixed, &a->up);
	forward_reads(&n->act, &a->down);
}

static void channel_mix_write(struct forward *f, const void *params)
{
	const struct channel_mix *a = params;
	struct k_acts in = program_acts_of(f->own.mixed, a->dim),
				  act = program_acts_of(f->own.act, a->width);

	residual_shift(f, &a->on,
		(struct k_shift){
			.mix = a->shift, .out = in, .ways = 1, LAYER_STATE(f, a->group), .at = a->at });
	layer_product(f, K_STAGE_gate_up, in, &a->up, NULL, f->own.up);
	layer_activate(f, K_STAGE_act, f->own.up, act, K_ACT_relu2);
	residual_leave(f, &a->on, K_STAGE_down, act, &a->down, NULL);
}

const struct block_kind layer_channel_mix =
	BLOCK(channel_mix, "channel mix", .memory = channel_mix_memory);
