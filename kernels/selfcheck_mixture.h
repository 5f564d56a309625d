/* The known answers of a mixture's router and sum. Part of selfcheck.c. Thread: as there. */

static void check_mixture(struct k_ctx *ctx, struct data *d, uint64_t *hash)
{
	struct k_op op = { .u.route = { .logits = d->x,
						   .ids = d->ids,
						   .weights = d->out2[0],
						   .n_experts = 5,
						   .k = 1,
						   .n = ROWS } };

	selfcheck_run(ctx, d, K_OP_route, &op);
	fold(&hash[K_OP_route], d->ids, sizeof d->ids);
	op.u.route.k = 3;
	op.u.route.n = 2;
	selfcheck_run(ctx, d, K_OP_route, &op);
	fold(&hash[K_OP_route], d->ids, sizeof d->ids);
	fold(&hash[K_OP_route], d->out2[0], 6 * sizeof(float));
	for (int kind = K_ROUTE_all; kind <= K_ROUTE_sigmoid; kind++) {
		memcpy(d->out, d->up, sizeof d->up);
		op.u.route = (struct k_route){ .logits = d->out,
			.ids = d->chosen,
			.weights = d->out2[0],
			.n_experts = 24,
			.k = 3,
			.n = ROWS,
			.kind = (enum k_route_kind)kind,
			.norm = kind == K_ROUTE_sigmoid,
			.scale = 2.5f,
			.bias = kind == K_ROUTE_sigmoid ? d->w : NULL,
			.n_groups = kind == K_ROUTE_sigmoid ? 4 : 0,
			.used_groups = 2 };
		selfcheck_run(ctx, d, K_OP_route, &op);
		fold(&hash[K_OP_route], d->chosen, sizeof d->chosen);
		fold(&hash[K_OP_route], d->out2[0], 3 * ROWS * sizeof(float));
	}
	op = (struct k_op){
		.u.combine = { .y = d->x, .weights = d->up, .x = d->out, .dim = DIM, .k = 2, .n = 3 }
	};
	memset(d->out, 0, sizeof d->out);
	selfcheck_run(ctx, d, K_OP_combine, &op);
	fold(&hash[K_OP_combine], d->out, sizeof d->out);
	op.u.combine.shared = d->q;
	op.u.combine.gate = d->w;
	selfcheck_run(ctx, d, K_OP_combine, &op);
	fold(&hash[K_OP_combine], d->out, 3 * DIM * sizeof(float));
}
