/* One case of certify: an engine with the options of the plan, a text scored token by token, then
 * continued, with the other requests of the plan. See certify_private.h.
 *
 * Thread: the caller's. */
#include "engine/sched/policy.h"
#include "sessions/certify/certify_private.h"

/* Ids after the text that do not repeat: each of 17 requests takes 128, each from another
 * position. A canvas of company has room for a few tokens in the page of a short prompt. */
enum { ELDER_IDS = 160, CANVAS = 8 };

/* Repeats itself, so that prompt lookup finds drafts, and then diverges from the repeated part. */
static const char text[] =
	"The cat sat on the mat. The dog sat on the log. The cat sat on the mat. The dog sat on the "
	"fog.\n"
	"for (int i = 0; i < 10; i++) sum += i * i; for (int j = 0; j < 10; j++) sum += j * j;\n"
	"In 1969 people walked on the moon; in 1972 people walked on the moon for the last time. "
	"Überraschung: naïve café, 日本語, emoji 🙂. One two three four five, one two three "
	"four five, one two three four six. The cat sat on the mat. The dog sat on the log. The cat "
	"sat on the mat. A page holds sixteen tokens. A span holds eight groups. A page is shared "
	"until it is written to. The cat sat on the mat. The dog sat on the log. The cat sat on";

uint64_t certify_random(uint64_t *state) /* splitmix64 (Steele, Lea, Flood 2014) */
{
	uint64_t z = *state += 0x9E3779B97F4A7C15u;
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return z ^ (z >> 31);
}

/* ---- requests ---- */

/* Others answer to the end of their context, unless ours may wait for theirs to end. */
static int32_t company_tokens(const struct certify_plan *p)
{
	const struct sched_policy *policy = sched_policies[p->choice[AXIS_POLICY]];
	const bool ends_first = policy->opens || policy->turn == SCHED_NEWEST_ALONE;

	return p->axes->diffusion ? CANVAS : ends_first ? 2 * p->work.n_generated : 0;
}

static const char *adapter_of(const struct certify_run *r, bool ours)
{
	const int who = r->plan->choice[AXIS_ADAPTER];

	return who && (who == CERTIFY_OWN) == ours ? engine_info(r->engine)->adapters[0] : "off";
}

static struct engine_request request_of(const struct certify_run *r, enum ev_code_request_kind kind,
	int32_t at, int32_t n, int32_t n_generated)
{
	struct engine_request q = engine_own_request(
		kind, r->ids + at, n, n_generated ? n_generated : company_tokens(r->plan), "certify");
	q.ignore_end = true;
	q.deadline = 1 << 20;
	q.params.seed = 7;
	if (r->plan->axes->start >= 0 && kind == EV_REQUEST_KIND_load && at < CERTIFY_LONGEST)
		q.ids += CERTIFY_LONGEST; /* no slice of the text begins with the token that ends an input
								   */
	if (kind == EV_REQUEST_KIND_run && r->plan->choice[AXIS_PREFIX] == CERTIFY_PINNED)
		q.pin = axes_number(r->plan, AXIS_PAGE_SIZE);
	if (kind == EV_REQUEST_KIND_run && r->plan->choice[AXIS_GRAMMAR]) {
		/* it never ends here, and rules what follows the token that repeat() forces */
		q.grammar = "gbnf:root ::= .{65536}";
		q.bound_from = n + 1;
		q.ignore_end = false;
	}
	q.adapter = adapter_of(r, kind != EV_REQUEST_KIND_load);
	/* modified rejection draws other tokens, except with greedy choice */
	if (r->plan->choice[AXIS_RULE])
		q.params.temperature = 0;
	return q;
}

static int64_t submit(struct certify_run *r, enum ev_code_request_kind kind, int32_t at, int32_t n,
	int32_t n_generated, struct err *e)
{
	const struct engine_request q = request_of(r, kind, at, n, n_generated);

	return engine_submit(r->engine, &q, e);
}

/* Cancels the elders once they have preempted ours, so that it can end. */
static void dismiss_elders(struct certify_run *r)
{
	if (r->plan->choice[AXIS_PREEMPTION] && r->ev->preempted)
		while (r->n_company)
			engine_cancel(r->engine, r->company[--r->n_company]);
}

