/* See sched.h. */
#include "engine/sched.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int sched_open(struct sched *s, struct kv *kv, struct prefix *prefix, struct stream *stream,
			   int32_t n_slots, int32_t max_blocks, struct err *e)
{
	memset(s, 0, sizeof *s);
	s->kv = kv;
	s->prefix = prefix;
	s->stream = stream;
	s->n_slots = n_slots;
	s->slot = calloc((size_t)n_slots, sizeof *s->slot);
	s->ready = calloc((size_t)n_slots, sizeof *s->ready);
	s->found = calloc((size_t)max_blocks + 1, sizeof *s->found);
	if (!s->slot || !s->ready || !s->found) {
		sched_close(s);
		return err_set(e, ERR_MEMORY, "no memory for %d slots", n_slots);
	}
	return 0;
}

void sched_close(struct sched *s)
{
	for (int32_t i = 0; s->slot && i < s->n_slots; i++)
		request_free(s->slot[i]);
	for (int32_t i = 0; i < s->n_queue; i++)
		request_free(s->queue[i]);
	free(s->slot);
	free(s->queue);
	free(s->ready);
	free(s->found);
	memset(s, 0, sizeof *s);
}

static int queue_insert(struct sched *s, int32_t at, struct request *r)
{
	if (s->n_queue == s->cap_queue) {
		int32_t cap = s->cap_queue ? 2 * s->cap_queue : 16;
		struct request **q = realloc(s->queue, (size_t)cap * sizeof *q);
		if (!q)
			return -1;
		s->queue = q;
		s->cap_queue = cap;
	}
	memmove(s->queue + at + 1, s->queue + at, (size_t)(s->n_queue - at) * sizeof *s->queue);
	s->queue[at] = r;
	s->n_queue++;
	r->state = REQUEST_WAITING;
	r->queued_ns = stream_now(s->stream);
	return 0;
}

static void queue_remove(struct sched *s, int32_t at)
{
	s->n_queue--;
	memmove(s->queue + at, s->queue + at + 1, (size_t)(s->n_queue - at) * sizeof *s->queue);
}

int sched_add(struct sched *s, struct request *r, struct err *e)
{
	/* room also for every running request, so that preemption cannot fail */
	while (s->cap_queue < s->n_queue + s->n_slots + 1) {
		int32_t cap = s->cap_queue ? 2 * s->cap_queue : 16;
		struct request **q = realloc(s->queue, (size_t)cap * sizeof *q);
		if (!q)
			return err_set(e, ERR_MEMORY, "no memory for another waiting request");
		s->queue = q;
		s->cap_queue = cap;
	}
	return queue_insert(s, s->n_queue, r);
}

static void release_pages(struct sched *s, struct request *r)
{
	/* from the back, so that the prefix cache sees leaves first */
	while (r->n_pages > 0) {
		r->n_pages--;
		kv_release(s->kv, r->pages[r->n_pages], r->id, r->n_pages);
	}
	r->computed = 0;
	r->registered = 0;
}

static void leave_slot(struct sched *s, struct request *r)
{
	release_pages(s, r);
	s->slot[r->slot] = NULL;
	s->n_running--;
	r->slot = -1;
}

void sched_remove(struct sched *s, struct request *r)
{
	if (r->slot >= 0)
		leave_slot(s, r);
	else
		for (int32_t i = 0; i < s->n_queue; i++)
			if (s->queue[i] == r) {
				queue_remove(s, i);
				break;
			}
	r->state = REQUEST_DONE;
}

struct request *sched_find(const struct sched *s, int64_t id)
{
	for (int32_t i = 0; i < s->n_slots; i++)
		if (s->slot[i] && s->slot[i]->id == id)
			return s->slot[i];
	for (int32_t i = 0; i < s->n_queue; i++)
		if (s->queue[i]->id == id)
			return s->queue[i];
	return NULL;
}

