/* Admission: which request leaves the queue for a slot, and what it finds in the prefix cache. See
 * sched.h. */
#include "engine/sched/sched_impl.h"

/* Tokens that are looked up: of a sequence to verify only the prompt, since the rest is computed
 * for its logits. */
static int32_t asked(const struct request *r)
{
	return r->kind == EV_REQUEST_KIND_verify ? r->n_prompt : r->n_ids;
}

int32_t sched_uncomputed(const struct sched *s, const struct request *r)
{
	int32_t n = r->n_ids - r->computed;

	if (r->slot < 0 && !request_wants_rows(r))
		n -= prefix_length(s->prefix, r->adapter, r->ids, asked(r), asked(r) - 1);
	return n > 1 ? n : 1; /* the last is always computed */
}

int32_t sched_n_waiting(const struct sched *s)
{
	int32_t n = 0;

	for_waiting(s, r)
		n += !r->backed_off;
	return n;
}

int32_t sched_next_waiting(const struct sched *s)
{
	int64_t best_rank = 0;
	int32_t best = -1;

	for (int32_t i = 0; i < s->n_queue; i++) {
		int64_t rank;

		if (s->queue[i]->backed_off || (!s->open && !s->queue[i]->was_running))
			continue;
		rank = sched_rank(s->policy->admission, s, s->queue[i]);
		if (best < 0 || rank < best_rank) {
			best = i;
			best_rank = rank;
		}
	}
	return best;
}

/* Pages that r finds in the cache and that neither a request reads nor a pin keeps count as
 * available. */
static struct sched_need admission_need(
	const struct sched *s, const struct request *r, int32_t g, const struct prefix_match *m)
{
	const struct memory *mem = s->memory;
	struct sched_need need = { .available = memory_available(mem, g) };

	need.own = memory_need(mem, g, r->n_ids, r->n_ids - m->n_blocks * mem->page_size);
	for (int32_t b = 0; b < m->n_blocks; b++) {
		int32_t page = s->prefix->node[m->node[b]].page[g];
		const struct page *p = page < 0 ? NULL : &mem->pages[g].page[page];

		need.own -= p && (p->refs > 0 || p->pins > 0) &&
					memory_reads_block(mem, g, m->n_blocks * mem->page_size, b);
	}
	for_running(s, d) {
		const int32_t lacks =
			memory_need(mem, g, d->n_ids, d->n_ids - d->computed) - memory_held(&d->table, g, 0);

		need.running += lacks > 0 ? lacks : 0;
	}
	return need;
}

static bool may_enter(const struct sched *s, const struct request *r, const struct prefix_match *m)
{
	for (int32_t g = 0; s->n_running && g < s->memory->spec.n; g++) {
		struct sched_need need = admission_need(s, r, g, m);

		if (s->policy->admits ? !s->policy->admits(s, r, &need)
							  : need.own + need.running > need.available)
			return false;
	}
	return true;
}

/* A running request that begins with all of r's tokens: a fork's sibling, whose last page is not
 * full yet and so not in the prefix cache. */
static struct request *find_sibling(const struct sched *s, const struct request *r)
{
	for_running(s, d)
		if (s->prefix->on && d->n_ids >= r->n_ids && d->adapter == r->adapter && !d->how->given &&
			!memcmp(d->ids, r->ids, (size_t)r->n_ids * sizeof *r->ids))
			return d;
	return NULL;
}

static void emit_lookup(struct sched *s, const struct request *r, const struct prefix_match *m,
	int32_t hit, int32_t pages, bool cached)
{
	struct event ev;

	if (m->expected != EV_NULL_I) {
		stream_vocab(s->stream, m->expected);
		stream_vocab(s->stream, m->got);
	}
	ev_init(&ev, EV_lookup);
	ev.u.lookup = (struct ev_lookup){ .request = r->id,
		.asked = asked(r),
		.hit = hit,
		.hit_pages = pages,
		.reason = m->reason,
		.nearest = m->nearest,
		.diverge_pos = m->diverge_pos,
		.expected = m->expected,
		.got = m->got,
		.pin = EV_NULL_I };
	sched_pin_note(s, r, cached ? pages : 0, hit, &ev.u.lookup);
	stream_emit(s->stream, &ev);
}