/* Cancels the newest other request. False if the batch does not shrink any more. */
static bool shrink(struct certify_run *r)
{
	const int *choice = r->plan->choice;
	if (!choice[AXIS_BATCH] || choice[AXIS_PREEMPTION] || r->n_company <= r->ahead)
		return false;
	engine_cancel(r->engine, r->company[--r->n_company]);
	return true;
}

/* Rewinds ours to its prompt and forces the token with which the repeated text goes on: so there is
 * something to draft, whatever the model would draw. With a batch this repeats at every batch size,
 * and must compute the same each time. */
static int repeat(struct certify_run *r, struct err *e)
{
	const struct workload *w = &r->plan->work;
	if (!r->answering || !r->begun || r->finished || r->plan->axes->diffusion ||
		(r->repeated && !shrink(r)))
		return 0;
	if (!r->repeated && r->plan->choice[AXIS_PREEMPTION] &&
		engine_set(r->engine, "spec", r->plan->spec, e))
		return -1;
	r->repeated = true;
	return engine_rewind(r->engine, r->request, w->n_ids, r->next, e);
}

/* Whether a brief case has all its evidence. */
static bool enough(const struct certify_run *r)
{
	const int *choice = r->plan->choice;
	bool shrinks = choice[AXIS_BATCH] && !choice[AXIS_PREEMPTION] && r->n_company > r->ahead;
	return r->plan->brief && r->answering && (r->repeated || r->plan->axes->diffusion) &&
		   !shrinks && evidence_is_whole(r->plan, r->ev);
}

/* One step, and what follows it. 1: done; 0: nothing to do; -1: failed. */
static int go_on(struct certify_run *r, struct err *e)
{
	int more = engine_step(r->engine, e);
	dismiss_elders(r);
	return more > 0 && repeat(r, e) ? -1 : more;
}

/* Steps until ours is finished. */
static int finish(struct certify_run *r, struct err *e)
{
	int more = 1;
	while (!r->finished && more > 0 && !enough(r))
		more = go_on(r, e);
	if (more < 0)
		return -1;
	if (!r->finished && more)
		engine_cancel(r->engine, r->request);
	else if (!r->finished)
		return err_set(e, ERR_DEVICE, "certify: the engine stopped before its work was done");
	return r->failed ? err_set(e, ERR_INPUT, "certify: the model computes no numbers (NaN)") : 0;
}

/* Resets the state before ours is submitted. */
static void expect(struct certify_run *r)
{
	r->finished = r->begun = false;
	r->waiting = true;
	r->request = 0;
}

static int score(struct certify_run *r, struct err *e)
{
	expect(r);
	r->request = submit(r, EV_REQUEST_KIND_score, 0, r->plan->work.n_ids, 0, e);
	return r->request < 0 ? -1 : finish(r, e);
}

/* Submits other requests, of other lengths, that run as long as ours does. The text of elders gives
 * no drafts: they grow by one token a step, whatever the drafter. */
static int submit_company(struct certify_run *r, int from, int to, struct err *e)
{
	bool preempt = r->plan->choice[AXIS_PREEMPTION];
	bool slow = axes_slow(r->plan->axes, r->plan->choice);
	for (int i = from; i < to; i++) {
		int32_t n = preempt ? axes_elder_tokens(r->plan) : slow ? 1 : 1 + (13 * i + 5) % 24;
		int32_t at = preempt ? CERTIFY_LONGEST + i : (7 * i + 3) % 64;
		int64_t id = submit(r, EV_REQUEST_KIND_load, at, n, 0, e);
		if (id < 0)
			return -1;
		r->company[r->n_company++] = id;
	}
	return 0;
}

/* Steps before ours is submitted, so that it joins a running batch. Elders must have computed their
 * prompts. */
static int32_t steps_ahead(const struct certify_run *r, int ahead)
{
	int32_t n = axes_elder_tokens(r->plan), by_chunk = axes_chunks(r->plan, n);
	if (!ahead)
		return 0;
	if (!r->plan->choice[AXIS_PREEMPTION])
		return 2;
	int32_t by_budget = (n * ahead + CERTIFY_BUDGET - 1) / CERTIFY_BUDGET;
	return 1 + (by_chunk > by_budget ? by_chunk : by_budget);
}

