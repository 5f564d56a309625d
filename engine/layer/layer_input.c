/* A token's input of one layer (Gemma 3n and 4; Hugging Face's modeling_gemma4.py). See layer.h. */
#include "engine/layer/ops.h"
#include "engine/model/model_tensors.h"

static void layer_input_load(struct model_loader *l, void *params)
{
	struct layer_input *a = params;

	if (!a->width)
		return;
	residual_load(l, &a->on, 0);
	layer_matrix(l, &a->gate, "inp_gate.weight", a->width, l->config->dim);
	layer_narrow(l, &a->out, "proj.weight", l->config->dim, a->width);
}

static void layer_input_need(const void *params, struct forward_needs *n)
{
	const struct layer_input *a = params;

	n->ops += 4;
	if (!a->width)
		return;
	residual_need(&a->on, 0, n);
	forward_widen(&n->wide, a->width);
	forward_reads(&n->normed, &a->gate);
	forward_reads(&n->act, &a->out);
	n->act.x = true;
}

/* The row's input, which is the sum of two, times the gate. The sum's variance is halved here. */
static void add_gate(struct forward *f, const struct layer_input *a, struct k_acts out)
{
	struct k_gated *g = layer_gated(f, K_STAGE_act, f->own.inputs + a->first, 1, a->width, out);

	layer_gated_by(g, f->own.gate, K_GATE_gelu);
	g->x_stride = a->stride;
	g->factor = 0x1.6a09e6p-1f; /* 1 / sqrt 2 */
}

static void add_input(struct forward *f, const struct layer_input *a)
{
	struct k_acts act = program_acts_of(f->own.act, a->width);

	if (program_wants_floats(&a->out)) /* of any width */
		act.q = NULL;
	residual_enter(f, &a->on, false);
	layer_product(f, K_STAGE_gate_up, f->own.normed, &a->gate, NULL, f->own.gate);
	add_gate(f, a, act);
	residual_leave(f, &a->on, K_STAGE_down, act, &a->out, NULL);
}

static void layer_input_write(struct forward *f, const void *params)
{
	const struct layer_input *a = params;

	if (a->width)
		add_input(f, a);
	if (a->scale != 0)
		layer_gated_self(f, K_STAGE_norm, f->x, 1, f->model->config.dim)->factor = a->scale;
}

const struct block_kind layer_layer_input = BLOCK(layer_input, "layer input", .memory = NULL);
