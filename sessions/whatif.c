/* See whatif.h. The run without the model: engine/engine_step.c with the log in place of the kernels and of the
 * draws. What it does between plan and finish must stay what the engine does; tests/test_whatif holds them
 * together by running both. */
#include "sessions/whatif.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sched/sched.h"
#include "sessions/whatif_impl.h"

enum { SCORE_ROWS = 64, MAX_STEPS = 1 << 24 };

struct sim {
	struct recorded *r;
	struct stream stream;
	struct kv kv;
	struct prefix prefix;
	struct sched sched;
	struct plan plan;
	const struct draft_ops *ops;
	struct drafter *drafter;
	struct draft_job *jobs; /* [slots] */
	struct cost cost;
	struct counter counter;
	struct whatif_counts *counts;
	struct moment now;
	int64_t step;
	int32_t next, next_change, n_open;
	const struct script *broken; /* of which the log has what cannot be */
	const struct whatif_settings *asked;
};

static struct script *script_of(const struct sim *s, const struct request *r)
{
	return &s->r->script[r->parent]; /* its place: the engine itself makes no use of the parent */
}

static void on_page_change(void *arg, const struct kv_change *c)
{
	struct sim *s = arg;

	s->counts->evictions += c->action == EV_PAGE_evict;
	s->counts->copies += c->action == EV_PAGE_copy;
}

static void on_event(void *arg, const struct event *ev)
{
	whatif_count(&((struct sim *)arg)->counter, ev);
}

/* Only drafters that need no model open here, and those cannot fail. As engine/engine_draft.c does it. */
static void propose(void *arg, struct request **r, int32_t n, int32_t nodes)
{
	struct sim *s = arg;
	int32_t width = s->ops->width(s->drafter), spare = DRAFT_SPARE, n_jobs = 0;

	for (int32_t i = 0; i < n; i++) {
		int32_t depth = r[i]->limit - r[i]->n_ids - 1;

		s->jobs[n_jobs] = (struct draft_job){ .request = r[i]->id, .ids = r[i]->ids, .n = r[i]->n_ids,
											  .n_prompt = r[i]->n_prompt, .nodes = nodes < width ? nodes : width,
											  .depth = depth < DRAFT_MAX ? depth : DRAFT_MAX,
											  .params = &r[i]->params, .sample = r[i]->sample, .out = &r[i]->draft };
		n_jobs += depth > 0;
	}
	if (n_jobs)
		s->ops->propose(s->drafter, s->jobs, n_jobs, NULL);
	for (int32_t i = 0; i < n_jobs; i++)
		draft_fit(s->jobs[i].out, &s->jobs[i], s->kv.store.page_size, &spare);
}

/* ---- settings ---- */

static void set_spec(struct sim *s, const char *spec)
{
	struct drafter *d = NULL;
	const struct draft_ops *ops = NULL;

	if (draft_open(spec, NULL, &ops, &d, NULL))
		return; /* a drafter that this cutaway has not */
	if (s->ops)
		s->ops->close(s->drafter);
	s->ops = ops;
	s->drafter = d;
	s->sched.propose = ops ? propose : NULL;
	s->sched.arg = s;
}

static int policy_of(const char *name)
{
	for (int i = 0; prefix_policies[i]; i++)
		if (!strcmp(prefix_policies[i], name))
			return i;
	return -1;
}

static void set_cache(struct sim *s, bool on)
{
	s->prefix.on = on;
	if (!on)
		prefix_clear(&s->prefix);
}

static int open_pages(struct sim *s, int32_t size, int32_t pages, struct err *e)
{
	/* one number a position is enough: pages are only counted */
	const struct k_kv shape = { .page_size = size, .n_layers = 1, .n_kv_heads = 1, .head_dim = 1 };

	if (kv_open(&s->kv, NULL, &shape, pages, 0, e))
		return -1;
	s->kv.on_change = on_page_change;
	s->kv.arg = s;
	return prefix_open(&s->prefix, &s->kv, e);
}

static void change_page_size(struct sim *s, int32_t size)
{
	int64_t tokens = (int64_t)s->kv.n_pages * s->kv.store.page_size;
	const enum prefix_policy policy = s->prefix.policy;
	const bool on = s->prefix.on;

	if (size < 16 || size > 1024 || size % 16 || s->n_open || tokens < size)
		return;
	prefix_clear(&s->prefix);
	prefix_close(&s->prefix);
	kv_close(&s->kv);
	if (open_pages(s, size, (int32_t)(tokens / size), NULL))
		return;
	s->prefix.on = on;
	s->prefix.policy = policy;
}

