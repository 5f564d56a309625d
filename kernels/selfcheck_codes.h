/* The known answers of formats of codes. Part of selfcheck.c. Thread: as there. */

/* Any bytes are codes, and these are finite scales,
 * too. */
static void fill_codes(struct data *d)
{
	uint16_t *at = (uint16_t *)d->kv;

	for (size_t i = 0; i < sizeof d->kv / sizeof *at; i++)
		at[i] = (uint16_t)(i * 2654435761u >> 13 & 0xbfff);
}

/* What rope stores in q8, what encode makes of f16. */
static void check_stored(struct k_ctx *ctx, struct data *d, struct k_kv *kv, uint64_t *hash)
{
	const struct k_kv recent = cache_of(d);
	const int32_t from[] = { 0, 0, 0, 0, 0 }, to[] = { 1, 1, 1, 1, 1 };
	const int32_t *read[1] = { from }, *written[1] = { to };
	struct k_op op = { .u.rope = { .q = d->q,
						   .k = d->kv_in[0],
						   .v = d->kv_in[1],
						   .cos = d->cos,
						   .sin = d->sin,
						   .rope_dim = HEAD_DIM,
						   .scale = 0.176776695f,
						   .n_heads = HEADS,
						   .n = ROWS,
						   .rows = d->row,
						   .pages = written,
						   .kv = kv,
						   .nan_row = &d->nan_row } };

	if (k_cache_by_channel((int32_t)kv->format))
		op = (struct k_op){ .u.encode = { .n = ROWS,
								.rows = d->row,
								.recent_pages = read,
								.pages = written,
								.recent = &recent,
								.kv = kv } };
	selfcheck_run(ctx, d, k_cache_by_channel((int32_t)kv->format) ? K_OP_encode : K_OP_rope, &op);
	fold(&hash[K_OP_encode], d->kv, sizeof d->kv);
}

/* Values that are a part of their keys, in each format. */
static void check_latent(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	const int32_t *tables[1] = { d->table };
	struct k_kv kv = cache_of(d);
	struct k_op op;

	kv.value_dim = HEAD_DIM / 2;
	for (kv.format = 0; kv.format < K_N_UNCODED; kv.format++) {
		fill_cache(d, (int32_t)kv.format);
		op = (struct k_op){ .u.attention = { .q = d->q,
								.out = { .x = d->out, .dim = DIM / 2 },
								.n_heads = HEADS,
								.n = ATTEND,
								.rows = d->row,
								.ranges = d->range,
								.n_ranges = 1,
								.pages = tables,
								.kv = &kv } };
		selfcheck_run(ctx, d, K_OP_attention, &op);
		fold(&hash[K_OP_encode], d->out, ATTEND * DIM / 2 * sizeof *d->out);
	}
}

static void check_codes(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	enum { DEEP = 300 };
	const struct k_kv recent = cache_of(d);
	const struct k_row row[] = { { .pos = K_RECENT + K_SPAN - 1, .observe = -1 },
		{ .pos = DEEP, .observe = -1 } };
	struct k_kv kv = cache_of(d);
	int32_t pages[DEEP / PAGE + 1];
	const int32_t *tables[1] = { pages };
	struct k_range range[2];
	struct k_op op;

	for (int i = 0; i <= DEEP / PAGE; i++)
		pages[i] = i % PAGES;
	kv.residual = K_RECENT;
	k_see_all(row, 2, range);
	for (kv.format = K_N_UNCODED; kv.format < K_N_CACHES; kv.format++) {
		fill_codes(d);
		fill(d->q, ROWS * DIM, 6);
		op = (struct k_op){ .u.attention = { .q = d->q,
								.out = acts_out(d),
								.n_heads = HEADS,
								.n = 2,
								.rows = row,
								.ranges = range,
								.n_ranges = 1,
								.pages = tables,
								.kv = &kv } };
		if (k_cache_by_channel((int32_t)kv.format)) {
			op.u.attention.recent = &recent;
			op.u.attention.recent_pages = tables;
		}
		selfcheck_run(ctx, d, K_OP_attention, &op);
		fold_acts(&hash[K_OP_encode], d);
		check_stored(ctx, d, &kv, hash);
	}
}
