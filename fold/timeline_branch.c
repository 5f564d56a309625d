/* Part of the timeline: branches. A request's prompt goes on from where another one stood (the turn
 * before it, or where it was forked), and a request that goes back leaves a future. Together they
 * are a tree.
 *
 * Invariant: the origin of an abandoned branch is of its own request and has no future, or a later
 * one; that of a request is an earlier request. So every walk to the root ends. */
#include "base/ids.h"
#include "fold/timeline_fold.h"

enum { LOOK_BACK = 64 }; /* requests and abandoned branches among which an origin is sought */

static const struct tl_abandoned *abandoned_of(const struct timeline *t, struct tl_branch b)
{
	return is_index(b.abandoned, t->n_abandoned) ? &t->abandoned[b.abandoned] : NULL;
}

int32_t timeline_branch_length(const struct timeline *t, struct tl_branch b)
{
	const struct tl_abandoned *u = abandoned_of(t, b);
	const struct tl_request *r = timeline_request(t, b.request);

	if (u)
		return u->origin.pos + u->n_tokens;
	return r ? r->n_prompt + r->n_tokens : 0;
}

struct tl_branch timeline_branch_whole(const struct timeline *t, int64_t request)
{
	struct tl_branch b = { request, -1, 0 };

	b.pos = timeline_branch_length(t, b);
	return b;
}

const struct tl_token *timeline_branch_token(
	const struct timeline *t, struct tl_branch b, int32_t pos)
{
	const struct tl_request *r;
	const struct tl_abandoned *u;
	const struct tl_token *k = NULL;

	for (; (u = abandoned_of(t, b)) && pos < u->origin.pos;)
		b = u->origin;
	r = timeline_request(t, b.request);
	if (u)
		k = pos - u->origin.pos < u->n_tokens ? &u->token[pos - u->origin.pos] : NULL;
	else if (r && pos >= r->n_prompt && pos - r->n_prompt < r->n_tokens)
		k = &r->token[pos - r->n_prompt];
	return k && k->pos == pos ? k : NULL; /* where events are missing, nothing is said */
}

int32_t timeline_branch_id(const struct timeline *t, struct tl_branch b, int32_t pos)
{
	const struct tl_token *k = timeline_branch_token(t, b, pos);
	const struct tl_request *r = timeline_request(t, b.request);

	if (k)
		return k->id;
	return r && is_index(pos, r->n_prompt) ? r->prompt[pos] : -1;
}

int32_t timeline_branch_common(const struct timeline *t, struct tl_branch a, struct tl_branch b)
{
	int32_t n = timeline_branch_length(t, a), other = timeline_branch_length(t, b), at = 0;

	n = at_most(other, n);
	while (at < n) {
		int32_t id = timeline_branch_id(t, a, at);

		if (id < 0 || id != timeline_branch_id(t, b, at))
			break;
		at++;
	}
	return at;
}

bool timeline_within_answer(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *from = r->fork_pos > 0 ? timeline_request(t, r->origin.request) : NULL;

	return from && (r->fork_pos >= from->n_prompt || timeline_within_answer(t, from));
}

int64_t timeline_turn_before(const struct timeline *t, int64_t request)
{
	const struct tl_request *r = timeline_request(t, request);

	while (r && timeline_within_answer(t, r))
		r = timeline_request(t, r->origin.request);
	return r ? r->origin.request : 0;
}

/* Tokens of r's prompt with which a branch begins. */
static int32_t begins(const struct timeline *t, const struct tl_request *r, struct tl_branch b)
{
	const struct tl_request *q = timeline_request(t, b.request);
	int32_t n = timeline_branch_length(t, b), at = 0;

	if (q)
		at = ids_common(q->prompt, at_most(q->n_prompt, n), r->prompt, r->n_prompt);
	while (at < n && at < r->n_prompt && timeline_branch_id(t, b, at) == r->prompt[at])
		at++;
	return at;
}

/* Who has the tokens before pos itself, and not only in the prompt of a fork, or before a future
 * parts. */
