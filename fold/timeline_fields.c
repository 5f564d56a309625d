/* See timeline_fields.h. */
#include "fold/timeline_fields.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
/* Words of which the tables are made; STRUCT is the struct of the table. */
#define TYPE_OF(x)                                                                                 \
	_Generic((x), int64_t: TL_I64, int32_t: TL_I32, uint32_t: TL_U32, uint8_t: TL_U8,              \
			 bool: TL_FLAG, float: TL_F32, double: TL_F64, char *: TL_STRING)
#define M(m) ((STRUCT *)0)->m
#define FIELD(m, t) .name = #m, .type = t, .at = offsetof(STRUCT, m), .size = sizeof M(m)
#define F(m) { FIELD(m, TYPE_OF(M(m))) }
#define K(m) { FIELD(m, TYPE_OF(M(m))), .kept = true }
#define HIDDEN(m) { FIELD(m, TL_HIDDEN) }
#define CHARS(m) { FIELD(m, TL_CHARS) }
#define EVENT(m, kind) { FIELD(m, TL_EVENT), .event = EV_##kind }
#define FIELDS(shape, ...) static const struct tl_field shape##_fields[] = { __VA_ARGS__, END }
#define COUNT(n) .at_n = offsetof(STRUCT, n), .size_n = sizeof M(n)
#define ITEMS_OF(m, shape) FIELD(m, TL_ITEMS), .of = &tl_shape_##shape
/* Where a pointer points to: so many, with room for so many; or as a function says. */
#define ARRAY(m, shape, n) ITEMS_OF(m, shape), .pointed = true, COUNT(n)
#define GROWING(m, shape, n, cap) ARRAY(m, shape, n), .at_cap = offsetof(STRUCT, cap)
#define COUNTED(m, shape, fn) ITEMS_OF(m, shape), .pointed = true, .count = fn
/* Within the struct. */
#define INLINE(m, shape, n) ITEMS_OF(m, shape), COUNT(n)
#define KEPT .kept = true
#define END { .name = NULL }

/* TABLE: its fields and its shape in one. */
#define SHAPE(shape, ...)                                                                          \
	const struct tl_shape tl_shape_##shape = { .field = shape##_fields, .size = sizeof(STRUCT),    \
											   .most = __VA_ARGS__ }
#define ANY (1 << 30)
#define TABLE(shape, most, ...)                                                                    \
	FIELDS(shape, __VA_ARGS__);                                                                    \
	static SHAPE(shape, most)

/* ---- plain numbers, and events as they are ---- */

#define PLAIN(shape, ctype, most_, ...)                                                            \
	static const struct tl_field shape##_fields[] = {                                              \
		{ .name = "", .size = sizeof(ctype), __VA_ARGS__ }, END                                    \
	};                                                                                             \
	static const struct tl_shape tl_shape_##shape = { .field = shape##_fields, .most = most_,      \
													  .size = sizeof(ctype) }
PLAIN(i32, int32_t, 1 << 20, .type = TL_I32, KEPT);
PLAIN(u32, uint32_t, 1 << 20, .type = TL_U32, KEPT);
PLAIN(u8, uint8_t, 1 << 20, .type = TL_U8, KEPT);
PLAIN(f32, float, 1 << 20, .type = TL_F32, KEPT);
PLAIN(memory, struct ev_memory, TL_MEMORY, .type = TL_EVENT, .event = EV_memory);
PLAIN(trained, struct ev_trained, ANY, .type = TL_EVENT, .event = EV_trained);
PLAIN(cost, struct ev_cost, TL_COSTS, .type = TL_EVENT, .event = EV_cost);
PLAIN(ahead, struct ev_ahead, ANY, .type = TL_EVENT, .event = EV_ahead);
PLAIN(server_slot, struct ev_slot, TL_SERVER_SLOTS, .type = TL_EVENT, .event = EV_slot);

#define STRUCT struct tl_branch
TABLE(origin, 1, K(request), K(abandoned), K(pos));
#undef STRUCT

/* ---- requests ---- */

