/* See forward.h: residual streams that outlast their layer. */

#include "engine/run/forward.h"

/* Of this layer, or, if it is not kept, a free one, whose users are 0; NULL: there is none. */
static struct forward_kept *find(struct forward *f, int32_t layer)
{
	struct forward_kept *free_one = NULL;

	for (struct forward_kept *k = f->kept; k < f->kept + FORWARD_KEPT; k++) {
		if (k->users && k->layer == layer)
			return k;
		free_one = k->users ? free_one : k;
	}
	return free_one;
}

int forward_keep(struct forward *f, int32_t layer, struct err *e)
{
	struct forward_kept *k = find(f, layer);
	const size_t floats = (size_t)f->max_rows * (size_t)f->model->config.dim;

	if (!k)
		return err_set(e, ERR_USAGE, "drafters read more than %d layers together", FORWARD_KEPT);
	if (!k->users) {
		k->layer = layer;
		k->x = k_alloc(f->model->kernels, floats * sizeof *k->x, K_WORK,
			"what drafters read of the layers", e);
		if (!k->x)
			return -1;
		forward_rewrite(f);
	}
	k->users++;
	return 0;
}

void forward_drop(struct forward *f, int32_t layer)
{
	struct forward_kept *k = find(f, layer);

	if (--k->users)
		return;
	k_free(f->model->kernels, k->x);
	forward_rewrite(f);
}

const float *forward_stream(const struct forward *f, int32_t layer)
{
	for (int i = 0; i < FORWARD_KEPT; i++)
		if (f->kept[i].users && f->kept[i].layer == layer)
			return f->kept[i].x;
	return f->x;
}

float *forward_final(struct forward *f, int32_t first, int32_t n, struct err *e)
{
	const struct model *m = f->model;
	const struct k_program step = f->program;
	struct k_op op;
	int failed;

	f->program = (struct k_program){ .op = &op, .layer = -1, .version = k_new_version() };
	forward_add_norm(f, f->x + (size_t)first * (size_t)m->config.dim, NULL, m->output_norm,
		m->output_norm_bias, k_floats(f->final, m->config.dim), n);
	failed = k_run(m->kernels, &f->program, e);
	f->program = step;
	return failed ? NULL : f->final;
}

int forward_keep_same(struct forward *f, const struct forward *as, struct err *e)
{
	for (int i = 0; i < FORWARD_KEPT; i++)
		for (int32_t user = 0; user < as->kept[i].users; user++)
			if (forward_keep(f, as->kept[i].layer, e))
				return -1;
	return 0;
}

void forward_write_kept(struct forward *f, int32_t layer)
{
	struct forward_kept *k = find(f, layer);

	if (k && k->users)
		program_add(&f->program, K_OP_activate, K_STAGE_norm)->u.activate =
			(struct k_activate){ .x = f->x,
				.out = k_floats(k->x, f->model->config.dim),
				.act = K_ACT_none,
				.n = f->n_rows };
}