int32_t sched_rewind(struct sched *s, struct request *r, int32_t valid)
{
	int32_t size = s->kv->store.page_size, had = r->n_pages;

	if (r->computed > valid)
		r->computed = valid;
	while (r->n_pages > (r->computed + size - 1) / size) {
		r->n_pages--;
		kv_release(s->kv, r->pages[r->n_pages], r->id, r->n_pages);
	}
	if (r->registered > r->computed / size)
		r->registered = r->computed / size;
	return had - r->n_pages;
}

/* ---- pages ---- */

static void give_up(struct sched *s, struct request *r, const struct request *favour, int32_t place)
{
	struct event ev;

	ev_init(&ev, EV_preempt);
	ev.u.preempt.request = r->id;
	ev.u.preempt.pages = r->n_pages;
	ev.u.preempt.tokens = r->computed;
	ev.u.preempt.favour = favour->id;
	stream_emit(s->stream, &ev);
	leave_slot(s, r);
	s->n_preempted++;
	queue_insert(s, place, r); /* cannot fail: sched_add made room */
}

static void preempt(struct sched *s, struct request *r, const struct request *favour)
{
	give_up(s, r, favour, 0);
}

/* The first that waits for a slot. */
static int32_t first_waiting(const struct sched *s)
{
	int32_t at = 0;

	while (at < s->n_queue && s->queue[at]->resting)
		at++;
	return at;
}

void sched_rest(struct sched *s, struct request *r)
{
	int32_t at = first_waiting(s);

	give_up(s, r, at < s->n_queue ? s->queue[at] : r, s->n_queue);
	r->resting = true;
}

/* The youngest running request but r and those already in the plan (whose rows are promised). */
static struct request *victim(const struct sched *s, const struct plan *p, const struct request *r)
{
	struct request *young = NULL;

	for (int32_t i = 0; i < s->n_slots; i++) {
		struct request *v = s->slot[i];
		bool planned = false;

		for (int32_t j = 0; j < p->n_items; j++)
			planned |= p->item[j].r == v;
		if (v && v != r && !planned && (!young || v->admitted > young->admitted))
			young = v;
	}
	return young && young->admitted > r->admitted ? young : NULL;
}

/* Makes one page free. False: none can be had without hurting an older or planned request. */
static bool make_room(struct sched *s, const struct plan *p, const struct request *r)
{
	struct request *v;

	if (s->kv->n_free || prefix_evict(s->prefix, s->step))
		return true;
	while ((v = victim(s, p, r))) {
		preempt(s, v, r);
		if (s->kv->n_free || prefix_evict(s->prefix, s->step))
			return true;
	}
	return false;
}

/* Pages for positions up to `end`, those from `pos` on fit for writing. */
static bool ensure_pages(struct sched *s, const struct plan *p, struct request *r, int32_t pos,
						 int32_t end)
{
	int32_t size = s->kv->store.page_size, need = (end + size - 1) / size;

	for (int32_t b = pos / size; b < r->n_pages && b < need; b++)
		while (kv_writable(s->kv, &r->pages[b], r->id, b))
			if (!make_room(s, p, r))
				return false;
	while (r->n_pages < need) {
		int32_t page = kv_alloc(s->kv, r->id, r->n_pages);
		if (page >= 0)
			r->pages[r->n_pages++] = page;
		else if (!make_room(s, p, r))
			return false;
	}
	return true;
}

/* ---- admission ---- */

static int32_t pages_available(const struct sched *s)
{
	int32_t n = s->kv->n_free;

	for (int32_t i = 0; i < s->kv->n_pages; i++)
		n += s->kv->page[i].cached && !s->kv->page[i].refs;
	return n;
}

static int32_t pages_needed(const struct sched *s, const struct request *r)
{
	return r->n_ids / s->kv->store.page_size + 1;
}

/* Whether r, and those that run, have pages for all their tokens and the next. What r finds in the cache and nobody
 * reads is one of those that are available. */
