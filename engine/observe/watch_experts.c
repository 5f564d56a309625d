/* Which experts rows use (event experts). See watch.h. */
#include "engine/observe/watch.h"

enum { HALF_LIFE = 16 };

struct used { /* of a request */
	int64_t rows;
	uint32_t *times; /* [layers][experts], of those of all */
	float *load_ema; /* likewise */
};
struct watch_experts {
	int32_t layers, n, most_used; /* n: experts */
	int64_t read, whole;
	struct used *of; /* [n_places] */
	uint32_t *times; /* [n_places][layers][n] */
	float *emas;     /* likewise */
	uint8_t *chosen; /* [layers][n] */
	uint16_t *load, *load_ema;
	float *entropy; /* [layers] */
};

typedef void route_fn(
	struct watch_experts *s, const struct k_op *op, const struct watched *w, struct used *u);

static void each_route(struct engine *e, struct watch_experts *s, const struct watched *w,
	struct used *u, route_fn *fn)
{
	const struct k_program *p = &e->forward.program;

	for (int32_t i = 0; i < p->n_ops; i++)
		if (p->op[i].kind == K_OP_route)
			fn(s, &p->op[i], w, u);
}

static void find_sizes(
	struct watch_experts *s, const struct k_op *op, const struct watched *w, struct used *u)
{
	const struct k_route *a = &op->u.route;

	(void)w;
	(void)u;
	s->n = a->n_experts > s->n ? a->n_experts : s->n;
	s->most_used = a->k > s->most_used ? a->k : s->most_used;
}

/* Bytes of the experts: of the products that read what a router chose. */
static void find_bytes(struct engine *e, struct watch_experts *s)
{
	const struct k_program *p = forward_program_of_one(&e->forward);
	const struct k_op *route = NULL;

	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_experts *a = &p->op[i].u.experts;
		int64_t one;

		route = p->op[i].kind == K_OP_route ? &p->op[i] : route;
		if (p->op[i].kind != K_OP_experts || !route || route->layer != p->op[i].layer)
			continue; /* the heads of latent attention are such products, too */
		one = (int64_t)k_matrix_bytes(e->kernels, a->w);
		s->read += one * a->k;
		s->whole += one * a->n_experts;
	}
}

struct watch_experts *watch_experts_open(struct engine *e, int32_t n)
{
	struct watch_experts *s = calloc(1, sizeof *s);
	size_t cells;

	if (!s)
		return NULL;
	find_bytes(e, s);
	each_route(e, s, NULL, NULL, find_sizes);
	s->layers = e->info.n_layers;
	cells = (size_t)s->layers * (size_t)s->n + 1;
	s->of = calloc((size_t)n, sizeof *s->of);
	s->times = calloc((size_t)n, cells * sizeof *s->times);
	s->emas = calloc((size_t)n, cells * sizeof *s->emas);
	s->chosen = calloc(cells, sizeof *s->chosen);
	s->load = calloc(cells, sizeof *s->load);
	s->load_ema = calloc(cells, sizeof *s->load_ema);
	s->entropy = calloc((size_t)s->layers, sizeof *s->entropy);
	if (!s->of || !s->times || !s->emas || !s->chosen || !s->load || !s->load_ema || !s->entropy) {
		watch_experts_close(s);
		return NULL;
	}
	for (size_t i = 0; i < (size_t)n; i++)
		s->of[i] = (struct used){ 0, s->times + i * cells, s->emas + i * cells };
	return s;
}

void watch_experts_close(struct watch_experts *s)
{
	if (!s)
		return;
	free(s->of);
	free(s->times);
	free(s->emas);
	free(s->chosen);
	free(s->load);
	free(s->load_ema);
	free(s->entropy);
	free(s);
}

void watch_experts_forget(struct watch_experts *s, int32_t place)
{
	struct used *u = &s->of[place];
	const size_t cells = (size_t)s->layers * (size_t)s->n;

	u->rows = 0;
	memset(u->times, 0, cells * sizeof *u->times);
	memset(u->load_ema, 0, cells * sizeof *u->load_ema);
}

