/* Speculation inside a step: calls the drafter, lays out the rows of its trees, verifies them, and
 * passes what was computed to the drafter (draft.h).
 *
 * The rows of a tree are ordinary rows: each of its paths is a sequence with a block table of its
 * own, which shares the request's pages up to the one that holds the newest token. From that page
 * on the first path uses the request's own pages and every branch uses scratch ones (memory.h): the
 * page is copied into them, and the branch's ancestors store their keys and values there too
 * (struct k_also). So attention needs no tree mask, finds a path's tokens where plain decoding
 * would have them, and gives the same bits (law 2). SpecInfer (Miao et al. 2024) and Medusa (Cai et
 * al. 2024) mask a shared cache instead, which would move positions to other spans. */
#include <assert.h>

#include "base/clock.h"
#include "engine/core/engine_impl.h"
#include "engine/draft/shadow.h"
#include "engine/draft/tree.h"

/* ---- the drafter ---- */

static void fill_job(struct engine *e, struct request *r, int32_t nodes, struct draft_job *job)
{
	int32_t depth = r->limit - r->n_ids - 1; /* the step itself yields one token */
	const int32_t ahead = visible_most_rows(&e->memory.visible, r->n_ids - 1) - 1;

	depth = depth < ahead ? depth : ahead;
	*job = (struct draft_job){ .request = r->id,
		.ids = r->ids,
		.n = r->n_ids,
		.n_prompt = r->n_prompt,
		.n_input = r->n_input,
		.nodes = nodes,
		.depth = depth < DRAFT_MAX ? depth : DRAFT_MAX,
		.table = &r->table,
		.writable = r->draft_pages,
		.params = &r->params,
		.sample = r->sample,
		.rejection = e->draft.rejection,
		.out = &r->draft };
}

static bool gives_only(const struct engine *e)
{
	return e->given && e->given->only;
}

/* The jobs are of those of r that may be drafted for, in their order. */
static void bind_drafts(struct engine *e, struct request **r, int32_t n, int32_t nodes)
{
	const struct draft_job *job = e->draft.jobs;

	for (int32_t i = 0; i < n && e->set.kv_cache; i++)
		if ((r[i]->bound || gives_only(e)) && !request_is_chosen(r[i]) && job->request == r[i]->id)
			engine_bind_draft(e, r[i], nodes, job++->depth);
		else
			job += job->request == r[i]->id;
}

static bool may_guess(const struct engine *e, const struct request *r)
{
	return !request_is_chosen(r) && e->set.kv_cache;
}

static void ask(struct engine *e, struct request **r, int32_t n, int32_t nodes)
{
	int32_t width = e->draft.ops ? draft_width(e->draft.ops, e->draft.drafter) : nodes;
	int32_t n_jobs = 0;
	struct draft_room room;
	int64_t start;

	for (int32_t i = 0; i < n; i++) {
		if (!may_guess(e, r[i]))
			continue;
		r[i]->draft.by = NULL;
		fill_job(e, r[i], nodes < width ? nodes : width, &e->draft.jobs[n_jobs]);
		n_jobs += e->draft.jobs[n_jobs].depth > 0;
	}
	if (!n_jobs)
		return;
	start = draft_cost_now(&e->measure.cost);
	if (e->draft.ops && e->draft.ops->propose(e->draft.drafter, e->draft.jobs, n_jobs, &e->lost)) {
		for (int32_t i = 0; i < n; i++)
			r[i]->draft.n = 0;
		return;
	}
	start = draft_cost_now(&e->measure.cost) - start;
	bind_drafts(e, r, n, nodes);
	memory_begin_step(&e->memory);
	room = draft_room_of(&e->memory);
	for (int32_t i = 0; i < n_jobs; i++)
		draft_fit(e->draft.jobs[i].out, &e->draft.jobs[i], &room);
	for_hooks(e, h, asked) if (h->ops->asked(e, h->state, n_jobs, nodes, start, &e->lost)) return;
}

static void propose(void *arg, struct request **r, int32_t n, int32_t nodes)
{
	struct engine *e = arg;
	int64_t start = now_ns();
	bool any = e->draft.ops || e->draft.heard || gives_only(e);

	for (int32_t i = 0; i < n; i++)
		any |= r[i]->bound != NULL;
	if (!any)
		return;
	ask(e, r, n, nodes);
	e->step.drafters_ns += now_ns() - start;
}

void engine_draft_verifying(struct engine *e)
{
	const struct draft_ops *ops = e->draft.ops;
	int32_t n = 0;

	if (!ops || !ops->verifying)
		return;
	for (int32_t i = 0; i < e->plan.n_items; i++) {
		const struct plan_item *item = &e->plan.item[i];

		if ((item->work != EV_WORK_decode && item->work != EV_WORK_verify) ||
			!may_guess(e, item->r))
			continue;
		fill_job(e, item->r, draft_width(ops, e->draft.drafter), &e->draft.jobs[n]);
		n += e->draft.jobs[n].depth > 0;
	}
	ops->verifying(e->draft.drafter, e->draft.jobs, n);
}

