/* Prices from measured steps. See cost.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/median.h"
#include "fold/timeline.h"
#include "sessions/whatif/cost.h"
#include "trace/reader.h"

enum {
	FEW = 32,       /* steps; of fewer prices would say nothing */
	MANY = 1 << 24, /* steps that are kept */
	BLOCK = 16,     /* steps that are fitted to, or held out, together: of each a half at least */
	REWEIGHTED = 8, /* times that weights are computed anew */
	ROUNDS = 10000, /* of coordinate descent, at most */
	N = N_COST_TERMS,
};
#define LEAST 1e-3 /* of a step's measured time, that it is taken to cost */

/* ---- steps ---- */

static void take_memory(struct cost_rows *r, const struct ev_memory *m)
{
	const bool state = m->kind == EV_MEMORY_KIND_recurrent || m->kind == EV_MEMORY_KIND_kept;

	if (!state && m->page_size > 0 && m->page_bytes > 0)
		r->token_bytes += m->page_bytes / m->page_size;
}

static void take_model(struct cost_rows *r, const struct event *ev)
{
	struct cost_model *m = &r->model;

	if (ev->kind == EV_session) {
		m->layers = (double)ev->u.session.n_layers;
		m->kv_heads = (double)ev->u.session.n_kv_heads;
		m->head_dim = (double)ev->u.session.head_dim;
		m->split = (struct tl_split){ 1, 1, 1, 1 };
	} else if (ev->kind == EV_rank) {
		tl_split_add(&m->split, &ev->u.rank);
	} else if (ev->kind == EV_product && m->n_products < TL_PRODUCTS) {
		m->n_products += tl_product_of(&m->product[m->n_products], &ev->u.product);
	}
}

/* What ranks split: products, and attention. */
static bool is_parallel(uint64_t stage)
{
	return stage == EV_STAGE_qkv || stage == EV_STAGE_attention || stage == EV_STAGE_out ||
		   stage == EV_STAGE_gate_up || stage == EV_STAGE_down || stage == EV_STAGE_head;
}

static double parallel_ns(struct ev_span stages)
{
	struct ev_stage_time t;
	double ns = 0;

	for (size_t i = 0; ev_item(stages, i, &t, sizeof t); i++)
		ns += is_parallel(t.stage) ? (double)t.ns : 0;
	return ns;
}

/* Moving bytes takes all as long: what one exchanges longer than another, it waited. */
static void take_traffic(struct cost_rows *r, const struct ev_traffic *t)
{
	struct cost_exchange *x = &r->exchange;
	const double ns = (double)t->exchange_ns - (t->slowed_ns > 0 ? (double)t->slowed_ns : 0);

	if (t->exchanges < 1 || r->model.split.ranks < 2)
		return;
	x->n = (double)t->exchanges;
	x->bytes = fmax(x->bytes, (double)t->sent / (r->model.split.ranks - 1));
	x->ns = x->ns > 0 ? fmin(x->ns, ns) : ns;
}

/* The normal equations of ns = n · exchange_ns + bytes · byte_ns, relative to ns. */
static void add_exchange(struct cost_rows *r)
{
	const struct cost_exchange *x = &r->exchange;
	const double n = x->n / x->ns, bytes = x->bytes / x->ns;

	if (x->n > 0 && x->ns > 0) {
		r->line[0] += n * n;
		r->line[1] += n * bytes;
		r->line[2] += bytes * bytes;
		r->line[3] += n;
		r->line[4] += bytes;
	}
	r->exchange = (struct cost_exchange){ 0 };
}

static void fit_exchange(struct cost_model *m, const double line[5])
{
	const double det = line[0] * line[2] - line[1] * line[1];
	const bool two = det > 1e-6 * line[0] * line[2];
	const double byte = two ? (line[0] * line[4] - line[1] * line[3]) / det : 0;

	m->byte_ns = fmax(byte, 0);
	m->exchange_ns = line[0] > 0 ? fmax((line[3] - m->byte_ns * line[1]) / line[0], 0) : 0;
}

static void add_row(struct cost_rows *r, struct cost_row row)
{
	if (r->n == MANY || !ARRAY_ROOM(r->row, r->cap, r->n + 1))
		r->no_memory = true;
	else
		r->row[r->n++] = row;
}

