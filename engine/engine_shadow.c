/* Shadow mode inside the engine: drafters that guess beside the run, what a step costs, and what is told of both
 * (events cost and shadow). See shadow.h and draft_cost.h. Nothing here changes a token, a page or a plan. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/draft/auto.h"
#include "engine/engine_impl.h"

enum { TELL_EVERY = 16 }; /* steps */

/* ---- what steps cost ---- */

void engine_tell_cost(struct engine *e)
{
	struct event ev;

	for (int32_t i = 0; e->begun && i < e->measure.cost.n; i++) {
		const struct draft_cost_point *p = &e->measure.cost.point[i];

		ev_init(&ev, EV_cost);
		ev.u.cost = (struct ev_cost){ .rows = p->rows, .depth = p->depth, .ns = (int64_t)p->ns, .runs = p->runs };
		stream_emit(&e->stream, &ev);
	}
}

int engine_need_cost(struct engine *e, struct err *err)
{
	if (e->measure.cost.n)
		return 0;
	if (e->measure.counted)
		draft_cost_count(&e->measure.cost, e->measure.counted, (double)e->info.weight_bytes);
	else if (draft_cost_measure(&e->measure.cost, &e->forward, &e->kv, e->info.ctx, err))
		return -1;
	engine_tell_cost(e);
	return 0;
}

int engine_measure_cost(struct engine *e, bool anew, struct err *err)
{
	if (e->measure.counted || !e->measure.cost.n)
		return engine_need_cost(e, err);
	if (anew ? draft_cost_measure(&e->measure.cost, &e->forward, &e->kv, e->info.ctx, err)
			 : draft_cost_again(&e->measure.cost, &e->forward, &e->kv, e->info.ctx, err))
		return -1;
	engine_tell_cost(e);
	return 0;
}

double engine_counted_ns(const struct engine *e)
{
	return e->measure.cost.counted ? e->measure.cost.clock_ns : (double)NAN;
}

int engine_measure_rows(struct engine *e, int32_t rows, int32_t depth, double *ns, struct err *err)
{
	if (rows < 1 || rows > DRAFT_COST_ROWS || rows > e->forward.max_rows || depth < 0 ||
		depth > draft_cost_deepest(&e->kv, e->info.ctx, rows))
		return err_set(err, ERR_USAGE,
					   "a step of %d rows after %d tokens cannot be measured: see --ctx and --budget",
					   rows, depth);
	return draft_cost_run(&e->forward, &e->kv, rows, depth, ns, err);
}

/* ---- drafters beside the run ---- */

bool engine_shadow_at(struct engine *e, int32_t i, struct engine_shadow *out)
{
	struct shadow *s = e->shadow.now ? e->shadow.now : e->shadow.paused;

	if (!s || i < 0 || i >= shadow_count(s))
		return false;
	*out = (struct engine_shadow){ shadow_at(s, i)->spec,
								   shadow_speed(&shadow_at(s, i)->all, &e->measure.cost, DRAFT_NODES, 1) };
	return true;
}

int engine_pause_shadow(struct engine *e, bool pause)
{
	struct shadow *s = e->shadow.now ? e->shadow.now : e->shadow.paused;

	e->shadow.now = pause ? NULL : s;
	e->shadow.paused = pause ? s : NULL;
	engine_set_draft_hooks(e);
	return 0;
}

void engine_close_shadow(struct engine *e)
{
	shadow_close(e->shadow.now);
	shadow_close(e->shadow.paused);
	e->shadow.now = e->shadow.paused = NULL;
	engine_set_draft_hooks(e);
}

int engine_set_shadow(struct engine *e, const char *list, struct err *err)
{
	struct shadow *s = NULL;

	if (strlen(list) >= sizeof e->shadow.list)
		return err_set(err, ERR_USAGE, "the shadow setting is too long");
	if (strcmp(list, "off") != 0 && (engine_need_cost(e, err) || shadow_open(&s, list, &e->draft.env, err)))
		return -1;
	engine_close_shadow(e);
	e->shadow.now = s;
	engine_set_draft_hooks(e);
	snprintf(e->shadow.list, sizeof e->shadow.list, "%s", list);
	return 0;
}