void engine_set_draft_hooks(struct engine *e)
{
	const struct draft_ops *ops = e->draft.ops;
	const struct shadow *weighed = draft_weighed(ops, e->draft.drafter);

	e->draft.heard = false;
	for_hooks(e, h, hears) e->draft.heard |= h->ops->hears(h->state);
	e->sched.propose = propose;
	e->sched.draft_pages = weighed ? shadow_needs_pages(weighed) : ops && ops->needs_pages;
	e->sched.arg = e;
}

void engine_close_draft(struct engine *e)
{
	draft_close(e->draft.ops, e->draft.drafter);
	e->draft.ops = NULL;
	e->draft.drafter = NULL;
	engine_set_draft_hooks(e);
}

int engine_apply_spec(struct engine *e, struct engine_options *to, struct err *err)
{
	const char *spec = to->spec;
	const struct draft_ops *ops = NULL;
	struct drafter *drafter = NULL;

	if (spec && *spec && strcmp(spec, "off") != 0 && e->model && e->model->diffusion.on)
		return err_set(err, ERR_USAGE,
			"spec %.40s: a diffusion model has no next token to guess; see denoise-steps", spec);
	e->draft.env = (struct draft_env){ .kernels = e->kernels,
		.model = e->model,
		.forward = &e->forward,
		.store = e->memory.store,
		.model_path = e->model_path,
		.cost = &e->measure.cost,
		.slots = e->info.slots,
		.ctx = e->info.ctx,
		.vocab = e->info.vocab };
	if (strlen(spec) >= sizeof e->draft.spec)
		return err_set(err, ERR_USAGE, "the speculation setting is too long");
	ops = draft_find(spec);
	if (ops && ops->cost_rows && e->model && engine_need_cost(e, ops->cost_rows, err))
		return -1;
	if (draft_open(spec, e->model ? &e->draft.env : NULL, &ops, &drafter, err))
		return -1;
	engine_close_draft(e);
	e->draft.ops = ops;
	e->draft.drafter = drafter;
	engine_set_draft_hooks(e);
	e->draft.n_opened++;
	snprintf(e->draft.spec, sizeof e->draft.spec, "%s", spec);
	to->spec = e->draft.spec;
	return 0;
}

void engine_forget(struct engine *e, int64_t request)
{
	if (e->draft.ops && e->draft.ops->forget)
		e->draft.ops->forget(e->draft.drafter, request);
	for_hooks(e, h, forget) h->ops->forget(e, h->state, request);
}

/* ---- rows ---- */

/* Makes the block tables of the branch that begins at node, as sequence seq. */
static void new_branch(struct engine *e, const struct plan_item *item, int32_t reach, int32_t seq)
{
	struct memory_table *branch = &e->draft.branch[e->draft.n_branches++];
	bool has_room = draft_branch(&e->memory, &item->r->table, item->pos, reach, branch);

	assert(has_room); /* draft_fit() */
	(void)has_room;
	for (int32_t g = 0; g < e->memory.spec.n; g++)
		e->forward.pages[g][seq] = branch->page[g];
}

/* The branch attends to the newest token and to its node's ancestors. */
static void add_ancestors(struct engine *e, const struct plan_item *item, int32_t node, int32_t seq)
{
	struct forward *f = &e->forward;

	do {
		node = item->r->draft.parent[node];
		f->also[f->n_also++] = (struct k_also){ item->row + 1 + node, seq };
	} while (node >= 0);
}

void engine_draft_rows(struct engine *e, struct plan_item *item, int32_t seq, int32_t *n_seqs)
{
	struct forward *f = &e->forward;
	const struct draft *t = &item->r->draft;
	int8_t branch[DRAFT_NODES];
	int32_t reach = draft_reach(t), first = *n_seqs, n = 0;

	draft_branches(t, branch);
	item->branch = e->draft.n_branches;
	for (int32_t i = 0; i < t->n; i++) {
		int32_t row = item->row + 1 + i;

		if (branch[i] > n) {
			n = branch[i];
			new_branch(e, item, reach, (*n_seqs)++);
			add_ancestors(e, item, i, first + n - 1);
		}
		f->ids[row] = t->id[i];
		f->rows[row] = (struct k_row){ .pos = item->pos + draft_depth(t, i),
			.seq = branch[i] ? first + branch[i] - 1 : seq,
			.observe = -1,
			.input = item->r->n_input,
			.adapter = item->r->adapter };
	}
	for (int32_t g = 0; g < e->memory.spec.n; g++)
		if (f->store[g].is_state)
			draft_states(&e->memory, g, t, f->state[g] + item->row + 1);
}