static void enter_slot(struct sched *s, struct request *r)
{
	const int64_t rank = sched_rank(s->policy->admission, s, r); /* as one that waits */
	const int64_t waited_ns = stream_now(s->stream) - r->queued_ns;
	int32_t slot = 0;

	while (s->slot[slot])
		slot++;
	s->slot[slot] = r;
	s->n_running++;
	r->slot = slot;
	r->admitted = ++s->n_admitted;
	s->n_decodes = 0;
	if (r->queue_ns == EV_NULL_I)
		r->queue_ns = waited_ns;
	STREAM_EMIT(s->stream, admit, .request = r->id, .slot = slot, .waited_ns = waited_ns,
		.readmitted = r->was_running, .rank = rank);
}

void sched_take_blocks(
	struct sched *s, struct request *r, const struct prefix_match *m, int32_t pos)
{
	for (int32_t b = 0; b < m->n_blocks; b++) {
		int32_t page[MEMORY_GROUPS];

		prefix_pages(s->prefix, m, b, pos, page);
		memory_share(s->memory, &r->table, r->id, page);
	}
}

/* Tokens that r can take from a sibling that has more than the cache; the last token is always
 * computed, since its logits are needed. */
static int32_t sibling_hit(
	const struct sched *s, const struct request *r, const struct request *sibling)
{
	int32_t all = sibling->computed < r->n_ids ? sibling->computed : r->n_ids;
	int32_t want = all < asked(r) ? all : asked(r) - 1;
	int32_t pos = memory_resume(s->memory, &sibling->table, sibling->computed, want);

	/* the block that holds the last token is shared too, to be copied, unless a part of it is
	 * gone */
	for (int32_t g = 0; g < s->memory->spec.n && all > want; g++)
		if (sibling->table.page[g][want / s->memory->page_size] < 0)
			return pos;
	return pos == want ? all : pos;
}

/* Block table and computed positions from the cache, or from a running sibling if that has more. */
static void take_prefix(
	struct sched *s, struct request *r, struct prefix_match *m, const struct request *sibling)
{
	int32_t size = s->memory->page_size, hit = m->n_blocks * size;
	int32_t more = sibling ? sibling_hit(s, r, sibling) : 0;

	if (more > hit) {
		hit = more;
		*m = PREFIX_MATCH(EV_PREFIX_hit);
		m->n_blocks = (hit + size - 1) / size;
		m->nearest = sibling->id;
	}
	r->computed = hit < asked(r) ? hit : asked(r) - 1;
	r->registered = hit / size;
	if (m->node)
		sched_take_blocks(s, r, m, r->computed);
	else if (sibling)
		memory_fork(s->memory, &r->table, r->id, &sibling->table, m->n_blocks);
	emit_lookup(s, r, m, r->computed, m->n_blocks, m->node);
	if (!r->was_running)
		r->hit = r->computed;
	r->was_running = true;
}

int32_t sched_fork(struct sched *s, const struct request *parent, struct request *r)
{
	struct prefix_match m = PREFIX_MATCH(EV_PREFIX_hit);
	int32_t at = 0;

	if (s->n_running == s->n_slots || parent->slot < 0)
		return 0;
	while (s->queue[at] != r)
		at++;
	sched_queue_remove(s, at);
	enter_slot(s, r);
	memory_fork(s->memory, &r->table, r->id, &parent->table, parent->table.n);
	r->computed = parent->computed;
	r->registered = parent->registered;
	r->hit = r->computed;
	r->was_running = true;
	m.nearest = parent->id;
	emit_lookup(s, r, &m, r->computed, parent->table.n, false);
	return r->computed;
}

/* Counts an overtaking for each request before index `at` of the queue: a later one is admitted
 * first. */
static void note_overtaken(struct sched *s, int32_t at)
{
	for (int32_t i = 0; i < at; i++)
		s->queue[i]->overtaken += !s->queue[i]->backed_off;
}

/* If requests wait on, it is because of this. */
static bool hold(struct sched *s, enum ev_code_hold why, const struct request *first)
{
	for_waiting(s, r) {
		if (r->backed_off)
			continue;
		s->hold = why;
		s->hold_first = first ? first->id : EV_NULL_I;
		break;
	}
	return false;
}

