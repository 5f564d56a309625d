/* See draft_cost.h. */
#include "engine/draft/draft_cost.h"

#include <string.h>

#include "base/clock.h"

enum {
	/* every number of rows up to here: a chain of DRAFT_MAX and the newest token */
	DENSE = 17,
	MAX_BLOCKS = 512, /* of the made-up sequence */
	DEEP = 256,
};
static const int32_t coarse[] = { 20, 24, 28, 32, 40, 48, 56, 64 };
/* No round begins later; the first always runs in full. */
#define ROUNDS_NS 500e6
enum { ROUNDS = 3 };
/* A step that takes longer ends the list: later points follow the last slope. */
#define TOO_LONG_NS 300e6

/* The deepest position at which draft_cost_run() can run so many rows. */
static int32_t draft_cost_deepest(const struct memory *memory, int32_t ctx, int32_t rows)
{
	int32_t room = memory->pages[0].n_scratch * memory->page_size, most = ctx < room ? ctx : room;

	return most > rows ? most - rows : 0;
}

/* Rows that a step has room for: on a device only those of the budget (forward.h). */
static int32_t most_rows(const struct forward *f)
{
	return f->max_rows < f->max_out ? f->max_rows : f->max_out;
}

/* Positions before the rows are read from pages that hold numbers; their values make no difference
 * to the time. */
static void fill_sequence(struct forward *f, int32_t rows, int32_t depth)
{
	f->n_rows = f->n_out = rows;
	f->n_observed = f->n_also = 0;
	f->n_items = 1;
	f->item_row[0] = 0;
	for (int32_t i = 0; i < rows; i++) {
		f->ids[i] = i % f->model->config.vocab;
		f->rows[i] = (struct k_row){ .pos = depth + i, .seq = 0, .observe = -1 };
		f->out_row[i] = i;
	}
}

/* One step of so many rows, after so many tokens; writes what the kernels took. */
static int draft_cost_run(struct forward *f, struct memory *memory, int32_t rows, int32_t depth,
	double *ns, struct err *e)
{
	int32_t table[MEMORY_GROUPS][MAX_BLOCKS], n = (depth + rows - 1) / memory->page_size + 1;
	int64_t start;

	for (int32_t g = 0; g < memory->spec.n; g++) {
		for (int32_t b = 0; b < MAX_BLOCKS; b++)
			table[g][b] = memory->pages[g].n_pages + (b < n ? b % memory->pages[g].n_scratch : 0);
		f->pages[g][0] = table[g];
		if (memory->spec.group[g].kind->is_state)
			memory_chain(memory->page_size, table[g], depth, rows, f->state[g]);
	}
	fill_sequence(f, rows, depth);
	start = now_ns();
	if (forward_run(f, false, e))
		return -1;
	*ns = (double)(now_ns() - start);
	return 0;
}

/* ---- measuring ---- */

static int measure_point(
	struct draft_cost *c, int32_t i, struct forward *f, struct memory *memory, struct err *e)
{
	struct draft_cost_point *p = &c->point[i];
	double ns;

	if (draft_cost_run(f, memory, p->rows, p->depth, &ns, e))
		return -1;
	p->ns = p->runs && p->ns < ns ? p->ns : ns;
	p->runs++;
	return 0;
}

/* Every scratch page gets the numbers of the first, so that depth reads as much memory as in a real
 * step. */
static int write_pages(struct forward *f, struct memory *memory, struct err *e)
{
	int32_t size = memory->page_size;
	double ns;

	if (draft_cost_run(f, memory, size, 0, &ns, e))
		return -1;
	for (int32_t g = 0; g < memory->spec.n; g++)
		for (int32_t i = 1; i < memory->pages[g].n_scratch; i++)
			pages_copy(&memory->pages[g], memory->pages[g].n_pages + i, memory->pages[g].n_pages);
	return 0;
}

/* t(K, d) = f(K) + d (a + b K), from one row and from eight. */
static int measure_depth(
	struct draft_cost *c, struct forward *f, struct memory *memory, int32_t ctx, struct err *e)
{
	int32_t most = draft_cost_deepest(memory, ctx, 8), depth = most < DEEP ? most : DEEP;
	struct draft_cost_point *one = &c->point[c->n], *eight = one + 1;
	double per_one, per_eight;

	if (depth < 64 || memory->page_size > most_rows(f))
		return 0;
	if (write_pages(f, memory, e))
		return -1;
	*one = (struct draft_cost_point){ .rows = 1, .depth = depth };
	*eight = (struct draft_cost_point){ .rows = 8, .depth = depth };
	for (int round = 0; round < 3; round++)
		if (measure_point(c, c->n, f, memory, e) || measure_point(c, c->n + 1, f, memory, e))
			return -1;
	c->n += 2;
	per_one = (one->ns - c->ns[1]) / depth;
	per_eight = (eight->ns - c->ns[8]) / depth;
	c->row_depth = (per_eight - per_one) / 7;
	c->row_depth = c->row_depth < 0 ? 0 : c->row_depth;
	c->step_depth = per_one - c->row_depth;
	c->step_depth = c->step_depth < 0 ? 0 : c->step_depth;
	return 0;
}