static void apply(struct sim *s, const struct change *c)
{
	int32_t n = (int32_t)strtol(c->value, NULL, 10);

	if (!whatif_changes(s->asked, c))
		return;
	if (!strcmp(c->name, "prefill-chunk") && n >= 0)
		s->sched.chunk = n;
	else if (!strcmp(c->name, "budget") && n >= s->sched.n_slots)
		s->sched.budget = n;
	else if (!strcmp(c->name, "prefix-cache"))
		set_cache(s, !strcmp(c->value, "on"));
	else if (!strcmp(c->name, "evict") && policy_of(c->value) >= 0)
		s->prefix.policy = (enum prefix_policy)policy_of(c->value);
	else if (!strcmp(c->name, "policy") && sched_policy_find(c->value, NULL))
		s->sched.policy = sched_policy_find(c->value, NULL);
	else if (!strcmp(c->name, "spec"))
		set_spec(s, c->value);
	else if (!strcmp(c->name, "page-size"))
		change_page_size(s, n);
}

static int open_sim(struct sim *s, struct recorded *r, const struct whatif_settings *w, struct err *e)
{
	int32_t max_out = w->slots * (1 + DRAFT_MAX);
	int policy = policy_of(w->evict);

	if (policy < 0)
		return err_set(e, ERR_USAGE, "evict %s: lru, fifo or lfu is needed", w->evict);
	if (draft_open(w->spec, NULL, &s->ops, &s->drafter, e) || stream_open(&s->stream, 0, NULL, NULL, e) ||
		open_pages(s, w->page_size, w->pages, e) ||
		sched_open(&s->sched, &s->kv, &s->prefix, &s->stream, w->slots, r->ctx / 16 + 2, e))
		return -1;
	s->prefix.on = w->prefix_cache == 1;
	s->prefix.policy = (enum prefix_policy)policy;
	s->sched.policy = sched_policy_find(w->policy, e);
	if (!s->sched.policy)
		return -1;
	s->sched.max_out = max_out > SCORE_ROWS ? max_out : SCORE_ROWS;
	s->sched.budget = w->budget;
	s->sched.chunk = w->prefill_chunk;
	s->sched.propose = s->ops ? propose : NULL;
	s->sched.arg = s;
	s->plan.item = calloc((size_t)w->slots, sizeof *s->plan.item);
	s->jobs = calloc((size_t)w->slots, sizeof *s->jobs);
	if (!s->plan.item || !s->jobs)
		return err_set(e, ERR_MEMORY, "no memory for %d slots", w->slots);
	stream_add(&s->stream, on_event, s);
	stream_begin(&s->stream);
	return 0;
}

static void close_sim(struct sim *s)
{
	sched_close(&s->sched);
	prefix_close(&s->prefix);
	kv_close(&s->kv);
	stream_close(&s->stream);
	if (s->ops)
		s->ops->close(s->drafter);
	free(s->plan.item);
	free(s->jobs);
	free(s->counter.seen);
}

/* ---- what comes from outside ---- */

static int submit(struct sim *s, int32_t place, struct err *e)
{
	struct script *q = &s->r->script[place];
	struct engine_request spec = { .kind = q->kind, .ids = q->ids, .n_ids = q->n_ids, .parent = place,
								   .max_tokens = q->max_tokens, .params = q->params, .sample = q->sample };
	struct request *r;
	int32_t need;

	q->at = 0;
	q->overdrawn = false;
	if (q->refused || q->kind == EV_REQUEST_KIND_verify)
		return 0;
	need = q->n_ids + (q->kind != EV_REQUEST_KIND_score);
	if (need > s->r->ctx || (need - 2) / s->kv.store.page_size + 1 > s->kv.n_pages) {
		s->counts->unfinished++;
		return 0;
	}
	/* also for a page size that is set while it runs: pages never get smaller than 16 */
	r = request_new(&spec, s->r->ctx, 16);
	if (!r)
		return err_set(e, ERR_MEMORY, "no memory for a request of %d tokens", q->n_ids);
	r->id = place + 1;
	if (sched_add(&s->sched, r, e)) {
		request_free(r);
		return -1;
	}
	s->n_open++;
	return 0;
}

static int let_in(struct sim *s, struct err *e)
{
	bool idle = !s->n_open;

	for (;;) {
		bool change = s->next_change < s->r->n_changes && moment_has_come(&s->now, s->r->change[s->next_change].at);
		bool request = s->next < s->r->n && (moment_has_come(&s->now, s->r->script[s->next].arrival) || idle);

		/* what came at one moment comes in the order of the log: settings first, as they are looked for */
		if (change)
			apply(s, &s->r->change[s->next_change++]);
		else if (!request)
			return 0;
		else if (submit(s, s->next++, e))
			return -1;
		idle = !s->n_open;
	}
}

/* ---- what follows a draw ---- */

static void finish(struct sim *s, struct request *r, bool as_recorded)
{
	sched_register(&s->sched, r);
	sched_remove(&s->sched, r);
	if (s->ops && s->ops->forget)
		s->ops->forget(s->drafter, r->id);
	request_free(r);
	s->n_open--;
	s->counts->unfinished += !as_recorded;
}

