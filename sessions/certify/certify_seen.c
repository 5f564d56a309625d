/* What is seen of a case while it runs: all evidence comes from events, through a sink; nothing
 * reads the engine's internals. See certify_private.h. Thread: the engine's. */
#include "base/text.h"
#include "sessions/certify/certify_private.h"

static void most(int64_t *of, int64_t x)
{
	*of = x > *of ? x : *of;
}

static void keep(struct certify_run *r, int64_t pos, int64_t id, int64_t hash)
{
	struct row_trace *t = r->row_trace;
	most(&r->ev->reach, pos);
	if (!t || t->n == (int32_t)(sizeof t->row / sizeof *t->row))
		return;
	t->row[t->n].request = r->request;
	t->row[t->n].pos = pos;
	t->row[t->n].id = id;
	t->row[t->n++].hash = hash;
}

static void see_request(struct certify_run *r, const struct ev_request *q)
{
	const uint64_t bit = 1ull << q->request % 64;

	r->adapted = q->adapter.size ? r->adapted | bit : r->adapted & ~bit;
	if (q->grammar.size)
		r->bound = q->request;
}

static bool is_adapted(const struct certify_run *r, int64_t request)
{
	return r->adapted >> request % 64 & 1;
}

static void see_batch(struct certify_run *r, const struct ev_batch *b)
{
	if (b->request == r->request) {
		r->mine = r->members;
		r->drafts = b->work == EV_WORK_verify ? b->rows - 1 : 0;
		if (b->work == EV_WORK_prefill && !r->begun && b->pos >= plan_input(r->plan))
			most(&r->ev->most_rows, b->rows);
	}
	r->paced = r->paced || b->request == r->pacer;
	r->beside |= b->request != r->request && is_adapted(r, b->request);
	r->members++;
}

/* Ours is admitted and has no row, or the policy keeps it in the queue; or the pacer has no row. */
static void see_pause(struct certify_run *r, const struct ev_step *s)
{
	const bool ours =
		r->request && !r->finished && (r->waiting ? s->hold == EV_HOLD_policy : r->mine < 0);

	r->ev->paused += r->members && (ours || (r->pacer && !r->paced));
	r->paced = false;
}

static void see_step(struct certify_run *r)
{
	struct evidence *ev = r->ev;
	struct seen_step s = { (int8_t)r->members, (int8_t)r->mine, (int8_t)r->drafts };
	bool news = r->answering && r->mine >= 0;
	for (int i = 0; news && i < ev->n_steps; i++)
		news = memcmp(&ev->step[i], &s, sizeof s) != 0;
	if (news && ev->n_steps < (int)(sizeof ev->step / sizeof *ev->step))
		ev->step[ev->n_steps++] = s;
	r->members = r->drafts = 0;
	r->mine = -1;
	r->beside = false;
}

static void see_page(struct certify_run *r, const struct ev_page *p)
{
	r->ev->unseen +=
		p->request == r->request && p->action == EV_PAGE_unseen && !r->is_state[p->memory];
	if (p->request != r->request || p->action != EV_PAGE_alloc)
		return;
	r->ev->taken++;
	r->ev->apart += p->block > 0 && p->page != r->last_page + 1;
	r->last_page = p->page;
}

static void see_draft(struct certify_run *r, const struct ev_draft *d)
{
	if (d->request != r->request || d->verdict == EV_VERDICT_discarded)
		return;
	r->ev->verified++;
	r->ev->by_rejection += d->rule == EV_RULE_rejection;
	r->ev->accepted += d->verdict == EV_VERDICT_accepted;
}

static void see_admit(struct certify_run *r, const struct ev_admit *a)
{
	if (a->request == r->request) {
		r->ev->reordered += r->earlier != 0;
		r->waiting = false;
	}
	if (a->request == r->earlier)
		r->earlier = 0;
	r->ev->reordered += r->waiting && r->request && a->request > r->request;
}

static void see_token(struct certify_run *r, const struct ev_token *k)
{
	r->ev->again += r->begun && k->rows == k->pos;
	r->begun = true;
	if (k->source == EV_SOURCE_forced)
		return;
	r->ev->bound += r->bound == r->request;
	r->ev->adapted +=
		r->plan->choice[AXIS_ADAPTER] == CERTIFY_OWN ? is_adapted(r, r->request) : r->beside;
	keep(r, k->pos, k->id, k->hash);
}

static void see_finish(struct certify_run *r, const struct ev_finish *f)
{
	if (f->request == r->pacer)
		r->pacer = 0;
	if (f->request != r->request)
		return;
	r->finished = true;
	r->failed = f->reason == EV_FINISH_failed;
}

static void see_memory(struct certify_run *r, const struct ev_memory *m)
{
	if (m->memory >= 0 && m->memory < MEMORY_GROUPS)
		r->is_state[m->memory] = memory_kind_of(m->kind)->is_state;
	text_append(r->ev->memory, sizeof r->ev->memory, ", ", "%s %lld layer%s",
		memory_kind_of(m->kind)->name, (long long)m->layers, plural(m->layers));
}