/* What the cache has of r's prompt, and can give to it. */
static void look_up(struct sched *s, const struct request *r, struct prefix_match *m)
{
	const int32_t size = s->memory->page_size;
	int32_t most;

	prefix_find(s->prefix, r->adapter, r->ids, asked(r), asked(r) - 1, s->step, m);
	most = sched_pin_asks(s, r, m->n_blocks);
	if (most < m->n_blocks)
		prefix_find(s->prefix, r->adapter, r->ids, most * size, most * size, s->step, m);
}

static bool admit(struct sched *s)
{
	const bool full = s->n_running == s->n_slots;
	int32_t at = full ? -1 : sched_next_waiting(s);
	struct request *r = at < 0 ? NULL : s->queue[at], *sibling = NULL;
	struct prefix_match m = PREFIX_MATCH(EV_PREFIX_off);

	if (!r)
		return hold(s, full ? EV_HOLD_slot : EV_HOLD_policy, NULL);
	if (!request_wants_rows(r)) {
		look_up(s, r, &m);
		sibling = r->how->given ? NULL : find_sibling(s, r);
		/* the sibling will compute the same tokens: wait for it rather than compute them twice,
		 * unless the policy may have closed by then */
		if (sibling && sibling->computed < sibling->n_prompt && !s->policy->opens)
			return hold(s, EV_HOLD_sibling, r);
		if (sibling && sibling->where == REQUEST_AWAY)
			sibling = NULL; /* its newest page is being written */
	}
	if (!may_enter(s, r, &m))
		return hold(s, EV_HOLD_pages, r);
	note_overtaken(s, at);
	sched_queue_remove(s, at);
	enter_slot(s, r);
	if (!r->was_running)
		sched_user_admit(s, r);
	take_prefix(s, r, &m, sibling);
	return true;
}

/* ---- the event `queue` ---- */

enum { QUEUE_SHOWN = EV_QUEUE_MOST };
struct queued {
	const struct request *r;
	bool shut; /* the policy is not open for it */
	int64_t rank;
};

static bool goes_before(const struct queued *a, const struct queued *b)
{
	return a->shut != b->shut ? b->shut : a->rank < b->rank;
}

/* The first QUEUE_SHOWN that wait, in the order of sched_next_waiting(). Returns how many. */
static int32_t first_in_order(const struct sched *s, struct queued *first)
{
	int32_t n = 0;

	for_waiting(s, r) {
		struct queued q = { r, !s->open && !r->was_running, 0 };
		int32_t at = n;

		if (r->backed_off)
			continue;
		q.rank = sched_rank(s->policy->admission, s, r);
		while (at > 0 && goes_before(&q, &first[at - 1]))
			at--;
		if (at == QUEUE_SHOWN)
			continue;
		n += n < QUEUE_SHOWN;
		memmove(first + at + 1, first + at, (size_t)(n - 1 - at) * sizeof *first);
		first[at] = q;
	}
	return n;
}

/* Told when a request came or left, since ranks of all that wait cost more than a plan. Where
 * nobody waits and nobody did, or nobody listens, nothing is told. */
static void emit_queue(struct sched *s)
{
	struct queued first[QUEUE_SHOWN];
	struct ev_queued told[QUEUE_SHOWN];
	int32_t n_waiting, n;

	if (!s->queue_changed || !s->stream->n_sinks)
		return;
	n_waiting = sched_n_waiting(s);
	if (!n_waiting && !s->queue_emitted)
		return;
	n = first_in_order(s, first);
	for (int32_t i = 0; i < n; i++)
		told[i] = (struct ev_queued){ first[i].r->id, first[i].rank };
	STREAM_EMIT(s->stream, queue, .step = s->step, .waiting = n_waiting,
		.order = { told, (size_t)n * sizeof *told });
	s->queue_changed = false;
	s->queue_emitted = n_waiting > 0;
}

void sched_admit(struct sched *s)
{
	sched_users_count(s);
	s->open = !s->n_running || !s->policy->opens || s->policy->opens(s);
	s->hold = s->hold_first = EV_NULL_I;
	while (admit(s))
		;
	emit_queue(s);
}
