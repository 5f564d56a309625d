/* When requests arrive, and what they are: see workload.h. */
#include "kernels/arith.h"
#include "load/trace_file.h"
#include "load/workload_impl.h"

enum { LIVE = 8 };

/* Sources: docs/load.md. */
const struct workload_kind_row workload_kinds[WORKLOAD_KINDS] = {
	[WORKLOAD_CHAT] = { "chat", "conversations of several turns", { 0, 0 }, { 69.5, 0.96 },
		{ 214.5, 0.77 }, 2, 0 },
	[WORKLOAD_DOCUMENT] = { "document", "many questions about one document", { 659, 0.5 },
		{ 9.83, 0.5 }, { 4.73, 0.5 }, 29.8, 1 },
	[WORKLOAD_EDIT] = { "edit", "code to be written again with a change", { 0, 0 }, { 2048, 0.96 },
		{ 27.9, 2.15 }, 1, 0 },
	[WORKLOAD_SYSTEM] = { "system", "short tasks below a shared system prompt", { 1560, 0.4 },
		{ 275, 0.4 }, { 43, 0.37 }, 39, 1 },
};

/* A stream in use, or (closed) a user. */
struct slot {
	int64_t stream;
	int32_t turn;  /* of the next use */
	int32_t kept;  /* chat: tokens of the conversation so far */
	double next_s; /* closed: when its user asks; INFINITY: an answer is awaited */
};

struct workload {
	struct workload_options o;
	enum workload_kind kind[WORKLOAD_KINDS]; /* those asked for */
	int32_t n_kinds, n_slots;                /* slots: of each kind `live`, or one a user */
	struct slot *slot;
	int64_t number, n_streams, n_cut;
	double next_s; /* open */
	double on_left_s;
	int64_t n_phases;
	struct trace_file trace;
	struct trace_row row;
	int row_state; /* trace: as trace_file_next() returned */
	struct err row_err;
};

/* ---- opening ---- */

static int check(const struct workload_options *o, struct err *e)
{
	const bool open = o->arrivals != WORKLOAD_CLOSED;

	if (open && !(o->rate > 0 && o->rate <= 1e6))
		return err_set(e, ERR_USAGE, "a rate is above 0 and at most 1e6 requests a second");
	if (o->arrivals == WORKLOAD_GAMMA && !(o->cv >= 0.05 && o->cv <= 20))
		return err_set(e, ERR_USAGE, "a coefficient of variation is 0.05 to 20");
	if (o->arrivals == WORKLOAD_ONOFF &&
		!(o->on_s > 0 && o->on_s <= 1e6 && o->off_s > 0 && o->off_s <= 1e6))
		return err_set(e, ERR_USAGE, "on and off last above 0 and at most 1e6 seconds");
	if (!open && (o->users < 1 || o->users > WORKLOAD_MOST || !(o->think_s >= 0)))
		return err_set(
			e, ERR_USAGE, "1 to %d users, who think for 0 seconds or more", WORKLOAD_MOST);
	if (o->arrivals == WORKLOAD_TRACE ? !o->trace || o->n < 0 : o->n < 1)
		return err_set(e, ERR_USAGE, "a load has at least one request");
	if (o->live < 0 || o->live > WORKLOAD_MOST || (o->limit && o->limit < 8) || o->max_output < 0 ||
		!(o->scale >= 0 && o->scale <= 1000) || o->kinds >> WORKLOAD_KINDS)
		return err_set(e, ERR_USAGE, "a load's streams, lengths or kinds are out of range");
	return 0;
}

static int64_t new_stream(struct workload *w, int32_t slot)
{
	/* a user's streams do not depend on how fast others are answered */
	if (w->o.arrivals == WORKLOAD_CLOSED)
		return slot + (w->slot[slot].stream < 0 ? 0 : w->slot[slot].stream - slot + w->n_slots);
	return w->n_streams++;
}

static void begin_stream(struct workload *w, int32_t slot)
{
	struct slot *s = &w->slot[slot];

	*s = (struct slot){ .stream = new_stream(w, slot), .next_s = s->next_s };
}

