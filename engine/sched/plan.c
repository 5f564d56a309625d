/* The plan of a step: rows for newest tokens and their drafts, then for prompts. See sched.h. */
#include "engine/sched/sched_impl.h"

void plan_add(struct plan *p, struct request *r, enum ev_code_work work, int32_t n_rows,
	int32_t n_drafts, int32_t n_out)
{
	p->item[p->n_items++] = (struct plan_item){ .r = r,
		.work = work,
		.pos = r->computed,
		.n_rows = n_rows,
		.n_drafts = n_drafts,
		.n_out = n_out,
		.row = p->n_rows,
		.out = p->n_out,
		.observed = -1 };
	p->n_rows += n_rows;
	p->n_out += n_out;
}

static int32_t min32(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

static void plan_decode(struct sched *s, struct plan *p, struct request *r)
{
	while (!sched_ensure_pages(s, p, r, r->computed, r->n_ids + draft_reach(&r->draft))) {
		if (!r->draft.n) {
			sched_denied(s, p, r);
			return;
		}
		r->draft.n = 0;
	}
	plan_add(p, r, r->draft.n ? EV_WORK_verify : EV_WORK_decode, 1 + r->draft.n, r->draft.n,
		1 + r->draft.n);
}

/* The first position whose logits are needed. */
int32_t sched_first_output(const struct request *r)
{
	if (r->kind == EV_REQUEST_KIND_score)
		return r->n_input;
	if (r->kind == EV_REQUEST_KIND_pin || r->kind == EV_REQUEST_KIND_embed)
		return r->n_ids; /* none */
	return (r->kind == EV_REQUEST_KIND_verify ? r->n_prompt : r->n_ids) - 1;
}

/* Where the tokens are given, the last one's logits are not needed. */
static int32_t prompt_left(const struct request *r)
{
	return r->n_ids - r->how->given - r->computed;
}

struct request *sched_next_oldest(const struct sched *s, int64_t after)
{
	struct request *best = NULL;

	for_running(s, r)
		if (r->admitted > after && (!best || r->admitted < best->admitted))
			best = r;
	return best;
}

static void plan_prefill(struct sched *s, struct plan *p, struct request *r)
{
	int32_t n = min32(prompt_left(r), s->budget - p->n_rows), n_out;
	/* rows before the first whose logits are needed */
	int32_t silent = sched_first_output(r) - r->computed;

	if (silent < 0)
		silent = 0;
	if (s->chunk && s->policy->turn == SCHED_TOGETHER)
		n = min32(n, s->chunk);
	n = min32(n, min32(s->memory->most_rows, visible_most_rows(&s->memory->visible, r->computed)));
	n = min32(n, silent + s->max_out - p->n_out);
	n_out = n > silent ? n - silent : 0;
	if (n <= 0 || r->computed < r->n_input)
		return;
	if (sched_ensure_pages(s, p, r, r->computed, r->computed + n))
		plan_add(p, r, EV_WORK_prefill, n, 0, n_out);
	else
		sched_denied(s, p, r);
}

static bool lacks_only_newest(const struct request *r)
{
	/* a prompt of which only the last token is missing is a prefill of one row */
	return r->how->next && r->n_ids - r->computed == 1 && r->n_ids > r->n_prompt;
}

/* Free pages for DRAFT_MAX tokens ahead, without preemption or eviction. */
static bool has_draft_pages(struct sched *s, struct request *r)
{
	int32_t size = s->memory->page_size, ahead = min32(DRAFT_MAX, r->limit - r->n_ids);
	int32_t need = (r->n_ids + ahead + size - 1) / size;

	for (int32_t g = 0; g < s->memory->spec.n; g++)
		if (need - r->table.n + 1 > s->memory->pages[g].n_free)
			return false;
	return memory_reserve(s->memory, &r->table, r->id, r->computed, r->n_ids + ahead) < 0;
}

/* Rows and outputs are shared out evenly: each request gets its newest token's, and the same for
 * drafts. */
static void plan_drafts(struct sched *s)
{
	int32_t n = 0, most, nodes;
	struct request *r;

	for (int64_t at = 0; (r = sched_next_oldest(s, at)); at = r->admitted)
		if (lacks_only_newest(r)) {
			r->draft.n = 0;
			s->ready[n++] = r;
		}
	most = min32(s->budget, s->max_out);
	nodes = n ? min32((most - n) / n, DRAFT_NODES) : 0;
	if (!s->propose || nodes < 1)
		return;
	for (int32_t i = 0; i < n; i++)
		s->ready[i]->draft_pages =
			s->draft_pages && !request_is_chosen(s->ready[i]) && has_draft_pages(s, s->ready[i]);
	s->propose(s->arg, s->ready, n, nodes);
}

/* The running prompt that is next in the policy's order, after one of this rank and time of
 * admission. */
static struct request *next_prompt(
	const struct sched *s, int64_t rank, int64_t admitted, int64_t *found)
{
	struct request *best = NULL;

	for_running(s, r) {
		int64_t at;

		if (lacks_only_newest(r) || r->where != REQUEST_HERE)
			continue;
		at = sched_rank(s->policy->prompt, s, r);
		if (at < rank || (at == rank && r->admitted <= admitted))
			continue;
		if (!best || at < *found || (at == *found && r->admitted < best->admitted)) {
			best = r;
			*found = at;
		}
	}
	return best;
}

/* A prompt was overtaken if it got no row while one that was admitted later did. */
static void note_overtaken(struct sched *s, const struct plan *p)
{
	int64_t newest = 0;

	for (int32_t i = 0; i < p->n_items; i++)
		if (p->item[i].work == EV_WORK_prefill && p->item[i].r->admitted > newest)
			newest = p->item[i].r->admitted;
	for_running(s, r)
		if (r->where == REQUEST_HERE && !sched_is_planned(p, r) && r->admitted < newest &&
			!lacks_only_newest(r) && prompt_left(r) > 0)
			r->overtaken++;
}

/* Before rows are given out: who is away takes none. */
static void hand_over(struct sched *s)
{
	int64_t rank = INT64_MIN, admitted = 0;
	struct request *r;

	for_running(s, waits)
		if (waits->where == REQUEST_WAITS)
			waits->where = REQUEST_HERE;
	while (s->hand_over && (r = next_prompt(s, rank, admitted, &rank))) {
		admitted = r->admitted;
		sched_hand_over(s, r);
	}
}

static void plan_prompts(struct sched *s, struct plan *p)
{
	int64_t rank = INT64_MIN, admitted = 0;
	struct request *r;

	while (p->n_rows < s->budget && (r = next_prompt(s, rank, admitted, &rank))) {
		admitted = r->admitted;
		(r->how->plan ? r->how->plan : plan_prefill)(s, p, r);
	}
	note_overtaken(s, p);
}

static void plan_newest(struct sched *s, struct plan *p)
{
	struct request *r;

	plan_drafts(s);
	for (int64_t at = 0; (r = sched_next_oldest(s, at)); at = r->admitted)
		if (lacks_only_newest(r) && p->n_rows < s->budget && p->n_out < s->max_out)
			plan_decode(s, p, r);
	s->n_decodes += p->n_items > 0;
}

void sched_plan(struct sched *s, struct plan *p)
{
	const enum sched_turn turn = s->policy->turn;

	p->n_items = p->n_rows = p->n_out = 0;
	sched_admit(s);
	hand_over(s);
	if (s->plan_first)
		s->plan_first(s, p);
	if (p->n_items)
		return;
	if (turn == SCHED_PROMPTS_ALONE)
		plan_prompts(s, p);
	if (turn != SCHED_PROMPTS_ALONE || !p->n_items)
		plan_newest(s, p);
	if (turn == SCHED_TOGETHER || (turn == SCHED_NEWEST_ALONE && !p->n_items))
		plan_prompts(s, p);
}
