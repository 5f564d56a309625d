/* Requests that draw nothing to go on from: texts to score, sequences to verify, prefixes to pin.
 * Thread: the engine's. */
#include "engine/core/compute.h"
#include "engine/core/engine_impl.h"

/* It ends when so many of its rows are computed. */
static void go_on(struct engine *e, struct request *r, int32_t rows)
{
	if (r->computed == rows)
		engine_finish(e, r, EV_FINISH_end, NULL);
	else
		sched_register(&e->sched, r);
}

static struct ev_span score_candidates(struct engine *e, const struct request *r, int32_t out,
	int32_t id, struct ev_candidate to[SAMPLE_TOP + 1])
{
	struct k_draw_entry top[SAMPLE_TOP + 1];
	const int32_t n = r->top && e->compute->top ? e->compute->top(e, out, r->top, id, top) : 0;

	for (int32_t i = 0; i < n; i++)
		to[i] = (struct ev_candidate){ .id = (uint32_t)top[i].id,
			.logit = top[i].logit,
			.p = (float)exp(compute_share(&e->stats[out], top[i].logit)),
			.arrival = NAN,
			.cut = EV_CUT_kept };
	for (int32_t i = 0; i < n; i++)
		stream_vocab(&e->stream, top[i].id);
	return (struct ev_span){ n ? to : NULL, (size_t)n * sizeof *to };
}

/* Emits the log-probabilities of the given tokens. */
static void after_score(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;

	for (int32_t i = 0; i < item->n_out; i++) {
		const int32_t pos = item->pos + i + 1, id = r->ids[pos], out = item->out + i;
		struct ev_candidate to[SAMPLE_TOP + 1];

		if (pos <= r->verified) /* emitted before it was preempted */
			continue;
		r->verified = pos;
		STREAM_EMIT(&e->stream, score, .request = r->id, .pos = pos, .id = id,
			.logp = e->compute->logp ? e->compute->logp(e, out, id) : (double)NAN,
			.hash = (int64_t)e->stats[out].hash, .candidates = score_candidates(e, r, out, id, to));
		for_hooks(e, h, drawn) h->ops->drawn(e, h->state, r, pos, id, out);
	}
	r->computed += item->n_rows;
	go_on(e, r, r->n_ids - 1);
}

const struct request_kind request_score = { .given = true, .after = after_score };

/* Repeats the draws of a recorded sequence: the tokens emitted are those drawn now. */
static void after_verify(struct engine *e, const struct plan_item *item)
{
	struct request *r = item->r;

	for (int32_t i = 0; i < item->n_out; i++) {
		int32_t pos = item->pos + item->n_rows - item->n_out + i + 1, out = item->out + i;

		if (pos <= r->verified) /* emitted before it was preempted */
			continue;
		if (!e->compute->draw(e, r, pos, out)) {
			engine_finish(e, r, EV_FINISH_failed, engine_bound_why(r));
			return;
		}
		engine_emit_token(e, r, e->drawn.id, pos, &e->drawn, &e->stats[out], EV_SOURCE_plain);
		e->step.tokens++;
		r->verified = pos;
	}
	r->computed += item->n_rows;
	go_on(e, r, r->n_ids - 1);
}

const struct request_kind request_verify = { .given = true, .after = after_verify };

static void after_pin(struct engine *e, const struct plan_item *item)
{
	item->r->computed += item->n_rows;
	if (item->r->computed < item->r->n_ids)
		engine_note_seen(e, item, -1);
	go_on(e, item->r, item->r->n_ids);
}

const struct request_kind request_pin = { .after = after_pin };