static bool pages_suffice(const struct sched *s, const struct request *r, int32_t n_found)
{
	int32_t n = pages_needed(s, r);

	for (int32_t i = 0; i < n_found; i++)
		n -= s->kv->page[s->found[i]].refs > 0;
	for (int32_t i = 0; i < s->n_slots; i++) {
		const struct request *d = s->slot[i];

		if (d && pages_needed(s, d) > d->n_pages)
			n += pages_needed(s, d) - d->n_pages;
	}
	return n <= pages_available(s);
}

/* A running request that begins with all of r's tokens: a fork's sibling, whose last page is not full yet
 * and so not in the prefix cache. */
static struct request *find_sibling(const struct sched *s, const struct request *r)
{
	for (int32_t i = 0; i < s->n_slots && s->prefix->on; i++) {
		struct request *d = s->slot[i];

		if (d && d->n_ids >= r->n_ids && !request_is_given(d) &&
			!memcmp(d->ids, r->ids, (size_t)r->n_ids * sizeof *r->ids))
			return d;
	}
	return NULL;
}

/* Tokens that may come from the cache: of a sequence to verify only the prompt, since the rest is
 * computed for its logits. */
static int32_t asked(const struct request *r)
{
	return r->kind == EV_REQUEST_KIND_verify ? r->n_prompt : r->n_ids;
}

static void tell_lookup(struct sched *s, const struct request *r, const struct prefix_match *m,
						int32_t hit, int32_t pages)
{
	struct event ev;

	if (m->expected != EV_NULL_I) {
		stream_vocab(s->stream, m->expected);
		stream_vocab(s->stream, m->got);
	}
	ev_init(&ev, EV_lookup);
	ev.u.lookup = (struct ev_lookup){ .request = r->id, .asked = asked(r), .hit = hit,
									  .hit_pages = pages, .reason = m->reason,
									  .nearest = m->nearest, .diverge_pos = m->diverge_pos,
									  .expected = m->expected, .got = m->got };
	stream_emit(s->stream, &ev);
}

static void enter_slot(struct sched *s, struct request *r)
{
	struct event ev;
	int32_t slot = 0;

	while (s->slot[slot])
		slot++;
	s->slot[slot] = r;
	s->n_running++;
	r->slot = slot;
	r->state = REQUEST_RUNNING;
	r->admitted = ++s->n_admitted;
	ev_init(&ev, EV_admit);
	ev.u.admit.request = r->id;
	ev.u.admit.slot = slot;
	ev.u.admit.waited_ns = stream_now(s->stream) - r->queued_ns;
	ev.u.admit.readmitted = r->was_running;
	stream_emit(s->stream, &ev);
}

/* Block table and computed positions from the cache, or from a running sibling if that has more. */
static void take_prefix(struct sched *s, struct request *r, struct prefix_match *m,
						const struct request *sibling)
{
	int32_t size = s->kv->store.page_size, hit = m->n_pages * size, pages = m->n_pages;
	const int32_t *from = s->found;

	if (sibling && sibling->computed > hit) {
		hit = sibling->computed < r->n_ids ? sibling->computed : r->n_ids;
		pages = (hit + size - 1) / size;
		from = sibling->pages;
		*m = (struct prefix_match){ pages, EV_PREFIX_hit, sibling->id, EV_NULL_I, EV_NULL_I,
									EV_NULL_I };
	}
	for (int32_t b = 0; b < pages; b++) {
		r->pages[b] = from[b];
		kv_share(s->kv, from[b], r->id, b);
	}
	r->n_pages = pages;
	/* the last token is always computed: its logits are what we want */
	r->computed = hit < asked(r) ? hit : asked(r) - 1;
	r->registered = hit / size;
	tell_lookup(s, r, m, r->computed, pages);
	if (!r->was_running)
		r->hit = r->computed;
	r->was_running = true;
}

