/* The members of searches: how they begin, choose, and become answers. See search_impl.h. Thread:
 * the engine's. */
#include "base/array.h"
#include "engine/search/search_impl.h"

#include "kernels/arith.h"

/* ---- members ---- */

static void free_parts(struct search_member *m)
{
	if (m) {
		free(m->token);
		free(m->choice);
	}
	free(m);
}

static struct search_member *new_member(struct search *s, int32_t node, struct err *e)
{
	struct search_member *m = s->n_members < SEARCH_WIDTH ? calloc(1, sizeof *m) : NULL;

	if (m) {
		m->search = s;
		m->node = node;
		m->token = malloc((size_t)s->engine->info.ctx * sizeof *m->token);
		m->choice = malloc(2 * (size_t)s->width * sizeof *m->choice);
	}
	if (!m || !m->token || !m->choice) {
		err_no_memory(e, "another branch of the search");
		free_parts(m);
		return NULL;
	}
	s->member[s->n_members++] = m;
	return m;
}

static void free_member(struct search_member *m)
{
	struct search *s = m->search;
	int32_t i = 0;

	while (s->member[i] != m)
		i++;
	s->n_members--;
	memmove(s->member + i, s->member + i + 1, (size_t)(s->n_members - i) * sizeof *s->member);
	if (m->r)
		m->r->owner = NULL;
	free_parts(m);
}

/* The request of a member: the search's own except for its tokens. */
static struct engine_request member_request(const struct search *s, const int32_t *ids, int32_t n)
{
	struct engine_request q = s->q;

	q.kind = EV_REQUEST_KIND_search;
	q.ids = ids;
	q.n_ids = n;
	q.max_tokens = s->q.max_tokens ? s->q.max_tokens - (n - s->q.n_ids) : 0;
	return q;
}

static const struct request_owner drawing, choosing;

/* -1: m is freed. */
static int submit(
	struct search *s, const struct engine_request *q, struct search_member *m, struct err *e)
{
	const struct request_owner *owner = s->ops->chooses ? &choosing : &drawing;

	if (engine_submit_owned(s->engine, q, owner, m, &m->r, e) >= 0) {
		if (m->r)
			return 0;
		/* refused: its events say why */
		err_set(e, ERR_USAGE, "a branch of the search does not fit: see --ctx and --pages");
	}
	free_member(m);
	return -1;
}

struct search_member *search_start(struct search *s, const int32_t *ids, int32_t n,
	const struct search_token *token, int64_t sample, int32_t node, struct err *e)
{
	struct engine_request q = member_request(s, ids, n);
	struct search_member *m = new_member(s, node, e);

	if (!m)
		return NULL;
	for (int32_t i = 0; i < n - s->q.n_ids; i++) {
		m->token[i] = token[i];
		m->logp += (double)token[i].logp;
	}
	q.sample = sample;
	q.parent = q.fork_pos = 0;
	return submit(s, &q, m, e) ? NULL : m;
}

/* ---- choices ---- */

/* The row with logit bias, and its maximum and mass: rule 15. */
static void bias_row(struct search *s, const float *logits, struct k_logit_stats *stats)
{
	const struct sample_bias *b = &s->q.params.logit_bias;
	const int32_t vocab = s->engine->info.vocab;

	memcpy(s->biased, logits, (size_t)vocab * sizeof *logits);
	for (int32_t i = 0; i < b->n; i++)
		if (b->entry[i].bias != 0)
			s->biased[b->entry[i].id] += b->entry[i].bias;
	stats->max = -INFINITY;
	stats->mass = 0;
	for (int32_t id = 0; id < vocab; id++)
		stats->max = s->biased[id] > stats->max ? s->biased[id] : stats->max;
	for (int32_t id = 0; id < vocab; id++)
		stats->mass += k_mass(k_exp(k_logit_depth(s->biased[id], stats->max)));
}

static double log_mass(const struct k_logit_stats *stats)
{
	return k_log64((double)stats->mass * 0x1p-40);
}

