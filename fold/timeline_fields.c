/* See timeline_fields.h. */
#include "fold/timeline_fields.h"
#include "fold/timeline_fields_words.h"

/* clang-format off */
#define NUMBER(shape, ctype, t)                                                                    \
	static const struct tl_field shape##_fields[] = {                                              \
		{ .name = "", .type = t, .size = sizeof(ctype), KEPT }, END                                \
	};                                                                                             \
	static const struct tl_shape tl_shape_##shape = { .field = shape##_fields, .most = 1 << 20,    \
													  .size = sizeof(ctype) }
NUMBER(i32, int32_t, TL_I32);
NUMBER(u32, uint32_t, TL_U32);
NUMBER(u8, uint8_t, TL_U8);
NUMBER(f32, float, TL_F32);

#define STRUCT struct tl_branch
static const struct tl_field origin_fields[] = { K(request), K(abandoned), K(pos), END };
static SHAPE(origin, 1);
#undef STRUCT

/* ---- requests ---- */

#define STRUCT struct ev_candidate
FIELDS(candidate, F(id), F(logit), F(p), F(arrival), F(cut));
static SHAPE(candidate, ANY);
#undef STRUCT

#define STRUCT struct ev_stage
static const struct tl_field stage_fields[] = { F(left), F(mass), F(value), END };
static SHAPE(stage, ANY);
#undef STRUCT

static const void *whole_token(const struct timeline *t, const void *token)
{
	return timeline_whole(t, token);
}

#define STRUCT struct tl_price
FIELDS(price, K(kl), K(lossy), K(exact), K(best), K(exact_best), K(rank));
static SHAPE(price, 1);
#undef STRUCT

#define STRUCT struct tl_token
static const struct tl_field token_fields[] = {
	K(seq), K(step), K(pos), K(id), K(source), K(is_end), K(p), K(rows), K(pairs), K(ns),
	{ ITEMS_OF(price, price), KEPT }, F(hash), F(p_draw), F(entropy),
	F(staged), F(survivors), F(rank), F(draft), HIDDEN(light),
	{ INLINE(candidate, candidate, n_candidates) }, { ITEMS_OF(stage, stage) }, END
};
SHAPE(token, ANY, .whole = whole_token);
#undef STRUCT

static int32_t n_shares(const void *attention)
{
	const struct tl_attention *a = attention;

	return a->n_layers * a->n_pages;
}

#define STRUCT struct tl_attention
static const struct tl_field attention_fields[] = {
	F(step), F(pos), F(n_layers), F(n_pages), { COUNTED(share, f32, n_shares) },
	{ ARRAY(near_zero, f32, n_layers) }, { ARRAY(read, f32, n_read) }, F(threshold), F(head_layer),
	F(head), F(head_step),
	{ ARRAY(head_share, f32, head_pages) }, END
};
static SHAPE(attention, 1);
#undef STRUCT

static int32_t n_sparse(const void *sparsity)
{
	return ((const struct tl_sparsity *)sparsity)->n_layers * EV_N_sparse;
}

#define STRUCT struct tl_sparsity
static const struct tl_field sparsity_fields[] = {
	F(step), F(pos), F(since), F(rows), F(mark), F(n_layers), { COUNTED(share, f32, n_sparse) }, END
};
static SHAPE(sparsity, 1);
#undef STRUCT

#define STRUCT struct tl_watched
static const struct tl_field watched_fields[] = {
	F(step), F(pos), F(rows), F(read), F(whole), F(n_layers), F(n), F(used),
	{ ARRAY(value, f32, n_values) }, END
};
static SHAPE(watched, 1);
#undef STRUCT

#define STRUCT struct tl_cell
static const struct tl_field cell_fields[] = { K(nth), K(id), K(p), K(entropy), END };
static SHAPE(cell, EV_DENOISED_MOST);
#undef STRUCT

