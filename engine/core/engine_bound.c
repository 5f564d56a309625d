/* Requests whose answers a grammar rules (grammar/constraint.h): what they may draw, what of their
 * drafts is left, and what is told of it.
 *
 * A token that is the only one allowed needs no draw, but its keys and values all the same, and its
 * row is what the next draws are from. So tokens that follow one another without a choice are
 * drafted: one step computes them all, to the same bits, and each is verified like any guess. */
#include "base/text.h"
#include "engine/core/engine_impl.h"

static const char drafter[] = "grammar";

/* ---- requests ---- */

static bool is_off(const char *grammar)
{
	return !grammar || !*grammar || !strcmp(grammar, "off");
}

int engine_bind(struct engine *e, const struct engine_request *q, const struct request_owner *owner,
	struct request *r, struct err *err)
{
	const int32_t from = q->bound_from ? q->bound_from : r->n_prompt;

	if (is_off(q->grammar) || !e->tokenizer || q->kind == EV_REQUEST_KIND_score ||
		q->kind == EV_REQUEST_KIND_pin)
		return 0;
	if (e->form && e->form->max_out)
		return err_set(
			err, ERR_USAGE, "grammar: a diffusion model does not answer from left to right");
	if (owner && owner->chooses)
		return err_set(
			err, ERR_USAGE, "grammar: a search chooses its tokens itself: --grammar off");
	if (q->ignore_end)
		return err_set(
			err, ERR_USAGE, "grammar: it says where the answer ends: not with ignore_eos");
	if (from < 0 || from > r->n_ids + 1)
		return err_set(err, ERR_USAGE, "grammar: from position %d of %d tokens", from, r->n_ids);
	return bound_open(&r->bound, &e->constraints, e->tokenizer, q->grammar, from, err);
}

const char *engine_bound_why(const struct request *r)
{
	const char *why = NULL;

	if (r->bound)
		bound_mask(r->bound, bound_state(r->bound, r->ids, r->n_ids), &why);
	return why ? why : "it cannot be drawn";
}

bool engine_bound_is_whole(const struct request *r)
{
	return r->bound && automaton_is_whole(&r->bound->constraint->automaton,
						   bound_state(r->bound, r->ids, r->n_ids));
}

bool engine_allow(struct engine *e, const struct request *r, int32_t pos)
{
	const struct mask *m;
	const char *why;

	if (!r->bound)
		return true;
	m = bound_mask(r->bound, bound_state(r->bound, r->ids, pos), &why);
	if (!m)
		return false;
	sampler_allow(e->sampler, m->word, m->n);
	return true;
}

/* ---- drafts ---- */

/* The token that follows the next n without a choice; -1: there is none. An end of the text is left
 * to the draw. */
static int32_t only(const struct engine *e, struct request *r, int32_t *state, int32_t n)
{
	const char *why;
	const struct mask *m = r->bound ? bound_mask(r->bound, *state, &why) : NULL;

	if (!r->bound)
		return e->given->only(e->given->arg, r->id, n);
	if (!m || m->only < 0)
		return -1;
	*state = bound_next(r->bound, *state, m->only, r->n_ids + n);
	return *state == STATE_DEAD ? -1 : m->only;
}

static void draft_forced(const struct engine *e, struct request *r, int32_t state, int32_t most)
{
	struct draft *t = &r->draft;
	int32_t id;

	for (t->n = 0; t->n < most && (id = only(e, r, &state, t->n)) >= 0;)
		draft_add(t, t->n - 1, id, 1);
	t->by = t->n ? drafter : NULL;
}

/* Keeps the guesses that the grammar allows and whose parents it kept. */
static void cut_drafts(struct request *r, int32_t state)
{
	struct draft kept = { .by = r->draft.by };
	const struct draft *t = &r->draft;
	int32_t place[DRAFT_NODES], after[DRAFT_NODES];

	for (int32_t i = 0; i < t->n; i++) {
		const int32_t parent = t->parent[i] < 0 ? -1 : place[t->parent[i]];
		const bool stands = t->parent[i] < 0 || parent >= 0;

		place[i] = -1;
		after[i] = stands ? bound_next(r->bound, t->parent[i] < 0 ? state : after[t->parent[i]],
								t->id[i], r->n_ids + draft_depth(t, i) - 1)
						  : STATE_DEAD;
		if (after[i] == STATE_DEAD)
			continue;
		place[i] = draft_add(&kept, parent, t->id[i], t->q[i]);
		kept.dense[place[i]] = t->dense[i];
	}
	r->draft = kept;
}

/* By modified rejection a guess that was drawn counts though it is rejected, so all are left. */
void engine_bind_draft(struct engine *e, struct request *r, int32_t nodes, int32_t depth)
{
	const int32_t state = r->bound ? bound_state(r->bound, r->ids, r->n_ids) : 0;
	const int32_t most = nodes < depth ? nodes : depth;
	struct draft guessed;

	if (state == STATE_DEAD)
		return;
	guessed = r->draft;
	draft_forced(e, r, state, most);
	if (r->draft.n)
		return;
	r->draft = guessed;
	if (r->bound && !e->draft.rejection)
		cut_drafts(r, state);
}

/* ---- events ---- */

/* A line for each candidate that is forbidden. */
static void tell_forbidden(
	const struct bound *b, int32_t state, const struct sample_result *drawn, char *text, size_t cap)
{
	const char *rule;

	*text = 0;
	for (int32_t i = 0; i < drawn->n_candidates; i++) {
		const struct ev_candidate *c = &drawn->candidate[i];
		int32_t pass;

		if (c->cut != EV_CUT_grammar)
			continue;
		pass = bound_forbids(b, state, (int32_t)c->id, &rule);
		text_append(text, cap, "", "%u %d %.40s\n", c->id, pass, rule);
	}
}

void engine_emit_bound(struct engine *e, const struct request *r)
{
	char stack[240], forbidden[SAMPLE_MOST * 64];
	const char *why;
	const int32_t pos = r->n_ids - 1, state = bound_state(r->bound, r->ids, pos);
	const struct mask *m = bound_mask(r->bound, state, &why);
	int32_t depth;

	if (!m)
		return;
	depth = automaton_describe(&r->bound->constraint->automaton, state, stack, sizeof stack);
	tell_forbidden(r->bound, state, &e->drawn, forbidden, sizeof forbidden);
	STREAM_EMIT(&e->stream, bound, .request = r->id, .pos = pos, .allowed = m->n,
		.forced = m->only >= 0, .stack = ev_text(stack), .depth = depth,
		.forbidden = ev_text(forbidden), .ns = r->bound->ns, .known = !r->bound->made);
	r->bound->ns = r->bound->made = 0;
}
