/* One step: plan, rows, kernels, draws, events. See engine.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/engine_impl.h"

/* ---- rows ---- */

static void fill_rows(struct engine *e, struct plan_item *item, int32_t *n_seqs)
{
	struct forward *f = &e->forward;
	const struct request *r = item->r;
	int32_t known = item->n_rows - item->n_drafts, seq = (*n_seqs)++;

	f->pages[seq] = r->pages;
	for (int32_t i = 0; i < known; i++) {
		f->ids[item->row + i] = r->ids[item->pos + i];
		f->rows[item->row + i] = (struct k_row){ .pos = item->pos + i, .seq = seq, .observe = -1 };
	}
	if (item->n_drafts)
		engine_draft_rows(e, item, seq, n_seqs);
	for (int32_t i = 0; i < item->n_rows; i++)
		f->kv_pairs += (uint64_t)(f->rows[item->row + i].pos + 1);
	for (int32_t i = 0; i < item->n_out; i++)
		f->out_row[item->out + i] = item->row + item->n_rows - item->n_out + i;
	f->kv_positions += (uint64_t)(item->pos + item->n_rows);
	for_hooks(e, h, row)
		h->ops->row(e, h->state, item);
	engine_ask(e, item);
	if (item->work == EV_WORK_prefill)
		e->counts.prefill += item->n_rows;
	else
		e->counts.decode++;
	e->counts.draft += item->n_drafts;
}

static int run_kernels(struct engine *e, struct err *err)
{
	struct forward *f = &e->forward;
	int32_t n_seqs = 0;
	int64_t start;

	f->n_rows = e->plan.n_rows;
	f->n_out = e->plan.n_out;
	f->n_observed = 0;
	f->n_also = 0;
	f->kv_positions = f->kv_pairs = 0;
	e->draft.n_branches = e->draft.n_spare_used = 0;
	for (int32_t i = 0; i < e->plan.n_items; i++)
		fill_rows(e, &e->plan.item[i], &n_seqs);
	start = stream_now(&e->stream);
	if (forward_run(f, e->observe.on, err) || engine_fetch_rows(e, err))
		return -1;
	e->kernel_ns = stream_now(&e->stream) - start;
	return 0;
}

/* ---- ends ---- */

void engine_end_request(struct engine *e, struct request *r, enum ev_code_finish reason, const char *why)
{
	sched_remove(&e->sched, r);
	engine_tell_finish(e, r, reason, why);
	engine_forget(e, r->id);
	request_free(r);
}

void engine_finish(struct engine *e, struct request *r, enum ev_code_finish reason, const char *why)
{
	sched_register(&e->sched, r);
	if (r->owner)
		r->owner->ended(r, reason);
	engine_end_request(e, r, reason, why);
}

/* After a token was appended: -1, or why the request ends. */
static int end_reason(const struct engine *e, struct request *r, const char **why)
{
	int32_t id = r->ids[r->n_ids - 1];
	struct gguf_text bytes = tokenizer_bytes(e->tokenizer, id);

	*why = NULL;
	if (!r->ignore_end && tokenizer_is_end(e->tokenizer, id))
		return EV_FINISH_end;
	*why = request_stop(r, bytes.data, bytes.size);
	if (*why)
		return EV_FINISH_stop;
	if (r->n_ids == r->limit)
		return r->limit_is_ctx ? EV_FINISH_context : EV_FINISH_length;
	return -1;
}

/* ---- draws ---- */

static void append(struct engine *e, struct request *r, const struct k_logit_stats *stats,
				   enum ev_code_source source)
{
	r->ids[r->n_ids++] = e->drawn.id;
	e->counts.tokens++;
	if (r->first_token_ns == EV_NULL_I)
		r->first_token_ns = stream_now(&e->stream);
	if (r->owner)
		r->owner->drawn(r, &e->drawn, stats);
	engine_tell_token(e, r, e->drawn.id, r->n_ids - 1, &e->drawn, stats, source);
}