#define STRUCT struct ev_candidate
TABLE(candidate, ANY, F(id), F(logit), F(p), F(arrival), F(cut));
#undef STRUCT

#define STRUCT struct ev_stage
TABLE(stage, ANY, F(left), F(mass), F(value));
#undef STRUCT

static const void *whole_token(const struct timeline *t, const void *token)
{
	return timeline_whole(t, token);
}

#define STRUCT struct tl_price
TABLE(price, 1, K(kl), K(lossy), K(exact), K(best), K(exact_best), K(rank));
#undef STRUCT

#define STRUCT struct tl_token
FIELDS(token, K(seq), K(step), K(pos), K(id), K(source), K(is_end), K(p), K(rows), K(pairs), K(ns),
	{ ITEMS_OF(price, price), KEPT }, F(hash), F(p_draw), F(entropy), F(staged), F(survivors),
	F(rank), F(draft), HIDDEN(light), { INLINE(candidate, candidate, n_candidates) },
	{ ITEMS_OF(stage, stage) });
SHAPE(token, ANY, .whole = whole_token);
#undef STRUCT

static int32_t n_shares(const void *attention)
{
	const struct tl_attention *a = attention;

	return a->n_layers * a->n_pages;
}

#define STRUCT struct tl_attention
TABLE(attention, 1, F(step), F(pos), F(n_layers), F(n_pages), { COUNTED(share, f32, n_shares) },
	{ ARRAY(near_zero, f32, n_layers) }, { ARRAY(read, f32, n_read) }, F(threshold), F(head_layer),
	F(head), F(head_step), { ARRAY(head_share, f32, head_pages) });
#undef STRUCT

static int32_t n_sparse(const void *sparsity)
{
	return ((const struct tl_sparsity *)sparsity)->n_layers * EV_N_sparse;
}

#define STRUCT struct tl_sparsity
TABLE(sparsity, 1, F(step), F(pos), F(since), F(rows), F(mark), F(n_layers),
	{ COUNTED(share, f32, n_sparse) });
#undef STRUCT

#define STRUCT struct tl_watched
TABLE(watched, 1, F(step), F(pos), F(rows), F(read), F(whole), F(n_layers), F(n), F(used),
	{ ARRAY(value, f32, n_values) });
#undef STRUCT

#define STRUCT struct tl_cell
TABLE(cell, EV_DENOISED_MOST, K(nth), K(id), K(p), K(entropy));
#undef STRUCT

#define STRUCT struct tl_request
FIELDS(request, K(id), K(parent), F(sample), K(request_seq), K(lookup_seq), K(finish_seq),
	K(rewind_seq), K(fork_pos), K(n_rewinds), { ITEMS_OF(origin, origin), KEPT }, K(kind), K(state),
	F(arrival_ns), K(admitted_ns), K(first_token_ns), F(finished_ns), K(newest_ns), K(arrived_step),
	K(admitted_step), K(first_step), K(slot), F(user), F(text), { ARRAY(prompt, i32, n_prompt) },
	{ ARRAY(bias, i32, n_bias) }, EVENT(params, request), F(stop), F(spec), F(grammar),
	F(adapter), F(looked_up), EVENT(lookup, lookup), F(finished), EVENT(finish, finish),
	F(finish_why), EVENT(rewind, rewind), HIDDEN(cycle), K(period), K(computed),
	{ GROWING(pages, i32, n_pages, cap_pages), KEPT }, K(n_drafted), K(n_accepted), K(n_preempted),
	K(trimmed_tokens), K(trimmed_turns), { GROWING(token, token, n_tokens, cap_tokens) },
	{ ITEMS_OF(attention, attention) }, { ITEMS_OF(sparsity, sparsity) },
	{ ITEMS_OF(experts, watched) }, { ITEMS_OF(states, watched) }, K(canvas.step), K(canvas.nth),
	K(canvas.from), K(canvas.first), K(canvas.end), K(canvas.fixed), K(canvas.masked),
	K(canvas.steps), K(canvas.block), K(canvas.above), K(canvas.schedule),
	{ ARRAY(canvas.cell, cell, canvas.n), KEPT });