/* Interpolates the table between the points of no depth. */
static void interpolate(struct draft_cost *c)
{
	const struct draft_cost_point *p = c->point;
	int32_t i = 0;

	for (int32_t rows = 1; rows <= DRAFT_COST_ROWS; rows++) {
		while (i + 1 < c->n && p[i + 1].rows <= rows)
			i++;
		if (p[i].rows == rows || c->n == 1) {
			c->ns[rows] = p[i].ns;
		} else {
			const struct draft_cost_point *a = i + 1 < c->n ? &p[i] : &p[i - 1];
			double slope = (a[1].ns - a->ns) / (a[1].rows - a->rows);

			c->ns[rows] = a->ns + (rows - a->rows) * (slope > 0 ? slope : 0);
		}
	}
	/* more rows take no less: a value above a later one was disturbed */
	for (int32_t rows = DRAFT_COST_ROWS; rows-- > 1;)
		if (c->ns[rows] > c->ns[rows + 1])
			c->ns[rows] = c->ns[rows + 1];
}

/* Measures the points of one more round. */
static int measure_round(struct draft_cost *c, bool first, struct forward *f, struct memory *memory,
	int32_t ctx, struct err *e)
{
	int32_t room = draft_cost_deepest(memory, ctx, 0);
	int32_t most = room < most_rows(f) ? room : most_rows(f);
	int32_t n_coarse = (int32_t)(sizeof coarse / sizeof *coarse);

	for (int32_t i = 0; i < (first ? DENSE + n_coarse : c->n); i++) {
		if (first) {
			int32_t rows = i < DENSE ? i + 1 : coarse[i - DENSE];

			if (rows > most || rows > c->rows)
				return 0;
			c->point[c->n++] = (struct draft_cost_point){ .rows = rows };
		} else if (c->point[i].rows > DENSE) {
			return 0;
		}
		if (measure_point(c, i, f, memory, e))
			return -1;
		if (first && c->point[i].ns > TOO_LONG_NS)
			return 0;
	}
	return 0;
}

int draft_cost_measure(struct draft_cost *c, int32_t rows, struct forward *f, struct memory *memory,
	int32_t ctx, struct err *e)
{
	int64_t start = now_ns();
	int failed;
	double ns;

	*c = (struct draft_cost){ .rows = rows, .drift = 1 };
	if (draft_cost_run(f, memory, 1, 0, &ns, e)) /* warms up */
		return -1;
	do {
		failed = measure_round(c, !c->n, f, memory, ctx, e);
	} while (!failed && (double)(now_ns() - start) < ROUNDS_NS && c->point[0].runs < ROUNDS);
	if (!failed)
		interpolate(c);
	if (failed || (c->n > 7 && measure_depth(c, f, memory, ctx, e))) {
		c->n = c->rows = 0;
		return -1;
	}
	return 0;
}

/* ---- counting ---- */

void draft_cost_count(
	struct draft_cost *c, const double ns[DRAFT_COST_ROWS + 1], double weight_bytes)
{
	*c = (struct draft_cost){ .rows = DRAFT_COST_ROWS,
		.n = DENSE,
		.drift = 1,
		.counted = true,
		.weight_bytes = weight_bytes };
	memcpy(c->ns, ns, sizeof c->ns);
	for (int32_t i = 0; i < c->n; i++)
		c->point[i] = (struct draft_cost_point){ .rows = i + 1, .ns = ns[i + 1] };
}

int64_t draft_cost_now(const struct draft_cost *c)
{
	return c && c->counted ? (int64_t)c->clock_ns : now_ns();
}

static double bytes_of(const struct k_matrix *w)
{
	const struct k_type_info *t = &k_types[w->type];

	return (double)w->n_rows * (w->n_cols / t->block) * t->block_bytes;
}

void draft_cost_pass(struct draft_cost *c, const struct k_program *p)
{
	if (!c || !c->counted)
		return;
	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_matmul *m = &p->op[i].u.matmul;
		double bytes = 0;

		if (p->op[i].kind != K_OP_matmul)
			continue;
		for (int32_t k = 0; k < m->n_parts; k++)
			bytes += bytes_of(m->part[k].w);
		c->clock_ns += bytes / c->weight_bytes * draft_cost_ns(c, m->n, 0);
	}
}

/* ---- asking ---- */

static double of_table(const struct draft_cost *c, double rows, double depth)
{
	int32_t below = (int32_t)rows;
	double ns;

	if (!c->n)
		return 0;
	below = below < 1 ? 1 : below >= DRAFT_COST_ROWS ? DRAFT_COST_ROWS - 1 : below;
	ns = c->ns[below] + (rows - below) * (c->ns[below + 1] - c->ns[below]);
	return ns + depth * (c->step_depth + rows * c->row_depth);
}

double draft_cost_ns(const struct draft_cost *c, double rows, double depth)
{
	return of_table(c, rows, depth) * c->drift;
}

void draft_cost_note(
	struct draft_cost *c, int32_t rows, double depth, double kernel_ns, double ns, int32_t tokens)
{
	const double part = 1 / 32.0;
	double told = of_table(c, rows, depth), outside = (ns - kernel_ns) / (tokens > 0 ? tokens : 1);

	if (c->counted) {
		c->clock_ns += told;
		return;
	}
	if (told <= 0 || kernel_ns > 8 * told) /* a step that was suspended is no measure */
		return;
	c->drift += part * (kernel_ns / told - c->drift);
	c->token_ns += c->token_ns > 0 ? part * (outside - c->token_ns) : outside;
}
