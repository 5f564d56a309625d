/* See sched.h. */
#include "engine/sched/sched_impl.h"

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
	s->policy = sched_policies[0];
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

int sched_queue_insert(struct sched *s, int32_t at, struct request *r)
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

void sched_queue_remove(struct sched *s, int32_t at)
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
	return sched_queue_insert(s, s->n_queue, r);
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

void sched_leave_slot(struct sched *s, struct request *r)
{
	release_pages(s, r);
	s->slot[r->slot] = NULL;
	s->n_running--;
	r->slot = -1;
}

void sched_remove(struct sched *s, struct request *r)
{
	if (r->slot >= 0)
		sched_leave_slot(s, r);
	else
		for (int32_t i = 0; i < s->n_queue; i++)
			if (s->queue[i] == r) {
				sched_queue_remove(s, i);
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