SHAPE(request, 1 << 16);
#undef STRUCT

#define STRUCT struct tl_abandoned
FIELDS(abandoned, K(seq), K(request), K(step), { ITEMS_OF(origin, origin), KEPT }, K(at),
	{ ARRAY(token, token, n_tokens) });
SHAPE(abandoned, 1 << 16);
#undef STRUCT

/* ---- pages ---- */

#define STRUCT struct tl_page_event
TABLE(page_event, ANY, F(step), F(t_ns), F(request), F(other), F(action), F(block), F(refs));
#undef STRUCT

static const void *whole_page(const struct timeline *t, const void *page)
{
	return timeline_page(t, (int32_t)((const struct tl_page *)page - t->page));
}

#define STRUCT struct tl_page
FIELDS(page, K(n_history), K(refs), K(cached), K(pinned), K(owner), K(block), K(last_used_step),
	F(heat), F(selected), F(skipped), HIDDEN(heat_step), HIDDEN(n_unfolded),
	{ ITEMS_OF(history, page_event) });
static bool read_page(void *page)
{
	struct tl_page *p = page;

	p->n_unfolded = p->n_history;
	return p->refs >= 0 && p->owner >= 0 && p->last_used_step >= 0 && p->n_history >= 0 &&
		   p->n_history <= INT32_MAX / 2;
}
static SHAPE(page, TL_MEMORY * TL_PAGES_MAX, .sparse = true, .whole = whole_page,
	.read = read_page);
#undef STRUCT

#define STRUCT struct tl_pin
TABLE(pin, TL_PINS, K(pin), K(last), K(t_ns), K(ttl_ns), K(asked), K(tokens), K(pages), K(bytes),
	K(prompts), K(given));
#undef STRUCT

/* ---- ranks ---- */

#define STRUCT struct tl_traffic
FIELDS(traffic, K(rank), K(steps), K(rows), K(watched), K(compute_ns), K(exchange_ns), K(slowed_ns),
	K(exchanges), K(sent), K(received), K(control));
static SHAPE(traffic, ANY, .counts = true);
#undef STRUCT

#define STRUCT struct tl_rank
FIELDS(rank, EVENT(has, rank), CHARS(isa), CHARS(transport), CHARS(host),
	{ ITEMS_OF(sum, traffic), KEPT }, F(lane_step), F(lane_start_ns),
	{ GROWING(lane, u32, n_lane, cap_lane) });
static SHAPE(rank, TL_MOST_RANKS);
#undef STRUCT

#define STRUCT struct tl_handover
TABLE(handover, TL_HANDOVERS, EVENT(e, handover), CHARS(why));
#undef STRUCT

/* ---- steps ---- */

#define STRUCT struct tl_time
TABLE(time, ANY, F(ns), F(bytes), F(ops));
#undef STRUCT

#define STRUCT struct tl_step
TABLE(step, ANY, EVENT(s, step), F(t_ns), F(seq), F(batch_at), F(n_batch), F(draft_at), F(n_draft),
	F(window_at), F(n_window), F(ahead_at), F(n_ahead), F(traffic_at), F(n_traffic), F(arrived),
	F(admitted), F(preempted), F(ended), F(timed), F(drafters_known), { ITEMS_OF(time, time) });
#undef STRUCT

#define STRUCT struct tl_batch
TABLE(batch, ANY, F(request), F(slot), F(rows), F(pos), F(work));
#undef STRUCT

#define STRUCT struct tl_draft
TABLE(draft, ANY, F(step), F(request), F(pos), F(nth), F(id), F(winner), F(parent), F(depth),
	F(top), F(verdict), F(rule), F(other), F(q), F(p), F(arrival), F(winner_arrival),
	F(other_arrival), F(other_winner_arrival), CHARS(drafter));
#undef STRUCT

#define STRUCT struct tl_window
TABLE(window, ANY, F(step), F(request), F(pos), F(levels), F(columns), F(gram), F(n_entered),
	F(own), F(pool), F(ids_at));
#undef STRUCT

