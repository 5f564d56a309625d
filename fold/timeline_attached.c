/* Part of the timeline: another server that computes the answers, and what it says of itself. */
#include "fold/timeline_fold.h"

/* After a poll that failed nothing is known. */
static void take_polled(struct timeline *t, struct tl_attached *a, const struct ev_polled *e)
{
	a->polled = *e;
	tl_settle(&a->polled, EV_polled, EV_NULL_I);
	a->polled.kv_used = (double)tl_part(e->kv_used);
	free(a->error);
	a->error = tl_text(t, e->error);
}

/* Ids are the server's, or above its own ones those that the recording gave to texts. */
bool tl_fold_attached(struct timeline *t, const struct event *ev)
{
	const struct ev_attached *e = &ev->u.attached;
	struct tl_attached *a = &t->attached;
	struct event none;

	if (a->on || !t->begun || !e->server.data)
		return false;
	*a = (struct tl_attached){ .on = true,
		.e = *e,
		.url = tl_text(t, e->url),
		.server = tl_text(t, e->server),
		.version = tl_text(t, e->version),
		.model = tl_text(t, e->model),
		.p = tl_text(t, e->p) };
	tl_settle(&a->e, EV_attached, EV_NULL_I);
	ev_init(&none, EV_polled);
	take_polled(t, a, &none.u.polled);
	if (!t->n_vocab)
		tl_vocab_room(t, TL_SERVER_VOCAB);
	return true;
}

bool tl_fold_polled(struct timeline *t, const struct event *ev)
{
	if (t->attached.on)
		take_polled(t, &t->attached, &ev->u.polled);
	return t->attached.on;
}

static struct ev_slot *slot_of(struct timeline *t, int64_t number)
{
	struct tl_attached *a = &t->attached;
	int32_t at = 0;

	while (at < a->n_slots && a->slot[at].slot < number)
		at++;
	if (at < a->n_slots && a->slot[at].slot == number)
		return &a->slot[at];
	if (a->n_slots == TL_SERVER_SLOTS ||
		!tl_add(t, &a->slot, &a->n_slots, &a->cap_slots, sizeof *a->slot))
		return NULL;
	memmove(a->slot + at + 1, a->slot + at, (size_t)(a->n_slots - 1 - at) * sizeof *a->slot);
	return &a->slot[at];
}

bool tl_fold_slot(struct timeline *t, const struct event *ev)
{
	const struct ev_slot *e = &ev->u.slot;
	struct ev_slot *s;

	if (!t->attached.on || e->slot < 0)
		return false;
	s = slot_of(t, e->slot);
	if (s) {
		*s = *e;
		s->busy = e->busy == 1;
		tl_settle(s, EV_slot, EV_NULL_I);
	}
	return true;
}