/* The average begins with the first row, so that it is a share from then on. */
static void count_route(
	struct watch_experts *s, const struct k_op *op, const struct watched *w, struct used *u)
{
	const struct k_route *a = &op->u.route;
	const size_t at = (size_t)op->layer * (size_t)s->n;
	const float keep = exp2f(-1.0f / HALF_LIFE);
	int64_t rows = u->rows;

	for (int32_t r = w->item->row; r <= w->row; r++) {
		const float old = rows++ ? keep : 0;

		for (int32_t i = 0; i < a->n_experts; i++)
			u->load_ema[at + (size_t)i] *= old;
		for (int32_t i = 0; i < a->k; i++) {
			u->times[at + (size_t)a->ids[r * a->k + i]]++;
			u->load_ema[at + (size_t)a->ids[r * a->k + i]] += 1 - old;
		}
	}
}

void watch_experts_count(struct engine *e, struct watch_experts *s, const struct watched *w)
{
	struct used *u = &s->of[w->place];

	if (!s->n)
		return;
	each_route(e, s, w, u, count_route);
	u->rows += w->row - w->item->row + 1;
}

/* Bits. Of logits their softmax, of p (k_route) their share of the sum. */
static float entropy_of(const struct k_route *a, const float *p)
{
	double sum = 0, entropy = 0, max = -INFINITY;

	for (int32_t i = 0; i < a->n_experts; i++)
		max = (double)p[i] > max ? (double)p[i] : max;
	for (int32_t i = 0; i < a->n_experts; i++)
		sum += a->kind == K_ROUTE_chosen ? exp((double)p[i] - max) : (double)p[i];
	for (int32_t i = 0; i < a->n_experts; i++) {
		const double x = (a->kind == K_ROUTE_chosen ? exp((double)p[i] - max) : (double)p[i]) / sum;

		entropy -= x > 0 ? x * log2(x) : 0;
	}
	return (float)entropy;
}

static uint16_t share_of(double share)
{
	return share >= 1 ? 65535 : share > 0 ? (uint16_t)(share * 65535 + 0.5) : 0;
}

static void observe_route(
	struct watch_experts *s, const struct k_op *op, const struct watched *w, struct used *u)
{
	const struct k_route *a = &op->u.route;
	const size_t at = (size_t)op->layer * (size_t)s->n;
	const float *weights = a->weights + (size_t)w->row * (size_t)a->k;
	float sum = 0;

	for (int32_t i = 0; i < a->k; i++)
		sum += weights[i];
	for (int32_t i = 0; i < a->k; i++) {
		const float share = sum > 0 ? 255 * weights[i] / sum + 0.5f : 1;

		s->chosen[at + (size_t)a->ids[w->row * a->k + i]] =
			share > 1 ? share < 255 ? (uint8_t)share : 255 : 1;
	}
	for (size_t i = at; i < at + (size_t)a->n_experts; i++) {
		s->load[i] = share_of((double)u->times[i] / (double)u->rows);
		s->load_ema[i] = share_of((double)u->load_ema[i]);
	}
	s->entropy[op->layer] = entropy_of(a, a->logits + (size_t)w->row * (size_t)a->n_experts);
}

void watch_experts_emit(struct engine *e, struct watch_experts *s, const struct watched *w)
{
	const size_t layers = (size_t)s->layers, cells = layers * (size_t)s->n;
	struct used *u = &s->of[w->place];

	if (!s->n)
		return;
	memset(s->chosen, 0, cells);
	for (size_t i = 0; i < layers; i++)
		s->entropy[i] = NAN;
	each_route(e, s, w, u, observe_route);
	STREAM_EMIT(&e->stream, experts, .step = e->n_steps, .request = w->item->r->id,
		.pos = e->forward.rows[w->row].pos, .rows = u->rows, .experts = s->n, .used = s->most_used,
		.read = s->read, .whole = s->whole, .chosen = { s->chosen, cells },
		.load = { s->load, cells * sizeof *s->load },
		.load_ema = { s->load_ema, cells * sizeof *s->load_ema },
		.entropy = { s->entropy, layers * sizeof *s->entropy });
}
