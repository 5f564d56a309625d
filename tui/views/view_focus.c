/* The focus of all views: requests, tokens, cursor movement, and which requests the chat shows. See
 * view_util.h. */

#include "tui/views/view_util.h"

/* The newest of the conversation, else the newest of all. In a batch, where that waits or has ended
 * while others run, the newest that runs. */
static const struct tl_request *followed(const struct timeline *t)
{
	const struct tl_request *r = timeline_chat(t);

	if (!r && t->n_requests)
		r = &t->request[t->n_requests - 1];
	if (!r || r->kind == EV_REQUEST_KIND_chat || r->kind == EV_REQUEST_KIND_fork)
		return r;
	for (int32_t i = t->n_requests; r->state != TL_RUNNING && i-- > 0;)
		if (t->request[i].kind == r->kind && t->request[i].state == TL_RUNNING)
			return &t->request[i];
	return r;
}

const struct tl_request *view_request(const struct timeline *t, const struct view_state *s)
{
	const struct tl_request *r = s->request > 0 ? timeline_request(t, s->request) : NULL;

	if (!r && s->branch > 0)
		r = timeline_request(t, s->branch);
	return r ? r : followed(t);
}

const struct tl_request *view_active(const struct timeline *t, const struct view_state *s)
{
	const struct view_state newest = { .branch = s->branch, .token = -1 };

	return view_request(t, &newest);
}

const struct tl_request *view_computing(const struct timeline *t, const struct view_state *s)
{
	const struct tl_search *q = s->request > 0 ? NULL : timeline_search(t, 0);
	const struct tl_request *r;

	for (int32_t i = 0; q && !q->over && i < q->n_members; i++) {
		r = q->member[i].ended ? NULL : timeline_request(t, q->member[i].request);
		if (r)
			return r;
	}
	return view_request(t, s);
}

int32_t view_token_index(const struct tl_request *r, const struct view_state *s)
{
	if (!r || !r->n_tokens)
		return -1;
	if (!is_index(s->token, r->n_tokens))
		return r->n_tokens - 1;
	return (int32_t)s->token;
}

const struct tl_token *view_token(const struct tl_request *r, const struct view_state *s)
{
	int32_t i = view_token_index(r, s);

	return i < 0 ? NULL : &r->token[i];
}

const struct tl_request *view_drew(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *branch = r && r->parent ? timeline_request(t, r->parent) : NULL;

	return branch && branch->kind == EV_REQUEST_KIND_search && r->kind != EV_REQUEST_KIND_search
			   ? branch
			   : r;
}

/* The branch that computed the same row of logits; a branch that continues with another token has
 * the same candidates. */
static const struct tl_token *drawn_in_branch(const struct timeline *t, const struct tl_token *k)
{
	for (int32_t i = t->n_requests; i-- > 0;) {
		const struct tl_request *r = &t->request[i];
		int64_t at = k->pos - r->n_prompt;
		const struct tl_token *found =
			r->kind == EV_REQUEST_KIND_search && is_index(at, r->n_tokens)
				? timeline_whole(t, &r->token[at])
				: NULL;

		if (found && found->hash == k->hash && found->pos == k->pos && found->n_candidates)
			return found;
	}
	return NULL;
}

const struct tl_token *view_drawn(const struct timeline *t, const struct tl_request *r,
	const struct view_state *s, struct tl_token *buf)
{
	const struct tl_token *k = timeline_whole(t, view_token(r, s)), *drawn;
	struct tl_token reported;

	if (!k || k->source != EV_SOURCE_taken || k->n_candidates)
		return k;
	reported = *k;
	drawn = drawn_in_branch(t, &reported);
	*buf = drawn ? *drawn : reported;
	if (drawn && drawn->id != reported.id) { /* its stages belong to the other token's draw */
		buf->staged = false;
		buf->p_draw = NAN;
	}
	buf->id = reported.id;
	buf->p = reported.p;
	buf->is_end = reported.is_end;
	return buf;
}

bool view_is_chat(const struct tl_request *r)
{
	return timeline_of_conversation(r->kind);
}

/* The next request of the conversation that has tokens and is shown, before or after r; NULL:
 * none. */
static const struct tl_request *chat_neighbour(
	const struct timeline *t, const struct view_state *s, const struct tl_request *r, int direction)
{
	int64_t i = r - t->request;
	int n_left;
	bool *shown = view_shown(t, s, &n_left);

	for (i += direction; shown && is_index(i, t->n_requests); i += direction)
		if (shown[i] && t->request[i].n_tokens)
			break;
	free(shown);
	return is_index(i, t->n_requests) ? &t->request[i] : NULL;
}

/* A fork from within an answer continues tokens of the request before it. */
static void walk_left(const struct timeline *t, struct view_state *s, const struct tl_request *r)
{
	int64_t at = !is_index(s->token, r->n_tokens) ? r->n_tokens : s->token;

	if (at == 0 && timeline_within_answer(t, r) && r->origin.abandoned < 0 &&
		r->origin.pos > timeline_request(t, r->origin.request)->n_prompt) {
		at = r->origin.pos;
		r = timeline_request(t, r->origin.request);
		at -= r->n_prompt;
	} else if (at == 0) {
		r = chat_neighbour(t, s, r, -1);
		if (!r)
			return;
		at = r->n_tokens;
	}
	s->request = r->id;
	s->token = at - 1;
}