/* The end that the log has next comes within the step. False if the request has ended. */
static bool goes_on(struct sim *s, struct request *r)
{
	const struct script *q = script_of(s, r);

	if (q->at < q->n_acts && q->act[q->at].kind != ACT_END)
		return true;
	finish(s, r, q->at < q->n_acts); /* or the log ends here: it was killed, or still grows */
	return false;
}

/* What a person did between two steps: at the moment of the log, and at the latest when the request would draw
 * what it never drew. */
static void interfere(struct sim *s, struct request *r)
{
	struct script *q = script_of(s, r);

	if (q->at >= q->n_acts && !request_is_given(r)) { /* the log ends here: it was killed, or still grows */
		finish(s, r, false);
		return;
	}
	while (q->at < q->n_acts && q->act[q->at].kind != ACT_DRAWN) {
		const struct act *a = &q->act[q->at];

		if (a->kind == ACT_END && request_is_given(r))
			return; /* ends by itself */
		bool due = moment_has_come(&s->now, a->at);

		if (a->kind == ACT_END || a->kind == ACT_CANCEL) {
			if (due || a->kind == ACT_END || q->overdrawn || (r->slot >= 0 && q->at > 0))
				finish(s, r, true);
			return;
		}
		if (a->kind == ACT_REWIND && !due && r->slot < 0)
			return;
		q->at++;
		if (a->kind == ACT_REWIND && a->value >= r->n_prompt && a->value <= r->n_ids) {
			bool forced = q->at < q->n_acts && q->act[q->at].kind == ACT_FORCED;

			r->n_ids = a->value;
			r->draft.n = 0;
			r->starved = false;
			sched_rewind(&s->sched, r, forced ? a->value : a->value - 1);
		} else if (a->kind == ACT_FORCED && r->n_ids < r->limit) {
			r->ids[r->n_ids++] = a->value;
		}
	}
}

static void interfere_all(struct sim *s)
{
	for (int32_t i = 0; i < s->sched.n_slots; i++)
		if (s->sched.slot[i])
			interfere(s, s->sched.slot[i]);
	for (int32_t i = s->sched.n_queue - 1; i >= 0; i--)
		interfere(s, s->sched.queue[i]);
}

/* The token that was drawn then is drawn now. False if the request has no more of its own: it ended, or waits for
 * its cancel. */
static bool draw(struct sim *s, struct request *r)
{
	struct script *q = script_of(s, r);

	q->overdrawn = q->at >= q->n_acts || q->act[q->at].kind != ACT_DRAWN;
	if (!q->overdrawn && r->n_ids >= r->limit)
		s->broken = q;
	if (q->overdrawn || s->broken)
		return false;
	r->ids[r->n_ids++] = q->act[q->at++].value;
	s->counts->tokens++;
	return true;
}

/* As far as was computed, but for the newest token, which always is computed. */
static void register_pages(struct sim *s, struct request *r)
{
	if (r->computed >= r->n_ids)
		r->computed = r->n_ids - 1;
	sched_register(&s->sched, r);
}

static void after_decode(struct sim *s, const struct plan_item *item)
{
	struct request *r = item->r;
	int32_t node = -1;

	do {
		r->computed++;
		if (!draw(s, r))
			break;
		node = item->n_drafts ? draft_child(&r->draft, node, r->ids[r->n_ids - 1]) : -1;
		s->counts->accepted += node >= 0;
		if (!goes_on(s, r))
			return;
	} while (node >= 0);
	register_pages(s, r);
}

static void after(struct sim *s, const struct plan_item *item)
{
	struct request *r = item->r;

	if (item->work != EV_WORK_prefill) {
		after_decode(s, item);
		return;
	}
	r->computed += item->n_rows;
	if (r->kind == EV_REQUEST_KIND_score) {
		if (r->computed == r->n_ids - 1)
			finish(s, r, true);
		return;
	}
	if (item->n_out && draw(s, r) && !goes_on(s, r))
		return;
	register_pages(s, r);
}

static void end_starved(struct sim *s)
{
	for (int32_t i = 0; i < s->sched.n_slots; i++) {
		struct request *r = s->sched.slot[i];

		if (r && r->starved) {
			struct script *q = script_of(s, r);
			bool ended = q->at < q->n_acts && q->act[q->at].kind == ACT_END;

			finish(s, r, ended);
		}
	}
}

static void count_step(struct sim *s)
{
	double kv = 0, rows = 0, prefill = 0;

	for (int32_t i = 0; i < s->plan.n_items; i++) {
		const struct plan_item *item = &s->plan.item[i];

		kv += item->pos + item->n_rows;
		rows += item->n_rows;
		prefill += item->work == EV_WORK_prefill ? item->n_rows : 0;
		s->counts->drafted += item->n_drafts;
	}
	s->counts->steps++;
	s->counts->prefill_rows += (int64_t)prefill;
	s->counts->seconds += cost_of(&s->cost, rows, prefill, kv) / 1e9;
}

