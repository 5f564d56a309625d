/* See bench_spec.h. */
#include "sessions/bench_spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/measure.h"
#include "sessions/session.h"

enum { PAIRS = 256, MOST_STEPS = 8192 };

struct steps { /* how long each took, and its rows */
	int n, cap;
	struct {
		double ns;
		int rows;
	} *at;
};

struct run { /* what one answer gave */
	double steps, tokens, ns;
	double judged[DRAFT_MAX], accepted[DRAFT_MAX];
	uint64_t text; /* of its ids */
	bool began;
};

struct drafter_runs { /* of one drafter and kind */
	double ratio[PAIRS], plain_ns, ns, predicted;
	int n;
	struct run sum;
	struct steps plain_steps, steps;
};

struct bench {
	struct session session;
	struct engine *engine; /* the session's */
	int32_t tokens; /* of an answer, at most */
	struct run now;
	struct steps newest; /* of the answer under way */
	bool full;           /* there was no memory for more */
	int64_t step; /* of the newest draft event */
	uint32_t judged; /* bit d: counted for this step */
	char list[512];
	const char *spec[BENCH_SPECS];
	int n_specs;
	struct bench_prompts prompts;
	struct drafter_runs *runs; /* [n_specs][BENCH_KINDS] */
	double plain_tokens, plain_ns;
	void (*tell)(void *arg, const char *what);
	void *arg;
};

/* ---- counting ---- */

static void on_draft(struct bench *b, const struct ev_draft *d)
{
	uint32_t bit;

	if (d->step != b->step) {
		b->step = d->step;
		b->judged = 0;
	}
	if (d->depth < 1 || d->depth > DRAFT_MAX || d->verdict == EV_VERDICT_unread)
		return;
	bit = UINT32_C(1) << (d->depth - 1);
	b->now.judged[d->depth - 1] += !(b->judged & bit); /* siblings are one chance */
	b->judged |= bit;
	b->now.accepted[d->depth - 1] += d->verdict == EV_VERDICT_accepted;
}

static bool add_step(struct steps *s, double ns, int rows)
{
	if (s->n == s->cap) {
		int cap = s->cap ? 2 * s->cap : 128;
		void *more = realloc(s->at, (size_t)cap * sizeof *s->at);

		if (!more)
			return false;
		s->at = more;
		s->cap = cap;
	}
	s->at[s->n].ns = ns;
	s->at[s->n++].rows = rows;
	return true;
}

static void on_event(void *arg, const struct event *ev)
{
	struct bench *b = arg;

	if (ev->kind == EV_token) {
		b->now.text = (b->now.text ^ (uint64_t)ev->u.token.id) * 0x100000001b3u;
	} else if (ev->kind == EV_draft) {
		on_draft(b, &ev->u.draft);
	} else if (ev->kind == EV_step && !ev->u.step.prefill_rows) {
		b->now.steps++;
		b->now.tokens += (double)ev->u.step.tokens;
		b->now.ns += (double)ev->u.step.ns;
		b->full |= !add_step(&b->newest, (double)ev->u.step.ns,
							 (int)(ev->u.step.decode_rows + ev->u.step.draft_rows));
	}
}

static int answer(struct bench *b, const char *spec, const char *shadow, const int32_t *ids, size_t n,
				  struct run *out, struct err *e)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_load, .ids = ids, .n_ids = (int32_t)n, .max_tokens = b->tokens,
								.params = SAMPLE_DEFAULTS, .text = "bench" };
	int more;

	q.params.temperature = 0;
	memset(&b->now, 0, sizeof b->now);
	b->step = 0;
	b->newest.n = 0;
	if (engine_set(b->engine, "spec", spec, e) || (shadow && engine_set(b->engine, "shadow", shadow, e)) ||
		engine_submit(b->engine, &q, e) < 0)
		return -1;
	while ((more = engine_step(b->engine, e)) > 0)
		;
	*out = b->now;
	return more;
}

static void add_run(struct run *sum, const struct run *r)
{
	sum->steps += r->steps;
	sum->tokens += r->tokens;
	sum->ns += r->ns;
	for (int i = 0; i < DRAFT_MAX; i++) {
		sum->judged[i] += r->judged[i];
		sum->accepted[i] += r->accepted[i];
	}
}

/* ---- drafters and prompts ---- */

/* Those that shadow mode can open, and auto. */
static int list_all(struct bench *b, struct err *e)
{
	struct engine_shadow s;
	size_t len = 0;

	if (engine_set(b->engine, "shadow", "all", e))
		return -1;
	for (int32_t i = 0; engine_shadow_at(b->engine, i, &s); i++)
		len += (size_t)snprintf(b->list + len, sizeof b->list - len, "%s+", s.spec);
	snprintf(b->list + len, sizeof b->list - len, "auto");
	return engine_set(b->engine, "shadow", "off", e);
}

