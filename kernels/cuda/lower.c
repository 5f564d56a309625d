/* A program's ops as stages with the device's addresses: see stage.h and cuda.h.
 *
 * An op's pointers to memory of the back end are the device's already (cuda.c). The others point to
 * the host's own structures: matrices, which never change and are copied with the stages, and
 * inputs of each run (ids, rows, block tables, the cache's shape), which are gathered into one
 * piece before it, at fixed offsets. Thread: the engine's. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/plan.h"

enum { ALIGN = 64, TABLE_ALIGN = 16, SCRATCH = 64 << 20, INPUT = 1 << 20 };

static size_t align_up(size_t n, size_t to)
{
	return (n + to - 1) & ~(to - 1);
}

/* ---- inputs ---- */

static const struct cu_input *find_input(const struct cu_program *g, const struct cu_input *like)
{
	for (int32_t i = 0; i < g->n_inputs; i++)
		if (g->input[i].kind == like->kind && g->input[i].from == like->from &&
			g->input[i].bytes == like->bytes)
			return &g->input[i];
	return NULL;
}

struct lowering {
	struct cu_device *c;
	struct cu_program *g;
	struct err *e;
	size_t matrices_at, n_matrices; /* in the blob */
};

/* Registers an input of an op and returns its address on the device. */
static const void *lower_put(struct lowering *l, struct cu_input in)
{
	struct cu_program *g = l->g;
	const struct cu_input *have = find_input(g, &in);

	if (!have) {
		if (g->n_inputs == CU_MAX_INPUTS) {
			err_set(l->e, ERR_DEVICE, "a program with more than %d inputs", CU_MAX_INPUTS);
			return NULL;
		}
		in.at = g->input_bytes;
		g->input_bytes = align_up(in.at + in.bytes, ALIGN);
		g->input[g->n_inputs] = in;
		have = &g->input[g->n_inputs++];
	}
	return (const void *)(uintptr_t)(l->c->input.at + have->at);
}

static const void *plain(struct lowering *l, const void *from, size_t count, size_t size)
{
	return from ? lower_put(l, (struct cu_input){ .from = from, .bytes = count * size }) : NULL;
}

static const int32_t *const *tables(struct lowering *l, const int32_t *const *pages,
	const struct k_row *rows, int32_t n, const struct k_kv *kv)
{
	return lower_put(l, (struct cu_input){ .kind = CU_TABLES,
							.from = pages,
							.bytes = (size_t)n * sizeof *pages,
							.rows = rows,
							.kv = kv,
							.n = n });
}

static int32_t n_sequences(const struct cu_input *in)
{
	int32_t most = -1;

	for (int32_t r = 0; r < in->n; r++)
		most = in->rows[r].seq > most ? in->rows[r].seq : most;
	return most + 1;
}

/* Pages that the rows of a sequence see. */
static int32_t n_pages(const struct cu_input *in, int32_t seq)
{
	int32_t last = -1;

	for (int32_t r = 0; r < in->n; r++)
		if (in->rows[r].seq == seq && in->rows[r].pos > last)
			last = in->rows[r].pos;
	return last < 0 ? 0 : last / in->kv->page_size + 1;
}

/* Copies the block tables after `at`, and their addresses to where kernels read them; with host
 * NULL it only counts. */
static size_t gather_tables(
	const struct cu_device *c, const struct cu_input *in, size_t at, unsigned char *host)
{
	const int32_t *const *pages = in->from;

	for (int32_t s = 0, n = n_sequences(in); s < n; s++) {
		const size_t bytes = (size_t)n_pages(in, s) * sizeof **pages;

		if (host) {
			((uint64_t *)(void *)(host + in->at))[s] = c->input.at + at;
			memcpy(host + at, pages[s], bytes);
		}
		at = align_up(at + bytes, TABLE_ALIGN);
	}
	return at;
}

static int grow_input(struct cu_device *c, size_t bytes, struct err *e)
{
	void *host;

	bytes = align_up(bytes + bytes / 2, INPUT);
	host = cu_alloc_pinned(c, bytes, "the inputs of a step", e);
	if (!host)
		return -1;
	if (cu_grow(c, &c->input, bytes, "the inputs of a step", e)) {
		c->d->host_free(host);
		return -1;
	}
	if (c->input_host)
		c->d->host_free(c->input_host);
	c->input_host = host;
	return 0;
}

int cu_gather(struct cu_device *c, const struct cu_program *g, size_t *bytes, struct err *e)
{
	size_t end = g->input_bytes;

	for (int32_t i = 0; i < g->n_inputs; i++) {
		if (g->input[i].kind != CU_TABLES)
			continue;
		if (n_sequences(&g->input[i]) > g->input[i].n)
			return err_set(e, ERR_DEVICE, "a step whose rows name more sequences than it has rows");
		end = gather_tables(c, &g->input[i], end, NULL);
	}
	if (end > c->input.bytes)
		return grow_input(c, end, e) ? -1 : 1;
	*bytes = end;
	end = g->input_bytes;
	for (int32_t i = 0; i < g->n_inputs; i++) {
		const struct cu_input *in = &g->input[i];

		if (in->kind == CU_TABLES)
			end = gather_tables(c, in, end, c->input_host);
		else
			memcpy(c->input_host + in->at, in->from, in->bytes);
	}
	return 0;
}