static int run(struct sim *s, struct err *e)
{
	while (s->next < s->r->n || s->n_open) {
		int64_t tokens = s->counts->tokens;

		if (let_in(s, e))
			return -1;
		interfere_all(s);
		if (!s->n_open)
			continue;
		s->sched.step = ++s->step;
		sched_plan(&s->sched, &s->plan);
		end_starved(s);
		if (!s->plan.n_items) {
			s->step--;
			if (!s->n_open || s->sched.n_running)
				continue;
			return err_set(e, ERR_INPUT, "the requests cannot run with these settings");
		}
		if (s->step > MAX_STEPS)
			return err_set(e, ERR_INPUT, "more steps than any session has");
		count_step(s);
		for (int32_t i = 0; i < s->plan.n_items; i++)
			after(s, &s->plan.item[i]);
		if (s->broken)
			return err_set(e, ERR_INPUT, "a damaged recording: request %lld drew more tokens than it or its context had "
						   "room for", (long long)s->broken->id);
		if (s->kv.n_used > s->counts->peak_pages)
			s->counts->peak_pages = s->kv.n_used;
		s->now.steps = s->counts->tokens > tokens ? 0 : s->now.steps + 1;
		s->now.tokens = s->counts->tokens;
	}
	return 0;
}

static int simulate(struct recorded *r, const struct whatif_settings *asked, const struct cost *cost,
					struct whatif_counts *out, struct err *e)
{
	struct whatif_settings w = whatif_whole(r, asked);
	struct sim s = { .r = r, .cost = *cost, .counts = out, .counter = { .counts = out } };
	int rc;

	memset(out, 0, sizeof *out);
	s.asked = asked;
	rc = open_sim(&s, r, &w, e) || run(&s, e) ? -1 : 0;
	close_sim(&s);
	return rc;
}

/* Does it guess without the model? Others cannot be simulated: their guesses are not in the log but as far as they
 * were checked. */
static bool is_simple(const char *spec)
{
	const struct draft_ops *ops = NULL;
	struct drafter *d = NULL;
	struct err unused = { 0 };

	if (draft_open(spec, NULL, &ops, &d, &unused)) {
		for (int i = 0; draft_table[i]; i++)
			if (!strncmp(spec, draft_table[i]->name, strcspn(spec, ":")) &&
				strlen(draft_table[i]->name) == strcspn(spec, ":"))
				return false;
		return true; /* nobody's name: who opens it says so */
	}
	if (ops)
		ops->close(d);
	return true;
}

/* The first drafter of the recording that needs the model, or NULL. */
static const char *recorded_drafter(const struct recorded *r)
{
	if (!is_simple(r->spec))
		return r->spec;
	for (int32_t i = 0; i < r->n_changes; i++)
		if (!strcmp(r->change[i].name, "spec") && !is_simple(r->change[i].value))
			return r->change[i].value;
	return NULL;
}

static int check_drafters(const char *path, const struct recorded *r, const struct whatif_settings *s,
						  struct whatif *out, struct err *e)
{
	const char *needs = recorded_drafter(r);

	if (s->spec && !is_simple(s->spec))
		return err_set(e, ERR_USAGE, "'%s' guesses with the model, or weighs those who do: that cannot be simulated "
									 "from a log; off and ngram can", s->spec);
	if (needs && !s->spec)
		return err_set(e, ERR_USAGE, "%s was recorded with '%s', whose guesses need the model and cannot be simulated; "
									 "--spec off or --spec ngram asks about the rest", path, needs);
	out->unchecked = needs != NULL;
	out->inexact = r->inexact;
	return 0;
}

int whatif_run(const char *path, const struct whatif_settings *s, struct whatif *out, struct err *e)
{
	struct whatif_settings as_recorded = WHATIF_AS_RECORDED;
	struct recorded r;
	struct cost cost;
	int rc;

	memset(out, 0, sizeof *out);
	if (whatif_read(path, &r, e))
		return -1;
	cost_fit(&cost, &r, out);
	out->recorded = r.counts;
	if (check_drafters(path, &r, s, out, e)) {
		whatif_free(&r);
		return -1;
	}
	if (out->unchecked)
		as_recorded.spec = s->spec;
	rc = simulate(&r, &as_recorded, &cost, &out->again, e) || simulate(&r, s, &cost, &out->changed, e) ? -1 : 0;
	if (!out->unchecked) /* else `again` has another drafter, and the sum over the recorded steps stands */
		out->predicted = out->again.seconds;
	whatif_free(&r);
	return rc;
}
