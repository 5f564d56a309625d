/* The known answers of heavy hitters. Part of selfcheck.c. Thread: as there. */

/* Three ends of spans: at the last, eight groups are there for a budget of four. */
static void check_heavy(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	enum { MOST = 4, STRIDE = 4 };
	const struct k_state state = { .base = (uint8_t *)d->state,
		.page_bytes = sizeof d->state / STATE_PAGES };
	const struct k_row row[] = { { .pos = 127 }, { .pos = 255 }, { .pos = 383 } },
					   next = { .pos = 400 };
	const struct k_state_row states[] = { { K_STATE_ZERO, -1 }, { K_STATE_ROW, 0 }, { 0, 1 } };
	const struct k_state_row after = { .from = 1 };
	const int32_t keep[] = { MOST, MOST, MOST }, begins = 0;
	struct k_heavy heavy = { row, states, &state, 0, KV_HEADS, MOST, 3 };
	struct k_op op = { .u.account = { .of = heavy,
						   .share = d->x,
						   .keep = keep,
						   .room = d->out,
						   .share_stride = STRIDE * K_HEAVY_SPAN,
						   .n_heads = HEADS } };

	memset(d->state, 0, sizeof d->state);
	memset(d->ids, 0, sizeof d->ids);
	selfcheck_run(ctx, d, K_OP_account, &op);
	fold(&hash[K_OP_account], d->state, sizeof d->state);
	heavy.rows = &next;
	heavy.states = &after;
	heavy.n = 1;
	op = (struct k_op){ .u.recall = { heavy, &begins, (uint8_t *)d->ids, STRIDE } };
	selfcheck_run(ctx, d, K_OP_recall, &op);
	fold(&hash[K_OP_recall], d->ids, sizeof d->ids);
}