/* Evidence for a policy. If it keeps prompts and newest tokens apart, a request decodes when ours
 * comes: one of the two pauses, or ours waits. Otherwise two of a busy user come before ours and
 * one after it, shorter and less urgent: unless requests are admitted in order of arrival, ours
 * overtakes one of them or is overtaken. All end after a few steps. */
static int64_t submit_short(struct certify_run *r, int32_t n_generated, struct err *e)
{
	struct engine_request q = request_of(r, EV_REQUEST_KIND_load, 1, 1, n_generated);

	q.user = "busy";
	q.priority = 1;
	q.deadline = 0;
	return engine_submit(r->engine, &q, e);
}

enum { PACER_TOKENS = 4 };

static int submit_before(struct certify_run *r, struct err *e)
{
	const int policy = r->plan->choice[AXIS_POLICY];

	if (!policy)
		return 0;
	if (sched_policies[policy]->turn != SCHED_TOGETHER) {
		r->pacer = submit_short(r, PACER_TOKENS, e);
		return r->pacer < 0 || engine_step(r->engine, e) < 0 ? -1 : 0;
	}
	if (submit_short(r, 1, e) < 0)
		return -1;
	r->earlier = submit_short(r, 1, e);
	return r->earlier < 0 ? -1 : 0;
}

static int submit_after(struct certify_run *r, struct err *e)
{
	if (!r->plan->choice[AXIS_POLICY])
		return 0;
	return submit_short(r, 1, e) < 0 || go_on(r, e) < 0 ? -1 : 0;
}

static int answer(struct certify_run *r, int company, int ahead, int32_t n_generated, struct err *e)
{
	const struct workload *w = &r->plan->work;
	expect(r);
	r->n_company = 0;
	r->ahead = ahead;
	if (submit_company(r, 0, ahead, e))
		return -1;
	for (int32_t i = steps_ahead(r, ahead); i > 0; i--)
		if (engine_step(r->engine, e) < 0)
			return -1;
	if (submit_before(r, e))
		return -1;
	r->request = submit(r, EV_REQUEST_KIND_run, 0, w->n_ids, n_generated, e);
	if (r->request < 0 || submit_after(r, e) || submit_company(r, ahead, company, e))
		return -1;
	return finish(r, e);
}

/* Puts the free list in a seeded order: requests take one page each and free them in that order. */
static int shuffle_pages(struct certify_run *r, struct err *e)
{
	int64_t id[CERTIFY_SLOTS];
	uint64_t random = r->plan->axes->o->seed;
	int n = r->plan->brief ? 8 : CERTIFY_SLOTS; /* a short text needs few */
	n = n < engine_state(r->engine).pages ? n : engine_state(r->engine).pages;
	for (int i = 0; i < n; i++)
		if ((id[i] = submit(r, EV_REQUEST_KIND_load, 3 * i, 1, 0, e)) < 0)
			return -1;
	if (engine_step(r->engine, e) < 0)
		return -1;
	for (int i = n; i > 0; i--) { /* Fisher and Yates */
		int k = (int)(certify_random(&random) % (uint64_t)i);
		engine_cancel(r->engine, id[k]);
		id[k] = id[i - 1];
	}
	return 0;
}

/* ---- a case ---- */

static int32_t elder_id(const struct certify_run *r, int32_t i)
{
	const int32_t id = 7 * (i + 1) % engine_info(r->engine)->vocab;

	return id == r->plan->axes->start ? 1 : id;
}

