/* The known answers of the ops that RWKV-7 has for itself, of the rows that check_recurrence()
 * sets. Part of selfcheck.c. */
#ifndef CUTAWAY_KERNELS_SELFCHECK_SHIFT_H
#define CUTAWAY_KERNELS_SELFCHECK_SHIFT_H

static void check_token_shift(
	struct k_ctx *ctx, struct data *d, const struct k_state *state, uint64_t *hash)
{
	static const enum k_act acts[] = { K_ACT_tanh, K_ACT_sigmoid };
	struct k_op op = { .u.shift = { .x = d->up,
						   .mix = d->q,
						   .out = acts_out(d),
						   .ways = 1,
						   .n = ROWS,
						   .rows = d->state_row,
						   .state = state } };

	selfcheck_run(ctx, d, K_OP_shift, &op);
	fold_acts(hash, d);
	fold(hash, d->state, sizeof d->state);
	op.u.shift.ways = 2; /* of a width that is no multiple of 32 */
	op.u.shift.out = k_floats(d->out, DIM - 1);
	selfcheck_run(ctx, d, K_OP_shift, &op);
	fold(hash, d->out, ROWS * 2 * (DIM - 1) * sizeof(float));
	for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
		op = (struct k_op){ .u.activate = {
								.x = d->x, .out = acts_out(d), .act = acts[i], .n = ROWS } };
		selfcheck_run(ctx, d, K_OP_activate, &op);
		fold_acts(hash, d);
	}
}

/* Results of erase go to kv, which nothing reads any more: decay, keys, values, away, back. */
static float *check_part(struct data *d, int part)
{
	return (float *)(void *)d->kv + part * ROWS * 36;
}

static void check_erase(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	struct k_op op = { .u.erase = { .w = check_part(d, 0),
						   .a = d->x,
						   .k = check_part(d, 1),
						   .v = check_part(d, 2),
						   .share = d->up,
						   .first = d->q,
						   .key_scale = d->w,
						   .key_rate = d->bias,
						   .away = check_part(d, 3),
						   .back = check_part(d, 4),
						   .heads = 3,
						   .size = 12,
						   .n = ROWS } };

	fill(check_part(d, 0), 3 * ROWS * 36, 10);
	selfcheck_run(ctx, d, K_OP_erase, &op);
	fold(hash, d->kv, 5 * ROWS * 36 * sizeof(float));
}

/* Heads narrower than a unit, then one as wide; states are wide, so they are in kv too. */
static void check_wkv(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	static const int32_t shapes[][2] = { { 3, 12 }, { 1, 32 } };
	const struct k_state state = { .base = (uint8_t *)check_part(d, 8), .page_bytes = 4096 };

	fill(check_part(d, 8), STATE_PAGES * 1024, 11);
	for (int i = 0; i < 2; i++) {
		struct k_op op = { .u.wkv = { .q = d->q,
							   .k = check_part(d, 1),
							   .v = check_part(d, 2),
							   .decay = check_part(d, 0),
							   .away = check_part(d, 3),
							   .back = check_part(d, 4),
							   .out = d->out,
							   .room = check_part(d, 8) + STATE_PAGES * 1024,
							   .heads = shapes[i][0],
							   .size = shapes[i][1],
							   .n = ROWS,
							   .rows = d->state_row,
							   .state = &state } };

		selfcheck_run(ctx, d, K_OP_wkv, &op);
		fold(hash, d->out, (size_t)(ROWS * shapes[i][0] * shapes[i][1]) * sizeof(float));
		fold(hash, check_part(d, 8), STATE_PAGES * 4096);
	}
}

static void check_shift(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	const struct k_state state = { .base = (uint8_t *)d->state,
		.page_bytes = sizeof d->state / STATE_PAGES };
	struct k_op op = { .u.bonus = { .x = d->x,
						   .q = d->q,
						   .k = d->up,
						   .v = d->x + ROWS * DIM,
						   .gate = d->residual,
						   .w = d->w,
						   .b = d->q,
						   .weight = d->up,
						   .eps = 64e-5f,
						   .heads = 2,
						   .size = 16,
						   .n = ROWS,
						   .out = {
							   .x = d->out, .q = d->q8, .d = d->d, .sx = d->sx, .dim = 32 } } };

	check_token_shift(ctx, d, &state, &hash[K_OP_shift]);
	check_erase(ctx, d, &hash[K_OP_erase]);
	check_wkv(ctx, d, &hash[K_OP_wkv]);
	selfcheck_run(ctx, d, K_OP_bonus, &op);
	fold_acts(&hash[K_OP_bonus], d);
}

#endif