/* Drafters that write ahead do so in pages of the step's branches, which are empty before it. */
static bool lend_pages(struct engine *e, struct draft_job *job)
{
	int32_t size = e->kv.store.page_size, first = (job->n - 1) / size, n = (job->n - 1 + DRAFT_MAX) / size - first + 1;
	int32_t *table = e->draft.branch + (size_t)e->draft.n_branches * (size_t)e->draft.branch_stride;

	if (e->draft.n_spare_used + n > ENGINE_SPARE_PAGES)
		return false;
	e->draft.n_branches++;
	memcpy(table, job->pages, (size_t)first * sizeof *table);
	for (int32_t b = first; b < first + n; b++)
		table[b] = e->kv.n_pages + e->draft.n_spare_used++;
	if ((job->n - 1) % size)
		kv_copy(&e->kv, table[first], job->pages[first]);
	job->pages = table;
	job->writable = true;
	return true;
}

int engine_shadow_ask(struct engine *e, int32_t n, int32_t nodes, int64_t propose_ns, struct err *err)
{
	bool lend = e->shadow.now && shadow_needs_pages(e->shadow.now);

	if (!e->shadow.now)
		return 0;
	for (int32_t i = 0; i < shadow_count(e->shadow.now); i++) {
		struct shadow_drafter *d = shadow_at(e->shadow.now, i);

		d->elsewhere = !strcmp(d->spec, e->draft.spec);
		for (int32_t k = 0; d->elsewhere && k < n; k++)
			shadow_note(e->shadow.now, i, &e->draft.jobs[k], propose_ns / n, true);
	}
	e->draft.n_branches = e->draft.n_spare_used = 0; /* the step begins with all of them */
	for (int32_t k = 0; k < n; k++) {
		e->draft.jobs[k].nodes = nodes;
		if (lend && !lend_pages(e, &e->draft.jobs[k]))
			n = k;
	}
	return shadow_ask(e->shadow.now, -1, e->draft.jobs, n, err);
}

/* ---- what is told ---- */

static struct ev_span text(const char *s)
{
	return (struct ev_span){ s, strlen(s) };
}

static double measured(const struct engine *e)
{
	return e->shadow.meter.tokens > 4 ? 1e9 * e->shadow.meter.tokens / e->shadow.meter.ns : (double)NAN;
}

/* Plain decoding of one request, tokens a second. */
static double plain_speed(const struct engine *e, double depth, int32_t n)
{
	double ns = draft_cost_ns(&e->measure.cost, n, depth) / n + e->measure.cost.token_ns;

	return ns > 0 ? 1e9 / ns : (double)NAN;
}

static void pack_counts(uint32_t *out, const double *in)
{
	for (int i = 0; i < DRAFT_MAX; i++)
		out[i] = (uint32_t)in[i];
}

static double sum_of(const double *v, int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += v[i];
	return sum;
}

static void tell_drafter(struct engine *e, struct shadow_drafter *d, double plain, int32_t n)
{
	uint32_t judged[DRAFT_MAX], accepted[DRAFT_MAX];
	struct event ev;
	struct ev_shadow *s = &ev.u.shadow;
	bool used = !strcmp(d->spec, e->draft.spec);
	double best;

	pack_counts(judged, d->all.judged);
	pack_counts(accepted, d->all.accepted);
	ev_init(&ev, EV_shadow);
	s->step = e->n_steps;
	s->drafter = text(d->spec);
	s->used = used;
	s->steps = (int64_t)d->all.steps;
	s->tokens = (int64_t)d->all.tokens;
	s->nodes = (int64_t)sum_of(d->all.have, DRAFT_NODES);
	s->propose_ns = (int64_t)d->all.propose_ns;
	s->learn_ns = (int64_t)d->all.learn_ns;
	s->judged = (struct ev_span){ judged, sizeof judged };
	s->accepted = (struct ev_span){ accepted, sizeof accepted };
	if (d->lately.steps > 0) {
		s->lately = d->lately.tokens / d->lately.steps;
		s->predicted = plain * shadow_speed(&d->lately, &e->measure.cost, DRAFT_NODES, n);
		s->best_nodes = shadow_best(&d->lately, &e->measure.cost, DRAFT_NODES, n, &best);
	}
	if (used)
		s->measured = measured(e);
	stream_emit(&e->stream, &ev);
}

