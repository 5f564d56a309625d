/* A program's ops as calls with the device's addresses: see stage.h and cuda.h.
 *
 * An op's pointers to memory of the back end are the device's already (cuda.c). The others point to
 * the host's own structures: matrices, which never change and are copied once, and inputs of each
 * run (inputs.c). Thread: the engine's. */
#include <stdlib.h>
#include <string.h>

#include "kernels/attend.h"
#include "kernels/cuda/cuda.h"

enum { SCRATCH = 64 << 20 };

struct lowering {
	struct cu_device *c;
	struct cu_program *g;
	struct err *e;
};

static const void *lower_put(struct lowering *l, struct cu_input in)
{
	return cu_add_input(l->c, l->g, &in, l->e);
}

static const void *plain(struct lowering *l, const void *from, int32_t count, size_t size)
{
	return from && count
			   ? lower_put(l, (struct cu_input){ .from = from, .bytes = (size_t)count * size })
			   : NULL;
}

static const int32_t *const *tables(struct lowering *l, const int32_t *const *pages,
	const struct k_row *rows, int32_t n, const struct k_kv *kv)
{
	return kv ? lower_put(l, (struct cu_input){ .kind = CU_TABLES,
								 .from = pages,
								 .bytes = (size_t)n * sizeof *pages,
								 .rows = rows,
								 .kv = kv,
								 .n = n })
			  : NULL;
}

static const struct cu_tiles *tiles(struct lowering *l, const struct k_attention *a)
{
	return lower_put(l, (struct cu_input){ .kind = CU_TILES,
							.from = a->ranges,
							.bytes = sizeof(struct cu_tiles),
							.masks = cu_masks_of(a) });
}

/* ---- ops ---- */

/* Copies the matrix to where the device will have it, and returns that address. */
static const struct k_matrix *matrix(struct lowering *l, const struct k_matrix *w)
{
	const size_t at = l->g->n_matrices++;

	l->g->matrix[at] = *w;
	return (const struct k_matrix *)(uintptr_t)l->g->blob.at + at;
}

static const struct k_matrix *matrices(struct lowering *l, const struct k_matrix *w, int32_t n)
{
	const struct k_matrix *first = matrix(l, w);

	for (int32_t i = 1; i < n; i++)
		matrix(l, w + i);
	return first;
}

/* The matrices that move_op() copies, at most. */
static size_t n_matrices(const struct k_program *p)
{
	size_t n = 0;

	for (int32_t i = 0; i < p->n_ops; i++)
		n += p->op[i].kind == K_OP_experts ? (size_t)p->op[i].u.experts.n_experts : 1;
	return n;
}

/* The block tables of an op: before the rows, which tell their sizes. */
static void move_tables(struct lowering *l, struct k_op *op)
{
#define TABLE(pages, kv) pages = tables(l, pages, paged->rows, paged->n, kv);
#define X(name)                                                                                    \
	if (op->kind == K_OP_##name) {                                                                 \
		struct k_##name *paged = &op->u.name;                                                      \
		K_TABLES_##name(TABLE, paged)                                                              \
	}
	K_PAGED_KINDS(X)
#undef X
#undef TABLE
}

/* Replaces the host's pointers in op by the device's; lower_product() those of matrices. */
static void move_op(struct lowering *l, struct k_op *op)
{
	move_tables(l, op);
	if (op->kind == K_OP_embed)
		op->u.embed.w = matrix(l, op->u.embed.w);
	switch (op->kind) {
#define PLACE(pointer, count) pointer = plain(l, pointer, (int32_t)(count), sizeof *pointer);
#define X(name)                                                                                    \
	case K_OP_##name: {                                                                            \
		struct k_##name *a = &op->u.name;                                                          \
		(void)a;                                                                                   \
		K_INPUTS_##name(PLACE, a) break;                                                           \
	}
		K_KINDS(X)
#undef X
#undef PLACE
	case K_N_KINDS: break;
	}
}

/* With the device's pointers; zeros where there is none. */
static struct k_op moved(struct lowering *l, const struct k_op *op)
{
	struct k_op to = { 0 };

	if (op) {
		to = *op;
		move_op(l, &to);
	}
	return to;
}

/* ---- the whole ---- */

static int32_t most_calls(const struct k_op *op)
{
	return op->kind == K_OP_matmul      ? op->u.matmul.n_parts
		   : op->kind == K_OP_attention ? K_MATRIX_PASSES
										: cu_n_phases(op);
}

static struct cu_call *add_call(struct lowering *l, enum k_kind kind, int32_t index)
{
	struct cu_program *g = l->g;
	struct cu_call *call = &g->call[g->n_calls];

	memset(call, 0, sizeof *call);
	call->kind = kind;
	g->op[g->n_calls++] = index;
	return call;
}

