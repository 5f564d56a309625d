/* Pins of the prefix cache: who may pin how much, and when a pin ends. See sched.h; what a pin
 * keeps is in engine/memory/pin.h. */
#include <stdio.h>

#include "engine/sched/sched_impl.h"

struct kept {
	int64_t pages, bytes;
};

/* What pins keep in all groups, and `more` (or NULL) with them. */
static struct kept all_kept(const struct sched *s, const struct pin *more)
{
	struct kept out = { 0 };

	for (int32_t g = 0; g < s->memory->spec.n; g++) {
		const int64_t pages = pins_pages(s->prefix, g, more);

		out.pages += pages;
		out.bytes += pages * (int64_t)s->memory->pages[g].page_bytes;
	}
	return out;
}

/* ev.u.pin of this pin; pages are those that it has to itself. */
static struct event describe(
	const struct sched *s, const struct pin *p, enum ev_code_pin_action action, int64_t request)
{
	struct event ev;

	ev_init(&ev, EV_pin);
	ev.u.pin.pin = p->number;
	ev.u.pin.action = action;
	ev.u.pin.request = request;
	ev.u.pin.asked = p->asked;
	ev.u.pin.tokens = p->n_blocks * s->memory->page_size;
	if (p->ttl_ns != INT64_MAX)
		ev.u.pin.ttl_ns = p->ttl_ns;
	ev.u.pin.given = p->found;
	ev.u.pin.prompts = p->n_found;
	return ev;
}

static void price(struct event *ev, struct kept without, struct kept with)
{
	ev->u.pin.pages = with.pages - without.pages;
	ev->u.pin.bytes = with.bytes - without.bytes;
}

/* Pages of the primary group without which r could not run even alone. */
static int32_t least_pages(const struct sched *s, const struct request *r)
{
	const int32_t tokens = r->how->given ? r->n_ids - 2 : r->n_ids - 1;

	return memory_need(s->memory, s->memory->primary, tokens, 1);
}

static bool crowds(const struct sched *s, const struct pin *more, const struct request *r,
	int32_t left, char why[SCHED_WHY])
{
	const int32_t need = least_pages(s, r) - pins_shared(s->prefix, s->memory->primary, more,
												 r->adapter, r->ids, r->n_ids);

	if (need <= left)
		return false;
	snprintf(why, SCHED_WHY, "request %lld needs %d pages and %d would be left; see --pages",
		(long long)r->id, need, left);
	return true;
}

bool sched_never_fits(const struct sched *s, const struct request *r, char why[SCHED_WHY])
{
	const int32_t primary = s->memory->primary, all = s->memory->pages[primary].n_pages;
	const int32_t need = least_pages(s, r), pinned = pins_pages(s->prefix, primary, NULL);
	const int32_t shared = pins_shared(s->prefix, primary, NULL, r->adapter, r->ids, r->n_ids);
	const int32_t tokens = r->how->given ? r->n_ids : r->n_ids + 1;

	if (need > all)
		snprintf(why, SCHED_WHY, "%d tokens need %d pages of %d; the pool has %d; see --pages",
			tokens, need, s->memory->page_size, all);
	else if (need - shared > all - pinned)
		snprintf(why, SCHED_WHY,
			"%d tokens need %d pages of %d; of the pool's %d, %d are pinned; see --pages, "
			"--pin-limit",
			tokens, need - shared, s->memory->page_size, all, pinned);
	else
		return false;
	return true;
}

/* Would a request that was accepted fit no more, alone, beside what is pinned? */
static bool crowds_any(const struct sched *s, const struct pin *more, char why[SCHED_WHY])
{
	const int32_t primary = s->memory->primary,
				  left = s->memory->pages[primary].n_pages - pins_pages(s->prefix, primary, more);

	for_running(s, r)
		if (crowds(s, more, r, left, why))
			return true;
	for_waiting(s, r)
		if (crowds(s, more, r, left, why))
			return true;
	return false;
}

/* More than the limit, or not enough left for any sequence in a group that keeps not all. */
static bool exceeds(const struct sched *s, const struct pin *more, char why[SCHED_WHY])
{
	const struct memory *m = s->memory;

	for (int32_t g = 0; g < m->spec.n; g++) {
		const int32_t pages = pins_pages(s->prefix, g, more), all = m->pages[g].n_pages;
		const int32_t least =
			m->mask[g].window == INT32_MAX ? 0 : memory_need(m, g, INT32_MAX - 1, 1);
		const int32_t limit = (int32_t)((double)s->pin_limit * all);
		const int32_t most = limit < all - least ? limit : all - least;

		if (pages <= most)
			continue;
		snprintf(why, SCHED_WHY,
			"%d of %d pages would be pinned, and at most %d may be; see --pin-limit, --pages",
			pages, all, most > 0 ? most : 0);
		return true;
	}
	return false;
}

static bool refused(const struct sched *s, const struct pin *like, char why[SCHED_WHY])
{
	if (!s->prefix->on)
		snprintf(why, SCHED_WHY, "the prefix cache is off; see --prefix-cache and --kv-cache");
	else if (!like->n_blocks)
		snprintf(why, SCHED_WHY, "%d tokens do not fill a page of %d", like->asked,
			s->memory->page_size);
	else
		return exceeds(s, like, why) || crowds_any(s, like, why);
	return true;
}

