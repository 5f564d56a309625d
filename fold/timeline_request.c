/* Part of the timeline: the life of a request, from arrival to its end. */
#include <stdlib.h>
#include <string.h>

#include "fold/timeline_fold.h"

static void copy_prompt(struct timeline *t, struct tl_request *r, struct ev_span ids)
{
	size_t n = ids.data ? ids.size / 4 : 0;

	if (!n || n > INT32_MAX)
		return;
	r->prompt = malloc(n * sizeof *r->prompt);
	if (!r->prompt) {
		t->full = true;
		return;
	}
	r->n_prompt = (int32_t)n;
	for (size_t i = 0; i < n; i++)
		r->prompt[i] = (int32_t)tl_get32((const unsigned char *)ids.data + 4 * i);
}

bool tl_fold_request(struct timeline *t, const struct ev_request *e, int64_t t_ns)
{
	struct tl_request *more, *r;

	if (e->request < 1 || e->kind < 0 || e->kind >= EV_N_request_kind ||
		(t->n_requests && e->request <= t->request[t->n_requests - 1].id))
		return false;
	more = tl_grow(t, t->request, t->n_requests, &t->cap_requests, sizeof *more);
	if (!more)
		return true;
	t->request = more;
	r = &t->request[t->n_requests++];
	*r = (struct tl_request){ .id = e->request,
							  .parent = e->parent > 0 ? e->parent : 0,
							  .sample = e->sample,
							  .kind = (enum ev_code_request_kind)e->kind,
							  .state = TL_WAITING,
							  .arrival_ns = t_ns,
							  .admitted_ns = EV_NULL_I,
							  .first_token_ns = EV_NULL_I,
							  .finished_ns = EV_NULL_I,
							  .slot = -1,
							  .fork_pos = -1,
							  .params = *e,
							  .attention = { .step = EV_NULL_I, .head_layer = -1, .head = -1 } };
	r->text = tl_text(t, e->text);
	r->stop = tl_text(t, e->stop);
	r->spec = tl_text(t, e->spec);
	copy_prompt(t, r, e->prompt);
	r->stem.future = -1;
	if (r->kind == EV_REQUEST_KIND_chat || r->kind == EV_REQUEST_KIND_fork)
		tl_find_stem(t, r, 0);
	return true;
}

bool tl_fold_admit(struct timeline *t, const struct ev_admit *e, int64_t t_ns)
{
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || r->state == TL_FINISHED || r->state == TL_RUNNING)
		return false;
	r->state = TL_RUNNING;
	r->slot = tl_int32(e->slot);
	if (r->admitted_ns == EV_NULL_I)
		r->admitted_ns = t_ns;
	return true;
}

bool tl_fold_lookup(struct timeline *t, const struct ev_lookup *e)
{
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || e->reason < 0 || e->reason >= EV_N_prefix || e->asked < 0 || e->hit < 0 ||
		e->hit > e->asked)
		return false;
	/* a preempted request asks again; its prompt counts once */
	if (!r->looked_up) {
		t->n_prompt_tokens += e->asked;
		t->n_hit_tokens += e->hit;
	}
	r->looked_up = true;
	r->lookup = *e;
	r->computed = tl_int32(e->hit);
	return true;
}

bool tl_fold_preempt(struct timeline *t, const struct ev_preempt *e)
{
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_preempt *more;

	if (!r || r->state != TL_RUNNING)
		return false;
	r->state = TL_PREEMPTED;
	r->slot = -1;
	r->computed = 0;
	r->n_preempted++;
	more = tl_grow(t, t->preempt, t->n_preempts, &t->cap_preempts, sizeof *more);
	if (!more)
		return true;
	t->preempt = more;
	t->preempt[t->n_preempts++] =
		(struct tl_preempt){ .step = t->last_step + 1, .p = *e };
	return true;
}

/* What was drawn behind the kept tokens leaves the request, and is kept as a future of its own. */
bool tl_fold_rewind(struct timeline *t, const struct ev_rewind *e)
{
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || r->state == TL_FINISHED || e->kept < r->n_prompt || e->kept > e->had)
		return false;
	tl_leave_future(t, r, (int32_t)(e->kept > INT32_MAX ? INT32_MAX : e->kept));
	r->rewind = *e;
	if (r->computed > e->kept)
		r->computed = (int32_t)e->kept;
	r->n_rewinds++;
	return true;
}

bool tl_fold_fork(struct timeline *t, const struct ev_fork *e)
{
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || e->parent < 1 || e->parent >= e->request || e->pos < 0 || e->pos > r->n_prompt)
		return false;
	r->parent = e->parent;
	r->fork_pos = tl_int32(e->pos);
	tl_find_stem(t, r, r->parent);
	return true;
}

bool tl_fold_trim(struct timeline *t, const struct ev_trim *e)
{
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r)
		return false;
	r->trimmed_tokens = tl_int32(e->tokens);
	r->trimmed_turns = tl_int32(e->turns);
	return true;
}

bool tl_fold_finish(struct timeline *t, const struct ev_finish *e, int64_t t_ns)
{
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || r->state == TL_FINISHED || e->reason < 0 || e->reason >= EV_N_finish)
		return false;
	r->state = TL_FINISHED;
	r->finished = true;
	r->finished_ns = t_ns;
	r->slot = -1;
	r->finish = *e;
	r->finish_why = tl_text(t, e->why);
	return true;
}