static double exponential(const struct workload *w, enum workload_draw what, int64_t a, double mean)
{
	return -mean * k_log64(workload_u(w->o.seed, what, a, 0, 0));
}

static void think(struct workload *w, int32_t user, double now_s)
{
	const struct slot *s = &w->slot[user];
	const double u = workload_u(w->o.seed, DRAW_THINK, s->stream, s->turn, 0);

	w->slot[user].next_s = now_s - w->o.think_s * k_log64(u);
}

static void read_row(struct workload *w)
{
	w->row_state = trace_file_next(&w->trace, &w->row, &w->row_err);
	w->next_s = w->row_state ? w->row.at_s / w->o.rate : (double)INFINITY;
	if (w->row_state < 0)
		w->next_s = 0; /* so that it is taken, and the error reported */
}

static double gap(struct workload *w);

int workload_open(struct workload **out, const struct workload_options *o, struct err *e)
{
	struct workload *w;

	*out = NULL;
	if (check(o, e))
		return -1;
	w = calloc(1, sizeof *w);
	if (!w)
		return err_no_memory(e, "a load");
	w->o = *o;
	for (int k = 0; k < WORKLOAD_KINDS; k++)
		if (o->kinds >> k & 1 || (!o->kinds && k == WORKLOAD_CHAT))
			w->kind[w->n_kinds++] = (enum workload_kind)k;
	w->o.live = o->live ? o->live : LIVE;
	w->n_slots = o->arrivals == WORKLOAD_CLOSED ? o->users : w->n_kinds * w->o.live;
	w->slot = calloc((size_t)w->n_slots, sizeof *w->slot);
	if (!w->slot || (o->arrivals == WORKLOAD_TRACE && trace_file_open(&w->trace, o->trace, e))) {
		workload_close(w);
		return err_no_memory(e, "%d streams", (int)o->live);
	}
	for (int32_t i = 0; i < w->n_slots; i++) {
		w->slot[i].stream = -1;
		begin_stream(w, i);
		think(w, i, 0);
	}
	if (o->arrivals == WORKLOAD_TRACE)
		read_row(w);
	else
		w->next_s = gap(w);
	*out = w;
	return 0;
}

void workload_close(struct workload *w)
{
	if (!w)
		return;
	trace_file_close(&w->trace);
	free(w->slot);
	free(w);
}

/* ---- times ---- */

/* Arrivals are Poisson on a clock that runs while on; off phases are put between. */
static double onoff_gap(struct workload *w)
{
	const double all = w->o.on_s + w->o.off_s;
	double rest = exponential(w, DRAW_GAP, w->number, w->o.on_s / all / w->o.rate), passed = 0;

	while (rest > w->on_left_s) {
		passed += w->on_left_s;
		rest -= w->on_left_s;
		passed += exponential(w, DRAW_PHASE, 2 * w->n_phases, w->o.off_s);
		w->on_left_s = exponential(w, DRAW_PHASE, 2 * w->n_phases + 1, w->o.on_s);
		w->n_phases++;
	}
	w->on_left_s -= rest;
	return passed + rest;
}

static double gap(struct workload *w)
{
	const double mean = 1 / w->o.rate;

	switch (w->o.arrivals) {
	case WORKLOAD_POISSON: return exponential(w, DRAW_GAP, w->number, mean);
	case WORKLOAD_UNIFORM: return mean;
	case WORKLOAD_GAMMA:
		return mean * workload_gamma(w->o.seed, DRAW_GAP, w->number, 1 / (w->o.cv * w->o.cv));
	case WORKLOAD_ONOFF: return onoff_gap(w);
	default: return 0;
	}
}

/* The user who asks first; among equals the lowest. */
static int32_t next_user(const struct workload *w)
{
	int32_t best = 0;

	for (int32_t i = 1; i < w->n_slots; i++)
		if (w->slot[i].next_s < w->slot[best].next_s)
			best = i;
	return best;
}

double workload_when(const struct workload *w)
{
	if (w->o.n && w->number >= w->o.n)
		return (double)INFINITY;
	return w->o.arrivals == WORKLOAD_CLOSED ? w->slot[next_user(w)].next_s : w->next_s;
}