/* The best 2 * width of a row, ties to the lowest id. */
static void best_choices(
	struct search_member *m, const float *logits, const struct k_logit_stats *stats)
{
	const int32_t most = 2 * m->search->width, vocab = m->search->engine->info.vocab;
	int32_t n = 0;

	for (int32_t id = 0; id < vocab; id++) {
		int32_t at = n;

		if (n == most && !(logits[id] > m->choice[n - 1].logit))
			continue;
		if (n < most)
			n++;
		else
			at = n - 1;
		for (; at > 0 && logits[id] > m->choice[at - 1].logit; at--)
			m->choice[at] = m->choice[at - 1];
		m->choice[at] = (struct search_choice){ .id = id, .logit = logits[id] };
	}
	m->n_choices = n;
	for (int32_t i = 0; i < n; i++)
		m->choice[i].logp = (double)(m->choice[i].logit - stats->max) - log_mass(stats);
}

static void on_row(struct request *r, const float *logits, const struct k_logit_stats *stats)
{
	struct search_member *m = r->owner_data;
	struct search *s = m->search;
	struct k_logit_stats with = *stats;

	if (s->biased)
		bias_row(s, logits, &with);
	best_choices(m, s->biased ? s->biased : logits, &with);
	for (int32_t i = 0; i < m->n_choices; i++) {
		struct search_choice *c = &m->choice[i];

		c->logit = logits[c->id];
		c->p = k_exp64((double)(c->logit - stats->max) - log_mass(stats));
	}
	m->hash = (int64_t)stats->hash;
	m->entropy = stats->entropy;
	m->held = true;
}

static void emit_chosen(struct search_member *m, struct request *r, int32_t choice)
{
	struct engine *e = m->search->engine;
	struct ev_candidate kept[SAMPLE_CANDIDATES];
	int32_t n = m->n_choices < SAMPLE_CANDIDATES ? m->n_choices : SAMPLE_CANDIDATES;
	struct ev_token *t;
	struct event ev;

	for (int32_t i = 0; i < n; i++) {
		const struct search_choice *c = &m->choice[i];

		stream_vocab(&e->stream, c->id);
		kept[i] = (struct ev_candidate){ .id = (uint32_t)c->id,
			.logit = c->logit,
			.p = (float)c->p,
			.arrival = NAN,
			.cut = EV_CUT_kept };
	}
	t = engine_token_event(e, r, m->choice[choice].id, r->n_ids - 1, EV_SOURCE_chosen, &ev);
	t->p = m->choice[choice].p;
	t->entropy = m->entropy;
	t->hash = m->hash;
	t->rank = choice + 1;
	if (e->observe.on)
		t->candidates = (struct ev_span){ kept, (size_t)n * sizeof *kept };
	request_charge(r, t, stream_now(&e->stream));
	stream_emit(&e->stream, &ev);
}

static struct search_token token_of(const struct search_member *m, int32_t choice)
{
	const struct search_choice *c = &m->choice[choice];

	return (struct search_token){ c->p, m->entropy, m->hash, (float)c->logp };
}

static void take_choice(
	struct search_member *m, struct request *r, const struct search_member *from, int32_t choice)
{
	m->token[r->n_ids - m->search->q.n_ids] = token_of(from, choice);
	m->logp = from->logp + from->choice[choice].logp;
	m->held = r->backed_off = false;
	r->ids[r->n_ids++] = from->choice[choice].id;
	m->search->engine->step.tokens++;
	engine_keep(m->search->engine, r);
	if (r->first_token_ns == EV_NULL_I)
		r->first_token_ns = stream_now(&m->search->engine->stream);
}

struct search_member *search_fork(
	struct search *s, struct search_member *from, int32_t choice, int32_t node, struct err *e)
{
	struct engine_request q = member_request(s, from->r->ids, from->r->n_ids);
	struct search_member *m = new_member(s, node, e);

