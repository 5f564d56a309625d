/* See sched.h. */
#include "base/array.h"
#include "engine/sched/sched_impl.h"

int sched_open(struct sched *s, struct memory *memory, struct prefix *prefix, struct stream *stream,
	int32_t n_slots, struct err *e)
{
	memset(s, 0, sizeof *s);
	s->memory = memory;
	s->prefix = prefix;
	s->stream = stream;
	s->policy = sched_policies[0];
	s->open = true;
	s->hold = s->hold_first = EV_NULL_I;
	s->n_slots = n_slots;
	s->slot = calloc((size_t)n_slots, sizeof *s->slot);
	s->ready = calloc((size_t)n_slots, sizeof *s->ready);
	if (!s->slot || !s->ready) {
		sched_close(s);
		return err_no_memory(e, "%d slots", n_slots);
	}
	return 0;
}

void sched_set(struct sched *s, const struct engine_options *o)
{
	s->chunk = o->prefill_chunk;
	s->pin_limit = o->pin_limit;
	s->served_ratio = o->waiting_served_ratio;
	s->waiting_tokens = o->max_waiting_tokens;
	s->hand_least = o->prefill_least;
	s->prefix->policy = (enum prefix_policy)setting_choice(&engine_settings[ENGINE_AT_evict], o);
}

void sched_close(struct sched *s)
{
	for (int32_t i = 0; s->slot && i < s->n_slots; i++)
		request_free(s->slot[i]);
	for_waiting(s, r)
		request_free(r);
	free(s->slot);
	free(s->queue);
	free(s->ready);
	sched_users_free(s);
	memset(s, 0, sizeof *s);
}

int sched_queue_insert(struct sched *s, int32_t at, struct request *r)
{
	if (!ARRAY_ROOM(s->queue, s->cap_queue, s->n_queue + 1))
		return -1;
	memmove(s->queue + at + 1, s->queue + at, (size_t)(s->n_queue - at) * sizeof *s->queue);
	s->queue[at] = r;
	s->n_queue++;
	s->queue_changed = true;
	r->queued_ns = stream_now(s->stream);
	return 0;
}

void sched_queue_remove(struct sched *s, int32_t at)
{
	s->n_queue--;
	s->queue_changed = true;
	memmove(s->queue + at, s->queue + at + 1, (size_t)(s->n_queue - at) * sizeof *s->queue);
}

int sched_add(struct sched *s, struct request *r, struct err *e)
{
	/* room also for every running request, so that preemption cannot fail */
	if (!ARRAY_ROOM(s->queue, s->cap_queue, s->n_queue + s->n_slots + 1) || sched_user_open(s, r))
		return err_no_memory(e, "another waiting request");
	r->arrived = s->step;
	return sched_queue_insert(s, s->n_queue, r);
}

void sched_leave_slot(struct sched *s, struct request *r)
{
	sched_recall(s, r);
	memory_drop(s->memory, &r->table, r->id, 0);
	r->computed = r->registered = 0;
	s->slot[r->slot] = NULL;
	s->n_running--;
	r->slot = -1;
}

void sched_remove(struct sched *s, struct request *r)
{
	sched_pin_leave(s, r);
	if (r->slot >= 0)
		sched_leave_slot(s, r);
	else
		for (int32_t i = 0; i < s->n_queue; i++)
			if (s->queue[i] == r) {
				sched_queue_remove(s, i);
				break;
			}
	sched_user_close(r);
}

struct request *sched_find(const struct sched *s, int64_t id)
{
	for_running(s, r)
		if (r->id == id)
			return r;
	for_waiting(s, r)
		if (r->id == id)
			return r;
	return NULL;
}

/* Positions from which r can go on by the prefix cache, at most n. */
static int32_t cached_resume(struct sched *s, const struct request *r, int32_t n)
{
	return r->slot < 0 || request_wants_rows(r)
			   ? 0
			   : prefix_length(s->prefix, r->adapter, r->ids, n, n);
}

int32_t sched_resume(struct sched *s, const struct request *r, int32_t valid)
{
	int32_t want = r->computed < valid ? r->computed : valid;
	int32_t own = memory_resume(s->memory, &r->table, r->computed, want);
	int32_t cached = own < want ? cached_resume(s, r, want) : 0;

	return cached > own ? cached : own;
}

void sched_rewind(struct sched *s, struct request *r, int32_t valid)
{
	int32_t size = s->memory->page_size, pos = sched_resume(s, r, valid);

	sched_recall(s, r);
	if (pos == memory_resume(s->memory, &r->table, r->computed, pos)) {
		memory_drop(s->memory, &r->table, r->id, (pos + size - 1) / size);
	} else {
		struct prefix_match m;

		prefix_find(s->prefix, r->adapter, r->ids, pos, pos, s->step, &m);
		memory_drop(s->memory, &r->table, r->id, 0);
		sched_take_blocks(s, r, &m, pos);
	}
	r->computed = pos;
	if (r->registered > pos / size)
		r->registered = pos / size;
}

void sched_register(struct sched *s, struct request *r)
{
	int32_t full = r->computed / s->memory->page_size;

	if (!request_wants_rows(r))
		for (; r->registered < full; r->registered++)
			prefix_add(s->prefix, r->adapter, r->ids, r->registered, &r->table, r->id, s->step);
	sched_pin_extend(s, r); /* before pages that it keeps are given back */
	memory_give_back(s->memory, &r->table, r->id, r->computed);
}
