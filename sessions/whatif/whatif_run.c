/* Runs the recorded requests again on an engine with other settings: they arrive, are rewound and
 * stopped as recorded. Either the engine draws itself, or nothing is computed and the tokens are
 * those of the log (engine_options.given); everything else is the same engine. See whatif.h. */
#include "engine/core/engine.h"
#include "sessions/whatif/whatif_impl.h"

enum { MAX_STEPS = 1 << 24, MAX_STALLS = 1024 };

struct rerun {
	struct recorded *r;
	struct engine *e;
	const struct whatif_settings *asked;
	bool real; /* with the model */
	struct counter counter;
	struct moment now;
	int32_t next, next_change;
	int32_t *script; /* script index by the engine's request number, from 1 */
	int32_t n_numbers;
	int32_t *open; /* scripts whose requests have not ended, in order of arrival */
	int32_t n_open;
	int64_t drawn;                /* in the step in progress */
	int64_t stalls;               /* calls of engine_step() since the last one that made a step */
	const struct script *differs; /* it drew another token than the log has, or NULL */
	const struct script *broken;  /* the log has more tokens of it than it can have */
};

static struct script *script_of(const struct rerun *w, int64_t number)
{
	return number >= 1 && number <= w->n_numbers ? &w->r->script[w->script[number]] : NULL;
}

static const struct act *next_act(const struct script *q)
{
	return q->at < q->n_acts ? &q->act[q->at] : NULL;
}

static bool is_next(const struct script *q, enum act_kind kind)
{
	const struct act *a = next_act(q);

	return a && a->kind == kind;
}

static void done(const struct rerun *w, struct script *q)
{
	q->at++;
	q->acted = w->counter.counts->steps;
	q->overdrawn = false;
}

/* ---- tokens from the log ---- */

static bool next_token(void *arg, int64_t request, int32_t *id)
{
	struct script *q = script_of(arg, request);

	q->overdrawn = !is_next(q, ACT_DRAWN); /* it waits for its cancel or its rewind */
	if (q->overdrawn)
		return false;
	*id = next_act(q)->value;
	return true;
}

static int end_of(void *arg, int64_t request)
{
	return is_next(script_of(arg, request), ACT_END) ? EV_FINISH_end : -1;
}

static int32_t only_token(void *arg, int64_t request, int32_t n)
{
	const struct script *q = script_of(arg, request);
	const struct act *a = n < q->n_acts - q->at ? &q->act[q->at + n] : NULL;

	return a && a->only ? a->value : -1;
}

/* ---- what the engine says ---- */

static void on_token(struct rerun *w, const struct ev_token *t)
{
	struct script *q = script_of(w, t->request);

	if (t->source == EV_SOURCE_forced)
		return;
	q->overdrawn = !is_next(q, ACT_DRAWN);
	if (q->overdrawn)
		return;
	w->drawn++;
	if (next_act(q)->value != t->id && !w->differs)
		w->differs = q;
	done(w, q);
}

static void on_finish(struct rerun *w, const struct ev_finish *f)
{
	struct script *q = script_of(w, f->request);
	bool at_limit =
		(f->reason == EV_FINISH_length || f->reason == EV_FINISH_context) && !f->why.size;
	int32_t at = 0;

	if (at_limit && is_next(q, ACT_DRAWN))
		w->broken = q;
	w->counter.counts->unfinished +=
		f->reason == EV_FINISH_refused || !(is_next(q, ACT_END) || is_next(q, ACT_CANCEL));
	while (w->open[at] != q - w->r->script)
		at++;
	w->n_open--;
	memmove(w->open + at, w->open + at + 1, (size_t)(w->n_open - at) * sizeof *w->open);
}

static void on_event(void *arg, const struct event *ev)
{
	struct rerun *w = arg;

	whatif_count(&w->counter, ev);
	switch (ev->kind) {
	case EV_token: on_token(w, &ev->u.token); break;
	case EV_finish: on_finish(w, &ev->u.finish); break;
	case EV_step:
		w->now.steps = w->drawn ? 0 : w->now.steps + 1;
		w->now.tokens += w->drawn;
		w->drawn = w->stalls = 0;
		break;
	default: break;
	}
}

/* ---- what comes from outside ---- */

