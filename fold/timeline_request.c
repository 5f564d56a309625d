/* Part of the timeline: the life of a request, from arrival to its end. */
#include "fold/timeline_fold.h"

/* malloc'd; NULL: there are none, or no memory. */
static int32_t *copy_words(struct timeline *t, struct ev_span s, int32_t *n_words)
{
	size_t n = s.data ? s.size / 4 : 0;
	int32_t *out;

	*n_words = 0;
	if (!n || n > TL_POS_MAX)
		return NULL;
	out = malloc(n * sizeof *out);
	if (!out) {
		t->full = true;
		return NULL;
	}
	*n_words = (int32_t)n;
	ev_items(s, out, sizeof *out, n);
	return out;
}

struct ev_request timeline_params(const struct tl_request *r)
{
	struct ev_request q = r->params;

	q.logit_bias = (struct ev_span){ r->bias, (size_t)r->n_bias * sizeof *r->bias };
	return q;
}

void tl_take_request(struct timeline *t, struct tl_request *r, const struct event *ev)
{
	const struct ev_request *e = &ev->u.request;

	r->request_seq = ev->seq;
	r->arrival_ns = ev->t_ns;
	r->sample = e->sample;
	r->params = *e;
	r->text = tl_text(t, e->text);
	r->user = tl_text(t, e->user);
	r->stop = tl_text(t, e->stop);
	r->spec = tl_text(t, e->spec);
	r->grammar = tl_text(t, e->grammar);
	r->adapter = tl_text(t, e->adapter);
	r->prompt = copy_words(t, e->prompt, &r->n_prompt);
	r->bias = copy_words(t, e->logit_bias, &r->n_bias);
}

bool tl_fold_request(struct timeline *t, const struct event *ev)
{
	const struct ev_request *e = &ev->u.request;
	struct tl_request *r;

	if (e->request < 1 || !is_index(e->kind, EV_N_request_kind) ||
		(t->n_requests && e->request <= t->request[t->n_requests - 1].id))
		return false;
	if (e->request % TL_SLIDE == 0)
		tl_drop_requests(t);
	r = tl_add(t, &t->request, &t->n_requests, &t->cap_requests, sizeof *r);
	if (!r)
		return true;
	*r = (struct tl_request){ .id = e->request,
		.parent = at_least(e->parent, 0),
		.kind = (enum ev_code_request_kind)e->kind,
		.state = TL_WAITING,
		.admitted_ns = EV_NULL_I,
		.first_token_ns = EV_NULL_I,
		.newest_ns = EV_NULL_I,
		.finished_ns = EV_NULL_I,
		.arrived_step = t->last_step,
		.admitted_step = EV_NULL_I,
		.first_step = EV_NULL_I,
		.slot = -1,
		.fork_pos = -1,
		.origin = { .abandoned = -1 },
		.attention = { .step = EV_NULL_I, .head_layer = -1, .head = -1 },
		.sparsity = { .step = EV_NULL_I },
		.experts = { .step = EV_NULL_I },
		.states = { .step = EV_NULL_I } };
	tl_take_request(t, r, ev);
	tl_note_arrived(t, r, ev);
	tl_run_arrived(t);
	t->n_turns += timeline_of_conversation(r->kind);
	if (r->kind == EV_REQUEST_KIND_chat || r->kind == EV_REQUEST_KIND_fork)
		tl_find_origin(t, r, 0);
	return true;
}

bool tl_fold_admit(struct timeline *t, const struct event *ev)
{
	const struct ev_admit *e = &ev->u.admit;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || r->state == TL_FINISHED || r->state == TL_RUNNING)
		return false;
	r->state = TL_RUNNING;
	r->slot = tl_int32(e->slot);
	t->open.admitted++;
	tl_run_admitted(t, r);
	if (r->admitted_ns != EV_NULL_I || e->waited_ns == EV_NULL_I)
		return true;
	r->admitted_ns = ev->t_ns;
	r->admitted_step = t->last_step;
	tl_note_admitted(t, r);
	return true;
}

