/* One step: plan, compute, draws, events. See engine.h; compute.h computes its rows, and
 * step_hooks.h lists what else takes part. */
#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

/* ---- ends ---- */

const char engine_not_a_number[] = "the model computed something that is not a number";

void engine_end_request(
	struct engine *e, struct request *r, enum ev_code_finish reason, const char *why)
{
	sched_remove(&e->sched, r);
	engine_emit_finish(e, r, reason, why);
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

/* ---- draws ---- */

static void emit_drawn(
	struct engine *e, const struct request *r, int32_t pos, int32_t id, int32_t out)
{
	for_hooks(e, h, drawn) h->ops->drawn(e, h->state, r, pos, id, out);
}

/* The candidates that the request asked for. */
static void add_top(struct engine *e, const struct request *r, int32_t out)
{
	struct k_draw_entry top[SAMPLE_TOP + 1];
	/* of a bound one also what the model would have said */
	const int32_t most = r->bound && r->top < SAMPLE_CANDIDATES ? SAMPLE_CANDIDATES : r->top;

	if (e->sampler && !sampler_has_top(e->sampler, most))
		sampler_add_top(e->sampler, top, e->compute->top(e, out, most, -1, top), &e->drawn);
	if (r->bound)
		sampler_sort_by_logit(&e->drawn);
}

/* Nothing could be drawn: -1, the newest token's row is computed again; else why r ends. */
static int undrawn(const struct engine *e, const struct request *r, const char **why)
{
	*why = e->given ? NULL : engine_bound_why(r);
	return e->given ? e->given->end(e->given->arg, r->id) : EV_FINISH_failed;
}

static void append(struct engine *e, struct request *r, int32_t out, enum ev_code_source source)
{
	const struct k_logit_stats *stats = &e->stats[out];

	r->ids[r->n_ids++] = e->drawn.id;
	e->step.tokens++;
	if (r->first_token_ns == EV_NULL_I)
		r->first_token_ns = stream_now(&e->stream);
	if (r->owner)
		r->owner->drawn(r, &e->drawn, stats);
	if ((r->top || r->bound) && e->observe.on)
		add_top(e, r, out);
	engine_emit_token(e, r, e->drawn.id, r->n_ids - 1, &e->drawn, stats, source);
	if (r->bound && e->observe.on)
		engine_emit_bound(e, r);
	emit_drawn(e, r, r->n_ids - 1, e->drawn.id, out);
}

/* The owner chooses the token: nothing is drawn, and the request waits. */
static void hold(struct engine *e, struct request *r, int32_t out)
{
	r->owner->row(r, e->forward.logits + (size_t)out * (size_t)e->info.vocab, &e->stats[out]);
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

void engine_keep(struct engine *e, struct request *r)
{
	if (e->set.kv_cache)
		sched_register(&e->sched, r);
	else
		sched_rewind(&e->sched, r, 0);
}

/* Draws from the newest token's row, then from that of each drafted token that is kept. */
static void after_decode(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	bool emitted[DRAFT_NODES] = { false };
	int32_t node = -1, next;
	const char *why;
	int end = -1;

	if (request_is_chosen(r)) {
		r->computed++;
		hold(e, r, item->out);
		return;
	}
	for (;; node = next) {
		int32_t out = item->out + 1 + node;

		if (!e->compute->draw(e, r, r->n_ids, out)) {
			end = undrawn(e, r, &why);
			break;
		}
		r->computed++;
		next = item->n_drafts ? engine_verify_draft(e, item, node, emitted) : -1;
		append(e, r, out, source_of(item, node, next >= 0));
		end = e->compute->end(e, r, &why);
		if (next < 0 || end >= 0)
			break;
	}
	engine_emit_discarded(e, item, emitted);
	engine_draft_settle(e, item, node);
	if (end >= 0) {
		engine_finish(e, r, (enum ev_code_finish)end, why);
		return;
	}
	engine_note_seen(e, item, node);
	engine_keep(e, r);
}

static void after_prefill(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;
	const char *why;
	int end = -1;

	r->computed += item->n_rows;
	if (item->n_out && request_is_chosen(r)) {
		hold(e, r, item->out);
		return;
	}
	if (item->n_out && !e->compute->draw(e, r, r->n_ids, item->out)) {
		end = undrawn(e, r, &why);
		r->computed -= end < 0;
	} else if (item->n_out) {
		append(e, r, item->out, EV_SOURCE_plain);
		end = e->compute->end(e, r, &why);
	}
	if (end >= 0) {
		engine_finish(e, r, (enum ev_code_finish)end, why);
		return;
	}
	engine_note_seen(e, item, -1);
	if (item->n_out)
		engine_keep(e, r);
	else
		sched_register(&e->sched, r);
}

static void after_next(struct engine *e, const struct plan_item *item)
{
	if (item->work == EV_WORK_prefill)
		after_prefill(e, item);
	else
		after_decode(e, item);
}

const struct request_kind request_next = { .next = true, .after = after_next };

static void after(struct engine *e, struct plan_item *item)
{
	struct request *r = item->r;

	r->last_step = e->n_steps;
	if (e->compute->failed && e->compute->failed(e, item)) {
		engine_finish(e, r, EV_FINISH_failed, engine_not_a_number);
		return;
	}
	r->how->after(e, item);
}

void engine_end_if_due(struct engine *e, struct request *r)
{
	const char *why;
	int end = e->compute->end(e, r, &why);

	if (end >= 0)
		engine_finish(e, r, (enum ev_code_finish)end, why);
}

static void end_out_of_pages(struct engine *e)
{
	const int32_t pinned = pins_pages(&e->prefix, e->memory.primary, NULL);
	char why[128], pins[48] = "";

	if (pinned)
		snprintf(pins, sizeof pins, ", %d of them pinned", pinned);
	for_running(&e->sched, r) {
		if (!r->out_of_pages)
			continue;
		snprintf(why, sizeof why, "all %d pages of %d tokens are full%s; see --pages",
			e->memory.pages[e->memory.primary].n_pages, e->memory.page_size, pins);
		engine_finish(e, r, EV_FINISH_context, why);
	}
}

/* The device is lost: nothing can be computed any more, but the log has all that was. */
static int lose(struct engine *e, struct err *err)
{
	for_running(&e->sched, r)
		engine_finish(e, r, EV_FINISH_failed, e->lost.text);
	while (e->sched.n_queue)
		engine_finish(e, e->sched.queue[0], EV_FINISH_failed, e->lost.text);
	return err_set(err, e->lost.code, "%s", e->lost.text);
}

/* ---- the step ---- */

static void begin(struct engine *e)
{
	sched_pins_expire(&e->sched);
	for_hooks(e, h, begin) h->ops->begin(e, h->state);
	e->step_start_ns = stream_now(&e->stream);
	e->step = (struct ev_step){ .run_delay_ns = EV_NULL_I,
		.twin_rows = EV_NULL_I,
		.twin_ns = EV_NULL_I,
		.twin_bytes = EV_NULL_I,
		.twin_ops = EV_NULL_I };
	e->sched.step = ++e->n_steps;
	e->draft.n_seen = e->draft.n_seen_rows = 0;
}

int64_t engine_pairs_of(const struct engine *e, const struct plan_item *item)
{
	const int32_t plain = item->n_rows - item->n_drafts;
	int64_t pairs = 0;

	if (e->forward.ahead || item->pos < item->r->n_input)
		return (int64_t)item->n_rows * item->n_rows;
	for (int32_t i = 0; e->info.n_heads && i < item->n_rows; i++) {
		int32_t ahead = i < plain ? i : plain - 1 + draft_depth(&item->r->draft, i - plain);

		pairs += visible_reads(&e->forward.visible, 0, item->pos + ahead);
	}
	return pairs;
}

/* Tells who is in the batch, and counts its rows. */
static void begin_items(struct engine *e)
{
	for (int32_t i = 0; i < e->plan.n_items; i++) {
		const struct plan_item *item = &e->plan.item[i];

		STREAM_EMIT(&e->stream, batch, .step = e->n_steps, .request = item->r->id,
			.slot = item->r->slot, .work = item->work, .pos = item->pos, .rows = item->n_rows);
		item->r->rows += item->n_rows;
		item->r->pairs += engine_pairs_of(e, item);
		if (item->work != EV_WORK_decode && item->work != EV_WORK_verify)
			e->step.prefill_rows += item->n_rows;
		else
			e->step.decode_rows++;
		e->step.draft_rows += item->n_drafts;
	}
}

/* -1: the device was lost on the way. */
static int compute(struct engine *e)
{
	begin_items(e);
	engine_draft_verifying(e);
	if (e->lost.code || (e->compute->run && e->compute->run(e, &e->lost))) {
		e->n_steps--; /* it began, but does not count as a step */
		return -1;
	}
	for_hooks(e, h, computed) h->ops->computed(e, h->state);
	for (int32_t i = 0; i < e->plan.n_items; i++)
		after(e, &e->plan.item[i]);
	if (engine_draft_learn(e, &e->lost)) { /* before hooks release requests */
		engine_emit_step(e);
		return -1;
	}
	return 0;
}

int engine_step(struct engine *e, struct err *err)
{
	if (e->lost.code)
		return err_set(err, e->lost.code, "%s", e->lost.text);
	if (engine_idle(e))
		return 0;
	if (!e->sched.n_running && !e->sched.n_queue) {
		for_hooks(e, h, wait) h->ops->wait(e, h->state);
		return 1;
	}
	begin(e);
	sched_plan(&e->sched, &e->plan); /* a drafter may lose the device */
	end_out_of_pages(e);
	if (!e->plan.n_items) {
		e->sched.step = --e->n_steps; /* nothing was computed: not a step */
		for_hooks(e, h, stuck) h->ops->stuck(e, h->state);
		return 1;
	}
	if (compute(e))
		return lose(e, err);
	for_hooks(e, h, done) h->ops->done(e, h->state);
	engine_emit_step(e);
	return 1;
}
