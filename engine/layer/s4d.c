/* S4D: complex states of each channel, whose poles do not depend on the token, in place of
 * attention (Gu et al. 2022). See layer.h. The file has the poles of a step and what reads the
 * states, with the input's factor in it (tools/train/family/export.py): nothing is left to be made
 * discrete. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void s4d_load(struct model_loader *l, void *params)
{
	struct s4d *a = params;
	const int64_t dim = l->config->dim, inner = a->inner;

	residual_load(l, &a->on, 0);
	LAYER_PARTS(l, "ssm_in.weight", dim, { &a->in_x, inner }, { &a->in_z, inner });
	a->pole = layer_floats(l, "ssm_pole", a->n_states, inner);
	a->read = layer_floats(l, "ssm_read", a->n_states, inner);
	a->skip = layer_vector(l, "ssm_d", inner, true);
	layer_matrix(l, &a->out, "ssm_out.weight", dim, inner);
}

STATE_MEMORY(s4d, ((size_t)a->inner * (size_t)a->n_states))

static void s4d_need(const void *params, struct forward_needs *n)
{
	const struct s4d *a = params;

	n->ops += 4;
	residual_need(&a->on, 0, n);
	forward_widen(&n->wide, a->inner);
	forward_reads(&n->normed, &a->in_x);
	forward_reads(&n->act, &a->out);
	n->act.x = true; /* the scan writes it */
}

static void s4d_write(struct forward *f, const void *params)
{
	const struct s4d *a = params;
	struct k_acts out = program_acts_of(f->own.act, a->inner);

	residual_enter(f, &a->on, false);
	LAYER_PRODUCTS(
		f, K_STAGE_qkv, f->own.normed, { &a->in_x, f->own.gate }, { &a->in_z, f->own.up });
	program_add(&f->program, K_OP_scan, K_STAGE_scan)->u.scan = (struct k_scan){ .x = f->own.gate,
		.z = f->own.up,
		.a = a->pole,
		.c = a->read,
		.d = a->skip,
		.out = out,
		.n_states = a->n_states,
		LAYER_STATE(f, a->group),
		.at = a->at };
	residual_leave(f, &a->on, K_STAGE_out, out, &a->out, NULL);
}

const struct block_kind layer_s4d = BLOCK(s4d, "s4d", .memory = s4d_memory);