/* ---- ops ---- */

/* Copies the matrix beside the stages and returns its address. */
static const struct k_matrix *matrix(struct lowering *l, const struct k_matrix *w)
{
	const size_t at = l->matrices_at + l->n_matrices++ * sizeof *w;

	memcpy(l->g->host + at, w, sizeof *w);
	return (const struct k_matrix *)(uintptr_t)(l->g->blob.at + at);
}

static const struct k_matrix *matrices(struct lowering *l, const struct k_matrix *w, int32_t n)
{
	const struct k_matrix *first = matrix(l, w);

	for (int32_t i = 1; i < n; i++)
		matrix(l, w + i);
	return first;
}

/* The most matrices that move_op() copies, with an op that is folded in front. */
static size_t n_matrices(const struct k_program *p)
{
	size_t n = 0;

	for (int32_t i = 0; i < p->n_ops; i++)
		n += p->op[i].kind == K_OP_experts ? (size_t)p->op[i].u.experts.n_experts : 2 * K_MAX_PARTS;
	return n;
}

/* Replaces the host's pointers in op by the device's. */
static void move_op(struct lowering *l, struct k_op *op)
{
	struct k_embed *embed = &op->u.embed;
	struct k_rope *rope = &op->u.rope;
	struct k_attention *a = &op->u.attention;

	switch (op->kind) {
	case K_OP_embed:
		embed->w = matrix(l, embed->w);
		embed->ids = plain(l, embed->ids, (size_t)embed->n, sizeof *embed->ids);
		break;
	case K_OP_norm:
		op->u.norm.pick = plain(l, op->u.norm.pick, (size_t)op->u.norm.n, sizeof *op->u.norm.pick);
		break;
	case K_OP_matmul:
		for (int32_t i = 0; i < op->u.matmul.n_parts; i++)
			op->u.matmul.part[i].w = matrix(l, op->u.matmul.part[i].w);
		break;
	case K_OP_rope:
		rope->pages = tables(l, rope->pages, rope->rows, rope->n, rope->kv);
		rope->rows = plain(l, rope->rows, (size_t)rope->n, sizeof *rope->rows);
		rope->also =
			rope->n_also ? plain(l, rope->also, (size_t)rope->n_also, sizeof *rope->also) : NULL;
		rope->kv = plain(l, rope->kv, 1, sizeof *rope->kv);
		break;
	case K_OP_attention:
		a->pages = tables(l, a->pages, a->rows, a->n, a->kv);
		a->rows = plain(l, a->rows, (size_t)a->n, sizeof *a->rows);
		a->ranges = plain(l, a->ranges, (size_t)(a->n * a->n_ranges), sizeof *a->ranges);
		a->kv = plain(l, a->kv, 1, sizeof *a->kv);
		break;
	case K_OP_stats:
		op->u.stats.ask = plain(l, op->u.stats.ask, (size_t)op->u.stats.n, sizeof *op->u.stats.ask);
		break;
	case K_OP_experts:
		op->u.experts.w = matrices(l, op->u.experts.w, op->u.experts.n_experts);
		break;
#define PLACE(pointer, count) pointer = plain(l, pointer, (size_t)(count), sizeof *pointer);
#define X(name, NAME)                                                                              \
	case K_OP_##name: {                                                                            \
		struct k_##name *plain_op = &op->u.name;                                                   \
		(void)plain_op;                                                                            \
		K_##NAME##_INPUTS(PLACE, plain_op) break;                                                  \
	}
		K_PLAIN_KINDS(X)
#undef X
#undef PLACE
#define X(name, ...) case K_OP_##name:
		K_HOST_KINDS(X)
#undef X
	case K_OP_glu:
	case K_N_KINDS: break;
	}
}

/* ---- the whole ---- */

static bool has_units(const struct k_op *op)
{
	return op->kind == K_OP_embed || op->kind == K_OP_norm || op->kind == K_OP_matmul ||
		   op->kind == K_OP_glu;
}

static void lower_op(struct lowering *l, const struct k_op *before, const struct k_op *op,
	int32_t phase, int32_t index)
{
	struct cu_device *c = l->c;
	struct cu_program *g = l->g;
	struct cu_launch *launch = &g->launch[g->n_stages];
	struct cu_stage *s =
		(struct cu_stage *)(void *)(g->host + 2 * sizeof(struct cu_step)) + g->n_stages++;
	const int most = c->mode == CU_MODE_persistent ? c->walk_blocks : c->most_blocks[op->kind];

	memset(s, 0, sizeof *s);
	s->op = *op;
	s->phase = phase;
	s->plan = op->kind == K_OP_matmul ? cu_matmul_plan(&op->u.matmul, most) : 0;
	s->n_parts = has_units(op) ? cu_op_units(op, s->plan) : c->most_blocks[op->kind];
	move_op(l, &s->op);
	if (before) {
		s->before = *before;
		s->folds = 1;
		move_op(l, &s->before);
	}
	launch->kind = op->kind;
	launch->op = index;
	launch->blocks = s->n_parts < 1 ? 1 : s->n_parts < most ? s->n_parts : most;
}