void tl_take_lookup(struct tl_request *r, const struct event *ev)
{
	r->looked_up = true;
	r->lookup = ev->u.lookup;
	r->lookup_seq = ev->seq;
}

bool tl_lookup_is_sound(const struct ev_lookup *e)
{
	return is_index(e->reason, EV_N_prefix) && e->asked >= 0 && e->asked <= TL_POS_MAX &&
		   e->hit >= 0 && e->hit <= e->asked;
}

bool tl_fold_lookup(struct timeline *t, const struct event *ev)
{
	const struct ev_lookup *e = &ev->u.lookup;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || !tl_lookup_is_sound(e))
		return false;
	/* a preempted request asks again; its prompt counts once */
	if (!r->looked_up) {
		t->n_prompt_tokens += e->asked;
		t->n_hit_tokens += e->hit;
		tl_pin_gives(t, e);
	}
	tl_take_lookup(r, ev);
	r->computed = tl_int32(e->hit);
	return true;
}

bool tl_fold_preempt(struct timeline *t, const struct event *ev)
{
	const struct ev_preempt *e = &ev->u.preempt;
	struct tl_request *r = tl_request_find(t, e->request);
	struct tl_preempt *p;

	if (!r || r->state != TL_RUNNING)
		return false;
	r->state = TL_PREEMPTED;
	tl_run_preempted(t, r);
	r->slot = -1;
	r->computed = 0;
	r->n_preempted++;
	t->open.preempted++;
	p = tl_add(t, &t->preempt, &t->n_preempts, &t->cap_preempts, sizeof *p);
	if (p)
		*p = (struct tl_preempt){ .step = t->last_step + 1, .p = *e };
	return true;
}

/* What was drawn after the kept tokens leaves the request, and is kept as a future of its own. */
bool tl_fold_rewind(struct timeline *t, const struct event *ev)
{
	const struct ev_rewind *e = &ev->u.rewind;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || r->state == TL_FINISHED || e->kept < r->n_prompt || e->kept > e->had)
		return false;
	tl_abandon(t, r, (int32_t)at_most(e->kept, INT32_MAX), ev->seq);
	r->rewind = *e;
	r->rewind_seq = ev->seq;
	if (r->computed > e->kept)
		r->computed = (int32_t)e->kept;
	r->n_rewinds++;
	r->newest_ns = ev->t_ns;
	return true;
}

bool tl_fold_fork(struct timeline *t, const struct event *ev)
{
	const struct ev_fork *e = &ev->u.fork;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || e->parent < 1 || e->parent >= e->request || e->pos < 0 || e->pos > r->n_prompt)
		return false;
	r->parent = e->parent;
	r->fork_pos = tl_int32(e->pos);
	tl_find_origin(t, r, r->parent);
	return true;
}

/* For SQL and `why route`: no view shows other replicas. */
bool tl_fold_route(struct timeline *t, const struct event *ev)
{
	(void)t;
	(void)ev;
	return true;
}

bool tl_fold_trim(struct timeline *t, const struct event *ev)
{
	const struct ev_trim *e = &ev->u.trim;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r)
		return false;
	r->trimmed_tokens = tl_int32(tl_or_0(e->tokens));
	r->trimmed_turns = tl_int32(tl_or_0(e->turns));
	return true;
}

void tl_take_finish(struct timeline *t, struct tl_request *r, const struct event *ev)
{
	r->finish_seq = ev->seq;
	r->finished = true;
	r->finished_ns = ev->t_ns;
	r->finish = ev->u.finish;
	r->finish_why = tl_text(t, ev->u.finish.why);
}

bool tl_fold_finish(struct timeline *t, const struct event *ev)
{
	const struct ev_finish *e = &ev->u.finish;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || r->state == TL_FINISHED || !is_index(e->reason, EV_N_finish))
		return false;
	r->state = TL_FINISHED;
	tl_run_finished(t, r);
	r->slot = -1;
	tl_take_finish(t, r, ev);
	t->open.ended++;
	tl_note_finished(t, r);
	return true;
}