	if (!m)
		return NULL;
	memcpy(m->token, from->token, (size_t)(q.n_ids - s->q.n_ids) * sizeof *m->token);
	q.parent = from->r->id;
	q.fork_pos = q.n_ids;
	if (submit(s, &q, m, e))
		return NULL;
	s->view.rows_shared += sched_fork(&s->engine->sched, from->r, m->r);
	take_choice(m, m->r, from, choice);
	emit_chosen(from, m->r, choice);
	return m;
}

int search_append(struct search *s, struct search_member *m, int32_t choice)
{
	struct request *r = m->r;

	take_choice(m, r, m, choice);
	emit_chosen(m, r, choice);
	engine_end_if_due(s->engine, r);
	return s->view.err.code ? -1 : 0;
}

void search_tell(const struct search_member *m, enum ev_code_search_action action, int32_t parent)
{
	const struct search *s = m->search;
	struct event ev;
	struct ev_search *out = search_event(s, action, &ev);

	out->request = m->r->id;
	out->node = m->node;
	if (parent >= 0)
		out->parent = parent;
	out->tokens = m->r->n_ids - s->q.n_ids;
	out->logp = m->logp;
	search_emit(s, &ev);
}

void search_drop(struct search *s, struct search_member *m)
{
	struct request *r = m->r;

	search_tell(m, EV_SEARCH_drop, -1);
	free_member(m);
	engine_end_request(s->engine, r, EV_FINISH_dropped, NULL);
}

/* ---- answers ---- */

static void on_drawn(
	struct request *r, const struct sample_result *drawn, const struct k_logit_stats *stats)
{
	struct search_member *m = r->owner_data;
	double logp = k_log64(drawn->p > 0x1p-120f ? (double)drawn->p : 0x1p-120);

	m->token[r->n_ids - 1 - m->search->q.n_ids] = (struct search_token){ (double)drawn->p,
		drawn->entropy, (int64_t)stats->hash, (float)logp };
	m->logp += logp;
}

/* Of equals the one that was begun first: which ended first is the scheduler's doing. */
static bool is_better(const struct search_answer *a, const struct search_answer *b)
{
	return a->score > b->score || (a->score == b->score && a->request < b->request);
}

/* Sorted, the best first. */
static int insert_answer(struct search *s, const struct search_answer *a, struct err *e)
{
	int32_t at = s->n_answers;

	if (!ARRAY_ROOM(s->answer, s->cap_answers, s->n_answers + 1))
		return err_no_memory(e, "another answer");
	for (; at > 0 && is_better(a, &s->answer[at - 1]); at--)
		s->answer[at] = s->answer[at - 1];
	s->answer[at] = *a;
	s->n_answers++;
	return 0;
}

static void free_waiting(struct search_waiting *w)
{
	free(w->answer.ids);
	free(w->answer.token);
	free(w->text);
}

void search_forget_waiting(struct search *s)
{
	if (s->n_waiting && s->options.score)
		s->options.score(s->options.arg, NULL, 0, 0, NULL, NULL);
	while (s->n_waiting)
		free_waiting(&s->waiting[--s->n_waiting]);
}

/* Takes the score of the oldest waiting answer. */
static int take_scored(struct search *s, struct err *e)
{
	struct search_waiting w = s->waiting[0];
	const struct search_answer *a = &w.answer;
	struct ev_search *out;
	struct event ev;

	memmove(s->waiting, s->waiting + 1, (size_t)--s->n_waiting * sizeof *s->waiting);
	free(w.text);
	w.text = NULL;
	if (insert_answer(s, a, e)) {
		free_waiting(&w);
		return -1;
	}
	out = search_event(s, EV_SEARCH_answer, &ev);
	out->request = a->request;
	out->node = w.end.node;
	out->tokens = a->n;
	out->logp = a->logp;
	out->score = a->score;
	search_emit(s, &ev);
	w.end.answer = a;
	return s->ops->ended ? s->ops->ended(s, &w.end, e) : 0;
}

/* Scores by the command, or else by the method. */
static enum score_verdict score_answer(
	struct search *s, struct search_waiting *w, int wait_ms, struct err *e)
{
	struct search_answer *a = &w->answer;