#define STRUCT struct tl_request
static const struct tl_field request_fields[] = {
	K(id), K(parent), F(sample), K(request_seq), K(lookup_seq), K(finish_seq), K(rewind_seq),
	K(fork_pos), K(n_rewinds), { ITEMS_OF(origin, origin), KEPT }, K(kind), K(state), F(arrival_ns),
	K(admitted_ns), K(first_token_ns), F(finished_ns), K(newest_ns), K(arrived_step),
	K(admitted_step), K(first_step), K(slot), F(user), F(text),
	{ ARRAY(prompt, i32, n_prompt) }, { ARRAY(bias, i32, n_bias) }, EVENT(params, request), F(stop),
	F(spec), F(grammar), F(looked_up),
	EVENT(lookup, lookup), F(finished), EVENT(finish, finish), F(finish_why),
	EVENT(rewind, rewind), HIDDEN(cycle), K(period), K(computed),
	{ GROWING(pages, i32, n_pages, cap_pages), KEPT }, K(n_drafted), K(n_accepted),
	K(n_preempted), K(trimmed_tokens), K(trimmed_turns),
	{ GROWING(token, token, n_tokens, cap_tokens) }, { ITEMS_OF(attention, attention) },
	{ ITEMS_OF(sparsity, sparsity) }, { ITEMS_OF(experts, watched) }, { ITEMS_OF(states, watched) },
	K(canvas.step), K(canvas.nth), K(canvas.from), K(canvas.first), K(canvas.end), K(canvas.fixed),
	K(canvas.masked), K(canvas.steps),
	K(canvas.block), K(canvas.above), K(canvas.schedule),
	{ ARRAY(canvas.cell, cell, canvas.n), KEPT }, END
};
SHAPE(request, 1 << 16);
#undef STRUCT

#define STRUCT struct tl_abandoned
static const struct tl_field abandoned_fields[] = {
	K(seq), K(request), K(step), { ITEMS_OF(origin, origin), KEPT }, K(at),
	{ ARRAY(token, token, n_tokens) }, END
};
SHAPE(abandoned, 1 << 16);
#undef STRUCT

/* ---- pages ---- */

#define STRUCT struct tl_page_event
FIELDS(page_event, F(step), F(t_ns), F(request), F(other), F(action), F(block), F(refs));
static SHAPE(page_event, ANY);
#undef STRUCT

static const void *whole_page(const struct timeline *t, const void *page)
{
	return timeline_page(t, (int32_t)((const struct tl_page *)page - t->page));
}

#define STRUCT struct tl_page
static const struct tl_field page_fields[] = {
	K(n_history), K(refs), K(cached), K(pinned), K(owner), K(block), K(last_used_step), F(heat),
	F(selected), F(skipped),
	HIDDEN(heat_step), HIDDEN(n_unfolded), { ITEMS_OF(history, page_event) }, END
};
static bool read_page(void *page)
{
	struct tl_page *p = page;

	p->n_unfolded = p->n_history;
	return p->refs >= 0 && p->owner >= 0 && p->last_used_step >= 0 && p->n_history >= 0 &&
		   p->n_history <= INT32_MAX / 2;
}
static SHAPE(
	page, TL_MEMORY * TL_PAGES_MAX, .sparse = true, .whole = whole_page, .read = read_page);
#undef STRUCT

#define STRUCT struct tl_pin
static const struct tl_field pin_fields[] = {
	K(pin), K(last), K(t_ns), K(ttl_ns), K(asked), K(tokens), K(pages), K(bytes), K(prompts),
	K(given), END
};
static SHAPE(pin, TL_PINS);
#undef STRUCT

/* ---- ranks ---- */

#define STRUCT struct tl_traffic
FIELDS(traffic, K(rank), K(steps), K(rows), K(watched), K(compute_ns), K(exchange_ns), K(slowed_ns),
	K(exchanges), K(sent), K(received), K(control));
static SHAPE(traffic, ANY);
#undef STRUCT

#define STRUCT struct tl_rank
FIELDS(rank, EVENT(has, rank), CHARS(isa), CHARS(transport), CHARS(host),
	{ ITEMS_OF(sum, traffic), KEPT }, F(lane_step), F(lane_start_ns),
	{ GROWING(lane, u32, n_lane, cap_lane) });
static bool read_rank(void *rank)
{
	const struct tl_traffic *s = &((struct tl_rank *)rank)->sum;

	for (const int64_t *v = &s->rank; v <= &s->control; v++)
		if (*v < 0)
			return false;
	return true;
}
static SHAPE(rank, TL_MOST_RANKS, .read = read_rank);
#undef STRUCT

#define STRUCT struct tl_handover
FIELDS(handover, EVENT(e, handover), CHARS(why));
static SHAPE(handover, TL_HANDOVERS);
#undef STRUCT

/* ---- steps ---- */

#define STRUCT struct tl_time
static const struct tl_field time_fields[] = { F(ns), F(bytes), F(ops), END };
static SHAPE(time, ANY);
#undef STRUCT