static void see_setting(struct certify_run *r, const struct ev_setting *s)
{
	struct {
		const char *name;
		char *to;
		size_t cap;
	} kept[] = { { "cache-format", r->ev->cache, sizeof r->ev->cache },
		{ "attention", r->ev->attention, sizeof r->ev->attention },
		{ "skip-zeros", r->ev->zeros, sizeof r->ev->zeros } };

	for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
		if (ev_is(s->name, kept[i].name))
			ev_copy(kept[i].to, kept[i].cap, s->value);
}

/* In the step of its token, so the newest rows are looked at first. */
static void see_price(struct certify_run *r, const struct ev_price *p)
{
	char lossy[128];
	const bool exact = !r->plan->choice[AXIS_CACHE] &&
					   !*lossy_print(&r->plan->axes->o->lossy, lossy, sizeof lossy);

	if (p->request != r->request)
		return;
	r->ev->twins++;
	r->ev->apart_twins += exact && p->kl != 0;
	for (int32_t i = r->row_trace ? r->row_trace->n : 0; exact && i-- > 0;)
		if (r->row_trace->row[i].pos == p->pos && r->row_trace->row[i].request == p->request) {
			r->ev->apart_twins += r->row_trace->row[i].hash != p->hash;
			break;
		}
}

/* What ranks exchanged in a step, or what came back of our prompt. */
static void see_moved(struct certify_run *r, const struct event *ev)
{
	const struct ev_handover *h = &ev->u.handover;

	if (ev->kind == EV_traffic)
		r->ev->exchanged += ev->u.traffic.sent;
	else if (h->request == r->request && h->computed > 0)
		r->ev->exchanged += h->back;
}

void certify_see(void *arg, const struct event *ev)
{
	struct certify_run *r = arg;
	if (ev->kind == EV_batch) {
		see_batch(r, &ev->u.batch);
	} else if (ev->kind == EV_step) {
		see_pause(r, &ev->u.step);
		see_step(r);
	} else if (ev->kind == EV_page) {
		see_page(r, &ev->u.page);
	} else if (ev->kind == EV_memory) {
		see_memory(r, &ev->u.memory);
	} else if (ev->kind == EV_setting) {
		see_setting(r, &ev->u.setting);
	} else if (ev->kind == EV_request) {
		see_request(r, &ev->u.request);
	} else if (ev->kind == EV_admit) {
		see_admit(r, &ev->u.admit);
	} else if (ev->kind == EV_draft) {
		see_draft(r, &ev->u.draft);
	} else if (ev->kind == EV_finish) {
		see_finish(r, &ev->u.finish);
	} else if (ev->kind == EV_lookup && ev->u.lookup.request == r->request) {
		most(&r->ev->hit, ev->u.lookup.hit);
		most(&r->ev->pinned, ev->u.lookup.pinned);
	} else if (ev->kind == EV_preempt && ev->u.preempt.request == r->request) {
		r->ev->preempted++;
		r->begun = r->repeated = false; /* it is recomputed, and will be rewound again */
	} else if (ev->kind == EV_attention && ev->u.attention.request == r->request) {
		r->ev->watched++;
	} else if (ev->kind == EV_token && ev->u.token.request == r->request) {
		see_token(r, &ev->u.token);
	} else if (ev->kind == EV_traffic || ev->kind == EV_handover) {
		see_moved(r, ev);
	} else if (ev->kind == EV_price) {
		see_price(r, &ev->u.price);
	} else if (ev->kind == EV_score && ev->u.score.request == r->request) {
		keep(r, ev->u.score.pos, ev->u.score.id, ev->u.score.hash);
	}
}

/* ---- comparing ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0x9E3779B97F4A7C15u;
	return h ^ (h >> 29);
}

uint64_t trace_hash(uint64_t h, const struct row_trace *t)
{
	for (int32_t i = 0; i < t->n; i++)
		h = mix(
			mix(mix(h, (uint64_t)t->row[i].pos), (uint64_t)t->row[i].id), (uint64_t)t->row[i].hash);
	return h;
}

bool trace_equal(const struct row_trace *a, int32_t i, const struct row_trace *b, int32_t j)
{
	return a->row[i].pos == b->row[j].pos && a->row[i].id == b->row[j].id &&
		   a->row[i].hash == b->row[j].hash;
}

void trace_difference(struct err *found, const char *what, int32_t i, const struct row_trace *base,
	int32_t j, const struct row_trace *t)
{
	err_set(found, ERR_DIFFERS,
		"%s: the first difference is row %d, of request %lld: base has position %lld, token %lld, "
		"hash %016llx; here position %lld, token %lld, hash %016llx",
		what, i, (long long)t->row[i].request, (long long)base->row[j].pos,
		(long long)base->row[j].id, (unsigned long long)base->row[j].hash, (long long)t->row[i].pos,
		(long long)t->row[i].id, (unsigned long long)t->row[i].hash);
}