static void plan_product(struct lowering *l, struct cu_call *call, enum k_type type)
{
	call->type = type;
	call->way = cu_plan(&call->arg.product, type, l->c->n_processors, &call->blocks);
	call->shared_bytes = call->arg.product.shared_bytes;
}

/* A product with what is folded in front, and the SwiGLU that joins it, or NULL. */
static void lower_product(struct lowering *l, const struct k_op *before, const struct k_op *op,
	const struct k_op *after, int32_t index)
{
	const struct k_matmul *a = &op->u.matmul;
	const struct k_op front = moved(l, before);

	for (int32_t part = 0; part < a->n_parts;) {
		struct cu_call *call = add_call(l, K_OP_matmul, index);
		const enum k_type type = a->part[part].w->type;

		part = cu_product_run(a, part, before ? &front.u.norm : NULL, after ? &after->u.glu : NULL,
			&call->arg.product);
		plan_product(l, call, type);
	}
}

static struct cu_call *lower_op(
	struct lowering *l, const struct k_op *op, int32_t phase, int32_t index)
{
	struct cu_device *c = l->c;
	struct cu_call *call = add_call(l, op->kind, index);
	struct cu_stage *s = &call->arg.stage;

	s->op = moved(l, op);
	s->phase = phase;
	s->work = cu_work_of(c);
	call->blocks = cu_op_blocks(op, c->most_blocks[op->kind]);
	call->shared_bytes = cu_op_shared(op->kind);
	return call;
}

static void lower_defined(struct lowering *l, const struct k_op *op, int32_t pass, int32_t index)
{
	struct cu_call *call = lower_op(l, op, pass, index);

	call->defined = true;
	call->shared_bytes = K_ROOM_BYTES;
}

static void lower_attention(
	struct lowering *l, const struct k_op *before, const struct k_op *op, int32_t index)
{
	const struct cu_masks s = cu_masks_of(&op->u.attention);
	const bool fast = cu_attends_fast(&op->u.attention);
	const int kernels = fast ? cu_attend_kernels(&s) : 0;
	const struct cu_tiles *split = fast ? tiles(l, &op->u.attention) : NULL;
	struct k_op own, front;

	for (int32_t pass = 0; pass < (fast ? 0 : k_attend_passes(&op->u.attention)); pass++)
		lower_defined(l, op, pass, index);
	own = moved(l, op);
	front = moved(l, before);
	for (int many = 0; many < 2; many++) {
		struct cu_call *call;

		if (!(kernels & (many ? CU_ATTEND_MANY : CU_ATTEND_FEW)))
			continue;
		call = add_call(l, op->kind, index);
		call->many = many;
		call->arg.attention = cu_attention_of(&s, &own.u.attention, before ? &front.u.rope : NULL);
		call->arg.attention.tiles = split;
		call->arg.attention.ticket = (uint32_t *)(uintptr_t)l->c->tickets.at;
		call->arg.attention.scratch = (unsigned char *)(uintptr_t)l->c->scratch.at;
		call->blocks = cu_op_blocks(op, l->c->most_blocks[op->kind]);
		call->shared_bytes = CU_SHARED_BYTES;
	}
}

static void lower_ops(struct lowering *l, const struct k_program *p)
{
	l->g->n_calls = 0;
	l->g->n_matrices = 0;
	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_op *op = &p->op[i], *before = NULL;

		if (i + 1 < p->n_ops && cu_folds(op, op + 1)) {
			before = op++;
			i++;
		}
		if (op->kind == K_OP_matmul) {
			const bool joins = i + 1 < p->n_ops && cu_joins(op, op + 1);

			lower_product(l, before, op, joins ? op + 1 : NULL, i);
			i += joins;
		} else if (op->kind == K_OP_experts) {
			const struct k_experts *a = &op->u.experts;
			struct cu_call *call = add_call(l, op->kind, i);

			cu_product_experts(a, matrices(l, a->w, a->n_experts), &call->arg.product);
			plan_product(l, call, a->w->type);
		} else if (op->kind == K_OP_attention) {
			lower_attention(l, before, op, i);
		} else {
			for (int32_t phase = 0; phase < cu_n_phases(op); phase++)
				lower_op(l, op, phase, i);
		}
	}
}

/* Each product asks for the weights of the next, and attention for those of the next two, if they
 * are in front of the next attention. */
static void lower_next(struct cu_program *g)
{
	struct cu_call *before = NULL, *attention = NULL;

	for (int32_t i = 0; i < g->n_calls; i++) {
		struct cu_call *call = &g->call[i];

		if (call->kind == K_OP_attention && !call->defined)
			attention = call;
		if (call->kind != K_OP_matmul)
			continue;
		if (attention)
			cu_plan_ahead(&attention->arg.attention, &call->arg.product, call->type);
		if (before)
			cu_plan_next(&before->arg.product, &call->arg.product, call->type);
		before = call;
	}
}