/* Ends with the text's beginning again, so that lookup is likely to draft what follows. */
static int fill_ids(struct certify_run *r, struct err *e)
{
	int32_t *once = NULL, n = r->plan->work.n_ids;
	size_t n_once = 0, cap = 0;
	if (tokenizer_encode(
			engine_tokenizer(r->engine), text, strlen(text), false, &once, &n_once, &cap, e)) {
		free(once);
		return -1;
	}
	r->n_ids = CERTIFY_LONGEST;
	r->ids = calloc(CERTIFY_LONGEST + ELDER_IDS, sizeof *r->ids);
	for (int32_t i = 0; r->ids && n_once && i < r->n_ids; i++)
		r->ids[i] = once[(size_t)i % n_once];
	for (int32_t i = 0; r->ids && i < ELDER_IDS; i++)
		r->ids[CERTIFY_LONGEST + i] = elder_id(r, i);
	int32_t again = n > 30 ? 12 : 4, from = n > 30 ? 8 : 1;
	for (int32_t i = 0; r->ids && n > again && i < again; i++)
		r->ids[n - again + i] = r->ids[from + i];
	r->next = r->ids ? r->ids[from + again] : 0;
	if (r->ids && r->plan->axes->start >= 0)
		r->ids[plan_input(r->plan)] = r->plan->axes->start;
	free(once);
	if (!r->ids)
		return err_set(e, ERR_MEMORY, "out of memory");
	if (engine_info(r->engine)->ctx < n + r->plan->work.n_generated)
		return err_set(e, ERR_INPUT, "certify: a context of %d tokens is too short",
			engine_info(r->engine)->ctx);
	return 0;
}

static int open_case(struct certify_run *r, struct err *e)
{
	const struct certify_plan *p = r->plan;
	const struct session_options o = { .engine = axes_options(p),
		.sink = certify_see,
		.arg = r,
		.temporary = !strcmp(axes_chosen(p, AXIS_WATCHED), "recorded") };
	if (session_open(&r->session, &o, e))
		return -1;
	r->engine = r->session.engine;
	const struct engine_info *info = engine_info(r->engine);
	snprintf(r->ev->backend, sizeof r->ev->backend, "%s", info->backend);
	if (strcmp(info->backend, "cuda") ||
		engine_get(r->engine, "cuda-mode", r->ev->isa, sizeof r->ev->isa))
		snprintf(r->ev->isa, sizeof r->ev->isa, "%s", info->isa);
	r->ev->threads = info->threads;
	r->ev->pairs = info->pair_bytes > 0;
	r->ev->page_size = engine_state(r->engine).page_size;
	r->ev->unseen_from = engine_state(r->engine).unseen_from;
	if (session_begin(&r->session, NULL, NULL, e))
		return -1;
	engine_observe(r->engine, p->choice[AXIS_WATCHED] != 0);
	if (p->choice[AXIS_WATCHED] && info->n_heads &&
		(engine_set(r->engine, "observe-layer", "0", e) ||
			engine_set(r->engine, "observe-head", "0", e)))
		return -1;
	return fill_ids(r, e);
}

static int close_case(struct certify_run *r, int status, struct err *e)
{
	struct err failed = { 0 };
	if (r->session.writer) {
		struct writer_status s;
		writer_flush(r->session.writer);
		writer_status(r->session.writer, &s);
		r->ev->recorded = s.rows;
	}
	if (session_close(&r->session, &failed) && !status)
		status = err_set(e, failed.code, "%s", failed.text);
	free(r->ids);
	return status;
}

static int compute(struct certify_run *r, struct err *e)
{
	const struct certify_plan *p = r->plan;
	int ahead, company = axes_company(p, &ahead);
	if (p->choice[AXIS_PAGE_ORDER] && shuffle_pages(r, e))
		return -1;
	if (p->scored && score(r, e))
		return -1;
	if (!p->work.n_generated)
		return 0;
	if (p->choice[AXIS_PREFIX]) { /* one run to fill the prefix cache; its tokens are not kept */
		struct row_trace *kept = r->row_trace;
		r->row_trace = NULL;
		int failed = answer(r, 0, 0, 1, e);
		r->row_trace = kept;
		if (failed)
			return -1;
	}
	r->answering = true;
	return answer(r, company, ahead, p->work.n_generated, e);
}

int certify_run_case(
	const struct certify_plan *p, struct row_trace *row_trace, struct evidence *ev, struct err *e)
{
	struct certify_run r = { .plan = p, .row_trace = row_trace, .ev = ev, .mine = -1 };
	memset(ev, 0, sizeof *ev);
	row_trace->n = 0;
	int status = open_case(&r, e) || compute(&r, e) ? -1 : 0;
	return close_case(&r, status, e);
}