/* The owner chooses: nothing is drawn, the request waits. */
static void hold(struct engine *e, struct request *r, int32_t out)
{
	r->owner->row(r, e->forward.logits + (size_t)out * (size_t)e->info.vocab, &e->forward.stats[out]);
	sched_register(&e->sched, r);
}

static enum ev_code_source source_of(const struct plan_item *item, int32_t node, bool kept)
{
	if (!item->n_drafts)
		return EV_SOURCE_plain;
	if (kept)
		return EV_SOURCE_accepted;
	return draft_has_child(&item->r->draft, node) ? EV_SOURCE_corrected : EV_SOURCE_bonus;
}

/* The newest token's row, then that of each drafted token that is kept. */
static void after_decode(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	bool told[DRAFT_NODES] = { false };
	int32_t node = -1, next;
	const char *why;
	int end;

	if (request_is_chosen(r)) {
		r->computed++;
		hold(e, r, item->out);
		return;
	}
	for (;; node = next) {
		int32_t out = item->out + 1 + node;

		engine_draw(e, r, r->n_ids, out);
		r->computed++;
		next = item->n_drafts ? engine_judge(e, item, node, told) : -1;
		append(e, r, &e->forward.stats[out], source_of(item, node, next >= 0));
		end = end_reason(e, r, &why);
		if (next < 0 || end >= 0)
			break;
	}
	engine_tell_unread(e, item, told);
	engine_draft_settle(e, item, node);
	if (end >= 0) {
		engine_finish(e, r, (enum ev_code_finish)end, why);
		return;
	}
	engine_note_seen(e, item, node);
	sched_register(&e->sched, r);
}

/* Log-probabilities of the given tokens: softmax by the integer mass of rule 15. */
static void after_score(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	struct event ev;

	for (int32_t i = 0; i < item->n_rows; i++) {
		const struct k_logit_stats *s = &e->forward.stats[item->out + i];
		int32_t id = r->ids[item->pos + i + 1];
		float logit = engine_given_logit(e, item->out + i, id);

		ev_init(&ev, EV_score);
		ev.u.score.request = r->id;
		ev.u.score.pos = item->pos + i + 1;
		ev.u.score.id = id;
		ev.u.score.logp = (double)(logit - s->max) - log(ldexp((double)s->mass, -40));
		ev.u.score.hash = (int64_t)s->hash;
		stream_emit(&e->stream, &ev);
	}
	r->computed += item->n_rows;
	if (r->computed == r->n_ids - 1)
		engine_finish(e, r, EV_FINISH_end, NULL);
}

/* The draws of a recorded sequence, made again: what is told is what wins them now. */
static void after_verify(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;

	for (int32_t i = 0; i < item->n_out; i++) {
		int32_t pos = item->pos + item->n_rows - item->n_out + i + 1, out = item->out + i;

		if (pos <= r->verified) /* told before it was preempted */
			continue;
		engine_draw(e, r, pos, out);
		engine_tell_token(e, r, e->drawn.id, pos, &e->drawn, &e->forward.stats[out],
						  EV_SOURCE_plain);
		e->counts.tokens++;
		r->verified = pos;
	}
	r->computed += item->n_rows;
	if (r->computed == r->n_ids - 1)
		engine_finish(e, r, EV_FINISH_end, NULL);
	else
		sched_register(&e->sched, r);
}

static void after_prefill(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	const char *why;
	int end;

	r->computed += item->n_rows;
	if (item->n_out && request_is_chosen(r)) {
		hold(e, r, item->out);
		return;
	}
	if (item->n_out) {
		engine_draw(e, r, r->n_ids, item->out);
		append(e, r, &e->forward.stats[item->out], EV_SOURCE_plain);
		end = end_reason(e, r, &why);
		if (end >= 0) {
			engine_finish(e, r, (enum ev_code_finish)end, why);
			return;
		}
	}
	engine_note_seen(e, item, -1);
	sched_register(&e->sched, r);
}