int32_t sched_fork(struct sched *s, const struct request *parent, struct request *r)
{
	struct prefix_match m = { parent->n_pages, EV_PREFIX_hit, parent->id, EV_NULL_I, EV_NULL_I, EV_NULL_I };
	int32_t at = 0;

	if (s->n_running == s->n_slots || parent->slot < 0)
		return 0;
	while (s->queue[at] != r)
		at++;
	queue_remove(s, at);
	enter_slot(s, r);
	for (int32_t b = 0; b < parent->n_pages; b++) {
		r->pages[b] = parent->pages[b];
		kv_share(s->kv, r->pages[b], r->id, b);
	}
	r->n_pages = parent->n_pages;
	r->computed = parent->computed;
	r->registered = parent->registered;
	r->hit = r->computed;
	r->was_running = true;
	tell_lookup(s, r, &m, r->computed, r->n_pages);
	return r->computed;
}

/* The head of the queue takes a slot, if it can. */
static bool admit(struct sched *s)
{
	int32_t at = first_waiting(s);
	struct request *r = at < s->n_queue ? s->queue[at] : NULL, *sibling = NULL;
	struct prefix_match m = { .reason = EV_PREFIX_off, .nearest = EV_NULL_I, .diverge_pos = EV_NULL_I,
							  .expected = EV_NULL_I, .got = EV_NULL_I };

	if (!r || s->n_running == s->n_slots)
		return false;
	if (r->kind != EV_REQUEST_KIND_score) { /* a score needs the logits of every row */
		prefix_find(s->prefix, r->ids, asked(r), s->step, s->found, &m);
		sibling = request_is_given(r) ? NULL : find_sibling(s, r);
		/* it is about to compute what we need: wait for it rather than do it twice */
		if (sibling && sibling->computed < sibling->n_prompt)
			return false;
	}
	if (s->n_running && !pages_suffice(s, r, m.n_pages))
		return false;
	queue_remove(s, at);
	enter_slot(s, r);
	take_prefix(s, r, &m, sibling);
	return true;
}

/* ---- the plan ---- */

static void add_item(struct plan *p, struct request *r, enum ev_code_work work, int32_t n_rows,
					 int32_t n_drafts, int32_t n_out)
{
	p->item[p->n_items++] = (struct plan_item){ .r = r, .work = work, .pos = r->computed,
												.n_rows = n_rows, .n_drafts = n_drafts,
												.n_out = n_out, .row = p->n_rows, .out = p->n_out, .observed = -1 };
	p->n_rows += n_rows;
	p->n_out += n_out;
}

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* r was just denied pages: it waits, or ends if nobody else could ever free one. */
static void denied(struct sched *s, const struct plan *p, struct request *r)
{
	if (s->n_running == 1 && !p->n_items)
		r->starved = true; /* the engine ends it after the plan */
	else
		preempt(s, r, p->n_items ? p->item[0].r : r);
}

static void plan_decode(struct sched *s, struct plan *p, struct request *r)
{
	while (!ensure_pages(s, p, r, r->computed, r->n_ids + draft_reach(&r->draft))) {
		if (!r->draft.n) {
			denied(s, p, r);
			return;
		}
		r->draft.n = 0;
	}
	add_item(p, r, r->draft.n ? EV_WORK_verify : EV_WORK_decode, 1 + r->draft.n, r->draft.n,
			 1 + r->draft.n);
}

/* The first position whose logits are wanted. */
static int32_t first_output(const struct request *r)
{
	if (r->kind == EV_REQUEST_KIND_score)
		return 0;
	return (r->kind == EV_REQUEST_KIND_verify ? r->n_prompt : r->n_ids) - 1;
}

static void plan_prefill(struct sched *s, struct plan *p, struct request *r)
{
	int32_t end = request_is_given(r) ? r->n_ids - 1 : r->n_ids;
	int32_t n = min32(end - r->computed, s->budget - p->n_rows), n_out;
	int32_t silent = first_output(r) - r->computed; /* rows before the first whose logits are wanted */

	if (silent < 0)
		silent = 0;
	if (s->chunk)
		n = min32(n, s->chunk);
	n = min32(n, silent + s->max_out - p->n_out);
	n_out = n > silent ? n - silent : 0;
	if (n <= 0)
		return;
	if (ensure_pages(s, p, r, r->computed, r->computed + n))
		add_item(p, r, EV_WORK_prefill, n, 0, n_out);
	else
		denied(s, p, r);
}

