/* What recurrent layers keep and forget (event state). See watch.h. */
#include "engine/observe/watch.h"

enum { RANKS = 16, PAST = 64 };

struct history {
	int32_t n;
	float of[PAST][2];
};
struct watch_states {
	int32_t layers, n_places;
	bool any;
	struct history *history; /* by place */
	uint32_t *heads, *taps;
	float (*half_life)[RANKS], *norm; /* [layers] */
	float *room;                      /* of one layer's state, or its half-lives */
	size_t most;
};

static size_t state_floats(const struct k_op *op)
{
	switch (op->kind) {
	case K_OP_conv: return (size_t)op->u.conv.out.dim * (size_t)(op->u.conv.taps - 1);
	case K_OP_scan: return (size_t)op->u.scan.out.dim * (size_t)op->u.scan.n_states;
	case K_OP_linear:
		return (size_t)op->u.linear.heads * (size_t)op->u.linear.keys * (size_t)op->u.linear.values;
	default: return 0;
	}
}

struct watch_states *watch_states_open(struct engine *e, int32_t n)
{
	const struct k_program *p = forward_program_of_one(&e->forward);
	struct watch_states *s = calloc(1, sizeof *s);
	const size_t layers = (size_t)e->info.n_layers;

	if (!s)
		return NULL;
	for (int32_t i = 0; i < p->n_ops; i++)
		s->most = state_floats(&p->op[i]) > s->most ? state_floats(&p->op[i]) : s->most;
	s->any = s->most > 0;
	s->layers = e->info.n_layers;
	s->n_places = n;
	s->history = calloc((size_t)n, sizeof *s->history);
	s->heads = calloc(layers, sizeof *s->heads);
	s->taps = calloc(layers, sizeof *s->taps);
	s->half_life = calloc(layers, sizeof *s->half_life);
	s->norm = calloc(layers, sizeof *s->norm);
	s->room = calloc(s->most + layers + 1, sizeof *s->room);
	if (s->history && s->heads && s->taps && s->half_life && s->norm && s->room)
		return s;
	watch_states_close(s);
	return NULL;
}

void watch_states_close(struct watch_states *s)
{
	if (!s)
		return;
	free(s->history);
	free(s->heads);
	free(s->taps);
	free(s->half_life);
	free(s->norm);
	free(s->room);
	free(s);
}

void watch_states_forget(struct watch_states *s, int32_t place)
{
	s->history[place].n = 0;
}

/* ---- how long it keeps ---- */

