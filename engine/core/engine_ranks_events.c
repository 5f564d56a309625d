/* What ranks have and do, as events. See engine_ranks_impl.h. */
#include <unistd.h>

#include "engine/core/engine_ranks_impl.h"

void engine_ranks_look(struct engine *e)
{
	const struct ranks *k = &e->ranks->k;
	struct rank_info *i = &e->ranks->info;

	*i = (struct rank_info){ .has = { .rank = k->transport->rank,
								 .stage = k->stage,
								 .part = k->rank,
								 .first_layer = k->layer[k->stage],
								 .layers = k->layer[k->stage + 1] - k->layer[k->stage],
								 .first_kv_head = EV_NULL_I,
								 .kv_heads = e->specs.group[0].kv.n_kv_heads,
								 .weight_bytes = ranks_weight_bytes(k),
								 .page_bytes = (int64_t)e->memory.pages[0].page_bytes,
								 .threads = e->info.threads,
								 .process = getpid() } };

	if (k->whole_kv[0])
		i->has.first_kv_head = ranks_span(k->whole_kv[0], k->rank, k->n).first;
	snprintf(i->isa, sizeof i->isa, "%s", e->info.isa);
	if (gethostname(i->host, sizeof i->host - 1))
		i->host[0] = '\0';
}

struct reply engine_ranks_reply(const struct engine *e)
{
	struct reply reply = { .nan_row = atomic_load(e->forward.nan_row) };

	for (int32_t g = 0; g < e->memory.spec.n; g++)
		reply.n_pages[g] = e->memory.pages[g].n_pages;
	reply.model = e->model->weights.identity;
	if (!e->ranks) /* it computes whole prompts */
		return reply;
	reply.info = e->ranks->info;
	reply.count = e->ranks->k.count;
	reply.count.traffic = e->ranks->k.transport->count;
	return reply;
}

void engine_ranks_emit(struct engine *e)
{
	const struct engine_ranks *r = e->ranks;

	for (int32_t i = 0; r && !r->k.transport->rank && i < r->k.transport->n; i++) {
		const struct rank_info *info = &r->reply[i].info;
		struct event ev = { .kind = EV_rank, .u.rank = info->has };

		ev.u.rank.isa = ev_text(info->isa);
		ev.u.rank.host = ev_text(info->host);
		ev.u.rank.transport = ev_text(r->k.transport->ops->name);
		stream_emit(&e->stream, &ev);
	}
}

static void emit_traffic(struct engine *e, int32_t rank)
{
	const struct engine_ranks *r = e->ranks;
	const struct ranks_count *now = &r->reply[rank].count, *was = &r->before[rank];
	const bool one_clock = !strcmp(r->reply[rank].info.host, r->reply[0].info.host);

	STREAM_EMIT(&e->stream, traffic, .step = e->n_steps, .rank = rank,
		.compute_ns = (int64_t)(now->compute_ns - was->compute_ns),
		.exchange_ns = (int64_t)(now->traffic.ns - was->traffic.ns),
		.slowed_ns = (int64_t)(now->traffic.link_ns - was->traffic.link_ns),
		.exchanges = (int64_t)(now->traffic.exchanges - was->traffic.exchanges),
		.sent = (int64_t)(now->traffic.sent - was->traffic.sent),
		.received = (int64_t)(now->traffic.received - was->traffic.received),
		.control = (int64_t)(now->traffic.control - was->traffic.control),
		.start_ns = one_clock ? now->began_ns - r->reply[0].count.began_ns : EV_NULL_I,
		.lane = { now->n_lane ? now->lane : NULL, (size_t)now->n_lane * sizeof *now->lane });
}

void engine_ranks_emit_step(struct engine *e)
{
	struct engine_ranks *r = e->ranks;

	if (!r || r->k.transport->rank)
		return;
	r->reply[0] = engine_ranks_reply(e);
	for (int32_t i = 0; i < r->k.transport->n; i++) {
		if (e->begun)
			emit_traffic(e, i);
		r->before[i] = r->reply[i].count;
	}
}
