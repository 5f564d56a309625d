/* Rewinds a request: see engine_rewind in engine.h. Its pages after the kept tokens are released,
 * and other readers keep theirs; the log keeps what was drawn. */
#include "engine/core/engine_impl.h"

static int rewind_check(
	const struct engine *e, const struct request *r, int32_t keep, int32_t forced, struct err *err)
{
	if (!r)
		return err_set(err, ERR_USAGE, "the request has ended: fork it instead");
	if (!r->how->next)
		return err_set(err, ERR_USAGE, "the tokens of request %lld are given: it cannot go back",
			(long long)r->id);
	if (r->owner)
		return err_set(err, ERR_USAGE, "request %lld is %s: it cannot go back", (long long)r->id,
			r->owner->what);
	if (keep < r->n_prompt || keep > r->n_ids)
		return err_set(err, ERR_USAGE,
			"request %lld has tokens %d to %d of its own; it cannot go to %d", (long long)r->id,
			r->n_prompt, r->n_ids, keep);
	if (forced >= e->info.vocab || forced < -1)
		return err_set(
			err, ERR_USAGE, "token id %d is not in the vocabulary of %d", forced, e->info.vocab);
	if (forced >= 0 && keep >= r->limit)
		return err_set(err, ERR_USAGE, "request %lld is at its limit of %d tokens",
			(long long)r->id, r->limit);
	return 0;
}

static void emit_rewind(struct engine *e, const struct request *r, int32_t had, int32_t keep,
	int32_t forced, int32_t valid)
{
	int32_t size = e->memory.page_size, computed = sched_resume(&e->sched, r, valid), pages = 0;

	stream_vocab(&e->stream, forced);
	for (int32_t g = 0; g < e->memory.spec.n; g++)
		pages += memory_held(&r->table, g, (computed + size - 1) / size);
	STREAM_EMIT(&e->stream, rewind, .request = r->id, .had = had, .kept = keep,
		.forced = forced >= 0 ? forced : EV_NULL_I, .pages = pages,
		.recompute = keep + (forced >= 0) - computed);
}

static void force(struct engine *e, struct request *r, int32_t id)
{
	struct event ev;

	engine_token_event(e, r, id, r->n_ids, EV_SOURCE_forced, &ev);
	r->ids[r->n_ids++] = id;
	stream_emit(&e->stream, &ev);
	engine_end_if_due(e, r);
}

int engine_rewind(struct engine *e, int64_t request, int32_t keep, int32_t forced, struct err *err)
{
	struct request *r = sched_find(&e->sched, request);
	/* the newest token's row is computed again, for its logits; with a forced token, that token's
	 * row */
	int32_t valid = forced >= 0 ? keep : keep - 1;

	if (r && r->how->stays)
		return err_set(err, ERR_USAGE, "%s", r->how->stays);
	if (rewind_check(e, r, keep, forced, err))
		return -1;
	emit_rewind(e, r, r->n_ids, keep, forced, valid);
	request_truncate(r, keep, e->tokenizer);
	sched_rewind(&e->sched, r, valid);
	r->newest_ns = stream_now(&e->stream);
	if (forced >= 0)
		force(e, r, forced);
	return 0;
}
