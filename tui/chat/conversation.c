/* See conversation.h.
 *
 * Invariants: (1) turns are in order; all but the last have an answer's ids; (2) while `open`, the
 * answers to the last turn are in answer[] until the next turn closes it; (3) ids is what was
 * computed last, a hint of what may be found again; (4) the state at each submitted turn is kept as
 * a mark, and each request refers to the mark of its turn, for going back. */
#include "base/array.h"
#include "tui/chat/conversation_impl.h"

void conv_answers_clear(struct conversation *c)
{
	for (int i = 0; i < c->n_answers; i++)
		free(c->answer[i].ids);
	memset(c->answer, 0, sizeof c->answer);
	c->n_answers = c->chosen = 0;
	c->expected = 0;
	c->lost = false;
}

void conv_turn_free(struct turn *t)
{
	free(t->text);
	free(t->answer);
}

static void turns_drop(struct conversation *c, int n)
{
	if (!n)
		return;
	for (int i = 0; i < n; i++)
		conv_turn_free(&c->turn[i]);
	memmove(c->turn, c->turn + n, (size_t)(c->n_turns - n) * sizeof *c->turn);
	c->n_turns -= n;
}

int conversation_new(struct conversation *c, const char *system, struct err *e)
{
	char *copy = system ? strdup(system) : NULL;

	if (system && !copy)
		return err_set(e, ERR_MEMORY, "no memory for a system text");
	pthread_mutex_lock(&c->lock);
	conv_answers_clear(c);
	c->marked = -1;
	c->sample = 0;
	pthread_mutex_unlock(&c->lock);
	turns_drop(c, c->n_turns);
	free(c->system);
	c->system = copy;
	c->n = 0;
	c->open = false;
	return 0;
}

void conversation_think(struct conversation *c, const char *word)
{
	template_think(&c->of, word);
}