void engine_draft_settle(struct engine *e, const struct plan_item *item, int32_t node)
{
	int8_t branch[DRAFT_NODES];
	const struct request *r = item->r;

	if (node < 0 || !e->kernels)
		return;
	for (int32_t g = 0; g < e->memory.spec.n; g++)
		if (e->memory.spec.group[g].kind->is_state)
			draft_keep_states(&e->memory, g, &r->table, &r->draft, node, item->pos,
				e->forward.state[g] + item->row + 1);
	draft_branches(&r->draft, branch);
	if (branch[node])
		draft_keep_branch(&e->memory, &r->table, &e->draft.branch[item->branch + branch[node] - 1],
			item->pos, item->pos + draft_depth(&r->draft, node));
}

/* ---- verdicts ---- */

static void emit_verdict(struct engine *e, const struct plan_item *item, int32_t node,
	enum ev_code_verdict verdict, struct engine_verdict v)
{
	e->step.accepted += verdict == EV_VERDICT_accepted;
	e->step.rejected += verdict == EV_VERDICT_rejected;
	engine_emit_draft(e, item, node, verdict, &v);
}

/* The verdicts that modified rejection would give for the children of a node, in their order, while
 * the race decides; with the numbers that it would draw. A guess that was not drawn counts as
 * certain, so its rejection takes only its own mass from the target; of one that was drawn only its
 * own probability is known here, so the verdicts after its rejection are unknown. */
struct would {
	float gone; /* the target's probability of the rejected children */
	bool settled, unknown;
};

static void would_reject(struct engine *e, const struct plan_item *item, int32_t node,
	struct would *w, struct engine_verdict *v)
{
	const struct draft *t = &item->r->draft;
	struct sample_key key = { .pos = item->r->n_ids, .sample = item->r->sample };

	v->other = EV_NULL_I;
	v->other_arrival = v->other_winner_arrival = NAN;
	if (w->unknown)
		return;
	if (w->settled) {
		v->other = EV_VERDICT_discarded;
		return;
	}
	v->other_arrival = sampler_accept_u(e->sampler, t->id[node], key);
	v->other_winner_arrival = v->p / ((1 - w->gone) * t->q[node]);
	w->settled = v->other_arrival < v->other_winner_arrival;
	v->other = w->settled ? EV_VERDICT_accepted : EV_VERDICT_rejected;
	w->gone += v->p;
	w->unknown = !w->settled && t->q[node] < 1;
}

static int32_t verify_by_race(
	struct engine *e, const struct plan_item *item, int32_t node, bool *emitted)
{
	const struct draft *t = &item->r->draft;
	struct engine_verdict best = { 0 };
	struct would w = { 0 };
	int32_t kept = -1;

	for (int32_t i = node + 1; i < t->n; i++) {
		struct engine_verdict v = { .winner = e->drawn.id, .winner_arrival = e->drawn.arrival };

		if (t->parent[i] != node)
			continue;
		emitted[i] = true;
		if (e->sampler) {
			sampler_draft(e->sampler, t->id[i], &v.p, &v.arrival);
			would_reject(e, item, i, &w, &v);
		}
		if (t->id[i] == e->drawn.id) {
			kept = i;
			best = v;
		} else {
			emit_verdict(e, item, i, EV_VERDICT_rejected, v);
		}
	}
	if (kept >= 0) /* emitted last, next to the event of its token */
		emit_verdict(e, item, kept, EV_VERDICT_accepted, best);
	return kept;
}

/* Verifies one guess after the other, each against what the rejected ones have left of the target.
 * The race's verdict is known too: the race was run on the same row. */
static int32_t verify_by_rejection(
	struct engine *e, const struct plan_item *item, int32_t node, bool *emitted)
{
	const struct draft *t = &item->r->draft;
	struct sample_key key = { .pos = item->r->n_ids, .sample = item->r->sample };
	struct sample_result raced = e->drawn;
	struct engine_verdict v[DRAFT_NODES];
	int32_t tried[DRAFT_NODES], n = 0, kept = -1;

	sampler_reject_begin(e->sampler, key);
	for (int32_t i = node + 1; i < t->n && kept < 0; i++) {
		struct engine_verdict *at = &v[n];

		if (t->parent[i] != node)
			continue;
		sampler_draft(e->sampler, t->id[i], &at->p, &at->other_arrival);
		at->other = t->id[i] == raced.id ? EV_VERDICT_accepted : EV_VERDICT_rejected;
		at->other_winner_arrival = raced.arrival;
		if (sampler_reject_next(e->sampler, t->id[i], t->dense[i] ? t->q[i] : 1, t->dense[i],
				&at->arrival, &at->winner_arrival))
			kept = i;
		tried[n++] = i;
		emitted[i] = true;
	}
	if (!n)
		return -1;
	sampler_reject_end(e->sampler, kept < 0 ? -1 : t->id[kept], &e->drawn);
	for (int32_t i = 0; i < n; i++) {
		v[i].winner = e->drawn.id;
		emit_verdict(
			e, item, tried[i], tried[i] == kept ? EV_VERDICT_accepted : EV_VERDICT_rejected, v[i]);
	}
	return kept;
}

