/* The known answers of ops that keep a state, and of what follows them. Part of selfcheck.c. */
#ifndef CUTAWAY_KERNELS_SELFCHECK_STATES_H
#define CUTAWAY_KERNELS_SELFCHECK_STATES_H

/* A recurrence over rows of two sequences: one begins, one resumes from a page, and both write
 * pages. */
static void check_recurrence(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	const struct k_state state = { .base = (uint8_t *)d->state,
		.page_bytes = sizeof d->state / STATE_PAGES };
	struct k_op op = { .u.conv = { .x = d->x,
						   .w = d->q,
						   .bias = d->w,
						   .out = acts_out(d),
						   .taps = 4,
						   .n = ROWS,
						   .rows = d->state_row,
						   .state = &state } };

	fill(d->state[0], sizeof d->state / sizeof(float), 9);
	for (int r = 0; r < ROWS; r++)
		d->state_row[r] = (struct k_state_row){ r == 0   ? K_STATE_ZERO
												: r == 4 ? 0
														 : K_STATE_ROW,
			r == 3   ? 1
			: r == 5 ? 2
					 : -1 };
	selfcheck_run(ctx, d, K_OP_conv, &op);
	fold_acts(&hash[K_OP_conv], d);
	fold(&hash[K_OP_conv], d->state, sizeof d->state);
	op.u.conv.in = d->up;
	op.u.conv.end = d->residual;
	op.u.conv.linear = true;
	op.u.conv.out = k_floats(d->out, DIM - 1); /* a width that is no multiple of 32 */
	op.u.conv.n = 2;
	selfcheck_run(ctx, d, K_OP_conv, &op);
	fold_acts(&hash[K_OP_conv], d);
	op = (struct k_op){ .u.scan = { .x = d->x,
							.z = d->up,
							.delta = d->q,
							.b = d->kv_in[0],
							.c = d->kv_in[1],
							.a = d->residual,
							.d = d->w,
							.out = acts_out(d),
							.n_states = 2,
							.n = ROWS,
							.rows = d->state_row,
							.state = &state } };
	selfcheck_run(ctx, d, K_OP_scan, &op);
	fold_acts(&hash[K_OP_scan], d);
	fold(&hash[K_OP_scan], d->state, sizeof d->state);
}

static void check_gated(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	struct k_op op = { .u.gated = { .x = d->x,
						   .z = d->up,
						   .x_stride = DIM,
						   .x_pitch = 24,
						   .z_stride = DIM,
						   .z_pitch = 24,
						   .w = d->w,
						   .weights = DIM,
						   .groups = 4,
						   .group = 24,
						   .eps = 1e-5f,
						   .norm = true,
						   .first = true,
						   .out = acts_out(d),
						   .n = ROWS } };

	selfcheck_run(ctx, d, K_OP_gated, &op);
	fold_acts(&hash[K_OP_gated], d);
	op.u.gated.groups = 3;
	op.u.gated.group = op.u.gated.x_pitch = op.u.gated.z_pitch = op.u.gated.weights = 32;
	op.u.gated.first = false;
	op.u.gated.by = K_GATE_sigmoid;
	selfcheck_run(ctx, d, K_OP_gated, &op);
	fold_acts(&hash[K_OP_gated], d);
	op.u.gated.z = op.u.gated.w = NULL;
	op.u.gated.factor = 0.25f;
	selfcheck_run(ctx, d, K_OP_gated, &op);
	fold_acts(&hash[K_OP_gated], d);
}

/* State matrices of the rows that check_recurrence() sets: three heads of narrow ones, then one as
 * wide as a unit. */
static void check_linear(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	const struct k_state state = { .base = (uint8_t *)d->state,
		.page_bytes = sizeof d->state / STATE_PAGES };
	struct k_op op = { .u.rates = { .x = d->x,
						   .beta = d->up,
						   .stride = 16,
						   .run = 1,
						   .pitch = 2,
						   .a = d->bias,
						   .bias = d->w,
						   .out = d->out2[0],
						   .heads = 3,
						   .n = ROWS } };

	selfcheck_run(ctx, d, K_OP_rates, &op);
	fold(&hash[K_OP_rates], d->out2[0], ROWS * 6 * sizeof(float));
	op.u.rates.beta = NULL;
	op.u.rates.out = d->out2[1];
	selfcheck_run(ctx, d, K_OP_rates, &op);
	fold(&hash[K_OP_rates], d->out2[1], ROWS * 6 * sizeof(float));
	op = (struct k_op){ .u.linear = { .q = { d->q, DIM, 8 },
							.k = { d->up, DIM, 8 },
							.v = { d->x, WIDE, 12 },
							.rate = d->out2[0],
							.skip = d->w,
							.out = d->out,
							.room = d->room,
							.heads = 3,
							.key_heads = 3,
							.keys = 8,
							.values = 12,
							.n = ROWS,
							.corrects = true,
							.in_turn = true,
							.rows = d->state_row,
							.state = &state } };
	selfcheck_run(ctx, d, K_OP_linear, &op);
	fold(&hash[K_OP_linear], d->out, ROWS * 36 * sizeof(float));
	fold(&hash[K_OP_linear], d->state, sizeof d->state);
	op.u.linear.heads = op.u.linear.key_heads = 1;
	op.u.linear.keys = 9;
	op.u.linear.values = 32;
	op.u.linear.fixed = d->out2[1];
	op.u.linear.corrects = op.u.linear.in_turn = false;
	op.u.linear.skip = NULL;
	selfcheck_run(ctx, d, K_OP_linear, &op);
	fold(&hash[K_OP_linear], d->out, ROWS * 32 * sizeof(float));
	fold(&hash[K_OP_linear], d->state, sizeof d->state);
	op = (struct k_op){
		.u.taylor = { .x = d->x, .out = d->out, .factor = 0.75f, .dim = 7, .heads = 2, .n = ROWS }
	};
	selfcheck_run(ctx, d, K_OP_taylor, &op);
	fold(&hash[K_OP_taylor], d->out, ROWS * 2 * 36 * sizeof(float));
}

#endif