static int submit(struct rerun *w, int32_t which, struct err *e)
{
	struct script *q = &w->r->script[which];
	const struct act *last = q->n_acts ? &q->act[q->n_acts - 1] : NULL;
	const struct history_request *h = q->q;
	struct engine_request spec = { .kind = h->kind,
		.ids = h->prompt,
		.n_ids = h->n_prompt,
		.max_tokens = h->max_tokens > 0 && h->max_tokens < INT32_MAX ? (int32_t)h->max_tokens : 0,
		.params = h->params,
		.sample = h->sample,
		.text = "",
		.grammar = h->grammar,
		.adapter = h->adapter,
		.bound_from = h->bound_from,
		.user = *h->user ? h->user : NULL,
		.priority = h->priority,
		.deadline = h->deadline,
		.pin = q->pin,
		.pooling = 1 + (int)h->pooling };

	q->at = 0;
	q->acted = w->counter.counts->steps;
	q->overdrawn = false;
	/* an end-of-turn token ends it here, too, as one always does where a grammar rules; after a
	 * stop string it is cancelled by the script */
	spec.ignore_end =
		!*h->grammar && (!last || last->kind != ACT_END || last->value != EV_FINISH_end);
	if (q->refused || q->q->kind == EV_REQUEST_KIND_verify)
		return 0;
	w->open[w->n_open++] = which; /* it may end at once */
	w->script[++w->n_numbers] = which;
	q->now = w->n_numbers;
	return engine_submit(w->e, &spec, e) < 0 ? -1 : 0;
}

static void unpin(struct rerun *w, int64_t recorded)
{
	for (int32_t i = 0; i < w->next; i++)
		if (w->r->script[i].id == recorded && w->r->script[i].pin)
			engine_unpin(w->e, w->r->script[i].now);
}

/* Most settings change while nothing runs, as it was when they did. */
static bool is_change_due(const struct rerun *w, const struct change *c)
{
	const struct setting *s = setting_find(engine_settings, c->name);

	return !w->n_open || ((!s || s->when > SETTING_IDLE) && moment_has_come(&w->now, c->at));
}

static void change(struct rerun *w, const struct change *c)
{
	struct err lacks = { 0 }; /* this version, the setting: then it stays */

	w->next_change++;
	if (c->unpin)
		unpin(w, c->unpin);
	else if (whatif_changes(w->asked, c, w->real))
		engine_set(w->e, c->name, c->value, &lacks);
}

/* Inputs of the same moment come in the order of the log. */
static int let_in(struct rerun *w, struct err *e)
{
	for (;;) {
		const struct change *c =
			w->next_change < w->r->n_changes ? &w->r->change[w->next_change] : NULL;

		if (c && w->next >= c->after) {
			if (!is_change_due(w, c))
				return 0;
			change(w, c);
		} else if (w->next == w->r->n ||
				   (w->n_open && !moment_has_come(&w->now, w->r->script[w->next].arrival))) {
			return 0;
		} else if (submit(w, w->next++, e)) {
			return -1;
		}
	}
}

static int go_back(struct rerun *w, struct script *q, struct err *e)
{
	int32_t keep = next_act(q)->value, forced = -1;

	done(w, q);
	if (is_next(q, ACT_FORCED))
		forced = q->act[q->at++].value;
	return engine_rewind(w->e, q->now, keep, forced, e);
}

/* At the recorded moment; as many steps after what the request did before; and at the latest when
 * it would have drawn beyond the log. Until it has done something it waits, as it may have then. */
static bool is_due(const struct rerun *w, const struct script *q, const struct act *a)
{
	return moment_has_come(&w->now, a->at) || q->overdrawn ||
		   (q->at > 0 && w->counter.counts->steps - q->acted >= a->after);
}

/* Repeats what the user did between two steps. */
static int follow(struct rerun *w, struct script *q, struct err *e)
{
	const struct act *a = next_act(q);
	/* it ends by itself */
	const enum ev_code_request_kind kind = q->q->kind;
	bool given = kind == EV_REQUEST_KIND_score || kind == EV_REQUEST_KIND_pin ||
				 kind == EV_REQUEST_KIND_embed;

	for (; a && a->kind != ACT_DRAWN; a = next_act(q)) {
		if ((a->kind == ACT_END && given) || !is_due(w, q, a))
			return 0;
		if (a->kind == ACT_FORCED)
			q->at++;
		else if (a->kind != ACT_REWIND)
			return engine_cancel(w->e, q->now), 0;
		else if (go_back(w, q, e))
			return -1;
	}
	return 0;
}

