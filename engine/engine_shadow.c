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

	for (int32_t i = 0; e->begun && i < e->cost.n; i++) {
		const struct draft_cost_point *p = &e->cost.point[i];

		ev_init(&ev, EV_cost);
		ev.u.cost = (struct ev_cost){ .rows = p->rows, .depth = p->depth, .ns = (int64_t)p->ns, .runs = p->runs };
		stream_emit(&e->stream, &ev);
	}
}

int engine_need_cost(struct engine *e, struct err *err)
{
	if (e->cost.n)
		return 0;
	if (e->counted_cost)
		draft_cost_count(&e->cost, e->counted_cost, (double)e->info.weight_bytes);
	else if (draft_cost_measure(&e->cost, &e->forward, &e->kv, e->info.ctx, err))
		return -1;
	engine_tell_cost(e);
	return 0;
}

int engine_measure_cost(struct engine *e, bool anew, struct err *err)
{
	if (e->counted_cost || !e->cost.n)
		return engine_need_cost(e, err);
	if (anew ? draft_cost_measure(&e->cost, &e->forward, &e->kv, e->info.ctx, err)
			 : draft_cost_again(&e->cost, &e->forward, &e->kv, e->info.ctx, err))
		return -1;
	engine_tell_cost(e);
	return 0;
}

double engine_counted_ns(const struct engine *e)
{
	return e->cost.counted ? e->cost.clock_ns : (double)NAN;
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
	struct shadow *s = e->shadow ? e->shadow : e->paused;

	if (!s || i < 0 || i >= shadow_count(s))
		return false;
	*out = (struct engine_shadow){ shadow_at(s, i)->spec,
								   shadow_speed(&shadow_at(s, i)->all, &e->cost, DRAFT_NODES, 1) };
	return true;
}

int engine_pause_shadow(struct engine *e, bool pause)
{
	struct shadow *s = e->shadow ? e->shadow : e->paused;

	e->shadow = pause ? NULL : s;
	e->paused = pause ? s : NULL;
	engine_set_draft_hooks(e);
	return 0;
}

void engine_close_shadow(struct engine *e)
{
	shadow_close(e->shadow);
	shadow_close(e->paused);
	e->shadow = e->paused = NULL;
	engine_set_draft_hooks(e);
}

int engine_set_shadow(struct engine *e, const char *list, struct err *err)
{
	struct shadow *s = NULL;

	if (strlen(list) >= sizeof e->shadow_list)
		return err_set(err, ERR_USAGE, "the shadow setting is too long");
	if (strcmp(list, "off") != 0 && (engine_need_cost(e, err) || shadow_open(&s, list, &e->draft_env, err)))
		return -1;
	engine_close_shadow(e);
	e->shadow = s;
	engine_set_draft_hooks(e);
	snprintf(e->shadow_list, sizeof e->shadow_list, "%s", list);
	return 0;
}

/* Drafters that write ahead do so in pages of the step's branches, which are empty before it. */
static bool lend_pages(struct engine *e, struct draft_job *job)
{
	int32_t size = e->info.page_size, first = (job->n - 1) / size, n = (job->n - 1 + DRAFT_MAX) / size - first + 1;
	int32_t *table = e->branch + (size_t)e->n_branches * (size_t)e->branch_stride;

	if (e->n_spare_used + n > ENGINE_SPARE_PAGES)
		return false;
	e->n_branches++;
	memcpy(table, job->pages, (size_t)first * sizeof *table);
	for (int32_t b = first; b < first + n; b++)
		table[b] = e->info.pages + e->n_spare_used++;
	if ((job->n - 1) % size)
		kv_copy(&e->kv, table[first], job->pages[first]);
	job->pages = table;
	job->writable = true;
	return true;
}