static void lower_ops(struct lowering *l, const struct k_program *p)
{
	l->g->n_stages = 0;
	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_op *op = &p->op[i], *before = NULL;

		if (i + 1 < p->n_ops && cu_folds(op, op + 1)) {
			before = op++;
			i++;
		}
		for (int32_t phase = 0; phase < cu_n_phases(op); phase++)
			lower_op(l, before, op, phase, i);
	}
}

/* What all stages share: tickets, scratch, the clock. */
static int reserve(struct cu_device *c, const struct k_program *p, int32_t n_stages, struct err *e)
{
	size_t tickets = 0, scratch = SCRATCH;

	for (int32_t i = 0; i < p->n_ops; i++) {
		const size_t t = (size_t)cu_tickets(&p->op[i]) * sizeof(uint32_t);
		const size_t s = (size_t)cu_scratch_least(&p->op[i]);

		tickets = t > tickets ? t : tickets;
		scratch = s > scratch ? s : scratch;
	}
	if (cu_grow(c, &c->barrier, 2 * sizeof(uint32_t), "the grid barrier", e) ||
		cu_grow(c, &c->tickets, tickets + 4096, "tickets", e) ||
		cu_grow(c, &c->scratch, scratch, "partial results; try a smaller --budget", e) ||
		(!c->input.bytes && grow_input(c, 1, e)))
		return -1;
	if (n_stages + 1 > c->clock_cap) {
		void *host = cu_alloc_pinned(
			c, (size_t)(n_stages + 1) * 2 * sizeof *c->clock_host, "the clock of the stages", e);
		if (!host)
			return -1;
		if (c->clock_host)
			c->d->host_free(c->clock_host);
		c->clock_host = host;
		c->clock_cap = (n_stages + 1) * 2;
		cu_drop_programs(c);
	}
	return 0;
}

/* Room for the stages on both sides. */
static int size_program(struct lowering *l, const struct k_program *p, int32_t n_stages)
{
	struct cu_program *g = l->g;
	size_t bytes;

	l->matrices_at =
		align_up(2 * sizeof(struct cu_step) + (size_t)n_stages * sizeof(struct cu_stage), ALIGN);
	bytes = l->matrices_at + n_matrices(p) * sizeof(struct k_matrix);
	if (g->host_bytes < bytes) {
		free(g->host);
		g->host = malloc(bytes);
		g->host_bytes = g->host ? bytes : 0;
	}
	if (g->cap_stages < n_stages) {
		free(g->launch);
		g->launch = malloc((size_t)n_stages * sizeof *g->launch);
		g->cap_stages = g->launch ? n_stages : 0;
	}
	if (!g->host || !g->launch)
		return err_set(l->e, ERR_MEMORY, "no memory for a step of %d stages", n_stages);
	return cu_grow(l->c, &g->blob, bytes, "the stages of a step", l->e);
}

static void write_steps(struct lowering *l)
{
	struct cu_device *c = l->c;
	struct cu_step step = {
		.stage = (const struct cu_stage *)(uintptr_t)(l->g->blob.at + 2 * sizeof step),
		.n_stages = l->g->n_stages,
		.barrier = (uint32_t *)(uintptr_t)c->barrier.at,
		.ticket = (uint32_t *)(uintptr_t)c->tickets.at,
		.n_tickets = (int32_t)(c->tickets.bytes / sizeof(uint32_t)),
		.scratch = (unsigned char *)(uintptr_t)c->scratch.at,
		.scratch_bytes = c->scratch.bytes,
	};

	memcpy(l->g->host, &step, sizeof step);
	step.clock = c->clock_host;
	memcpy(l->g->host + sizeof step, &step, sizeof step);
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
		free(g->host);
		free(g->launch);
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
	int32_t n_stages = 0;
	CUresult r;

	g->used = ++c->n_runs;
	if (p->version && g->version == p->version)
		return g;
	for (int32_t i = 0; i < p->n_ops; i++)
		n_stages += cu_n_phases(&p->op[i]);
	g->n_inputs = 0;
	g->input_bytes = 0;
	if (reserve(c, p, n_stages, e) || size_program(&l, p, n_stages))
		return NULL;
	lower_ops(&l, p);
	write_steps(&l);
	if (e->code)
		return NULL;
	r = c->d->copy_in(
		g->blob.at, g->host, l.matrices_at + l.n_matrices * sizeof(struct k_matrix), c->stream);
	if (!r)
		r = c->d->stream_wait(c->stream); /* so that the host's copy may be overwritten at once */
	if (r) {
		cu_lose(c, r, "copying a step to the device", e);
		return NULL;
	}
	g->version = p->version;
	return g;
}