static struct tl_branch owner_of(const struct timeline *t, struct tl_branch b)
{
	for (;;) {
		const struct tl_abandoned *u = abandoned_of(t, b);
		const struct tl_request *r = timeline_request(t, b.request);
		int32_t pos = b.pos;

		if (u && pos <= u->origin.pos)
			b = u->origin;
		else if (!u && r && timeline_within_answer(t, r) && pos <= r->origin.pos)
			b = r->origin;
		else
			return b;
		b.pos = pos;
	}
}

bool timeline_goes_on(
	const int32_t *before, int32_t n_before, const int32_t *now, int32_t n_now, int32_t common)
{
	int32_t end = 0;

	while (end < n_before && end < n_now && before[n_before - 1 - end] == now[n_now - 1 - end])
		end++;
	return n_now > n_before && common > n_before - end;
}

static void consider(struct timeline *t, struct tl_request *r, const struct tl_request *from,
	int32_t abandoned, int32_t least)
{
	struct tl_branch b = { .request = from->id, .abandoned = abandoned };

	if (timeline_branch_length(t, b) <= r->origin.pos)
		return; /* the newest came first, and is the longest as a rule */
	b.pos = begins(t, r, b);
	if (least && b.pos <= least && abandoned < 0 && from->n_tokens &&
		timeline_goes_on(from->prompt, from->n_prompt, r->prompt, r->n_prompt, b.pos))
		b.pos = timeline_branch_length(t, b);
	if (b.pos > least && b.pos > r->origin.pos)
		r->origin = b;
}

/* A turn goes on from an answer, so it shares some of that; what only asks the same has the same
 * origin. */
void tl_find_origin(struct timeline *t, struct tl_request *r, int64_t parent)
{
	int32_t looked = 0;

	r->origin = (struct tl_branch){ .abandoned = -1 };
	for (int32_t i = t->n_requests; i-- > 0 && looked < LOOK_BACK;) {
		const struct tl_request *q = &t->request[i];

		if (q->id >= r->id ||
			(parent ? q->id != parent
					: q->kind != EV_REQUEST_KIND_chat && q->kind != EV_REQUEST_KIND_fork))
			continue;
		looked++;
		consider(t, r, q, -1, parent ? 0 : q->n_prompt);
	}
	for (int32_t i = t->n_abandoned; i-- > 0 && i + LOOK_BACK >= t->n_abandoned;) {
		const struct tl_request *q = tl_request_find(t, t->abandoned[i].request);

		if (q && q->id < r->id && (!parent || q->id == parent))
			consider(t, r, q, i, parent ? 0 : q->n_prompt);
	}
	if (parent && r->origin.pos > r->fork_pos)
		r->origin.pos = r->fork_pos;
	r->origin = owner_of(t, r->origin);
}

static void hang_on(struct timeline *t, int64_t request, int32_t pos, int32_t abandoned)
{
	for (int32_t i = 0; i < t->n_requests; i++) {
		struct tl_branch *s = &t->request[i].origin;

		if (s->request == request && s->abandoned < 0 && s->pos > pos)
			s->abandoned = abandoned;
	}
	for (int32_t i = 0; i < abandoned; i++) {
		struct tl_branch *s = &t->abandoned[i].origin;

		if (s->request == request && s->abandoned < 0 && s->pos > pos)
			s->abandoned = abandoned;
	}
}

void tl_abandon(struct timeline *t, struct tl_request *r, int32_t pos, int64_t seq)
{
	int32_t keep = r->n_tokens, n;
	struct tl_abandoned *u;

	while (keep && r->token[keep - 1].pos >= pos)
		keep--;
	n = r->n_tokens - keep;
	r->n_tokens = keep;
	tl_find_cycle(r);
	if (!n)
		return;
	u = tl_add(t, &t->abandoned, &t->n_abandoned, &t->cap_abandoned, sizeof *u);
	if (!u)
		return;
	*u = (struct tl_abandoned){ .seq = seq,
		.request = r->id,
		.step = t->last_step,
		.origin = { r->id, -1, pos },
		.at = keep,
		.token = malloc((size_t)n * sizeof *u->token),
		.n_tokens = n };
	if (!u->token) {
		u->n_tokens = 0;
		t->full = true;
		return;
	}
	memcpy(u->token, r->token + keep, (size_t)n * sizeof *u->token);
	hang_on(t, r->id, pos, t->n_abandoned - 1);
}
