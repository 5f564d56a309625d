/* Shadow mode: drafters that guess beside the run, as a hook of the step (events shadow and
 * choice). See shadow.h and draft_cost.h. Nothing here changes a token, a page or a plan. */
#include "engine/core/engine_impl.h"
#include "engine/core/measure.h"
#include "engine/draft/shadow.h"
#include "engine/draft/tree.h"

enum { EMIT_EVERY = 16 }; /* steps */

struct shadowing {
	struct shadow *now; /* NULL: off */
	char list[128];
	struct { /* of the drafter in use: sums that decay like shadow_sums */
		double tokens, ns;
		int32_t opened; /* which one it is: e->draft.n_opened */
	} meter;
	double clock_ns; /* with counted_cost: when the step began */
	/* by the clock that compares drafters: of the step; of the drafters in the shadow */
	int64_t shadow_ns;
};

extern const struct step_hooks shadow_hooks;

static struct shadowing *shadowing_of(const struct engine *e)
{
	return engine_hook_state(e, &shadow_hooks);
}

/* ---- drafters beside the run ---- */

static void shadowing_close(struct engine *e, void *state)
{
	(void)e;
	shadow_close(((struct shadowing *)state)->now);
}

static bool shadowing_hears(const void *state)
{
	return ((const struct shadowing *)state)->now;
}

bool engine_shadow_at(struct engine *e, int32_t i, struct engine_shadow *out)
{
	const struct shadowing *s = shadowing_of(e);
	struct shadow *all = s->now;

	if (!all || i < 0 || i >= shadow_count(all))
		return false;
	*out = (struct engine_shadow){ shadow_at(all, i)->spec,
		shadow_speed(&shadow_at(all, i)->all, &e->measure.cost, DRAFT_NODES, 1) };
	return true;
}

int engine_apply_shadow(struct engine *e, struct engine_options *to, struct err *err)
{
	const char *list = to->shadow;
	struct shadowing *s = shadowing_of(e);
	struct shadow *opened = NULL;
	const bool on = strcmp(list, "off") != 0;

	if (!s) /* a table of hooks without this one */
		return on ? err_set(err, ERR_USAGE, "shadow %.40s: this program has none", list) : 0;
	if (strlen(list) >= sizeof s->list)
		return err_set(err, ERR_USAGE, "the shadow setting is too long");
	if (on && e->model && e->model->diffusion.on)
		return err_set(
			err, ERR_USAGE, "shadow %.40s: a diffusion model has no next token to guess", list);
	if (on && (engine_need_cost(e, DRAFT_COST_ROWS, err) ||
				  shadow_open(&opened, list, &e->draft.env, err)))
		return -1;
	shadow_close(s->now);
	s->now = opened;
	engine_set_draft_hooks(e);
	snprintf(s->list, sizeof s->list, "%s", list);
	to->shadow = s->list;
	return 0;
}

/* ---- the step ---- */

static void shadowing_begin(struct engine *e, void *state)
{
	struct shadowing *s = state;

	s->clock_ns = e->measure.cost.clock_ns;
	s->shadow_ns = 0;
	if (s->meter.opened != e->draft.n_opened) {
		s->meter.tokens = s->meter.ns = 0;
		s->meter.opened = e->draft.n_opened;
	}
}

/* Drafters that store keys and values ahead use pages of the step's branches, which are free before
 * the step. */
static bool lend_pages(struct engine *e, struct draft_job *job)
{
	struct memory_table *branch = &e->draft.branch[e->draft.n_branches];

	if (!draft_branch(&e->memory, job->table, job->n - 1, DRAFT_MAX, branch))
		return false;
	e->draft.n_branches++;
	job->table = branch;
	job->writable = true;
	return true;
}

/* The drafter in use does not run a second time: the guesses it made for the step are scored. */
static void note_used(struct engine *e, struct shadow *s, int32_t n, int64_t propose_ns)
{
	for (int32_t i = 0; i < shadow_count(s); i++) {
		struct shadow_drafter *d = shadow_at(s, i);

		d->elsewhere = !strcmp(d->spec, e->draft.spec);
		for (int32_t k = 0; d->elsewhere && k < n; k++)
			shadow_note(s, i, &e->draft.jobs[k], propose_ns / n, true);
	}
}

static int shadowing_asked(
	struct engine *e, void *state, int32_t n, int32_t nodes, int64_t propose_ns, struct err *err)
{
	struct shadowing *s = state;
	int64_t start = draft_cost_now(&e->measure.cost);
	bool lend = s->now && shadow_needs_pages(s->now);
	int failed;

	if (!s->now)
		return 0;
	note_used(e, s->now, n, propose_ns);
	e->draft.n_branches = 0;
	memory_begin_step(&e->memory); /* gives all scratch pages back to the step */
	for (int32_t k = 0; k < n; k++) {
		e->draft.jobs[k].nodes = nodes;
		if (lend && !lend_pages(e, &e->draft.jobs[k]))
			n = k;
	}
	failed = shadow_ask(s->now, -1, e->draft.jobs, n, err);
	s->shadow_ns += draft_cost_now(&e->measure.cost) - start;
	return failed;
}

static int shadowing_seen(
	struct engine *e, void *state, const struct draft_seen *seen, int32_t n, struct err *err)
{
	struct shadowing *s = state;
	int64_t start = draft_cost_now(&e->measure.cost);
	int failed = s->now ? shadow_learn(s->now, seen, n, err) : 0;

	s->shadow_ns += draft_cost_now(&e->measure.cost) - start;
	return failed;
}

static void shadowing_forget(struct engine *e, void *state, int64_t request)
{
	struct shadowing *s = state;

	(void)e;
	if (s->now)
		shadow_forget(s->now, request);
}