void workload_ended(struct workload *w, int32_t user, double now_s)
{
	if (w->o.arrivals == WORKLOAD_CLOSED && user >= 0 && user < w->n_slots)
		think(w, user, now_s);
}

/* ---- requests ---- */

static void use_stream(
	struct workload *w, int32_t slot, enum workload_kind kind, struct arrival *out)
{
	const struct workload_kind_row *row = &workload_kinds[kind];
	struct slot *s = &w->slot[slot];
	bool cut = false;
	struct workload_lengths l = workload_lengths(&w->o, kind, s->stream, s->turn, &cut);

	if (kind == WORKLOAD_CHAT && w->o.limit && s->kept > w->o.limit - l.own - l.output) {
		begin_stream(w, slot);
		l = workload_lengths(&w->o, kind, s->stream, s->turn, &cut);
	}
	if (kind == WORKLOAD_CHAT)
		l.shared = s->kept;
	w->n_cut += cut;
	out->n_prompt = l.shared + l.own;
	out->n_output = l.output;
	out->n_prefix = l.shared;
	out->prefix = l.shared ? s->stream : -1;
	out->stream = s->stream;
	out->turn = s->turn++;
	out->kind = kind;
	out->user = slot;
	out->priority = row->priority;
	s->kept = out->n_prompt + out->n_output;
	if (workload_u(w->o.seed, DRAW_LAST, out->stream, out->turn, 0) * row->uses < 1 ||
		s->kept > 1 << 28)
		begin_stream(w, slot);
}

static void take_row(struct workload *w, struct arrival *out)
{
	const int32_t limit = workload_limit(&w->o), most = workload_most_output(&w->o);

	*out = (struct arrival){ .number = w->number,
		.n_prompt = w->row.n_prompt < limit - limit / 4 ? w->row.n_prompt : limit - limit / 4,
		.n_output = w->row.n_output < most ? w->row.n_output : most,
		.prefix = -1,
		.kind = WORKLOAD_TRACE_KIND,
		.stream = w->number };
	w->n_cut += out->n_prompt < w->row.n_prompt || out->n_output < w->row.n_output;
}

static int32_t below(const struct workload *w, enum workload_draw what, int32_t n)
{
	return (int32_t)(workload_u(w->o.seed, what, w->number, 0, 0) * n);
}

int workload_next(struct workload *w, struct arrival *out, struct err *e)
{
	const double at_s = workload_when(w);
	int32_t slot;

	if (!isfinite(at_s))
		return 0;
	if (w->o.arrivals == WORKLOAD_TRACE) {
		if (w->row_state < 0)
			return err_set(e, w->row_err.code, "%s", w->row_err.text);
		take_row(w, out);
	} else if (w->o.arrivals == WORKLOAD_CLOSED) {
		slot = next_user(w);
		w->slot[slot].next_s = (double)INFINITY;
		use_stream(w, slot, w->kind[slot % w->n_kinds], out);
	} else {
		slot = below(w, DRAW_KIND, w->n_kinds);
		use_stream(w, slot * w->o.live + below(w, DRAW_SLOT, w->o.live), w->kind[slot], out);
	}
	out->at_s = at_s;
	out->number = w->number++;
	if (w->o.arrivals == WORKLOAD_TRACE)
		read_row(w);
	else
		w->next_s += gap(w);
	return 1;
}

int64_t workload_n_cut(const struct workload *w)
{
	return w->n_cut;
}

int32_t workload_id(
	const struct workload_options *o, const struct arrival *a, int32_t vocab, int32_t i)
{
	const bool shared = i < a->n_prefix || a->kind == WORKLOAD_CHAT;
	const double u = workload_u(o->seed, DRAW_ID, a->stream, shared ? 0 : 1 + a->turn, (uint32_t)i);

	return (int32_t)(u * vocab);
}

int32_t *workload_ids(
	const struct workload_options *o, const struct arrival *a, int32_t vocab, size_t n)
{
	int32_t *ids = malloc((n + 1) * sizeof *ids);

	for (size_t i = 0; ids && i < n; i++)
		ids[i] = workload_id(o, a, vocab, (int32_t)i);
	return ids;
}