/* Cuts the list; what can be asked in the shadow stays joined in `shadow`. */
static int cut_list(struct bench *b, const char *list, char *shadow, size_t cap, struct err *e)
{
	size_t len = 0;

	if (!*list || !strcmp(list, "all")) {
		if (list_all(b, e))
			return -1;
	} else if (strlen(list) >= sizeof b->list) {
		return err_set(e, ERR_USAGE, "bench: the list of drafters is too long");
	} else {
		strcpy(b->list, list);
	}
	for (char *at = b->list; at; b->n_specs++) {
		if (b->n_specs == BENCH_SPECS)
			return err_set(e, ERR_USAGE, "bench: at most %d drafters", BENCH_SPECS);
		b->spec[b->n_specs] = at;
		at = strchr(at, '+');
		if (at)
			*at++ = '\0';
		if (strncmp(b->spec[b->n_specs], "auto", 4) != 0 && strcmp(b->spec[b->n_specs], "off") != 0)
			len += (size_t)snprintf(shadow + len, cap - len, "%s%s", len ? "+" : "", b->spec[b->n_specs]);
		if (len >= cap)
			return err_set(e, ERR_USAGE, "bench: the list of drafters is too long");
		if (engine_set(b->engine, "spec", b->spec[b->n_specs], e))
			return -1;
	}
	if (!len)
		snprintf(shadow, cap, "off");
	return 0;
}

/* ---- measuring ---- */

static void note_predictions(struct bench *b, int kind)
{
	struct engine_shadow s;

	for (int32_t i = 0; engine_shadow_at(b->engine, i, &s); i++)
		for (int k = 0; k < b->n_specs; k++)
			if (!strcmp(b->spec[k], s.spec))
				b->runs[k * BENCH_KINDS + kind].predicted = s.speed;
}

/* An answer, whose steps are noted if there is a place for them. */
static int answer_noted(struct bench *b, const char *spec, const int32_t *ids, size_t n, struct run *out,
						struct steps *to, struct err *e)
{
	if (answer(b, spec, NULL, ids, n, out, e))
		return -1;
	for (int i = 0; i < b->newest.n; i++)
		b->full |= !add_step(to, b->newest.at[i].ns, b->newest.at[i].rows);
	return b->full ? err_set(e, ERR_MEMORY, "no memory for the bench") : 0;
}

static int measure_pair(struct bench *b, int spec, int kind, const int32_t *ids, size_t n, uint64_t text,
						struct err *e)
{
	struct drafter_runs *d = &b->runs[spec * BENCH_KINDS + kind];
	struct run plain, with;
	bool first = d->n % 2; /* which of them: a drift of the machine, and being second, is for both */

	if ((first && answer_noted(b, b->spec[spec], ids, n, &with, &d->steps, e)) ||
		answer_noted(b, "off", ids, n, &plain, &d->plain_steps, e) ||
		(!first && answer_noted(b, b->spec[spec], ids, n, &with, &d->steps, e)))
		return -1;
	if (plain.text != text || with.text != text)
		return err_set(e, ERR_DIFFERS, "bench: %s changed the text", b->spec[spec]);
	if (plain.tokens < 8 || with.tokens < 8 || d->n == PAIRS) /* an answer of a few words is no measure */
		return 0;
	b->plain_tokens += plain.tokens;
	b->plain_ns += plain.ns;
	d->ratio[d->n++] = plain.ns / plain.tokens / (with.ns / with.tokens);
	d->plain_ns += plain.ns / plain.tokens * with.tokens;
	d->ns += with.ns;
	add_run(&d->sum, &with);
	return 0;
}

static int measure_prompt(struct bench *b, const struct bench_prompt *p, const char *shadow, bool first,
						  struct err *e)
{
	struct run plain;
	int32_t *ids;
	size_t n;
	int rc = bench_prompt_encode(p, b->engine, &ids, &n, e);

	/* What rows cost changes on a machine that others use too, so it is measured all along. */
	if (!rc && engine_measure_cost(b->engine, first, e))
		rc = -1;
	/* a first answer warms up; a kind's predictions begin with its first prompt, and go on with the others */
	if (!rc && first)
		rc = answer(b, "off", "off", ids, n, &plain, e) || answer(b, "off", shadow, ids, n, &plain, e);
	else if (!rc)
		rc = answer(b, "off", NULL, ids, n, &plain, e);
	if (!rc)
		note_predictions(b, p->kind);
	for (int i = 0; i < b->n_specs && !rc; i++) {
		engine_pause_shadow(b->engine, true);
		rc = measure_pair(b, i, p->kind, ids, n, plain.text, e);
		engine_pause_shadow(b->engine, false);
	}
	free(ids);
	return rc;
}