#define STRUCT struct tl_step
static const struct tl_field step_fields[] = {
	EVENT(s, step), F(t_ns), F(seq), F(batch_at), F(n_batch), F(draft_at), F(n_draft),
	F(window_at), F(n_window), F(ahead_at), F(n_ahead), F(traffic_at), F(n_traffic), F(arrived),
	F(admitted), F(preempted), F(ended), F(timed), F(drafters_known), { ITEMS_OF(time, time) }, END
};
static SHAPE(step, ANY);
#undef STRUCT

#define STRUCT struct tl_batch
FIELDS(batch, F(request), F(slot), F(rows), F(pos), F(work));
static SHAPE(batch, ANY);
#undef STRUCT

#define STRUCT struct tl_draft
static const struct tl_field draft_fields[] = {
	F(step), F(request), F(pos), F(nth), F(id), F(winner), F(parent), F(depth), F(top),
	F(verdict), F(rule), F(other), F(q), F(p), F(arrival), F(winner_arrival), F(other_arrival),
	F(other_winner_arrival), CHARS(drafter), END
};
static SHAPE(draft, ANY);
#undef STRUCT

#define STRUCT struct tl_window
static const struct tl_field window_fields[] = {
	F(step), F(request), F(pos), F(levels), F(columns), F(gram), F(n_entered), F(own), F(pool),
	F(ids_at), END
};
static SHAPE(window, ANY);
#undef STRUCT

#define STRUCT struct tl_ahead
static const struct tl_field ahead_fields[] = { EVENT(a, ahead), END };
static SHAPE(ahead, ANY);
#undef STRUCT

#define STRUCT struct tl_preempt
static const struct tl_field preempt_fields[] = { F(step), EVENT(p, preempt), END };
static SHAPE(preempt, ANY);
#undef STRUCT

#define STRUCT struct tl_run
static const struct tl_field run_fields[] = {
	K(first), K(last), K(steps), K(members), K(requests), K(live), K(preempted),
	{ ITEMS_OF(policy, u8), KEPT }, END
};
static bool read_run(void *run)
{
	struct tl_run *r = run;

	r->policy[sizeof r->policy - 1] = '\0';
	return r->first > 0 && r->last >= 0 && r->steps >= 0 && r->members >= 0 && r->live >= 0;
}
static SHAPE(run, TL_RUNS, .read = read_run);
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
static const struct tl_field queued_fields[] = { F(request), F(rank), END };
static SHAPE(queued, EV_QUEUE_MOST);
#undef STRUCT

#define STRUCT struct tl_queue
FIELDS(queue, K(seq), F(step), F(waiting), { INLINE(order, queued, n) });
static SHAPE(queue, 1);
#undef STRUCT

#define STRUCT struct tl_group
static const struct tl_field group_fields[] = {
	K(seq), F(user), F(priority), K(arrived), K(admitted), K(ns), K(most_ns), K(steps),
	K(most_steps), END
};
static SHAPE(group, TL_GROUPS);
#undef STRUCT

#define STRUCT struct tl_slo
FIELDS(slo, K(ended), K(met), K(late), K(slow), K(since_ns), K(last_ns));
static SHAPE(slo, 1);
#undef STRUCT

/* ---- drafters beside the run ---- */

#define STRUCT struct tl_shadow
static const struct tl_field shadow_fields[] = {
	CHARS(drafter), F(used), F(step), F(measured_step), F(steps), F(tokens), F(nodes),
	F(propose_ns), F(learn_ns), F(best_nodes), F(tokens_ema), F(predicted), F(measured),
	{ ITEMS_OF(verified, u32) }, { ITEMS_OF(accepted, u32) }, END
};
static SHAPE(shadow, TL_SHADOWS);
#undef STRUCT

#define STRUCT struct ev_memory
FIELDS(memory, { .name = "", .type = TL_EVENT, .size = sizeof(STRUCT), .event = EV_memory });
static SHAPE(memory, TL_MEMORY);
#undef STRUCT

#define STRUCT struct tl_outliers
static const struct tl_field outliers_fields[] = { F(layer), F(stage), F(channels), F(above_six),
	F(largest), F(median), F(smoothed), { INLINE(channel, i32, n_top) },
	{ INLINE(size, f32, n_top) },
	END };
static SHAPE(outliers, ANY);
#undef STRUCT

#define STRUCT struct tl_importance
static const struct tl_field importance_fields[] = { F(layer), F(channels), F(influence),
	{ INLINE(head, f32, n_heads) }, { INLINE(least, f32, n_least) }, END };
static SHAPE(importance, ANY);
#undef STRUCT