#define STRUCT struct tl_preempt
TABLE(preempt, ANY, F(step), EVENT(p, preempt));
#undef STRUCT

#define STRUCT struct tl_run
FIELDS(run, K(first), K(last), K(steps), K(members), K(requests), K(live), K(preempted),
	{ ITEMS_OF(policy, u8), KEPT });
static bool read_run(void *run)
{
	struct tl_run *r = run;

	r->policy[sizeof r->policy - 1] = '\0';
	return r->first > 0;
}
static SHAPE(run, TL_RUNS, .counts = true, .read = read_run);
#undef STRUCT

#define STRUCT struct tl_stay
FIELDS(stay, K(request), K(from), K(read), K(to), K(slot), K(lost));
static bool read_stay(void *stay)
{
	const struct tl_stay *s = stay;

	return s->request > 0 && s->from > 0 && (s->to == EV_NULL_I || s->to >= s->from);
}
static SHAPE(stay, TL_STAYS, .read = read_stay);
#undef STRUCT

/* ---- who waits ---- */

#define STRUCT struct ev_queued
TABLE(queued, EV_QUEUE_MOST, F(request), F(rank));
#undef STRUCT

#define STRUCT struct tl_queue
TABLE(queue, 1, K(seq), F(step), F(waiting), { INLINE(order, queued, n) });
#undef STRUCT

#define STRUCT struct tl_group
FIELDS(group, K(seq), F(user), F(priority), K(arrived), K(admitted), K(ns), K(most_ns), K(steps),
	K(most_steps));
static bool read_group(void *group)
{
	const struct tl_group *g = group;

	return g->seq > 0 && g->arrived > 0;
}
static SHAPE(group, TL_GROUPS, .counts = true, .read = read_group);
#undef STRUCT

#define STRUCT struct tl_slo
FIELDS(slo, K(ended), K(met), K(late), K(slow), K(since_ns), K(last_ns));
static SHAPE(slo, 1, .counts = true);
#undef STRUCT

/* ---- drafters beside the run ---- */

#define STRUCT struct tl_shadow
TABLE(shadow, TL_SHADOWS, CHARS(drafter), F(used), F(step), F(measured_step), F(steps), F(tokens),
	F(nodes), F(propose_ns), F(learn_ns), F(best_nodes), F(tokens_ema), F(predicted), F(measured),
	{ ITEMS_OF(verified, u32) }, { ITEMS_OF(accepted, u32) });
#undef STRUCT

#define STRUCT struct tl_outliers
TABLE(outliers, ANY, F(layer), F(stage), F(channels), F(above_six), F(largest), F(median),
	F(smoothed), { INLINE(channel, i32, n_top) }, { INLINE(size, f32, n_top) });
#undef STRUCT

#define STRUCT struct tl_importance
TABLE(importance, ANY, F(layer), F(channels), F(influence), { INLINE(head, f32, n_heads) },
	{ INLINE(least, f32, n_least) });
#undef STRUCT

#define STRUCT struct tl_training
TABLE(training, 1, EVENT(e, training), CHARS(name), CHARS(teacher));
#undef STRUCT

#define STRUCT struct tl_changed
TABLE(changed, ANY, EVENT(e, changed), CHARS(method), { ITEMS_OF(alpha, f32) });
#undef STRUCT

#define STRUCT struct tl_product
TABLE(product, TL_PRODUCTS, F(stage), F(inputs), F(outputs), F(n), F(weights), F(bytes),
	F(row_bytes), F(each_row), CHARS(format));
#undef STRUCT

#define STRUCT struct tl_adapter
TABLE(adapter, TL_ADAPTERS, EVENT(e, adapter), CHARS(name));
#undef STRUCT

#define STRUCT struct tl_roof
TABLE(roof, 1, F(reads), F(least), F(ints), F(floats), F(n), F(t_ns));
#undef STRUCT

#define STRUCT struct tl_bound
TABLE(bound, TL_BOUNDS, EVENT(e, bound), CHARS(stack), CHARS(forbidden));
#undef STRUCT