static int ascending(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

static void put_ranks(struct watch_states *s, int32_t layer, int32_t n)
{
	qsort(s->room, (size_t)n, sizeof *s->room, ascending);
	s->heads[layer] = (uint32_t)n;
	for (int32_t i = 0; i < RANKS; i++)
		s->half_life[layer][i] = s->room[(int64_t)i * (n - 1) / (RANKS - 1)];
}

static float half_life_of(float decay)
{
	return decay >= 1 ? INFINITY : decay > 0 ? (float)(-M_LN2 / log((double)decay)) : 0;
}

static void observe_linear(struct watch_states *s, const struct k_op *op, int32_t row)
{
	const struct k_linear *a = &op->u.linear;
	const float *rate = a->fixed ? a->fixed : a->rate + (size_t)row * (size_t)a->heads * 2;

	for (int32_t h = 0; h < a->heads; h++)
		s->room[h] = half_life_of(rate[2 * h]);
	put_ranks(s, op->layer, a->heads);
}

/* a is the kernels': where that is not the host's memory, it is not told. */
static void observe_scan(struct watch_states *s, const struct k_op *op, int32_t row)
{
	const struct k_scan *a = &op->u.scan;
	const int32_t dim = a->out.dim;

	for (int32_t c = 0; c < dim; c++) {
		const float *own = a->a + (size_t)c * (size_t)a->n_states;
		float slowest = a->delta ? -INFINITY : 0;

		for (int32_t i = 0; a->delta && i < a->n_states; i++)
			slowest = fmaxf(slowest, own[i]);
		for (int32_t i = 0; !a->delta && i < a->n_states; i += 2)
			slowest = fmaxf(slowest, hypotf(own[i], own[i + 1]));
		s->room[c] = half_life_of(
			a->delta ? expf(k_softplus(a->delta[(size_t)row * (size_t)dim + (size_t)c]) * slowest)
					 : slowest);
	}
	put_ranks(s, op->layer, dim);
}

/* ---- what it keeps ---- */

/* Where an op keeps its state after the row; NULL: nowhere. */
static const float *state_at(const struct k_op *op, int32_t row)
{
	switch (op->kind) {
#define X(name)                                                                                    \
	case K_OP_##name:                                                                              \
		return op->u.name.rows[row].to < 0                                                         \
				   ? NULL                                                                          \
				   : k_state_at(op->u.name.state, op->u.name.rows[row].to, op->u.name.at);
		X(scan)
		X(conv)
		X(linear)
#undef X
	default: return NULL;
	}
}

/* Sum of squares of it; NaN: it was stored nowhere. */
static double squares(struct engine *e, struct watch_states *s, const struct k_op *op, int32_t row)
{
	const float *at = state_at(op, row);
	const size_t n = state_floats(op);
	struct err err = { 0 };
	double sum = 0;

	if (!at || k_fetch(e->kernels, s->room, at, n * sizeof *s->room, &err))
		return (double)NAN;
	for (size_t i = 0; i < n; i++)
		sum += (double)s->room[i] * (double)s->room[i];
	return sum;
}

static void observe_op(struct engine *e, struct watch_states *s, const struct k_op *op, int32_t row)
{
	const double was = isnan(s->norm[op->layer]) ? 0 : (double)s->norm[op->layer];

	s->norm[op->layer] = (float)sqrt(was * was + squares(e, s, op, row));
	if (op->kind == K_OP_conv)
		s->taps[op->layer] = (uint32_t)op->u.conv.taps;
	else if (op->kind == K_OP_linear)
		observe_linear(s, op, row);
	else if (k_is_host(e->kernels))
		observe_scan(s, op, row);
}

static void clear(struct watch_states *s)
{
	for (int32_t l = 0; l < s->layers; l++) {
		s->heads[l] = s->taps[l] = 0;
		s->norm[l] = NAN;
		for (int32_t i = 0; i < RANKS; i++)
			s->half_life[l][i] = NAN;
	}
}

static void note_past(struct watch_states *s, struct history *p)
{
	double sum = 0;
	int32_t n = 0;

	for (int32_t l = 0; l < s->layers; l++) {
		sum += isnan(s->norm[l]) ? 0 : (double)s->norm[l] * (double)s->norm[l];
		if (s->heads[l])
			s->room[n++] = s->half_life[l][RANKS / 2];
	}
	qsort(s->room, (size_t)n, sizeof *s->room, ascending);
	if (p->n == PAST)
		memmove(p->of[0], p->of[1], (size_t)--p->n * sizeof p->of[0]);
	p->of[p->n][0] = (float)sqrt(sum);
	p->of[p->n++][1] = n ? s->room[n / 2] : NAN;
}

void watch_states_emit(struct engine *e, struct watch_states *s, const struct watched *w)
{
	const struct k_program *p = &e->forward.program;
	const size_t layers = (size_t)s->layers;
	struct history *history = &s->history[w->place];

	if (!s->any)
		return;
	clear(s);
	for (int32_t i = 0; i < p->n_ops; i++)
		if (state_floats(&p->op[i]))
			observe_op(e, s, &p->op[i], w->row);
	note_past(s, history);
	STREAM_EMIT(&e->stream, state, .step = e->n_steps, .request = w->item->r->id,
		.pos = e->forward.rows[w->row].pos, .heads = { s->heads, layers * sizeof *s->heads },
		.taps = { s->taps, layers * sizeof *s->taps },
		.half_life = { s->half_life, layers * sizeof *s->half_life },
		.norm = { s->norm, layers * sizeof *s->norm },
		.history = { history->of, (size_t)history->n * sizeof history->of[0] });
}
