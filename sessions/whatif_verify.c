/* The same requests for real: an engine with the other settings runs them, and draws for itself. See whatif.h. */
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "sessions/whatif_impl.h"

#include "sessions/session.h"

struct real {
	struct recorded *r;
	struct engine *e;
	struct counter counter;
	struct whatif_counts *counts;
	struct moment now;
	const struct whatif_settings *asked;
	int32_t next, next_change, n_open, differs; /* differs: place of a request that drew another token, or -1 */
	int64_t drawn;				   /* in the step that is open */
};

static struct script *find(struct real *w, int64_t number)
{
	for (int32_t i = 0; i < w->r->n; i++)
		if (w->r->script[i].now == number)
			return &w->r->script[i];
	return NULL;
}

static void on_token(struct real *w, const struct ev_token *t)
{
	struct script *q = find(w, t->request);

	if (t->source == EV_SOURCE_forced)
		return;
	if (!q || q->at >= q->n_acts || q->act[q->at].kind != ACT_DRAWN) {
		if (q)
			q->overdrawn = true;
		return;
	}
	w->drawn++;
	if (q->act[q->at].value != t->id && w->differs < 0)
		w->differs = (int32_t)(q - w->r->script);
	q->at++;
}

/* It stands where the log has its end, or the log's. */
static bool is_as_recorded(const struct script *q)
{
	return q->at >= q->n_acts || q->act[q->at].kind == ACT_END || q->act[q->at].kind == ACT_CANCEL;
}

static void on_event(void *arg, const struct event *ev)
{
	struct real *w = arg;
	struct script *q;

	whatif_count(&w->counter, ev);
	if (ev->kind == EV_token) {
		on_token(w, &ev->u.token);
	} else if (ev->kind == EV_admit || ev->kind == EV_preempt) {
		q = find(w, ev->kind == EV_admit ? ev->u.admit.request : ev->u.preempt.request);
		if (q)
			q->running = ev->kind == EV_admit;
	} else if (ev->kind == EV_finish) {
		q = find(w, ev->u.finish.request);
		if (q) {
			w->counts->unfinished += !is_as_recorded(q);
			q->now = 0;
		}
		w->n_open--;
	} else if (ev->kind == EV_step) {
		w->now.steps = w->drawn ? 0 : w->now.steps + 1;
		w->now.tokens += w->drawn;
		w->drawn = 0;
	}
}

static int let_in(struct real *w, struct err *e)
{
	for (; w->next_change < w->r->n_changes; w->next_change++) {
		const struct change *c = &w->r->change[w->next_change];

		if (!moment_has_come(&w->now, c->at))
			break;
		if (whatif_changes(w->asked, c))
			engine_set(w->e, c->name, c->value, NULL);
	}
	while (w->next < w->r->n && (moment_has_come(&w->now, w->r->script[w->next].arrival) || !w->n_open)) {
		struct script *q = &w->r->script[w->next++];
		struct engine_request spec = { .kind = q->kind, .ids = q->ids, .n_ids = q->n_ids,
									   .max_tokens = q->max_tokens, .params = q->params,
									   .sample = q->sample, .text = "" };

		q->at = 0;
		q->running = q->overdrawn = false;
		/* an end of the turn ends it here too; what a stop string ended is stopped from outside */
		spec.ignore_end = !q->n_acts || q->act[q->n_acts - 1].kind != ACT_END ||
						  q->act[q->n_acts - 1].value != EV_FINISH_end;
		if (q->refused || q->kind == EV_REQUEST_KIND_verify)
			continue;
		w->n_open++;
		q->now = engine_submit(w->e, &spec, e);
		if (q->now < 0)
			return -1;
	}
	return 0;
}

/* What the person did then, and the ends that the log has (stop strings and ends of turns, too). */
static int follow(struct real *w, struct script *q, struct err *e)
{
	while (q->now && q->at < q->n_acts && q->act[q->at].kind != ACT_DRAWN) {
		const struct act *a = &q->act[q->at];

		bool due = moment_has_come(&w->now, a->at);

		if (a->kind == ACT_END && q->kind == EV_REQUEST_KIND_score)
			return 0; /* ends by itself */

		if (!due && a->kind == ACT_CANCEL && !q->overdrawn && !(q->running && q->at > 0))
			return 0;
		if (!due && a->kind == ACT_REWIND && !q->running)
			return 0;
		if (a->kind == ACT_END || a->kind == ACT_CANCEL) {
			engine_cancel(w->e, q->now);
			return 0;
		}
		q->at++;
		if (a->kind == ACT_REWIND) {
			bool forced = q->at < q->n_acts && q->act[q->at].kind == ACT_FORCED;

			if (engine_rewind(w->e, q->now, a->value, forced ? q->act[q->at].value : -1, e))
				return -1;
			q->at += forced;
		}
	}
	if (q->now && q->at >= q->n_acts && q->kind != EV_REQUEST_KIND_score) /* the log ends here */
		engine_cancel(w->e, q->now);
	return 0;
}

static int run(struct real *w, bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct err *e)
{
	while (w->next < w->r->n || w->n_open > 0) {
		if (let_in(w, e))
			return -1;
		for (int32_t i = 0; i < w->next; i++)
			if (w->r->script[i].now && follow(w, &w->r->script[i], e))
				return -1;
		if (w->n_open > 0 && engine_step(w->e, e) < 0)
			return -1;
		if (w->differs >= 0)
			return err_set(e, ERR_DIFFERS,
						   "request %lld draws other tokens here: not the same model, or an error; see cutaway "
						   "verify",
						   (long long)w->r->script[w->differs].id);
		if (progress && !progress(arg, w->counts->tokens, w->r->counts.tokens))
			return err_set(e, ERR_INTERRUPTED, "stopped");
	}
	return 0;
}

int whatif_verify(const char *path, const struct whatif_settings *s, const struct engine_options *o,
				  bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct whatif *out,
				  struct err *e)
{
	struct recorded r;
	struct real w = { .r = &r, .asked = s, .differs = -1 };
	struct whatif_settings whole;
	struct engine_options with = *o;
	struct session session;
	int rc = -1;

	if (whatif_read(path, &r, e))
		return -1;
	if (r.inexact) {
		whatif_free(&r);
		return err_set(e, ERR_INPUT,
					   "%s: recorded with `exact off`, so its logits depended on more than its tokens (how many rows a "
					   "step had, and the hardware): a run for real may draw others; without --verify the recorded "
					   "tokens are taken as they are", path);
	}
	whole = whatif_whole(&r, s);
	with.page_size = whole.page_size;
	with.pages = whole.pages;
	with.slots = whole.slots;
	with.prefill_chunk = whole.prefill_chunk;
	with.budget = whole.budget;
	with.prefix_cache = whole.prefix_cache == 1;
	with.evict = whole.evict;
	with.policy = whole.policy;
	with.spec = whole.spec;
	with.ctx = r.ctx;
	memset(&out->real, 0, sizeof out->real);
	w.counts = &out->real;
	w.counter.counts = &out->real;
	if (!session_open(&session, &(struct session_options){ .engine = with, .sink = on_event, .arg = &w }, e)) {
		w.e = session.engine;
		if (!session_begin(&session, NULL, NULL, e))
			rc = run(&w, progress, arg, e);
		session_close(&session, NULL);
	}
	out->verified = !rc;
	free(w.counter.seen);
	whatif_free(&r);
	return rc;
}