int engine_shadow_ask(struct engine *e, int32_t n, int32_t nodes, int64_t propose_ns, struct err *err)
{
	bool lend = e->shadow && shadow_needs_pages(e->shadow);

	if (!e->shadow)
		return 0;
	for (int32_t i = 0; i < shadow_count(e->shadow); i++) {
		struct shadow_drafter *d = shadow_at(e->shadow, i);

		d->elsewhere = !strcmp(d->spec, e->spec);
		for (int32_t k = 0; d->elsewhere && k < n; k++)
			shadow_note(e->shadow, i, &e->jobs[k], propose_ns / n, true);
	}
	e->n_branches = e->n_spare_used = 0; /* the step begins with all of them */
	for (int32_t k = 0; k < n; k++) {
		e->jobs[k].nodes = nodes;
		if (lend && !lend_pages(e, &e->jobs[k]))
			n = k;
	}
	return shadow_ask(e->shadow, -1, e->jobs, n, err);
}

/* ---- what is told ---- */

static struct ev_span text(const char *s)
{
	return (struct ev_span){ s, strlen(s) };
}

static double measured(const struct engine *e)
{
	return e->meter.tokens > 4 ? 1e9 * e->meter.tokens / e->meter.ns : (double)NAN;
}

/* Plain decoding of one request, tokens a second. */
static double plain_speed(const struct engine *e, double depth, int32_t n)
{
	double ns = draft_cost_ns(&e->cost, n, depth) / n + e->cost.token_ns;

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
	bool used = !strcmp(d->spec, e->spec);
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
		s->predicted = plain * shadow_speed(&d->lately, &e->cost, DRAFT_NODES, n);
		s->best_nodes = shadow_best(&d->lately, &e->cost, DRAFT_NODES, n, &best);
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
	ev.u.shadow.used = !strcmp(e->spec, "off");
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
	ev.u.shadow.drafter = text(e->spec);
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
	draft_cost_note(&e->cost, e->plan.n_rows, *depth, (double)e->kernel_ns, ns - (double)e->counts.drafters_ns,
					e->counts.tokens);
	if (e->cost.counted)
		ns = e->cost.clock_ns - e->step_clock_ns;
	left = exp2(-(double)e->counts.tokens / e->plan.n_items / SHADOW_HALF);
	e->meter.tokens = e->meter.tokens * left + e->counts.tokens / (double)e->plan.n_items;
	/* what is predicted is without those that guess beside it, and so is what it is compared with */
	e->meter.ns = e->meter.ns * left + ns - (double)e->counts.shadow_ns;
}

static void tell_choice(struct engine *e)
{
	struct auto_choice c;
	struct event ev;

	if (e->draft_ops != &draft_auto || !auto_changed(e->drafter, &c) || !e->begun)
		return;
	ev_init(&ev, EV_choice);
	ev.u.choice = (struct ev_choice){ .step = e->n_steps, .drafter = text(c.spec), .nodes = c.nodes,
									  .before = text(c.before), .speed = c.speed, .speed_before = c.speed_before };
	stream_emit(&e->stream, &ev);
}

/* auto's own, unless the user asked for others. */
static struct shadow *shown(const struct engine *e)
{
	return e->shadow ? e->shadow : e->draft_ops == &draft_auto ? auto_shadow(e->drafter) : NULL;
}

void engine_shadow_step(struct engine *e)
{
	struct shadow *told = shown(e);
	double depth, plain;
	int32_t n;

	if (!e->cost.n || e->counts.prefill || !e->counts.tokens)
		return;
	note_step(e, &depth, &n);
	for (int32_t i = 0; e->shadow && i < shadow_count(e->shadow); i++)
		if (shadow_at(e->shadow, i)->elsewhere) {
			shadow_at(e->shadow, i)->all.learn_ns += (double)e->learn_ns / n;
			shadow_at(e->shadow, i)->lately.learn_ns += (double)e->learn_ns / n;
		}
	tell_choice(e);
	if (!told || !e->begun || (e->n_steps % TELL_EVERY && e->sched.n_running == n))
		return; /* now and then, and when a request has ended */
	plain = plain_speed(e, depth, n);
	tell_plain(e, plain);
	for (int32_t i = 0; i < shadow_count(told); i++)
		tell_drafter(e, shadow_at(told, i), plain, n);
	if (e->draft_ops == &draft_auto)
		tell_auto(e);
}