static void take_step(struct cost_rows *r, const struct event *ev)
{
	const struct ev_step *s = &ev->u.step;
	const double since = (double)ev->t_ns - (double)r->ended_ns;
	const bool waits = r->prefill; /* between two steps, perhaps for a prompt */
	const double ns = fmax((double)s->ns, r->busy && !waits ? since : 0);
	double exchange_ns;

	r->ended_ns = ev->t_ns;
	r->busy = s->running > 0 || s->waiting > 0;
	exchange_ns = r->exchange.ns;
	add_exchange(r);
	if (s->ns <= 0 || !r->now.rows)
		return;
	r->timed_ns += r->now_parallel_ns > 0 ? ns : 0;
	r->parallel_ns += r->now_parallel_ns;
	r->now_parallel_ns = 0;
	add_row(r, (struct cost_row){ r->now, ns, exchange_ns });
}

/* All rows of a prompt's job, chunk by chunk, on a rank that does nothing else. */
static void take_handover(struct cost_rows *r, const struct ev_handover *h)
{
	const int64_t most = 1 << 24;
	struct step_shape all = { .more = -1 };

	if (h->pos < 0 || h->pos > most || h->tokens < 1 || h->tokens > most - h->pos ||
		h->computed != h->tokens || h->start_ns < 0 || h->end_ns <= h->start_ns)
		return;
	for (int64_t pos = h->pos, rows, end = pos + h->tokens; pos < end; pos += rows, all.more++) {
		rows = r->chunk > 0 && r->chunk < end - pos ? r->chunk : end - pos;
		step_shape_add(&all, (int32_t)pos, (int32_t)rows, 0);
	}
	add_row(r, (struct cost_row){ all, (double)(h->end_ns - h->start_ns), 0 });
}

static void take_setting(struct cost_rows *r, const struct ev_setting *s)
{
	char value[16];

	ev_copy(value, sizeof value, s->value);
	if (ev_is(s->name, "prefill-chunk"))
		sscanf(value, "%" SCNd32, &r->chunk);
	if (ev_is(s->name, "prefill-ranks"))
		sscanf(value, "%" SCNd32, &r->prefill);
}

void cost_take(void *rows, const struct event *ev)
{
	struct cost_rows *r = rows;

	take_model(r, ev);
	if (ev->kind == EV_memory)
		take_memory(r, &ev->u.memory);
	if (ev->kind == EV_time)
		r->now_parallel_ns = parallel_ns(ev->u.time.stages);
	if (ev->kind == EV_traffic)
		take_traffic(r, &ev->u.traffic);
	if (ev->kind == EV_setting)
		take_setting(r, &ev->u.setting);
	if (ev->kind == EV_handover)
		take_handover(r, &ev->u.handover);
	if (!step_shape_event(&r->now, ev))
		return;
	take_step(r, ev);
	r->now = (struct step_shape){ 0 };
}

void cost_model_of(struct cost_model *m, const struct cost_rows *r)
{
	*m = r->model;
	m->parallel = r->timed_ns > 0 ? fmin(r->parallel_ns / r->timed_ns, 1) : 0;
	fit_exchange(m, r->line);
}

int cost_take_recording(struct cost_rows *rows, const char *path, struct err *e)
{
	const uint64_t kinds = EV_BIT(session) | EV_BIT(memory) | EV_BIT(product) | EV_BIT(rank) |
						   EV_BIT(batch) | EV_BIT(token) | EV_BIT(score) | EV_BIT(traffic) |
						   EV_BIT(time) | EV_BIT(setting) | EV_BIT(handover) | EV_BIT(step);

	if (reader_each(path, kinds, 0, cost_take, rows, e))
		return -1;
	return rows->no_memory ? err_set(e, ERR_MEMORY, "%s: no memory for its steps", path) : 0;
}

void cost_rows_free(struct cost_rows *rows)
{
	free(rows->row);
	memset(rows, 0, sizeof *rows);
}

/* ---- the fit ---- */

/* Which steps: all; those of even blocks, of odd ones. */
enum part { ALL, EVEN, ODD };

static bool is_in(enum part part, int32_t i)
{
	return part == ALL || (i / BLOCK % 2 == 0) == (part == EVEN);
}

/* The normal equations, each step weighed by 1 / its predicted time, squared: that minimises
 * relative errors, and yet aims at the mean of equal steps, which a weight by the measured time
 * would miss on the low side. A step that so far costs next to nothing has no weight without
 * bound. */