/* What all calls share: tickets, scratch, the clock. */
static int reserve(struct cu_device *c, const struct k_program *p, int32_t n_calls, struct err *e)
{
	size_t tickets = 0, scratch = SCRATCH;

	for (int32_t i = 0; i < p->n_ops; i++) {
		const size_t t = (size_t)cu_tickets(&p->op[i]) * sizeof(uint32_t);
		const size_t s = (size_t)cu_scratch_least(&p->op[i]);

		tickets = t > tickets ? t : tickets;
		scratch = s > scratch ? s : scratch;
	}
	if (cu_grow(c, &c->tickets, tickets + 4096, "tickets", e) ||
		cu_grow(c, &c->scratch, scratch, "partial results; try a smaller --budget", e) ||
		(!c->input.bytes && cu_grow_input(c, 1, e)))
		return -1;
	if (n_calls + 1 > c->clock_cap) {
		void *host = cu_alloc_pinned(
			c, (size_t)(n_calls + 1) * 2 * sizeof *c->clock_host, "the clock of the stages", e);
		if (!host || cu_grow_own(c, &c->clocks, (size_t)(n_calls + 1) * 2 * sizeof *c->clock_host,
						 "the clock of the stages", e)) {
			if (host)
				c->d->host_free(host);
			return -1;
		}
		if (c->clock_host)
			c->d->host_free(c->clock_host);
		c->clock_host = host;
		c->clock_cap = (n_calls + 1) * 2;
		cu_drop_programs(c);
	}
	return 0;
}

static int size_program(struct lowering *l, const struct k_program *p, int32_t n_calls)
{
	struct cu_program *g = l->g;
	const size_t n = n_matrices(p);

	if (g->cap_matrices < n) {
		free(g->matrix);
		g->matrix = malloc(n * sizeof *g->matrix);
		g->cap_matrices = g->matrix ? n : 0;
	}
	if (g->cap_calls < n_calls) {
		free(g->call);
		free(g->op);
		g->call = malloc((size_t)n_calls * sizeof *g->call);
		g->op = malloc((size_t)n_calls * sizeof *g->op);
		g->cap_calls = g->call && g->op ? n_calls : 0;
	}
	if (!g->matrix || !g->cap_calls)
		return err_no_memory(l->e, "a step of %d kernels", n_calls);
	return cu_grow_own(l->c, &g->blob, n * sizeof *g->matrix, "the matrices of a step", l->e);
}

static void drop(struct cu_device *c, struct cu_program *g)
{
	g->version = 0;
	for (int timed = 0; timed < 2; timed++) {
		if (g->graph[timed])
			c->d->graph_drop(g->graph[timed]);
		g->graph[timed] = NULL;
	}
}

void cu_drop_programs(struct cu_device *c)
{
	for (int i = 0; i < CU_KEPT_PROGRAMS; i++)
		drop(c, &c->program[i]);
}

void cu_free_programs(struct cu_device *c)
{
	cu_drop_programs(c);
	for (int i = 0; i < CU_KEPT_PROGRAMS; i++) {
		struct cu_program *g = &c->program[i];

		if (g->blob.at)
			c->d->memory_free(g->blob.at);
		free(g->matrix);
		free(g->call);
		free(g->op);
		memset(g, 0, sizeof *g);
	}
}

/* The kept program of this version, or else the least recently used one, emptied. */
static struct cu_program *choose(struct cu_device *c, uint64_t version)
{
	struct cu_program *g = &c->program[0];

	for (int i = 0; i < CU_KEPT_PROGRAMS; i++) {
		if (version && c->program[i].version == version)
			return &c->program[i];
		if (c->program[i].used < g->used)
			g = &c->program[i];
	}
	drop(c, g);
	return g;
}

struct cu_program *cu_lower(struct cu_device *c, const struct k_program *p, struct err *e)
{
	struct cu_program *g = choose(c, p->version);
	struct lowering l = { .c = c, .g = g, .e = e };
	int32_t n_calls = 0;
	CUresult r;

	g->used = ++c->n_runs;
	if (p->version && g->version == p->version)
		return g;
	for (int32_t i = 0; i < p->n_ops; i++)
		n_calls += most_calls(&p->op[i]);
	g->n_inputs = 0;
	g->input_bytes = 0;
	if (reserve(c, p, n_calls, e) || size_program(&l, p, n_calls))
		return NULL;
	lower_ops(&l, p);
	lower_next(g);
	if (e->code)
		return NULL;
	/* and waits, so that the host's copy may be overwritten at once */
	r = c->d->copy_in(g->blob.at, g->matrix, g->n_matrices * sizeof *g->matrix, c->stream);
	if (cu_finish(c, r, "copying a step to the device", e))
		return NULL;
	g->version = p->version;
	return g;
}