/* ---- what is emitted ---- */

static double measured(const struct engine *e)
{
	const struct shadowing *s = shadowing_of(e);

	return s->meter.tokens > 4 ? 1e9 * s->meter.tokens / s->meter.ns : (double)NAN;
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

/* Begins the event of one drafter: the caller fills in the prediction. */
static struct ev_shadow *shadow_event(const struct engine *e, const char *spec, struct event *ev)
{
	ev_init(ev, EV_shadow);
	ev->u.shadow.step = e->n_steps;
	ev->u.shadow.drafter = ev_text(spec);
	ev->u.shadow.used = !strcmp(spec, e->draft.spec);
	if (ev->u.shadow.used)
		ev->u.shadow.measured = measured(e);
	return &ev->u.shadow;
}

static void emit_drafter(struct engine *e, struct shadow_drafter *d, double plain, int32_t n)
{
	uint32_t tried[DRAFT_MAX], accepted[DRAFT_MAX];
	struct event ev;
	struct ev_shadow *s = shadow_event(e, d->spec, &ev);
	double best;

	pack_counts(tried, d->all.tried);
	pack_counts(accepted, d->all.accepted);
	s->steps = (int64_t)d->all.steps;
	s->tokens = (int64_t)d->all.tokens;
	s->nodes = (int64_t)sum_of(d->all.have, DRAFT_NODES);
	s->propose_ns = (int64_t)d->all.propose_ns;
	s->learn_ns = (int64_t)d->all.learn_ns;
	s->verified = (struct ev_span){ tried, sizeof tried };
	s->accepted = (struct ev_span){ accepted, sizeof accepted };
	if (d->recent.steps > 0) {
		s->tokens_ema = d->recent.tokens / d->recent.steps;
		s->predicted = plain * shadow_speed(&d->recent, &e->measure.cost, DRAFT_NODES, n);
		s->best_nodes = shadow_best(&d->recent, &e->measure.cost, DRAFT_NODES, n, &best);
	}
	stream_emit(&e->stream, &ev);
}

static void emit_plain(struct engine *e, double plain)
{
	struct event ev;
	struct ev_shadow *s = shadow_event(e, "off", &ev);

	s->tokens_ema = 1;
	s->predicted = plain;
	stream_emit(&e->stream, &ev);
}

/* Emits the speed that a drafter which compares others reached itself: it is none of them. */
static void emit_weigher(struct engine *e)
{
	struct event ev;

	shadow_event(e, e->draft.spec, &ev);
	stream_emit(&e->stream, &ev);
}

/* Steps of prompts are no measure of decoding. */
static void note_step(struct engine *e, struct shadowing *s, double *depth, int32_t *members)
{
	double ns = (double)(stream_now(&e->stream) - e->step_start_ns), left;

	*depth = 0;
	*members = e->plan.n_items;
	for (int32_t i = 0; i < e->plan.n_items; i++)
		*depth += e->plan.item[i].pos / (double)e->plan.n_items;
	draft_cost_note(&e->measure.cost, e->plan.n_rows, *depth, (double)e->step.kernel_ns,
		ns - (double)e->step.drafters_ns, e->step.tokens);
	if (e->measure.cost.counted)
		ns = e->measure.cost.clock_ns - s->clock_ns;
	left = exp2(-(double)e->step.tokens / e->plan.n_items / SHADOW_HALF);
	s->meter.tokens = s->meter.tokens * left + e->step.tokens / (double)e->plan.n_items;
	/* the prediction leaves out the drafters in the shadow, so the measured time leaves them out
	 * too */
	s->meter.ns = s->meter.ns * left + ns - (double)s->shadow_ns;
}

static void emit_choice(struct engine *e)
{
	struct draft_choice c;

	if (e->draft.ops && e->draft.ops->chose && e->draft.ops->chose(e->draft.drafter, &c) &&
		e->begun)
		STREAM_EMIT(&e->stream, choice, .step = e->n_steps, .drafter = ev_text(c.spec),
			.nodes = c.nodes, .before = ev_text(c.before), .speed = c.speed,
			.speed_before = c.speed_before);
}

static void shadowing_done(struct engine *e, void *state)
{
	struct shadowing *s = state;
	struct shadow *weighed = draft_weighed(e->draft.ops, e->draft.drafter);
	/* the drafter's own candidates, unless the user set `shadow` */
	struct shadow *told = s->now ? s->now : weighed;
	double depth, plain;
	int32_t n;

	if (!e->measure.cost.n || e->step.prefill_rows || !e->step.tokens)
		return;
	note_step(e, s, &depth, &n);
	for (int32_t i = 0; s->now && i < shadow_count(s->now); i++)
		if (shadow_at(s->now, i)->elsewhere) {
			shadow_at(s->now, i)->all.learn_ns += (double)e->draft.learn_ns / n;
			shadow_at(s->now, i)->recent.learn_ns += (double)e->draft.learn_ns / n;
		}
	emit_choice(e);
	if (!told || !e->begun || (e->n_steps % EMIT_EVERY && e->sched.n_running == n))
		return; /* every EMIT_EVERY steps, and when a request has ended */
	plain = plain_speed(e, depth, n);
	emit_plain(e, plain);
	for (int32_t i = 0; i < shadow_count(told); i++)
		emit_drafter(e, shadow_at(told, i), plain, n);
	if (weighed)
		emit_weigher(e);
}

const struct step_hooks shadow_hooks = {
	.name = "shadow",
	.size = sizeof(struct shadowing),
	.close = shadowing_close,
	.begin = shadowing_begin,
	.hears = shadowing_hears,
	.asked = shadowing_asked,
	.seen = shadowing_seen,
	.done = shadowing_done,
	.forget = shadowing_forget,
};