#define STRUCT struct tl_choice
TABLE(choice, TL_CHOICES, F(step), F(nodes), F(speed), F(speed_before), CHARS(drafter),
	CHARS(before));
#undef STRUCT

/* ---- searches ---- */

static int32_t n_ids(const void *node)
{
	const struct tl_node *k = node;

	return k->tokens - k->from;
}

#define STRUCT struct tl_node
TABLE(node, TL_NODES, F(node), F(parent), F(from), F(tokens),
	{ COUNTED(id, i32, n_ids), .at_cap = offsetof(STRUCT, cap) }, F(state), F(request), F(born),
	F(last), F(visits), F(logp), F(score), F(n_answers), F(answer), F(answer_logp), F(answer_score),
	F(answer_tokens), F(answer_own));
#undef STRUCT

#define STRUCT struct tl_member
TABLE(member, TL_MEMBERS, F(request), F(node), { GROWING(id, i32, n, cap) }, F(logp), F(ended));
#undef STRUCT

#define STRUCT struct tl_search
FIELDS(search, K(id), F(step), F(last_step), K(begin_seq), K(last_seq), F(method), F(text), F(why),
	F(judge), K(over), F(stopped), F(n_prompt), F(n_made), F(n_dropped), F(n_answers), F(winner),
	K(taken), F(won_score), F(won_logp), F(won_tokens), F(least), F(most), F(value), F(steps),
	F(sum_pages), F(sum_unshared), F(pages), F(unshared), F(most_pages), F(most_unshared),
	{ INLINE(share, u8, n_shares) }, { GROWING(node, node, n_nodes, cap_nodes) },
	{ INLINE(member, member, n_members) });
SHAPE(search, TL_SEARCHES);
#undef STRUCT

/* ---- all ---- */

FIELDS(bucket, { .name = "count", .type = TL_U32, .size = sizeof(uint32_t), KEPT });
static const struct tl_shape tl_shape_bucket = { .field = bucket_fields, .sparse = true,
	.size = sizeof(uint32_t), .most = HISTOGRAM_BUCKETS };

#define STRUCT struct histogram
TABLE(histogram, TL_N_LATENCIES, { ITEMS_OF(count, bucket), KEPT });
#undef STRUCT

#define STRUCT struct tl_setting
TABLE(setting, ANY, CHARS(name), CHARS(value), CHARS(first), F(seq));
#undef STRUCT

#define STRUCT struct tl_vocab
TABLE(vocab, ANY, F(bytes), F(size), F(special));
#undef STRUCT

#define STRUCT struct tl_answer
TABLE(answer, ANY, F(part), F(ask), F(verdict), F(predicted), F(found));
#undef STRUCT

#define STRUCT struct tl_lesson
TABLE(lesson, 1, F(name), F(text), F(part), F(typing),
	{ GROWING(answer, answer, n_answers, cap_answers) });
#undef STRUCT

#define STRUCT struct tl_attached
TABLE(attached, 1, F(on), EVENT(e, attached), EVENT(polled, polled), F(url), F(server), F(version),
	F(model), F(p), F(error), { GROWING(slot, server_slot, n_slots, cap_slots) });
#undef STRUCT