/* The fork on the shown branch that leaves r after its token at `at`; NULL: none. */
static const struct tl_request *leaves_here(
	const struct timeline *t, const struct view_state *s, const struct tl_request *r, int64_t at)
{
	const struct tl_request *f = view_active(t, s);

	while (f && timeline_within_answer(t, f)) {
		if (f->origin.request == r->id && f->origin.abandoned < 0 &&
			f->origin.pos == r->n_prompt + at + 1 && f->n_tokens)
			return f;
		f = timeline_request(t, f->origin.request);
	}
	return NULL;
}

static void walk_right(const struct timeline *t, struct view_state *s, const struct tl_request *r)
{
	const struct tl_request *fork;

	if (s->token < 0)
		return;
	fork = leaves_here(t, s, r, s->token);
	if (!fork && s->token + 1 < r->n_tokens) {
		s->token++;
		return;
	}
	r = fork ? fork : chat_neighbour(t, s, r, 1);
	s->request = r ? r->id : 0;
	s->token = r ? 0 : -1;
}

bool view_walk_tokens(int key, const struct timeline *t, struct view_state *s)
{
	const struct tl_request *r = view_request(t, s);

	if (key == KEY_ESC && s->token >= 0) {
		s->request = 0;
		s->token = -1;
		return true;
	}
	if (!r || (key != KEY_LEFT_ && key != KEY_RIGHT_))
		return false;
	if (key == KEY_LEFT_)
		walk_left(t, s, r);
	else
		walk_right(t, s, r);
	return true;
}

bool view_is_waiting(const struct tl_request *r)
{
	return r && (r->state == TL_WAITING || r->state == TL_PREEMPTED);
}

const struct ev_queued *view_queued(const struct timeline *t, int64_t request)
{
	for (int32_t i = 0; i < t->queue.n; i++)
		if (t->queue.order[i].request == request)
			return &t->queue.order[i];
	return NULL;
}

int view_waits(const struct timeline *t, const struct tl_request **out, int n)
{
	int total = 0;

	for (int32_t i = 0; i < t->queue.n; i++) {
		const struct tl_request *r = timeline_request(t, t->queue.order[i].request);

		if (view_is_waiting(r) && total++ < n)
			out[total - 1] = r;
	}
	for (int32_t i = 0; i < t->n_requests; i++)
		if (view_is_waiting(&t->request[i]) && !view_queued(t, t->request[i].id) && total++ < n)
			out[total - 1] = &t->request[i];
	return total;
}

bool view_penalised(const struct ev_request *q)
{
	return (q->repeat_penalty > 0 && q->repeat_penalty != 1) || fabs(q->frequency_penalty) > 0 ||
		   fabs(q->presence_penalty) > 0;
}

int32_t view_first_step(const struct timeline *t, int columns)
{
	return at_least(t->n_steps - columns, 0);
}

int64_t view_page_size(const struct timeline *t)
{
	int64_t n = t->session.page_size;

	return n < 1 ? 1 : n > 1 << 20 ? 1 << 20 : n;
}

int32_t view_pages_held(const struct tl_request *r)
{
	int32_t n = 0;

	for (int32_t b = 0; b < r->n_pages; b++)
		n += r->pages[b] >= 0;
	return n;
}

static const char *setting_now(void *t, const char *name)
{
	return timeline_setting(t, name);
}

struct lossy_settings view_lossy(const struct timeline *t)
{
	return lossy_query(setting_now, (void *)(uintptr_t)t);
}

bool view_no_attention(const struct timeline *t)
{
	return t->session.n_layers > 0 && !t->session.n_heads;
}

/* ---- what the chat shows ---- */

/* The first request of its conversation. */
static const struct tl_request *root_of(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *from;

	while (r && (from = timeline_request(t, r->origin.request)) && from < r)
		r = from;
	return r;
}

/* From the active request back, turn by turn. */
static void mark_path(const struct timeline *t, const struct tl_request *active, bool *on_path)
{
	for (const struct tl_request *r = active; r;
		 r = timeline_request(t, timeline_turn_before(t, r->id)))
		on_path[r - t->request] = true;
}

/* The same question, asked again beside it. */
static bool beside(const struct timeline *t, const struct tl_request *a, const struct tl_request *b)
{
	return a->n_prompt == b->n_prompt && a->origin.request == b->origin.request &&
		   a->origin.abandoned == b->origin.abandoned && a->origin.pos == b->origin.pos &&
		   !timeline_within_answer(t, a) && !timeline_within_answer(t, b) &&
		   (!a->n_prompt || !memcmp(a->prompt, b->prompt, (size_t)a->n_prompt * sizeof *a->prompt));
}

static bool beside_path(const struct timeline *t, const struct tl_request *r, const bool *on_path)
{
	for (int32_t i = 0; i < t->n_requests; i++)
		if (on_path[i] && beside(t, r, &t->request[i]))
			return true;
	return false;
}

/* The conversation as it stands, the conversations before it, and what runs. Later requests of
 * other branches were abandoned. */
bool *view_shown(const struct timeline *t, const struct view_state *s, int *n_left)
{
	const struct tl_request *active = view_active(t, s), *root = root_of(t, active);
	size_t n = (size_t)t->n_requests + 1;
	bool *shown = calloc(n, sizeof *shown), *on_path = calloc(n, sizeof *on_path);

	*n_left = 0;
	if (shown && on_path) {
		mark_path(t, active, on_path);
		for (int32_t i = 0; i < t->n_requests; i++) {
			const struct tl_request *r = &t->request[i];

			if (!view_is_chat(r))
				continue;
			shown[i] = on_path[i] || !r->finished || r < root || beside_path(t, r, on_path);
			*n_left += !shown[i];
		}
	}
	free(on_path);
	return shown;
}
