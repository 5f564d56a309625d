/* The events of a step. See engine_impl.h. */

#include "base/clock.h"
#include "base/version.h"
#include "engine/core/engine_impl.h"

void engine_emit_session(struct engine *e)
{
	const struct engine_info *i = &e->info;
	struct event ev;
	struct ev_session *s = &ev.u.session;

	ev_init(&ev, EV_session);
	s->unix_ns = unix_ns();
	s->version = ev_text(CUTAWAY_VERSION);
	s->build = ev_text(CUTAWAY_BUILD);
	s->arith = K_ARITH_VERSION;
	s->backend = ev_text(i->backend);
	s->isa = ev_text(i->isa);
	if (*i->device)
		s->device = ev_text(i->device);
	s->threads = i->threads;
	s->model_path = ev_text(e->model_path);
	s->model_name = ev_text(i->name);
	s->model_sha256 = ev_text(e->model_sha256);
	s->model_bytes = (int64_t)i->model_bytes;
	s->weight_bytes = (int64_t)i->weight_bytes;
	s->pair_bytes = i->pair_bytes ? (int64_t)i->pair_bytes : EV_NULL_I;
	s->n_layers = i->n_layers;
	s->n_heads = i->n_heads;
	s->n_kv_heads = i->n_kv_heads;
	s->head_dim = i->head_dim;
	s->dim = i->dim;
	s->vocab = i->vocab;
	s->ctx = i->ctx;
	s->slots = i->slots;
	s->pages = 0;
	for (int32_t g = 0; g < e->memory.spec.n; g++)
		s->pages += e->memory.pages[g].n_pages;
	s->page_size = e->memory.page_size;
	s->page_bytes = (int64_t)e->memory.pages[e->memory.primary].page_bytes;
	s->params = i->params ? i->params : EV_NULL_I;
	s->memory_bytes = i->memory_bytes ? i->memory_bytes : EV_NULL_I;
	stream_emit(&e->stream, &ev);
}

void engine_emit_memory(struct engine *e)
{
	for (int32_t g = 0; g < e->memory.spec.n; g++) {
		const struct memory_spec *s = &e->memory.spec.group[g];

		STREAM_EMIT(&e->stream, memory, .memory = g, .kind = s->kind->code, .layers = s->n_layers,
			.window = s->window ? s->window : EV_NULL_I, .pages = e->memory.pages[g].n_pages,
			.page_size = e->memory.page_size, .page_bytes = (int64_t)e->memory.pages[g].page_bytes,
			.latent = s->kv.value_dim > 0);
	}
}

void engine_emit_products(struct engine *e)
{
	enum { MOST = 64 };
	struct forward_product product[MOST];
	const int32_t n = e->model ? forward_products(&e->forward, product, MOST) : 0;

	for (const struct forward_product *p = product; p < product + n; p++)
		STREAM_EMIT(&e->stream, product, .stage = (int64_t)p->stage,
			.format = ev_text(k_types[p->type].name), .inputs = p->inputs, .outputs = p->outputs,
			.n = p->n, .bytes = (int64_t)p->bytes,
			.row_bytes = (int64_t)(p->row_values * sizeof(float)), .each_row = p->each_row);
}

void engine_emit_request(struct engine *e, const struct request *r, bool refused)
{
	const bool cut = refused && r->n_prompt > EV_PROMPT_REFUSED &&
					 r->kind != EV_REQUEST_KIND_chat && r->kind != EV_REQUEST_KIND_fork;
	const int32_t n = cut ? EV_PROMPT_REFUSED : r->n_prompt;
	struct event ev;

	for (int32_t i = 0; i < n; i++)
		stream_vocab(&e->stream, r->ids[i]);
	request_event(r, e->draft.spec, &ev);
	ev.u.request.prompt.size = (size_t)n * sizeof *r->ids;
	stream_emit(&e->stream, &ev);
}

void engine_emit_fork(struct engine *e, const struct request *r, const struct engine_request *q)
{
	STREAM_EMIT(&e->stream, fork, .request = r->id, .parent = q->parent, .pos = q->fork_pos,
		.forced = q->forced ? q->ids[q->fork_pos] : EV_NULL_I);
}

struct ev_token *engine_token_event(struct engine *e, const struct request *r, int32_t id,
	int32_t pos, enum ev_code_source source, struct event *ev)
{
	struct ev_token *t = &ev->u.token;

	stream_vocab(&e->stream, id);
	ev_init(ev, EV_token);
	t->step = e->n_steps;
	t->request = r->id;
	t->pos = pos;
	t->id = id;
	t->source = source;
	t->is_end = engine_is_end(e, id);
	return t;
}

void engine_emit_token(struct engine *e, struct request *r, int32_t id, int32_t pos,
	const struct sample_result *s, const struct k_logit_stats *stats, enum ev_code_source source)
{
	struct event ev;
	struct ev_token *t = engine_token_event(e, r, id, pos, source, &ev);

	if (e->observe.on)
		for (int32_t i = 0; i < s->n_candidates; i++)
			stream_vocab(&e->stream, s->candidate[i].id);
	t->p = (double)s->p;
	t->p_draw = (double)s->p_draw;
	t->entropy = s->entropy;
	t->hash = (int64_t)stats->hash;
	t->survivors = s->survivors;
	t->rank = s->rank ? s->rank : EV_NULL_I;
	if (e->observe.on) {
		t->candidates =
			(struct ev_span){ s->candidate, (size_t)s->n_candidates * sizeof s->candidate[0] };
		t->stages = (struct ev_span){ s->stage, (size_t)s->n_stages * sizeof s->stage[0] };
	}
	request_charge(r, t, stream_now(&e->stream));
	stream_emit(&e->stream, &ev);
}