static int64_t end_of(const struct sched *s, int64_t ttl_ns)
{
	const int64_t now = stream_now(s->stream);

	return ttl_ns < INT64_MAX - now ? now + ttl_ns : INT64_MAX;
}

static void renew(struct sched *s, struct pin *p, const struct request *r, int64_t ttl_ns)
{
	const int64_t ends = end_of(s, ttl_ns);
	struct event ev;

	if (ends > p->ends_ns) {
		p->ends_ns = ends;
		p->ttl_ns = ttl_ns;
	}
	ev = describe(s, p, EV_PIN_renewed, r->id);
	ev.u.pin.pages = ev.u.pin.bytes = 0;
	if (p->ends_ns != INT64_MAX)
		ev.u.pin.ttl_ns = p->ends_ns - stream_now(s->stream);
	stream_emit(s->stream, &ev);
}

void sched_pin(
	struct sched *s, struct request *r, int32_t tokens, int64_t ttl_ns, char why[SCHED_WHY])
{
	struct pin like = { .number = r->id,
		.adapter = r->adapter,
		.ids = r->ids,
		.asked = tokens,
		.n_blocks = tokens / s->memory->page_size,
		.ttl_ns = ttl_ns > 0 ? ttl_ns : INT64_MAX };
	struct pin *p = pin_same(s->prefix, r->adapter, r->ids, like.n_blocks);
	const struct kept before = all_kept(s, NULL), after = all_kept(s, &like);
	struct err full = { 0 };
	struct event ev;

	if (p) {
		r->pin = p->number;
		renew(s, p, r, like.ttl_ns);
		return;
	}
	like.ends_ns = end_of(s, like.ttl_ns);
	if (!refused(s, &like, why)) {
		p = pin_add(s->prefix, &like, &full);
		snprintf(why, SCHED_WHY, "%.150s", full.text);
	}
	ev = describe(s, &like, p ? EV_PIN_asked : EV_PIN_refused, r->id);
	price(&ev, before, after);
	ev.u.pin.why = p ? (struct ev_span){ 0 } : ev_text(why);
	stream_emit(s->stream, &ev);
	if (!p)
		return;
	r->pin = p->number;
	sched_pin_extend(s, r);
}

void sched_pin_extend(struct sched *s, const struct request *r)
{
	struct pin *p = r->pin ? pin_find(s->prefix, r->pin) : NULL;
	int32_t before = p ? p->reached : 0;
	struct event ev;

	if (!p || before == p->n_blocks)
		return;
	pin_extend(s->prefix, p);
	if (p->reached < p->n_blocks)
		return;
	ev = describe(s, p, EV_PIN_kept, r->id);
	stream_emit(s->stream, &ev);
}

void sched_unpin(struct sched *s, struct pin *p, enum ev_code_pin_action action)
{
	const struct kept before = all_kept(s, NULL);
	struct event ev = describe(s, p, action, EV_NULL_I);

	pin_drop(s->prefix, p);
	price(&ev, all_kept(s, NULL), before);
	stream_emit(s->stream, &ev);
}

void sched_pins_end(struct sched *s, enum ev_code_pin_action action)
{
	while (s->prefix->n_pins)
		sched_unpin(s, &s->prefix->pin[0], action);
}

void sched_pins_expire(struct sched *s)
{
	const int64_t now = s->prefix->n_pins ? stream_now(s->stream) : 0;

	for (int32_t i = 0; i < s->prefix->n_pins;)
		if (s->prefix->pin[i].ends_ns <= now)
			sched_unpin(s, &s->prefix->pin[i], EV_PIN_expired);
		else
			i++;
}

void sched_pin_leave(struct sched *s, const struct request *r)
{
	struct pin *p = r->pin ? pin_find(s->prefix, r->pin) : NULL;
	bool goes_on = false;

	if (!p || p->reached == p->n_blocks)
		return;
	for_running(s, other)
		goes_on |= other != r && other->pin == r->pin;
	for_waiting(s, other)
		goes_on |= other != r && other->pin == r->pin;
	if (!goes_on)
		sched_unpin(s, p, EV_PIN_unfinished);
}

/* Whoever computes a pin's blocks finds no more in the cache than the pin has: of a window or a
 * state later blocks may have what it lacks. */
int32_t sched_pin_asks(const struct sched *s, const struct request *r, int32_t found)
{
	const struct pin *p = r->pin ? pin_find(s->prefix, r->pin) : NULL;

	return p && p->reached < p->n_blocks && p->reached < found ? p->reached : found;
}

void sched_pin_note(
	struct sched *s, const struct request *r, int32_t n_blocks, int32_t hit, struct ev_lookup *l)
{
	int32_t blocks, tokens;
	struct pin *p = pins_giving(s->prefix, r->adapter, r->ids, n_blocks, &blocks);

	l->pinned = 0;
	if (!p)
		return;
	tokens = blocks * s->memory->page_size;
	l->pin = p->number;
	l->pinned = tokens < hit ? tokens : hit;
	if (r->was_running)
		return;
	p->n_found++;
	p->found += l->pinned;
}