int32_t engine_verify_draft(
	struct engine *e, const struct plan_item *item, int32_t node, bool *emitted)
{
	return e->draft.rejection ? verify_by_rejection(e, item, node, emitted)
							  : verify_by_race(e, item, node, emitted);
}

void engine_emit_discarded(struct engine *e, const struct plan_item *item, const bool *emitted)
{
	for (int32_t i = 0; i < item->n_drafts; i++)
		if (!emitted[i])
			engine_emit_draft(e, item, i, EV_VERDICT_discarded, NULL);
}

/* ---- what the drafter learns ---- */

/* Lists the rows of the path that ends in node, the newest token's first. */
static int32_t path_rows(const struct plan_item *item, int32_t node, int32_t *row)
{
	int32_t n = node < 0 ? 0 : draft_depth(&item->r->draft, node);

	for (int32_t i = n; i > 0; i--, node = item->r->draft.parent[node])
		row[i] = item->row + 1 + node;
	row[0] = item->row;
	return n + 1;
}

void engine_note_seen(struct engine *e, const struct plan_item *item, int32_t node)
{
	struct draft_seen *s = &e->draft.seen[e->draft.n_seen];
	int32_t *row = e->draft.seen_row + e->draft.n_seen_rows,
			*top = e->draft.seen_top + e->draft.n_seen * (DRAFT_NODES + 1);

	if (!e->draft.heard && (!e->draft.ops || !e->draft.ops->learn))
		return;
	*s = (struct draft_seen){ .request = item->r->id,
		.ids = item->r->ids,
		.n = item->r->n_ids,
		.pos = item->pos,
		.n_rows = item->n_rows,
		.row = row };
	if (item->work == EV_WORK_prefill)
		for (int32_t i = 0; i < item->n_rows; i++)
			row[i] = item->row + i;
	else
		s->n_rows = path_rows(item, node, row);
	if (item->n_drafts) {
		s->draft = &item->r->draft;
		s->n_kept = s->n_rows - 1;
		s->top = top;
		for (int32_t i = 0; i <= item->n_drafts; i++)
			top[i] = e->stats[item->out + i].argmax;
	}
	e->draft.n_seen_rows += s->n_rows;
	e->draft.n_seen++;
}

/* Emits the state of the Jacobi or lookahead window. */
static void emit_windows(struct engine *e)
{
	const struct draft_window *w;

	for (int32_t i = 0; e->draft.ops && e->draft.ops->window && i < e->draft.n_seen; i++)
		if (e->draft.seen[i].draft &&
			(w = e->draft.ops->window(e->draft.drafter, e->draft.seen[i].request)))
			engine_emit_window(e, e->draft.seen[i].request, w);
}

static void emit_ahead(struct engine *e)
{
	const struct draft_ops *ops = e->draft.ops;
	const struct ev_ahead *a;

	for (int32_t i = 0; ops && ops->told && (a = ops->told(e->draft.drafter, i)); i++) {
		struct event ev = { .kind = EV_ahead, .u.ahead = *a };

		ev.u.ahead.step = e->n_steps;
		ev.u.ahead.start_ns += stream_now(&e->stream) - e->step_start_ns - now_ns();
		stream_emit(&e->stream, &ev);
	}
}

static int emit_drafters(struct engine *e, struct err *err)
{
	int64_t start = draft_cost_now(&e->measure.cost);

	if (e->draft.ops && e->draft.ops->learn &&
		e->draft.ops->learn(e->draft.drafter, e->draft.seen, e->draft.n_seen, err))
		return -1;
	e->draft.learn_ns = draft_cost_now(&e->measure.cost) - start;
	emit_windows(e);
	for_hooks(
		e, h, seen) if (h->ops->seen(e, h->state, e->draft.seen, e->draft.n_seen, err)) return -1;
	return 0;
}

int engine_draft_learn(struct engine *e, struct err *err)
{
	const struct draft_ops *ops = e->draft.ops;
	int64_t start;
	int failed;

	if (!e->draft.n_seen && !(ops && ops->told))
		return 0;
	start = now_ns();
	failed = e->draft.n_seen ? emit_drafters(e, err) : 0;
	emit_ahead(e);
	e->step.drafters_ns += now_ns() - start;
	return failed;
}