void engine_emit_draft(struct engine *e, const struct plan_item *item, int32_t node,
	enum ev_code_verdict verdict, const struct engine_verdict *v)
{
	const struct draft *t = &item->r->draft;
	struct event ev;
	struct ev_draft *d = &ev.u.draft;

	stream_vocab(&e->stream, t->id[node]);
	ev_init(&ev, EV_draft);
	d->step = e->n_steps;
	d->request = item->r->id;
	d->pos = item->pos + draft_depth(t, node);
	d->nth = node + 1;
	d->parent = t->parent[node] + 1;
	d->drafter = ev_text(t->by ? t->by : e->draft.ops->name); /* without a drafter: a grammar */
	d->id = t->id[node];
	d->depth = draft_depth(t, node);
	d->top = e->stats[item->out + 1 + node].argmax;
	d->rule = e->draft.rejection ? EV_RULE_rejection : EV_RULE_race;
	d->verdict = verdict;
	d->q = (double)t->q[node];
	if (v) {
		d->p = (double)v->p;
		d->arrival = (double)v->arrival;
		d->winner = v->winner;
		d->winner_arrival = (double)v->winner_arrival;
		d->other = v->other;
		d->other_arrival = (double)v->other_arrival;
		d->other_winner_arrival = (double)v->other_winner_arrival;
	}
	stream_emit(&e->stream, &ev);
}

void engine_emit_window(struct engine *e, int64_t request, const struct draft_window *w)
{
	size_t cells = (size_t)w->levels * (size_t)w->columns,
		   entered = (size_t)w->n_entered * (size_t)w->gram;

	for (size_t i = 0; i < cells; i++)
		stream_vocab(&e->stream, w->cell[i]);
	for (int32_t i = 0; i < w->columns; i++)
		if (w->next[i] >= 0)
			stream_vocab(&e->stream, w->next[i]);
	for (size_t i = 0; i < entered; i++)
		stream_vocab(&e->stream, w->entered[i]);
	STREAM_EMIT(&e->stream, window, .step = e->n_steps, .request = request,
		.drafter = ev_text(e->draft.ops->name), .pos = w->pos, .levels = w->levels,
		.columns = w->columns, .cells = { w->cell, cells * sizeof *w->cell },
		.next = { w->next, (size_t)w->columns * sizeof *w->next }, .gram = w->gram,
		.entered = { w->entered, entered * sizeof *w->entered }, .own = w->n_own, .pool = w->pool);
}

static void count_waste(const struct engine *e, struct ev_step *s)
{
	const struct memory *m = &e->memory;

	for (int32_t g = 0; g < m->spec.n; g++) {
		int64_t per_token = (int64_t)m->pages[g].page_bytes / m->page_size;

		for_running(&e->sched, r) {
			if (m->spec.group[g].kind != &memory_paged)
				break;
			s->tail_waste_bytes += ((int64_t)r->table.n * m->page_size - r->computed) * per_token;
			s->reserve_waste_bytes += (int64_t)(e->info.ctx - r->computed) * per_token;
		}
	}
}

void engine_emit_step(struct engine *e)
{
	const struct memory_use use = memory_use(&e->memory);
	struct ev_step *s = &e->step;
	struct event ev = { .kind = EV_step };

	s->step = e->n_steps;
	s->rows = e->plan.n_rows;
	s->running = e->sched.n_running;
	s->waiting = e->sched.n_queue;
	s->hold = e->sched.hold;
	s->hold_first = e->sched.hold_first;
	s->pages_used = use.used;
	s->pages_cached = use.cached;
	s->pages_shared = use.shared;
	s->pages_pinned = use.pinned;
	count_waste(e, s);
	s->kv_bytes = (int64_t)e->forward.cost.kv_bytes;
	s->kv_whole_bytes = (int64_t)e->forward.cost.kv_whole_bytes;
	for (int i = 0; i < K_N_STAGES; i++) {
		s->bytes += (int64_t)e->forward.cost.stage[i].bytes;
		s->ops += (int64_t)e->forward.cost.stage[i].ops;
	}
	for_hooks(e, h, fill) h->ops->fill(e, h->state, s);
	s->ns = stream_now(&e->stream) - e->step_start_ns;
	ev.u.step = *s;
	stream_emit(&e->stream, &ev);
	for_hooks(e, h, emitted) h->ops->emitted(e, h->state, s);
}

void engine_emit_finish(
	struct engine *e, struct request *r, enum ev_code_finish reason, const char *why)
{
	const int64_t first = r->first_token_ns, now = stream_now(&e->stream);

	STREAM_EMIT(&e->stream, finish, .request = r->id, .step = r->last_step, .reason = reason,
		.generated = r->n_ids - r->n_prompt,
		.first_token_ns = first == EV_NULL_I ? EV_NULL_I : first - r->arrival_ns,
		.total_ns = now - r->arrival_ns, .hit = r->hit, .why = ev_text(why),
		.queue_ns = r->queue_ns, .itl_p50_ns = request_itl(r, 0.5),
		.itl_p99_ns = request_itl(r, 0.99), .prompt = EV_NULL_I);
}