static int follow_all(struct rerun *w, struct err *e)
{
	for (int32_t i = 0; i < w->n_open;) {
		int32_t which = w->open[i];

		if (follow(w, &w->r->script[which], e))
			return -1;
		i += i < w->n_open && w->open[i] == which;
	}
	return 0;
}

/* ---- the run ---- */

static int rerun_check(const struct rerun *w, struct err *e)
{
	if (w->broken)
		return err_set(e, ERR_INPUT,
			"a damaged recording: request %lld drew more tokens than it or its context had "
			"room for",
			(long long)w->broken->id);
	if (w->differs)
		return err_set(e, ERR_DIFFERS,
			"request %lld draws other tokens here: another model, lossy settings that changed, "
			"other drafts under the rule rejection, or an error; see cutaway verify",
			(long long)w->differs->id);
	if (w->stalls > MAX_STALLS)
		return err_set(e, ERR_INPUT, "the requests cannot run with these settings");
	if (w->counter.counts->steps > MAX_STEPS)
		return err_set(e, ERR_INPUT, "more steps than any session has");
	return 0;
}

static int run_all(struct rerun *w, bool (*progress)(void *arg, int64_t done, int64_t all),
	void *arg, struct err *e)
{
	while (w->next < w->r->n || w->n_open) {
		if (let_in(w, e) || follow_all(w, e))
			return -1;
		w->stalls++;
		if (w->n_open && engine_step(w->e, e) < 0)
			return -1;
		if (rerun_check(w, e))
			return -1;
		if (progress && !progress(arg, w->counter.counts->tokens, w->r->counts.tokens))
			return err_set(e, ERR_INTERRUPTED, "stopped");
	}
	return 0;
}

/* What decides the tokens, and how they are kept, as the first request had it; without a model
 * nothing is rejected. Texts of *o then point to l's. */
static int put_recorded(
	const struct rerun *w, struct lossy_settings *l, struct engine_options *o, struct err *e)
{
	const struct history *h = w->r->history;
	const struct history_setting *rule = history_setting(h, "rule", h->request->seq);

	*l = history_lossy(h, h->request);
	if (rule && w->real && setting_put(&engine_settings[ENGINE_AT_rule], o, rule->value, e))
		return -1;
	return lossy_put(l, o, e);
}

static int rerun(struct rerun *w, struct engine_options o,
	bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct err *e)
{
	struct lossy_settings lossy;
	int rc = -1;

	memset(w->counter.counts, 0, sizeof *w->counter.counts);
	w->script = calloc((size_t)w->r->n + 1, sizeof *w->script);
	w->open = calloc((size_t)w->r->n + 1, sizeof *w->open);
	if (!w->script || !w->open) {
		err_no_memory(e, "%d requests", w->r->n);
	} else if (!put_recorded(w, &lossy, &o, e) && !engine_open(&w->e, &o, e)) {
		engine_observe(w->e, w->real);
		engine_add_sink(w->e, on_event, w);
		engine_begin(w->e, NULL);
		rc = run_all(w, progress, arg, e);
		engine_close(w->e);
	}
	free(w->script);
	free(w->open);
	free(w->counter.seen);
	return rc;
}

int whatif_rerun(struct recorded *r, const struct whatif_settings *asked, const struct cost *cost,
	const struct engine_options *real, bool (*progress)(void *arg, int64_t done, int64_t all),
	void *arg, struct whatif_counts *out, struct err *e)
{
	struct rerun w = {
		.r = r, .asked = asked, .real = real, .counter = { .counts = out, .cost = cost }
	};
	const struct engine_given given = { &w, r->memory.n ? &r->memory : NULL, next_token, end_of,
		only_token, r->start };
	struct engine_options o = real ? *real : ENGINE_DEFAULTS;

	if (!real)
		o.given = &given;
	return rerun(&w, whatif_whole(r, asked, &o), progress, arg, e);
}
