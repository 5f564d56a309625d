/* Part of the timeline: another server that computes the answers, and what it says of itself. */
#include <stdlib.h>
#include <string.h>

#include "fold/timeline_fold.h"

static int64_t reported(int64_t v)
{
	return v >= 0 ? v : EV_NULL_I;
}

/* After a poll that failed nothing is known. */
static void take_polled(struct timeline *t, struct tl_attached *a, const struct ev_polled *e)
{
	a->running = reported(e->running);
	a->waiting = reported(e->waiting);
	a->kv_tokens = reported(e->kv_tokens);
	a->prompt_tokens = reported(e->prompt_tokens);
	a->generated = reported(e->generated);
	a->asked = reported(e->asked);
	a->hit = reported(e->hit);
	a->preempted = reported(e->preempted);
	a->kv_used = (double)tl_part(e->kv_used);
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
		.url = tl_text(t, e->url),
		.server = tl_text(t, e->server),
		.version = tl_text(t, e->version),
		.model = tl_text(t, e->model),
		.p = tl_text(t, e->p),
		.slots = reported(e->slots),
		.ctx = reported(e->ctx),
		.pages = reported(e->pages),
		.page_size = reported(e->page_size) };
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

static struct tl_server_slot *slot_of(struct timeline *t, int64_t number)
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
	struct tl_server_slot *s;

	if (!t->attached.on || e->slot < 0)
		return false;
	s = slot_of(t, e->slot);
	if (s)
		*s = (struct tl_server_slot){ e->slot, e->busy == 1, reported(e->task), reported(e->ctx),
			reported(e->tokens), reported(e->generated) };
	return true;
}
