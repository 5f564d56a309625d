/* See conversation.h.
 *
 * Invariants: (1) ids[0 … n_head-1] open the conversation and are never dropped; (2) turn i lies at
 * ids[turn[i].begin …] up to the next turn's begin; while `open`, the last turn ends with the
 * opening of its answer, whose own ids are in answer[] until the next turn closes it; (3) turns are
 * in order and each is whole; (4) the state at each submitted turn is kept as a mark, and each
 * request refers to the mark of its turn, for going back. */
#include "base/array.h"
#include "tui/chat/conversation_impl.h"

#include <stdlib.h>
#include <string.h>

void conv_answers_clear(struct conversation *c)
{
	for (int i = 0; i < c->n_answers; i++)
		free(c->answer[i].ids);
	memset(c->answer, 0, sizeof c->answer);
	c->n_answers = c->chosen = 0;
	c->expected = 0;
	c->lost = false;
}

void conv_turns_drop(struct conversation *c, int n)
{
	if (!n)
		return;
	for (int i = 0; i < n; i++)
		free(c->turn[i].text);
	memmove(c->turn, c->turn + n, (size_t)(c->n_turns - n) * sizeof *c->turn);
	c->n_turns -= n;
}

int conversation_new(struct conversation *c, const char *system, struct err *e)
{
	pthread_mutex_lock(&c->lock);
	conv_answers_clear(c);
	c->marked = -1;
	c->sample = 0;
	pthread_mutex_unlock(&c->lock);
	conv_turns_drop(c, c->n_turns);
	c->n = 0;
	c->open = false;
	if (template_begin(c->chat, c->tokenizer, system, &c->ids, &c->n, &c->cap, e) < 0)
		return -1;
	c->n_head = c->n;
	return 0;
}