/* The running request that was admitted first among those after `after`. */
static struct request *next_oldest(const struct sched *s, int64_t after)
{
	struct request *best = NULL;

	for (int32_t i = 0; i < s->n_slots; i++) {
		struct request *r = s->slot[i];
		if (r && r->admitted > after && (!best || r->admitted < best->admitted))
			best = r;
	}
	return best;
}

static bool lacks_only_newest(const struct request *r)
{
	/* a prompt whose last token alone is missing is a prefill of one row */
	return r->n_ids - r->computed == 1 && r->n_ids > r->n_prompt && !request_is_given(r);
}

/* Free pages for DRAFT_MAX tokens ahead, without hurting anybody. */
static bool has_draft_pages(struct sched *s, const struct plan *p, struct request *r)
{
	int32_t size = s->kv->store.page_size, ahead = min32(DRAFT_MAX, r->limit - r->n_ids);
	int32_t need = (r->n_ids + ahead + size - 1) / size;

	return need - r->n_pages + 1 <= s->kv->n_free && ensure_pages(s, p, r, r->computed, r->n_ids + ahead);
}

/* Rows and outputs are shared out evenly: each request gets its newest token's, and the same for drafts. */
static void plan_drafts(struct sched *s, const struct plan *p)
{
	int32_t n = 0, most, nodes;
	struct request *r;

	for (int64_t at = 0; (r = next_oldest(s, at)); at = r->admitted)
		if (lacks_only_newest(r)) {
			r->draft.n = 0;
			s->ready[n++] = r;
		}
	most = min32(s->budget, s->max_out);
	nodes = n ? min32((most - n) / n, DRAFT_NODES) : 0;
	if (!s->propose || nodes < 1)
		return;
	for (int32_t i = 0; i < n; i++)
		s->ready[i]->draft_pages = s->draft_pages && has_draft_pages(s, p, s->ready[i]);
	s->propose(s->arg, s->ready, n, nodes);
}

void sched_plan(struct sched *s, struct plan *p)
{
	struct request *r;

	p->n_items = p->n_rows = p->n_out = 0;
	while (admit(s))
		;
	plan_drafts(s, p);
	for (int64_t at = 0; (r = next_oldest(s, at)); at = r->admitted)
		if (lacks_only_newest(r) && p->n_rows < s->budget && p->n_out < s->max_out)
			plan_decode(s, p, r);
	for (int64_t at = 0; (r = next_oldest(s, at)); at = r->admitted)
		if (!lacks_only_newest(r) && p->n_rows < s->budget)
			plan_prefill(s, p, r);
}

void sched_register(struct sched *s, struct request *r)
{
	int32_t full = r->computed / s->kv->store.page_size;

	if (r->kind == EV_REQUEST_KIND_score)
		return;
	for (; r->registered < full; r->registered++)
		prefix_add(s->prefix, r->ids, r->registered, r->pages, r->id, s->step);
}

void sched_check(const struct sched *s)
{
	int32_t n_running = 0, *refs = calloc((size_t)s->kv->n_pages, sizeof *refs);

	assert(refs);
	for (int32_t i = 0; i < s->n_slots; i++) {
		const struct request *r = s->slot[i];
		if (!r)
			continue;
		n_running++;
		assert(r->slot == i && r->state == REQUEST_RUNNING);
		/* a branch of a search that waits for its next token lacks none */
		assert(r->computed < r->n_ids + request_is_chosen(r) && r->n_ids <= r->limit);
		assert(r->computed <= r->n_pages * s->kv->store.page_size);
		for (int32_t b = 0; b < r->n_pages; b++)
			refs[r->pages[b]]++;
	}
	assert(n_running == s->n_running);
	for (int32_t i = 0; i < s->kv->n_pages; i++)
		assert(refs[i] == s->kv->page[i].refs);
	for (int32_t i = 0; i < s->n_queue; i++)
		assert(s->queue[i]->slot < 0 && s->queue[i]->n_pages == 0);
	free(refs);
	(void)n_running;
}