int conversation_open(struct conversation **out, const struct chat_input *of, int32_t ctx,
	const char *system, struct err *e)
{
	struct conversation *c = calloc(1, sizeof *c);

	*out = NULL;
	if (!c)
		return err_set(e, ERR_MEMORY, "no memory for a conversation");
	c->of = *of;
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
	turns_drop(c, c->n_turns);
	conv_marks_free(c);
	pthread_mutex_destroy(&c->lock);
	free(c->asked);
	free(c->turn);
	free(c->system);
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
	c->chosen = c->n_answers - 1; /* the newest is what the chat ends with */
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

void conv_measure(const struct conversation *c, const struct answer *a, struct turn *t)
{
	t->n_answer = (size_t)a->n - tokenizer_is_end(c->of.t, a->ids[a->n - 1]);
	t->after_text = c->n && !tokenizer_is_special(c->of.t, c->ids[c->n - 1]);
}

/* The chosen answer becomes the turn's. A turn that was never answered is removed. */
static int close_answer(struct conversation *c, struct err *e)
{
	struct answer *a = c->n_answers ? &c->answer[c->chosen] : NULL;
	struct turn *t = c->n_turns ? &c->turn[c->n_turns - 1] : NULL;

	if (!c->open)
		return 0;
	if (c->lost)
		return err_set(e, ERR_MEMORY, "the last answer did not fit the memory: /new begins anew");
	if (!a || !a->n) {
		conv_turn_free(t);
		c->n_turns--;
		c->open = false;
		return 0;
	}
	conv_measure(c, a, t);
	t->answer = malloc((t->n_answer + 1) * sizeof *t->answer);
	if (!t->answer || conv_append(c, a->ids, (size_t)a->n, e) < 0) {
		free(t->answer);
		t->answer = NULL;
		t->n_answer = 0;
		return err_set(e, ERR_MEMORY, "no memory for an answer");
	}
	memcpy(t->answer, a->ids, t->n_answer * sizeof *t->answer);
	c->open = false;
	return 0;
}

/* A repeated turn has its mark already. */
static void fill_prompt(struct conversation *c, struct conversation_prompt *out)
{
	if (c->marked < 0)
		conv_make_mark(c);
	out->ids = c->ids;
	out->n_ids = (int32_t)c->n;
	out->text = c->turn[c->n_turns - 1].text;
	out->sample = c->sample;
}

/* A turn whose prompt is ids [n], which it takes over. Called with the lock held. */
static int begin_turn(struct conversation *c, const char *text, size_t size, int32_t **ids,
	size_t n, struct conversation_prompt *out, struct err *e)
{
	struct turn *grown = realloc(c->turn, (size_t)(c->n_turns + 1) * sizeof *grown);
	char *copy = strndup(text, size);

	conv_answers_clear(c);
	if (grown)
		c->turn = grown;
	if (!grown || !copy) {
		free(copy);
		return err_set(e, ERR_MEMORY, "no memory for another turn");
	}
	free(c->ids);
	c->ids = *ids;
	c->n = c->cap = n;
	*ids = NULL;
	c->turn[c->n_turns++] = (struct turn){ .text = copy, .mark = -1 };
	c->open = true;
	c->sample = 0;
	c->marked = -1;
	fill_prompt(c, out);
	return 0;
}

int conversation_ask(struct conversation *c, const char *text, size_t size, int32_t room, bool drop,
	struct conversation_prompt *out, struct err *e)
{
	int32_t *ids = NULL;
	size_t n = 0;
	int result;

	memset(out, 0, sizeof *out);
	pthread_mutex_lock(&c->lock);
	result = close_answer(c, e);
	pthread_mutex_unlock(&c->lock);
	/* without the lock, which the engine's thread waits for at each token: it may take long */
	if (!result)
		result = conv_fitting(c, text, size, room, drop, &ids, &n, out, e);
	pthread_mutex_lock(&c->lock);
	if (!result) {
		turns_drop(c, out->trimmed_turns);
		result = begin_turn(c, text, size, &ids, n, out, e);
	}
	pthread_mutex_unlock(&c->lock);
	free(ids);
	return result;
}

int conversation_repeat(struct conversation *c, struct conversation_prompt *out, struct err *e)
{
	int result = 0;

	memset(out, 0, sizeof *out);
	if (!c->n_turns)
		return err_set(e, ERR_USAGE, "there is no turn yet to answer again");
	if (c->turn[c->n_turns - 1].mark < 0)
		return err_set(e, ERR_MEMORY, "no memory was left to keep that turn");
	pthread_mutex_lock(&c->lock);
	result = conv_take_mark(c, c->turn[c->n_turns - 1].mark, e);
	if (!result)
		fill_prompt(c, out);
	pthread_mutex_unlock(&c->lock);
	return result;
}

int conversation_recall(
	struct conversation *c, const char *text, const int32_t *ids, int32_t n_ids, struct err *e)
{
	struct conversation_prompt out;
	int32_t *copy = malloc(((size_t)n_ids + 1) * sizeof *copy);
	int result = copy ? 0 : err_set(e, ERR_MEMORY, "no memory for another turn");

	pthread_mutex_lock(&c->lock);
	if (!result)
		result = close_answer(c, e);
	if (!result) {
		memcpy(copy, ids, (size_t)n_ids * sizeof *copy);
		result = begin_turn(c, text, strlen(text), &copy, (size_t)n_ids, &out, e);
	}
	pthread_mutex_unlock(&c->lock);
	free(copy);
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

int32_t conversation_size(struct conversation *c, int64_t *request)
{
	const struct answer *a;
	int32_t n;

	pthread_mutex_lock(&c->lock);
	a = c->n_answers ? &c->answer[c->chosen] : NULL;
	n = (int32_t)c->n + (a ? a->n : 0);
	*request = a ? a->request : 0;
	pthread_mutex_unlock(&c->lock);
	return conversation_busy(c) ? -1 : n;
}

bool conversation_busy(struct conversation *c)
{
	return conversation_running(c, NULL, 0) > 0;
}

int64_t conversation_goes_on(struct conversation *c, int64_t request, bool *several)
{
	pthread_mutex_lock(&c->lock);
	if (!conv_answer_of(c, request))
		request = c->n_answers ? c->answer[c->chosen].request : 0;
	*several = c->n_answers > 1;
	pthread_mutex_unlock(&c->lock);
	return request;
}

void conversation_choose(struct conversation *c, int64_t request)
{
	pthread_mutex_lock(&c->lock);
	for (int i = 0; i < c->n_answers; i++)
		if (c->answer[i].request == request)
			c->chosen = i;
	pthread_mutex_unlock(&c->lock);
}