#define STRUCT struct tl_training
FIELDS(training, EVENT(e, training), CHARS(name), CHARS(teacher));
static SHAPE(training, 1);
#undef STRUCT

#define STRUCT struct ev_trained
FIELDS(trained, { .name = "", .type = TL_EVENT, .size = sizeof(STRUCT), .event = EV_trained });
static SHAPE(trained, ANY);
#undef STRUCT

#define STRUCT struct tl_changed
static const struct tl_field changed_fields[] = { EVENT(e, changed), CHARS(method),
	{ ITEMS_OF(alpha, f32) }, END };
static SHAPE(changed, ANY);
#undef STRUCT

#define STRUCT struct tl_product
FIELDS(product, F(stage), F(inputs), F(outputs), F(n), F(weights), F(bytes), F(row_bytes),
	F(each_row), CHARS(format));
static SHAPE(product, TL_PRODUCTS);
#undef STRUCT

#define STRUCT struct tl_roof
FIELDS(roof, F(reads), F(least), F(ints), F(floats), F(n), F(t_ns));
static SHAPE(roof, 1);
#undef STRUCT

#define STRUCT struct tl_bound
FIELDS(bound, F(request), F(pos), F(allowed), F(depth), F(ns), F(forced), F(known), CHARS(stack),
	CHARS(forbidden));
static SHAPE(bound, TL_BOUNDS);
#undef STRUCT

#define STRUCT struct ev_cost
FIELDS(cost, { .name = "", .type = TL_EVENT, .size = sizeof(STRUCT), .event = EV_cost });
static SHAPE(cost, TL_COSTS);
#undef STRUCT

#define STRUCT struct tl_choice
FIELDS(choice, F(step), F(nodes), F(speed), F(speed_before), CHARS(drafter), CHARS(before));
static SHAPE(choice, TL_CHOICES);
#undef STRUCT

/* ---- searches ---- */

static int32_t n_ids(const void *node)
{
	const struct tl_node *k = node;

	return k->tokens - k->from;
}

#define STRUCT struct tl_node
static const struct tl_field node_fields[] = {
	F(node), F(parent), F(from), F(tokens),
	{ COUNTED(id, i32, n_ids), .at_cap = offsetof(STRUCT, cap) }, F(state), F(request), F(born),
	F(last), F(visits), F(logp), F(score), F(n_answers), F(answer), F(answer_logp),
	F(answer_score), F(answer_tokens), F(answer_own), END
};
static SHAPE(node, TL_NODES);
#undef STRUCT

#define STRUCT struct tl_member
static const struct tl_field member_fields[] = {
	F(request), F(node), { GROWING(id, i32, n, cap) }, F(logp), F(ended), END
};
static SHAPE(member, TL_MEMBERS);
#undef STRUCT

#define STRUCT struct tl_search
static const struct tl_field search_fields[] = {
	K(id), F(step), F(last_step), K(begin_seq), K(last_seq), F(method), F(text), F(why),
	F(judge), K(over), F(stopped), F(n_prompt), F(n_made), F(n_dropped), F(n_answers), F(winner),
	K(taken), F(won_score), F(won_logp), F(won_tokens), F(least), F(most), F(value), F(steps),
	F(sum_pages), F(sum_unshared), F(pages), F(unshared), F(most_pages), F(most_unshared),
	{ INLINE(share, u8, n_shares) }, { GROWING(node, node, n_nodes, cap_nodes) },
	{ INLINE(member, member, n_members) }, END
};
SHAPE(search, TL_SEARCHES);
#undef STRUCT

/* ---- all ---- */

static const struct tl_field bucket_fields[] = {
	{ .name = "count", .type = TL_U32, .size = sizeof(uint32_t), KEPT }, END
};
static const struct tl_shape tl_shape_bucket = { .field = bucket_fields, .sparse = true,
	.size = sizeof(uint32_t), .most = HISTOGRAM_BUCKETS };

#define STRUCT struct histogram
static const struct tl_field histogram_fields[] = { { ITEMS_OF(count, bucket), KEPT }, END };
static SHAPE(histogram, TL_N_LATENCIES);
#undef STRUCT

#define STRUCT struct tl_setting
FIELDS(setting, CHARS(name), CHARS(value), CHARS(first), F(seq));
static SHAPE(setting, ANY);
#undef STRUCT

#define STRUCT struct tl_vocab
static const struct tl_field vocab_fields[] = { F(bytes), F(size), F(special), END };
static SHAPE(vocab, ANY);
#undef STRUCT