#define STRUCT struct timeline
FIELDS(timeline, F(begun), K(closed), F(full), EVENT(session, session), F(version), F(build),
	F(backend), F(isa), F(model_path), F(model_name), F(model_sha256), K(n_tokens), K(n_drafted),
	K(n_accepted), K(n_rejected), K(n_evicted), K(n_prompt_tokens), K(n_hit_tokens), K(n_turns),
	K(cleared), K(last_seq), K(last_t_ns), K(last_step), K(n_odd), K(n_lost), HIDDEN(slid_seq),
	HIDDEN(vocab_seq), HIDDEN(older), { GROWING(setting, setting, n_settings, cap_settings) },
	{ ITEMS_OF(lesson, lesson) }, { ITEMS_OF(attached, attached) },
	{ GROWING(request, request, n_requests, cap_requests), KEPT },
	{ GROWING(abandoned, abandoned, n_abandoned, cap_abandoned), KEPT },
	{ INLINE(memory, memory, n_memory) }, { INLINE(product, product, n_products) },
	{ INLINE(adapter, adapter, n_adapters) },
	{ GROWING(outliers, outliers, n_outliers, cap_outliers) },
	{ GROWING(importance, importance, n_importance, cap_importance) },
	{ ITEMS_OF(training, training) }, { GROWING(trained, trained, n_trained, cap_trained) },
	{ GROWING(changed, changed, n_changed, cap_changed) },
	{ GROWING(bound, bound, n_bounds, cap_bounds) }, { ITEMS_OF(roof, roof) },
	{ ARRAY(page, page, n_pages), KEPT }, { INLINE(pin, pin, n_pins), KEPT },
	{ INLINE(rank, rank, n_ranks), KEPT }, { INLINE(handover, handover, n_handovers) },
	{ GROWING(step, step, n_steps, cap_steps) }, { ITEMS_OF(open, step) },
	{ GROWING(batch, batch, n_batch, cap_batch) }, { GROWING(draft, draft, n_drafts, cap_drafts) },
	{ GROWING(ahead, ahead, n_aheads, cap_aheads) },
	{ GROWING(window, window, n_windows, cap_windows) },
	{ GROWING(window_id, i32, n_window_ids, cap_window_ids) },
	{ GROWING(traffic, traffic, n_traffic, cap_traffic) },
	{ GROWING(preempt, preempt, n_preempts, cap_preempts) }, { INLINE(run, run, n_runs), KEPT },
	{ INLINE(stay, stay, n_stays), KEPT }, { ITEMS_OF(queue, queue), KEPT },
	{ INLINE(user, group, n_users), KEPT }, { INLINE(priority, group, n_priorities), KEPT },
	{ ITEMS_OF(slo, slo), KEPT }, { INLINE(shadow, shadow, n_shadows) },
	{ INLINE(cost, cost, n_costs) }, { INLINE(choice, choice, n_choices) },
	{ INLINE(search, search, n_searches), KEPT }, { ITEMS_OF(search_new, member) },
	{ ARRAY(vocab, vocab, n_vocab) }, { ITEMS_OF(latency, histogram), KEPT },
	{ ITEMS_OF(latency_steps, histogram), KEPT });
SHAPE(timeline, 1, .counts = true);
#undef STRUCT
/* clang-format on */

/* ---- what goes along the tables ---- */

const char *tl_items(const struct tl_field *f, const void *of, int32_t *n)
{
	const char *s = of, *items = s + f->at;

	if (f->count)
		*n = f->count(of);
	else if (f->size_n)
		*n = f->size_n == 1 ? *(const uint8_t *)(s + f->at_n)
							: *(const int32_t *)(const void *)(s + f->at_n);
	else
		*n = (int32_t)(f->size / f->of->size);
	if (f->pointed)
		memcpy(&items, s + f->at, sizeof items);
	return items;
}

int64_t tl_number(const struct tl_field *f, const void *of)
{
	const void *at = (const char *)of + f->at;

	switch (f->type) {
	case TL_I64: return *(const int64_t *)at;
	case TL_I32: return *(const int32_t *)at;
	case TL_U32: return *(const uint32_t *)at;
	default: return *(const uint8_t *)at;
	}
}

static bool owns(const struct tl_shape *s)
{
	for (const struct tl_field *f = s->field; f->name; f++)
		if (f->type == TL_STRING || (f->type == TL_ITEMS && (f->pointed || owns(f->of))))
			return true;
	return false;
}

void tl_free(const struct tl_shape *s, void *of)
{
	for (const struct tl_field *f = s->field; f->name; f++) {
		char *at = (char *)of + f->at;
		int32_t n;

		if (f->type == TL_STRING)
			free(*(char **)(void *)at);
		if (f->type != TL_ITEMS)
			continue;
		char *items = (char *)tl_items(f, of, &n);
		for (int32_t i = 0; owns(f->of) && i < n; i++)
			tl_free(f->of, items + (size_t)i * f->of->size);
		if (f->pointed)
			free(items);
	}
}