/* A NaN in keys, values or logits: the request fails, and nobody else is touched. */
static bool failed(const struct engine *e, const struct plan_item *item)
{
	int32_t nan = atomic_load(e->forward.nan_row) - 1;

	if (nan >= item->row && nan < item->row + item->n_rows)
		return true;
	for (int32_t i = 0; i < item->n_out; i++)
		if (!isfinite(e->forward.stats[item->out + i].max))
			return true;
	return false;
}

static void after(struct engine *e, struct plan_item *item)
{
	struct request *r = item->r;

	r->last_step = e->n_steps;
	if (failed(e, item)) {
		engine_finish(e, r, EV_FINISH_failed, "the model computed something that is not a number");
		return;
	}
	if (r->kind == EV_REQUEST_KIND_score)
		after_score(e, item);
	else if (r->kind == EV_REQUEST_KIND_verify)
		after_verify(e, item);
	else if (item->work == EV_WORK_prefill)
		after_prefill(e, item);
	else
		after_decode(e, item);
}

void engine_end_if_due(struct engine *e, struct request *r)
{
	const char *why;
	int end = end_reason(e, r, &why);

	if (end >= 0)
		engine_finish(e, r, (enum ev_code_finish)end, why);
}

static void end_starved(struct engine *e)
{
	char why[128];

	for (int32_t i = 0; i < e->sched.n_slots; i++) {
		struct request *r = e->sched.slot[i];
		if (!r || !r->starved)
			continue;
		snprintf(why, sizeof why, "all %d pages of %d tokens are full; see --pages", e->kv.n_pages,
				 e->kv.store.page_size);
		engine_finish(e, r, EV_FINISH_context, why);
	}
}

/* The device is lost: nothing can be computed any more, but all that was is in the log. */
static void end_all(struct engine *e)
{
	for (int32_t i = 0; i < e->sched.n_slots; i++)
		if (e->sched.slot[i])
			engine_finish(e, e->sched.slot[i], EV_FINISH_failed, e->lost.text);
	while (e->sched.n_queue)
		engine_finish(e, e->sched.queue[0], EV_FINISH_failed, e->lost.text);
}

int engine_step(struct engine *e, struct err *err)
{
	if (e->lost.code)
		return err_set(err, e->lost.code, "%s", e->lost.text);
	if (engine_idle(e))
		return 0;
	if (!e->sched.n_running && !e->sched.n_queue) {
		for_hooks(e, h, wait)
			h->ops->wait(e, h->state);
		return 1;
	}
	for_hooks(e, h, begin)
		h->ops->begin(e, h->state);
	e->step_start_ns = stream_now(&e->stream);
	memset(&e->counts, 0, sizeof e->counts);
	e->n_steps++;
	e->sched.step = e->n_steps;
	e->draft.n_seen = e->draft.n_seen_rows = 0;
	sched_plan(&e->sched, &e->plan); /* a drafter may lose the device */
	end_starved(e);
	if (!e->plan.n_items) {
		e->n_steps--; /* nothing was computed: not a step */
		for_hooks(e, h, stuck)
			h->ops->stuck(e, h->state);
		return 1;
	}
	engine_tell_batch(e);
	if (e->lost.code || run_kernels(e, &e->lost)) {
		e->n_steps--; /* it was begun, but is none */
		end_all(e);
		return err_set(err, e->lost.code, "%s", e->lost.text);
	}
	for_hooks(e, h, computed)
		h->ops->computed(e, h->state);
	for (int32_t i = 0; i < e->plan.n_items; i++)
		after(e, &e->plan.item[i]);
	if (engine_tell_seen(e, &e->lost)) { /* before hooks let go of requests */
		engine_tell_step(e);
		end_all(e);
		return err_set(err, e->lost.code, "%s", e->lost.text);
	}
	for_hooks(e, h, done)
		h->ops->done(e, h->state);
	engine_tell_step(e);
	return 1;
}