static void normal_equations(
	const struct cost *c, const struct cost_rows *r, enum part part, double a[N][N], double b[N])
{
	memset(a, 0, N * sizeof *a);
	memset(b, 0, N * sizeof *b);
	for (int32_t i = 0; i < r->n; i++) {
		double x[N], w, ns = cost_step_s(c, &r->row[i].shape) * 1e9;

		if (!is_in(part, i))
			continue;
		cost_terms_of(&r->row[i].shape, x);
		ns = fmax(ns, LEAST * r->row[i].ns);
		w = 1 / (ns * ns);
		for (int j = 0; j < N; j++) {
			for (int k = 0; k < N; k++)
				a[j][k] += w * x[j] * x[k];
			b[j] += w * x[j] * r->row[i].ns;
		}
	}
}

/* Least squares under k >= 0, by coordinates: each in turn to where the error is least, but not
 * below 0. The problem is convex, so that is the whole minimum (Franc et al. 2005). */
static void descend(double a[N][N], const double b[N], double k[N])
{
	for (int round = 0; round < ROUNDS; round++) {
		double most = 0;

		for (int j = 0; j < N; j++) {
			double gradient = -b[j], next;

			if (a[j][j] <= 0)
				continue;
			for (int i = 0; i < N; i++)
				gradient += a[j][i] * k[i];
			next = fmax(0, k[j] - gradient / a[j][j]);
			most = fmax(most, fabs(next - k[j]) * sqrt(a[j][j] / a[0][0]));
			k[j] = next;
		}
		if (most < 1e-9 * k[0] || most < 1e-6)
			break;
	}
}

static void fit(struct cost *c, const struct cost_rows *r, enum part part)
{
	double a[N][N], b[N], rows = 0, ns = 0;

	memset(c->ns, 0, sizeof c->ns);
	for (int32_t i = 0; i < r->n; i++) {
		rows += is_in(part, i) ? 1 + r->row[i].shape.rows : 0;
		ns += is_in(part, i) ? r->row[i].ns : 0;
	}
	c->ns[COST_step] = c->ns[COST_row] = ns / rows; /* to begin with: where weights are right */
	for (int i = 0; i < REWEIGHTED; i++) {
		normal_equations(c, r, part, a, b);
		descend(a, b, c->ns);
	}
}

static int compare(struct cost *c, const struct cost_rows *r, enum part part, double *error,
	double *predicted, double *measured)
{
	int n = 0;

	for (int32_t i = 0; i < r->n; i++) {
		const double ns = cost_step_s(c, &r->row[i].shape) * 1e9;

		if (!is_in(part, i))
			continue;
		*predicted += ns;
		*measured += r->row[i].ns;
		error[n++] = fabs(ns / r->row[i].ns - 1);
	}
	return n;
}

void cost_check(struct cost *c, const struct cost_rows *r)
{
	double *error = malloc(((size_t)r->n + 1) * sizeof *error), predicted = 0, measured = 0;
	int n = error ? compare(c, r, ALL, error, &predicted, &measured) : 0;

	c->error = n ? quantile_of(sorted_of(error, n), n, 0.5) : 0;
	c->bias = n ? predicted / measured - 1 : 0;
	free(error);
}

int cost_fit(struct cost *c, const struct cost_rows *r, struct err *e)
{
	double *error = malloc(((size_t)r->n + 1) * sizeof *error), predicted = 0, measured = 0;
	int n = 0;

	memset(c, 0, sizeof *c);
	if (!error)
		return err_no_memory(e, "%d steps", r->n);
	if (r->n < FEW) {
		free(error);
		return err_set(e, ERR_INPUT,
			"%d steps are too few to tell what one costs: record a run of %d at least", r->n, FEW);
	}
	for (int half = EVEN; half <= ODD; half++) {
		fit(c, r, half == EVEN ? ODD : EVEN);
		n += compare(c, r, (enum part)half, error + n, &predicted, &measured);
	}
	c->error = quantile_of(sorted_of(error, n), n, 0.5);
	c->bias = predicted / measured - 1;
	c->n_steps = r->n;
	c->token_bytes = (double)r->token_bytes;
	cost_model_of(&c->model, r);
	free(error);
	fit(c, r, ALL);
	return 0;
}