#define STRUCT struct tl_answer
static const struct tl_field answer_fields[] = {
	F(part), F(ask), F(verdict), F(predicted), F(found), END
};
static SHAPE(answer, ANY);
#undef STRUCT

#define STRUCT struct tl_lesson
static const struct tl_field lesson_fields[] = {
	F(name), F(text), F(part), F(typing), { GROWING(answer, answer, n_answers, cap_answers) }, END
};
static SHAPE(lesson, 1);
#undef STRUCT

#define STRUCT struct tl_server_slot
FIELDS(server_slot, F(slot), F(busy), F(task), F(ctx), F(tokens), F(generated));
static SHAPE(server_slot, TL_SERVER_SLOTS);
#undef STRUCT

#define STRUCT struct tl_attached
FIELDS(attached, F(on), F(url), F(server), F(version), F(model), F(p), F(slots), F(ctx), F(pages),
	F(page_size), F(running), F(waiting), F(kv_tokens), F(prompt_tokens), F(generated), F(asked),
	F(hit), F(preempted), F(kv_used), F(error), { GROWING(slot, server_slot, n_slots, cap_slots) });
static SHAPE(attached, 1);
#undef STRUCT

#define STRUCT struct timeline
static const struct tl_field timeline_fields[] = {
	F(begun), K(closed), F(full), EVENT(session, session), F(version), F(build), F(backend), F(isa),
	F(model_path),
	F(model_name), F(model_sha256),
	K(n_tokens), K(n_drafted), K(n_accepted), K(n_rejected), K(n_evicted), K(n_prompt_tokens),
	K(n_hit_tokens),
	K(n_turns), K(cleared), K(last_seq), K(last_t_ns), K(last_step), K(n_odd), K(n_lost),
	HIDDEN(slid_seq), HIDDEN(vocab_seq),
	HIDDEN(older),
	{ GROWING(setting, setting, n_settings, cap_settings) },
	{ ITEMS_OF(lesson, lesson) }, { ITEMS_OF(attached, attached) },
	{ GROWING(request, request, n_requests, cap_requests), KEPT },
	{ GROWING(abandoned, abandoned, n_abandoned, cap_abandoned), KEPT },
	{ INLINE(memory, memory, n_memory) },
	{ INLINE(product, product, n_products) },
	{ GROWING(outliers, outliers, n_outliers, cap_outliers) },
	{ GROWING(importance, importance, n_importance, cap_importance) },
	{ ITEMS_OF(training, training) }, { GROWING(trained, trained, n_trained, cap_trained) },
	{ GROWING(changed, changed, n_changed, cap_changed) },
	{ GROWING(bound, bound, n_bounds, cap_bounds) }, { ITEMS_OF(roof, roof) },
	{ ARRAY(page, page, n_pages), KEPT }, { INLINE(pin, pin, n_pins), KEPT },
	{ INLINE(rank, rank, n_ranks), KEPT }, { INLINE(handover, handover, n_handovers) },
	{ GROWING(step, step, n_steps, cap_steps) },
	{ ITEMS_OF(open, step) },
	{ GROWING(batch, batch, n_batch, cap_batch) }, { GROWING(draft, draft, n_drafts, cap_drafts) },
	{ GROWING(ahead, ahead, n_aheads, cap_aheads) },
	{ GROWING(window, window, n_windows, cap_windows) },
	{ GROWING(window_id, i32, n_window_ids, cap_window_ids) },
	{ GROWING(traffic, traffic, n_traffic, cap_traffic) },
	{ GROWING(preempt, preempt, n_preempts, cap_preempts) },
	{ INLINE(run, run, n_runs), KEPT }, { INLINE(stay, stay, n_stays), KEPT },
	{ ITEMS_OF(queue, queue), KEPT },
	{ INLINE(user, group, n_users), KEPT },
	{ INLINE(priority, group, n_priorities), KEPT },
	{ ITEMS_OF(slo, slo), KEPT },
	{ INLINE(shadow, shadow, n_shadows) },
	{ INLINE(cost, cost, n_costs) },
	{ INLINE(choice, choice, n_choices) },
	{ INLINE(search, search, n_searches), KEPT },
	{ ITEMS_OF(search_new, member) },
	{ ARRAY(vocab, vocab, n_vocab) },
	{ ITEMS_OF(latency, histogram), KEPT },
	{ ITEMS_OF(latency_steps, histogram), KEPT },
	END
};
SHAPE(timeline, 1);
#undef STRUCT
/* clang-format on */