static int measure_prompts(struct bench *b, const char *shadow, struct err *e)
{
	int kind = -1;

	for (int i = 0; i < b->prompts.n; i++) {
		const struct bench_prompt *p = &b->prompts.prompt[i];

		if (b->tell && p->kind != kind)
			b->tell(b->arg, b->prompts.kind[p->kind]);
		if (measure_prompt(b, p, shadow, p->kind != kind, e))
			return -1;
		kind = p->kind;
	}
	return 0;
}

/* Steps of one row and of K by turns. */
static int measure_cost(struct bench *b, struct bench_spec *out, struct err *e)
{
	static const int32_t rows[] = { 2, 3, 4, 6, 8, 16, 32, 64 };
	enum { TURNS = 9, DEPTH = 128 };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		double one[TURNS], many[TURNS];

		for (int k = 0; k < TURNS; k++)
			if (engine_measure_rows(b->engine, 1, DEPTH, &one[k], e) ||
				engine_measure_rows(b->engine, rows[i], DEPTH, &many[k], e))
				return -1;
		for (int k = 0; k < TURNS; k++)
			many[k] /= one[k];
		for (int k = 1; k < TURNS; k++) /* sorted by insertion */
			for (int m = k; m > 0 && many[m - 1] > many[m]; m--) {
				double swap = many[m];

				many[m] = many[m - 1];
				many[m - 1] = swap;
			}
		out->rows[out->n_rows] = rows[i];
		out->cost[out->n_rows++] = many[TURNS / 2];
	}
	return 0;
}

/* ---- the report ---- */

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* All steps, each as long as the median of those with as many rows: what disturbed single ones is left out. Sorts. */
static double steady_ns(struct steps *s)
{
	static _Thread_local double ns[MOST_STEPS];
	double sum = 0;

	for (int rows = 1; rows <= 1 + DRAFT_NODES; rows++) {
		int n = 0, all = 0;

		for (int i = 0; i < s->n; i++)
			if (s->at[i].rows == rows && all++ < MOST_STEPS)
				ns[n++] = s->at[i].ns;
		qsort(ns, (size_t)n, sizeof *ns, by_value);
		sum += n ? all * ns[n / 2] : 0;
	}
	return sum;
}

static void report_line(struct bench_spec *out, const char *spec, const char *kind, struct drafter_runs *d)
{
	struct bench_spec_line *l = &out->line[out->n++];
	int tenth = d->n >= 10 ? d->n / 10 : 0;

	*l = (struct bench_spec_line){ .pairs = d->n, .steps = d->sum.steps, .tokens = d->sum.tokens,
								   .speed = (double)NAN, .low = (double)NAN, .high = (double)NAN,
								   .whole = d->ns > 0 ? d->plain_ns / d->ns : (double)NAN,
								   .steady = steady_ns(&d->plain_steps) / steady_ns(&d->steps),
								   .predicted = d->predicted };
	snprintf(l->spec, sizeof l->spec, "%s", spec);
	snprintf(l->kind, sizeof l->kind, "%s", kind);
	memcpy(l->judged, d->sum.judged, sizeof l->judged);
	memcpy(l->accepted, d->sum.accepted, sizeof l->accepted);
	if (!d->n)
		return;
	qsort(d->ratio, (size_t)d->n, sizeof *d->ratio, by_value);
	l->speed = d->n % 2 ? d->ratio[d->n / 2] : (d->ratio[d->n / 2 - 1] + d->ratio[d->n / 2]) / 2;
	l->low = d->ratio[tenth];
	l->high = d->ratio[d->n - 1 - tenth];
}

static bool add_steps(struct steps *to, const struct steps *from)
{
	for (int i = 0; i < from->n; i++)
		if (!add_step(to, from->at[i].ns, from->at[i].rows))
			return false;
	return true;
}