static void tell_plain(struct engine *e, double plain)
{
	struct event ev;

	ev_init(&ev, EV_shadow);
	ev.u.shadow.step = e->n_steps;
	ev.u.shadow.drafter = text("off");
	ev.u.shadow.used = !strcmp(e->draft.spec, "off");
	ev.u.shadow.lately = 1;
	ev.u.shadow.predicted = plain;
	if (ev.u.shadow.used)
		ev.u.shadow.measured = measured(e);
	stream_emit(&e->stream, &ev);
}

/* What auto itself reached: it is none of those that it weighs. */
static void tell_auto(struct engine *e)
{
	struct event ev;

	ev_init(&ev, EV_shadow);
	ev.u.shadow.step = e->n_steps;
	ev.u.shadow.drafter = text(e->draft.spec);
	ev.u.shadow.used = 1;
	ev.u.shadow.measured = measured(e);
	stream_emit(&e->stream, &ev);
}

/* Steps of prompts are no measure of decoding. */
static void note_step(struct engine *e, double *depth, int32_t *members)
{
	double ns = (double)(stream_now(&e->stream) - e->step_start_ns), left;

	*depth = 0;
	*members = e->plan.n_items;
	for (int32_t i = 0; i < e->plan.n_items; i++)
		*depth += e->plan.item[i].pos / (double)e->plan.n_items;
	draft_cost_note(&e->measure.cost, e->plan.n_rows, *depth, (double)e->kernel_ns, ns - (double)e->counts.drafters_ns,
					e->counts.tokens);
	if (e->measure.cost.counted)
		ns = e->measure.cost.clock_ns - e->measure.step_clock_ns;
	left = exp2(-(double)e->counts.tokens / e->plan.n_items / SHADOW_HALF);
	e->shadow.meter.tokens = e->shadow.meter.tokens * left + e->counts.tokens / (double)e->plan.n_items;
	/* what is predicted is without those that guess beside it, and so is what it is compared with */
	e->shadow.meter.ns = e->shadow.meter.ns * left + ns - (double)e->counts.shadow_ns;
}

static void tell_choice(struct engine *e)
{
	struct auto_choice c;
	struct event ev;

	if (e->draft.ops != &draft_auto || !auto_changed(e->draft.drafter, &c) || !e->begun)
		return;
	ev_init(&ev, EV_choice);
	ev.u.choice = (struct ev_choice){ .step = e->n_steps, .drafter = text(c.spec), .nodes = c.nodes,
									  .before = text(c.before), .speed = c.speed, .speed_before = c.speed_before };
	stream_emit(&e->stream, &ev);
}

/* auto's own, unless the user asked for others. */
static struct shadow *shown(const struct engine *e)
{
	return e->shadow.now ? e->shadow.now : e->draft.ops == &draft_auto ? auto_shadow(e->draft.drafter) : NULL;
}

void engine_shadow_step(struct engine *e)
{
	struct shadow *told = shown(e);
	double depth, plain;
	int32_t n;

	if (!e->measure.cost.n || e->counts.prefill || !e->counts.tokens)
		return;
	note_step(e, &depth, &n);
	for (int32_t i = 0; e->shadow.now && i < shadow_count(e->shadow.now); i++)
		if (shadow_at(e->shadow.now, i)->elsewhere) {
			shadow_at(e->shadow.now, i)->all.learn_ns += (double)e->draft.learn_ns / n;
			shadow_at(e->shadow.now, i)->lately.learn_ns += (double)e->draft.learn_ns / n;
		}
	tell_choice(e);
	if (!told || !e->begun || (e->n_steps % TELL_EVERY && e->sched.n_running == n))
		return; /* now and then, and when a request has ended */
	plain = plain_speed(e, depth, n);
	tell_plain(e, plain);
	for (int32_t i = 0; i < shadow_count(told); i++)
		tell_drafter(e, shadow_at(told, i), plain, n);
	if (e->draft.ops == &draft_auto)
		tell_auto(e);
}