int conversation_open(struct conversation **out, const struct chat_template *chat,
	const struct tokenizer *t, int32_t ctx, const char *system, struct err *e)
{
	struct conversation *c = calloc(1, sizeof *c);

	*out = NULL;
	if (!c)
		return err_set(e, ERR_MEMORY, "no memory for a conversation");
	c->chat = chat;
	c->tokenizer = t;
	c->ctx = ctx;
	pthread_mutex_init(&c->lock, NULL);
	if (conversation_new(c, system, e) < 0) {
		conversation_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

void conversation_close(struct conversation *c)
{
	if (!c)
		return;
	conv_answers_clear(c);
	conv_turns_drop(c, c->n_turns);
	conv_marks_free(c);
	pthread_mutex_destroy(&c->lock);
	free(c->asked);
	free(c->turn);
	free(c->ids);
	free(c);
}

/* --- on the engine's thread --- */

struct answer *conv_answer_of(struct conversation *c, int64_t request)
{
	for (int i = 0; i < c->n_answers; i++)
		if (c->answer[i].request == request)
			return &c->answer[i];
	return NULL;
}

/* Reserves room for the longest answer, so that no token allocates: untouched memory costs
 * nothing. */
struct answer *conv_answer_begin(struct conversation *c, int64_t request)
{
	struct answer *a = &c->answer[c->n_answers++];

	*a = (struct answer){ .request = request, .ids = malloc((size_t)c->ctx * sizeof *a->ids) };
	a->cap = a->ids ? c->ctx : 0;
	return a;
}

void conv_answer_add(struct conversation *c, struct answer *a, int32_t id)
{
	if (a->n == a->cap)
		c->lost = true;
	else
		a->ids[a->n++] = id;
}

/* Notes the turn that the request answers, for going back to it. */
static void note_asked(struct conversation *c, int64_t request)
{
	if (ARRAY_ROOM(c->asked, c->cap_asked, c->n_asked + 1)) /* else it cannot be gone back to */
		c->asked[c->n_asked++] = (struct asked){ request, c->marked };
}

/* A fork from within an answer has a part of it in its prompt; copies that part, which the
 * conversation keeps. */
static void take_given(struct conversation *c, struct answer *a, const struct ev_request *r)
{
	const unsigned char *p = r->prompt.data;

	for (size_t i = (size_t)c->marked_n; c->marked >= 0 && p && i < r->prompt.size / 4; i++)
		conv_answer_add(c, a,
			(int32_t)(p[4 * i] | p[4 * i + 1] << 8 | p[4 * i + 2] << 16 |
					  (uint32_t)p[4 * i + 3] << 24));
	if (a->n)
		c->chosen = (int)(a - c->answer);
}

/* Answers to the same turn need different sample numbers, or their texts would be equal; branches
 * of a search count, too. */
static void note_sample(struct conversation *c, int64_t sample)
{
	if (sample < c->sample || sample == INT64_MAX)
		return;
	c->sample = sample + 1;
	if (c->marked >= 0)
		c->mark[c->marked].sample = c->sample;
}

static void sink_request(struct conversation *c, const struct ev_request *r)
{
	struct answer *a;

	if (r->kind == EV_REQUEST_KIND_search)
		note_sample(c, r->sample);
	if (c->expected <= 0 || c->n_answers >= ANSWERS_MAX)
		return;
	if (r->kind != EV_REQUEST_KIND_chat && r->kind != EV_REQUEST_KIND_fork)
		return;
	c->expected--;
	note_sample(c, r->sample);
	a = conv_answer_begin(c, r->request);
	if (c->marked >= 0)
		note_asked(c, r->request);
	take_given(c, a, r);
}

static void sink_token(struct conversation *c, const struct ev_token *t)
{
	struct answer *a = conv_answer_of(c, t->request);

	if (a)
		conv_answer_add(c, a, (int32_t)t->id);
}

static void sink_rewind(struct conversation *c, const struct ev_rewind *r)
{
	struct answer *a = conv_answer_of(c, r->request);

	if (a && c->marked >= 0 && r->kept >= c->marked_n && r->kept - c->marked_n < a->n)
		a->n = (int32_t)(r->kept - c->marked_n);
}

void conversation_sink(void *conversation, const struct event *ev)
{
	struct conversation *c = conversation;
	struct answer *a;

	if (ev->kind != EV_request && ev->kind != EV_token && ev->kind != EV_rewind &&
		ev->kind != EV_finish)
		return;
	pthread_mutex_lock(&c->lock);
	if (ev->kind == EV_request) {
		sink_request(c, &ev->u.request);
	} else if (ev->kind == EV_token) {
		sink_token(c, &ev->u.token);
	} else if (ev->kind == EV_rewind) {
		sink_rewind(c, &ev->u.rewind);
	} else {
		a = conv_answer_of(c, ev->u.finish.request);
		if (a)
			a->finished = true;
	}
	pthread_mutex_unlock(&c->lock);
}

/* --- turns --- */

int conv_append(struct conversation *c, const int32_t *ids, size_t n, struct err *e)
{
	if (!ARRAY_ROOM(c->ids, c->cap, c->n + n))
		return err_set(e, ERR_MEMORY, "no memory for the conversation's tokens");
	if (n)
		memcpy(c->ids + c->n, ids, n * sizeof *ids);
	c->n += n;
	return 0;
}

/* The chosen answer becomes part of the ids. A turn that was never answered is removed. */
static int close_answer(struct conversation *c, struct err *e)
{
	struct answer *a = c->n_answers ? &c->answer[c->chosen] : NULL;

	if (!c->open)
		return 0;
	if (c->lost)
		return err_set(e, ERR_MEMORY, "the last answer did not fit the memory: /new begins anew");
	if (!a || !a->n) {
		c->n = c->turn[c->n_turns - 1].begin;
		free(c->turn[--c->n_turns].text);
		c->open = false;
		return 0;
	}
	if (conv_append(c, a->ids, (size_t)a->n, e) < 0)
		return -1;
	c->open = false;
	return template_close(c->chat, c->tokenizer, &c->ids, &c->n, &c->cap, e);
}

/* Drops the oldest turns until `need` more ids fit. */
static int make_room(
	struct conversation *c, int32_t need, bool drop, struct conversation_prompt *out, struct err *e)
{
	size_t limit = (size_t)c->ctx, had = c->n;
	int n = 0;

	while (c->n + (size_t)need > limit && drop && n < c->n_turns) {
		size_t end = n + 1 < c->n_turns ? c->turn[n + 1].begin : had;

		c->n -= end - c->turn[n].begin;
		n++;
	}
	if (c->n + (size_t)need > limit) {
		c->n = had;
		return err_set(e, ERR_USAGE,
			"the context is full: %zu of %d tokens are used and %d are needed; /new begins "
			"anew, /full drop makes room by dropping the oldest turns",
			c->n, c->ctx, need);
	}
	if (!n)
		return 0;
	size_t gone = had - c->n;

	memmove(
		c->ids + c->n_head, c->ids + c->n_head + gone, (had - c->n_head - gone) * sizeof *c->ids);
	conv_turns_drop(c, n);
	for (int i = 0; i < c->n_turns; i++) {
		c->turn[i].begin -= gone;
		c->turn[i].open -= gone;
	}
	out->trimmed_tokens = (int32_t)gone;
	out->trimmed_turns = n;
	return 0;
}

static int add_turn(struct conversation *c, const char *text, size_t size, const int32_t *ids,
	size_t n, struct err *e)
{
	struct turn *grown = realloc(c->turn, (size_t)(c->n_turns + 1) * sizeof *grown);
	char *copy = strndup(text, size);

	if (grown)
		c->turn = grown;
	if (!grown || !copy || conv_append(c, ids, n, e) < 0) {
		free(copy);
		return err_set(e, ERR_MEMORY, "no memory for another turn");
	}
	c->turn[c->n_turns++] = (struct turn){ c->n - n, c->n, copy };
	c->open = true;
	return 0;
}

/* A repeated turn has its mark already. */
static void fill_prompt(struct conversation *c, struct conversation_prompt *out)
{
	if (c->marked < 0)
		conv_make_mark(c);
	out->ids = c->ids;
	out->n_ids = (int32_t)c->turn[c->n_turns - 1].open;
	out->text = c->turn[c->n_turns - 1].text;
	out->sample = c->sample;
}

int conversation_ask(struct conversation *c, const char *text, size_t size, int32_t room, bool drop,
	struct conversation_prompt *out, struct err *e)
{
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;
	int result = -1;

	memset(out, 0, sizeof *out);
	/* before the lock, which the engine's thread waits for at each token: a long text takes long */
	if (template_user(c->chat, c->tokenizer, text, size, &ids, &n, &cap, e) < 0)
		goto free_ids;
	if (n > (size_t)c->ctx) {
		err_set(e, ERR_USAGE, "the text is %zu tokens long, the context holds %d", n, c->ctx);
		goto free_ids;
	}
	pthread_mutex_lock(&c->lock);
	if (close_answer(c, e) < 0)
		goto out;
	conv_answers_clear(c);
	if (make_room(c, (int32_t)n + room, drop, out, e) < 0 || add_turn(c, text, size, ids, n, e) < 0)
		goto out;
	c->sample = 0;
	c->marked = -1;
	fill_prompt(c, out);
	result = 0;
out:
	pthread_mutex_unlock(&c->lock);
free_ids:
	free(ids);
	return result;
}

int conversation_repeat(struct conversation *c, struct conversation_prompt *out, struct err *e)
{
	memset(out, 0, sizeof *out);
	if (!c->n_turns)
		return err_set(e, ERR_USAGE, "there is no turn yet to answer again");
	pthread_mutex_lock(&c->lock);
	conv_answers_clear(c);
	c->n = c->turn[c->n_turns - 1].open;
	c->open = true;
	fill_prompt(c, out);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

/* Length of the prompt without its turn: of what opens the conversation, if the text of the turn
 * follows it as these tokens; else 0. */
static size_t head_of(
	const struct conversation *c, const char *text, const int32_t *ids, int32_t n_ids)
{
	size_t n = 0, cap = 0, head = 0;
	int32_t *turn = NULL;

	if (!template_user(c->chat, c->tokenizer, text, strlen(text), &turn, &n, &cap, NULL) &&
		n <= (size_t)n_ids && !memcmp(turn, ids + ((size_t)n_ids - n), n * sizeof *ids))
		head = (size_t)n_ids - n;
	free(turn);
	return head;
}

/* Where the user's turn begins in its prompt: after the answer before it, or after another opening
 * of the conversation than this session's. */
static size_t recall_begin(
	struct conversation *c, const char *text, const int32_t *ids, int32_t n_ids)
{
	if (c->n <= (size_t)n_ids && !memcmp(c->ids, ids, c->n * sizeof *ids))
		return c->n;
	conv_turns_drop(c, c->n_turns);
	c->n = 0;
	c->n_head = head_of(c, text, ids, n_ids);
	return conv_append(c, ids, c->n_head, NULL) ? 0 : c->n_head;
}

int conversation_recall(
	struct conversation *c, const char *text, const int32_t *ids, int32_t n_ids, struct err *e)
{
	struct conversation_prompt out;
	int result = -1;

	pthread_mutex_lock(&c->lock);
	if (!close_answer(c, e)) {
		c->n = recall_begin(c, text, ids, n_ids);
		conv_answers_clear(c);
		result = add_turn(c, text, strlen(text), ids + c->n, (size_t)n_ids - c->n, e);
	}
	if (!result) {
		c->sample = 0;
		c->marked = -1;
		fill_prompt(c, &out);
	}
	pthread_mutex_unlock(&c->lock);
	return result;
}

void conversation_expect(struct conversation *c, int32_t n_requests)
{
	pthread_mutex_lock(&c->lock);
	c->expected = n_requests;
	pthread_mutex_unlock(&c->lock);
}

/* --- questions --- */

int conversation_running(struct conversation *c, int64_t *request, int cap)
{
	int n = 0;

	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->n_answers; i++)
		if (!c->answer[i].finished && n++ < cap)
			request[n - 1] = c->answer[i].request;
	pthread_mutex_unlock(&c->lock);
	return n;
}

int64_t conversation_newest(struct conversation *c)
{
	int64_t request;

	pthread_mutex_lock(&c->lock);
	request = c->n_answers ? c->answer[c->n_answers - 1].request : 0;
	pthread_mutex_unlock(&c->lock);
	return request;
}

bool conversation_busy(struct conversation *c)
{
	return conversation_running(c, NULL, 0) > 0;
}

void conversation_choose(struct conversation *c, int64_t request)
{
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->n_answers; i++)
		if (c->answer[i].request == request)
			c->chosen = i;
	pthread_mutex_unlock(&c->lock);
}