/* A drafter's kinds, and all of them together, its prediction by the time that each took plainly. */
static int report_drafter(struct bench *b, int spec, struct bench_spec *out, struct err *e)
{
	struct drafter_runs all = { .n = 0 };
	double predicted_ns = 0;

	for (int k = 0; k < b->prompts.n_kinds; k++) {
		struct drafter_runs *d = &b->runs[spec * BENCH_KINDS + k];

		for (int i = 0; i < d->n && all.n < PAIRS; i++)
			all.ratio[all.n++] = d->ratio[i];
		all.plain_ns += d->plain_ns;
		all.ns += d->ns;
		predicted_ns += d->n ? d->plain_ns / d->predicted : 0;
		add_run(&all.sum, &d->sum);
		b->full |= !add_steps(&all.steps, &d->steps) || !add_steps(&all.plain_steps, &d->plain_steps);
		report_line(out, b->spec[spec], b->prompts.kind[k], d);
	}
	all.predicted = all.plain_ns / predicted_ns;
	report_line(out, b->spec[spec], "all", &all);
	free(all.steps.at);
	free(all.plain_steps.at);
	return b->full ? err_set(e, ERR_MEMORY, "no memory for the bench") : 0;
}

static int run_all(struct bench *b, const char *list, struct bench_spec *out, struct err *e)
{
	char shadow[128];

	if (session_begin(&b->session, NULL, NULL, e))
		return -1;
	b->engine = b->session.engine;
	out->info = *engine_info(b->engine);
	snprintf(out->isa, sizeof out->isa, "%s", out->info.isa);
	if (cut_list(b, list, shadow, sizeof shadow, e) || engine_set(b->engine, "spec", "off", e))
		return -1;
	for (int i = 0; i < b->n_specs * BENCH_KINDS; i++)
		b->runs[i].predicted = (double)NAN;
	bench_prompts_read(&b->prompts);
	if (measure_cost(b, out, e) || measure_prompts(b, shadow, e))
		return -1;
	out->plain_tok_s = b->plain_ns > 0 ? 1e9 * b->plain_tokens / b->plain_ns : (double)NAN;
	for (int i = 0; i < b->n_specs; i++)
		if (report_drafter(b, i, out, e))
			return -1;
	return 0;
}

/* c(K) for every K, between the medians linear. */
static void draw_curve(const struct bench_spec *r, double cost[DRAFT_COST_ROWS + 1])
{
	double one = r->plain_tok_s > 0 ? 1e9 / r->plain_tok_s : 1e6, at = 1;
	int32_t from = 1;

	cost[0] = 0;
	cost[1] = one;
	for (int i = 0; i < r->n_rows; i++) {
		double next = r->cost[i] > at ? r->cost[i] : at;

		for (int32_t k = from + 1; k <= r->rows[i]; k++)
			cost[k] = one * (at + (next - at) * (k - from) / (r->rows[i] - from));
		from = r->rows[i];
		at = next;
	}
	for (int32_t k = from + 1; k <= DRAFT_COST_ROWS; k++)
		cost[k] = cost[from];
}

/* Whether auto has others in the list to be held against. */
static bool has_rivals(const struct bench *b)
{
	int autos = 0, others = 0;

	for (int i = 0; i < b->n_specs; i++) {
		autos += !strncmp(b->spec[i], "auto", 4);
		others += strncmp(b->spec[i], "auto", 4) && strcmp(b->spec[i], "off");
	}
	return autos && others;
}

static void close_bench(struct bench *b)
{
	for (int i = 0; b && b->runs && i < BENCH_SPECS * BENCH_KINDS; i++) {
		free(b->runs[i].steps.at);
		free(b->runs[i].plain_steps.at);
	}
	if (b) {
		free(b->runs);
		free(b->newest.at);
	}
	free(b);
}

int bench_spec_run(const struct engine_options *o, const char *list, int32_t tokens,
				   void (*tell)(void *arg, const char *what), void *arg, struct bench_spec *out, struct err *e)
{
	struct engine_options used = *o;
	struct bench *b = calloc(1, sizeof *b);
	int rc = -1;

	memset(out, 0, sizeof *out);
	used.spec = used.shadow = "off";
	used.rule = "race";
	if (b)
		b->runs = calloc(BENCH_SPECS * BENCH_KINDS, sizeof *b->runs);
	if (!b || !b->runs) {
		err_set(e, ERR_MEMORY, "no memory for the bench");
	} else {
		b->tell = tell;
		b->arg = arg;
		b->tokens = tokens;
		if (!session_open(&b->session, &(struct session_options){ .engine = used, .sink = on_event, .arg = b }, e))
			rc = run_all(b, list, out, e);
		session_close(&b->session, NULL);
		if (!rc && has_rivals(b)) {
			double cost[DRAFT_COST_ROWS + 1];

			draw_curve(out, cost);
			rc = bench_mixed_run(&used, b->spec, b->n_specs, cost, tokens, tell, arg, &out->mixed, e);
		}
	}
	close_bench(b);
	return rc;
}
