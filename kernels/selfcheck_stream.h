/* The known answers of what some families do to the stream, to heads and to logits. Part of
 * selfcheck.c. Thread: as there. */

static void check_activations(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	static const enum k_act acts[] = { K_ACT_silu, K_ACT_gelu, K_ACT_gelu_erf, K_ACT_relu2,
		K_ACT_none };

	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		struct k_op op = { .u.activate = {
							   .x = d->x, .out = acts_out(d), .act = acts[i], .n = ROWS } };

		selfcheck_run(ctx, d, K_OP_activate, &op);
		fold_acts(&hash[K_OP_activate], d);
	}
}

/* Those that work in place go on from what the one before left. */
static void check_stream(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	const size_t n = (size_t)ROWS * DIM, bytes = n * sizeof *d->out;
	struct k_op op = { .u.centre = { .x = d->x,
						   .pick = d->ids,
						   .w = d->w,
						   .b = d->up,
						   .eps = 1e-5f,
						   .out = acts_out(d),
						   .n = ROWS } };

	for (int r = 0; r < ROWS; r++)
		d->ids[r] = ROWS - 1 - r;
	selfcheck_run(ctx, d, K_OP_centre, &op);
	fold_acts(&hash[K_OP_centre], d);
	check_activations(ctx, d, hash);
	memcpy(d->out, d->q, bytes);
	op = (struct k_op){
		.u.place = { .table = d->cos, .x = d->out, .dim = HEAD_DIM / 2, .n = ROWS, .rows = d->row }
	};
	selfcheck_run(ctx, d, K_OP_place, &op);
	fold(&hash[K_OP_place], d->out, bytes);
	for (int neox = 0; neox < 2; neox++) {
		op = (struct k_op){ .u.rotary = { .x = d->out,
								.cos = d->cos,
								.sin = d->sin,
								.rope_dim = HEAD_DIM,
								.head_dim = HEAD_DIM,
								.n_heads = HEADS,
								.n = ROWS,
								.neox = neox,
								.rows = d->row } };
		selfcheck_run(ctx, d, K_OP_rotary, &op);
		fold(&hash[K_OP_rotary], d->out, bytes);
	}
	op = (struct k_op){ .u.add = {
							.y = d->up, .x = d->out, .scale = 0.22f, .dim = DIM, .n = ROWS } };
	selfcheck_run(ctx, d, K_OP_add, &op);
	fold(&hash[K_OP_add], d->out, bytes);
	op = (struct k_op){ .u.cap = { .x = d->out, .scale = 0.3f, .most = 2, .dim = DIM, .n = ROWS } };
	selfcheck_run(ctx, d, K_OP_cap, &op);
	fold(&hash[K_OP_cap], d->out, bytes);
}