	if (s->options.score)
		return s->options.score(s->options.arg, w->text, w->size, wait_ms, &a->score, e);
	a->score = !a->n ? 0 : s->ops->score ? s->ops->score(s, a->logp, a->n) : a->logp / a->n;
	return SCORE_KNOWN;
}

int search_score_waiting(struct search *s, int wait_ms, struct err *e)
{
	while (s->n_waiting) {
		enum score_verdict verdict = score_answer(s, s->waiting, wait_ms, e);

		if (verdict != SCORE_KNOWN)
			return verdict == SCORE_FAILED ? -1 : 0;
		if (take_scored(s, e))
			return -1;
	}
	return 0;
}

/* A command scores at the end of the step: by then the ends of this step's members are emitted. */
static int keep(
	struct search *s, const struct search_member *m, struct search_answer *a, struct err *e)
{
	struct search_waiting w = { .answer = *a, .end = { a->request, m->r->sample, m->node, NULL } };
	bool room = ARRAY_ROOM(s->waiting, s->cap_waiting, s->n_waiting + 1);

	if (s->options.score)
		w.text = tokenizer_text(s->engine->tokenizer, a->ids, (size_t)a->n, false, &w.size);
	if (!room || (s->options.score && !w.text)) {
		free_waiting(&w);
		return err_no_memory(e, "another answer");
	}
	s->waiting[s->n_waiting++] = w;
	return s->options.score ? 0 : search_score_waiting(s, 0, e);
}

/* Copies its tokens so far, with room for `more`. */
static int copy_answer(
	struct search *s, struct search_member *m, int32_t more, struct search_answer *a, struct err *e)
{
	int32_t n = m->r->n_ids - s->q.n_ids;

	*a = (struct search_answer){ .request = m->r->id, .n = n, .logp = m->logp };
	a->ids = malloc(((size_t)n + (size_t)more + 1) * sizeof *a->ids);
	a->token = malloc(((size_t)n + (size_t)more + 1) * sizeof *a->token);
	if (!a->ids || !a->token) {
		free(a->ids);
		free(a->token);
		return err_no_memory(e, "another answer");
	}
	memcpy(a->ids, m->r->ids + s->q.n_ids, (size_t)n * sizeof *a->ids);
	memcpy(a->token, m->token, (size_t)n * sizeof *a->token);
	return 0;
}

int search_keep(struct search *s, struct search_member *m, int32_t choice, struct err *e)
{
	struct search_answer a;

	if (copy_answer(s, m, 1, &a, e))
		return -1;
	a.token[a.n] = token_of(m, choice);
	a.ids[a.n++] = m->choice[choice].id;
	a.logp += m->choice[choice].logp;
	a.reason = EV_FINISH_end;
	sched_register(&s->engine->sched, m->r); /* so that a continuation finds its pages */
	return keep(s, m, &a, e);
}

/* A member that ends becomes an answer. */
static void on_ended(struct request *r, enum ev_code_finish reason)
{
	struct search_member *m = r->owner_data;
	struct search *s = m->search;
	struct err *err = &s->view.err;
	struct search_answer a;

	if (reason == EV_FINISH_failed && !err->code) {
		err_set(err, ERR_INPUT, "a branch of the search failed: the log says why");
	} else if (ev_finish_is_answer(reason) && !err->code && !copy_answer(s, m, 0, &a, err)) {
		a.reason = reason;
		keep(s, m, &a, err);
	} else if (s->ops->ended && !err->code) {
		s->ops->ended(s, &(struct search_end){ r->id, r->sample, m->node, NULL }, err);
	}
	free_member(m);
}

static const struct request_owner drawing = {
	.what = "a branch of a search", .drawn = on_drawn, .ended = on_ended
};
static const struct request_owner choosing = { .what = "a branch of a search",
	.chooses = true,
	.row = on_row,
	.drawn = on_drawn,
	.ended = on_ended };
