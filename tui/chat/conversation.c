/* See conversation.h.
 *
 * Invariants: (1) turns that were submitted stay as they are, and each request refers to its own,
 * for going back; (2) the answers to the last turn are in answer[] until another one is the last.
 */
#include "base/array.h"
#include "tui/chat/conversation_impl.h"

static void answers_clear(struct conversation *c)
{
	for (int i = 0; i < c->n_answers; i++)
		free(c->answer[i].ids);
	free(c->kept.ids);
	memset(c->answer, 0, sizeof c->answer);
	c->kept = (struct answer){ 0 };
	c->n_answers = c->chosen = 0;
	c->expected = 0;
	c->lost = false;
}

static void turn_free(struct turn *t)
{
	if (!t)
		return;
	free(t->text);
	free(t->said.ids);
	free(t->ids);
	free(t);
}

/* The last turn is to be answered again. The lock is held. */
static void answers_again(struct conversation *c)
{
	struct answer *a = conv_answer(c), kept = a ? *a : (struct answer){ 0 };

	if (a)
		a->ids = NULL;
	answers_clear(c);
	c->kept = kept;
}

/* The lock is held. */
static void set_turn(struct conversation *c, struct turn *t)
{
	answers_clear(c);
	c->turn = t;
}

int conversation_new(struct conversation *c, const char *system, struct err *e)
{
	char *copy = system ? strdup(system) : NULL;

	if (system && !copy)
		return err_no_memory(e, "a system text");
	pthread_mutex_lock(&c->lock);
	set_turn(c, NULL);
	pthread_mutex_unlock(&c->lock);
	free(c->system);
	c->system = copy;
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
		return err_no_memory(e, "a conversation");
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
	answers_clear(c);
	for (struct turn *t = c->newest, *older; t; t = older) {
		older = t->older;
		turn_free(t);
	}
	pthread_mutex_destroy(&c->lock);
	free(c->asked);
	free(c->system);
	free(c);
}

/* --- on the engine's thread --- */

static struct answer *answer_of(struct conversation *c, int64_t request)
{
	for (int i = 0; i < c->n_answers; i++)
		if (c->answer[i].request == request)
			return &c->answer[i];
	return NULL;
}

/* Reserves room for the longest answer, so that no token allocates: untouched memory costs
 * nothing. */
static struct answer *answer_begin(struct conversation *c, int64_t request)
{
	struct answer *a = &c->answer[c->n_answers++];

	*a = (struct answer){ .request = request, .ids = malloc((size_t)c->ctx * sizeof *a->ids) };
	a->cap = a->ids ? c->ctx : 0;
	return a;
}

static void answer_add(struct conversation *c, struct answer *a, int32_t id)
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
		c->asked[c->n_asked++] = (struct asked){ request, c->turn };
}

/* A fork from within an answer has a part of it in its prompt; copies that part, which the
 * conversation keeps. */
static void take_given(struct conversation *c, struct answer *a, const struct ev_request *r)
{
	const unsigned char *p = r->prompt.data;

	for (size_t i = (size_t)c->turn->n; p && i < r->prompt.size / 4; i++)
		answer_add(c, a,
			(int32_t)(p[4 * i] | p[4 * i + 1] << 8 | p[4 * i + 2] << 16 |
					  (uint32_t)p[4 * i + 3] << 24));
}

/* Answers to the same turn need different sample numbers, or their texts would be equal; branches
 * of a search count, too. */
static void note_sample(struct conversation *c, int64_t sample)
{
	if (sample >= c->turn->sample && sample < INT64_MAX)
		c->turn->sample = sample + 1;
}

static void sink_request(struct conversation *c, const struct ev_request *r)
{
	if (c->turn && r->kind == EV_REQUEST_KIND_search)
		note_sample(c, r->sample);
	if (!c->turn || c->expected <= 0 || c->n_answers >= ANSWERS_MAX)
		return;
	if (r->kind != EV_REQUEST_KIND_chat && r->kind != EV_REQUEST_KIND_fork)
		return;
	c->expected--;
	note_sample(c, r->sample);
	note_asked(c, r->request);
	c->chosen = c->n_answers; /* the newest is what the chat ends with */
	take_given(c, answer_begin(c, r->request), r);
}

static void sink_token(struct conversation *c, const struct ev_token *t)
{
	struct answer *a = answer_of(c, t->request);

	if (a)
		answer_add(c, a, (int32_t)t->id);
}

static void sink_rewind(struct conversation *c, const struct ev_rewind *r)
{
	struct answer *a = answer_of(c, r->request);

	if (a && r->kept >= c->turn->n && r->kept - c->turn->n < a->n)
		a->n = (int32_t)r->kept - c->turn->n;
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
		a = answer_of(c, ev->u.finish.request);
		if (a)
			a->finished = true;
	}
	pthread_mutex_unlock(&c->lock);
}

/* --- turns --- */

static void fill_prompt(const struct conversation *c, struct conversation_prompt *out)
{
	out->ids = c->turn->ids;
	out->n_ids = c->turn->n;
	out->text = c->turn->text;
	out->sample = c->turn->sample;
}

/* A turn whose prompt is ids [n], which it takes over. */
static int begin_turn(struct conversation *c, const struct followed *f, const char *text,
	size_t size, int32_t **ids, size_t n, struct conversation_prompt *out, struct err *e)
{
	struct turn *t = malloc(sizeof *t);

	if (t) {
		*t = (struct turn){ .before = f->turn,
			.said = f->said,
			.text = strndup(text, size),
			.n = (int32_t)n,
			.n_turns = f->n_turns - out->trimmed_turns + 1,
			.older = c->newest };
		t->said.ids = malloc((f->said.n + 1) * sizeof *t->said.ids);
	}
	if (!t || !t->text || !t->said.ids) {
		turn_free(t);
		return err_no_memory(e, "another turn");
	}
	if (f->said.n)
		memcpy(t->said.ids, f->said.ids, f->said.n * sizeof *t->said.ids);
	t->ids = *ids;
	*ids = NULL;
	c->newest = t;
	pthread_mutex_lock(&c->lock);
	set_turn(c, t);
	fill_prompt(c, out);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

static int follow(struct conversation *c, struct followed *f, struct err *e)
{
	int rc;

	pthread_mutex_lock(&c->lock);
	rc = conv_follow(c, f, e);
	pthread_mutex_unlock(&c->lock);
	return rc;
}

int conversation_ask(struct conversation *c, const char *text, size_t size, int32_t room, bool drop,
	struct conversation_prompt *out, struct err *e)
{
	struct followed f;
	int32_t *ids = NULL;
	size_t n = 0;
	int rc;

	memset(out, 0, sizeof *out);
	/* the engine's thread waits for the lock at each token, and a long text takes its time */
	rc = follow(c, &f, e) || conv_fitting(c, &f, text, size, room, drop, &ids, &n, out, e) ||
				 begin_turn(c, &f, text, size, &ids, n, out, e)
			 ? -1
			 : 0;
	free(ids);
	free(f.ids);
	return rc;
}

int conversation_repeat(struct conversation *c, struct conversation_prompt *out, struct err *e)
{
	memset(out, 0, sizeof *out);
	if (!c->turn)
		return err_set(e, ERR_USAGE, "there is no turn yet to answer again");
	pthread_mutex_lock(&c->lock);
	answers_again(c);
	fill_prompt(c, out);
	pthread_mutex_unlock(&c->lock);
	return 0;
}

int conversation_recall(
	struct conversation *c, const char *text, const int32_t *ids, int32_t n_ids, struct err *e)
{
	struct conversation_prompt out = { 0 };
	struct followed f;
	int32_t *copy = malloc(((size_t)n_ids + 1) * sizeof *copy);
	int rc = follow(c, &f, e);

	if (!copy)
		rc = err_no_memory(e, "another turn");
	else
		memcpy(copy, ids, (size_t)n_ids * sizeof *copy);
	rc = rc || begin_turn(c, &f, text, strlen(text), &copy, (size_t)n_ids, &out, e) ? -1 : 0;
	free(copy);
	free(f.ids);
	return rc;
}

/* --- going back --- */

static struct turn *turn_of(const struct conversation *c, int64_t request)
{
	for (int i = c->n_asked; i-- > 0;)
		if (c->asked[i].request == request)
			return c->asked[i].turn;
	return NULL;
}

/* The lock is held. */
static int resume(
	struct conversation *c, int64_t request, const int32_t *ids, int32_t n_ids, struct err *e)
{
	struct turn *t = turn_of(c, request);
	struct answer *a;

	if (!t)
		return err_set(
			e, ERR_USAGE, "request %lld is not part of the conversation", (long long)request);
	if (n_ids < t->n || memcmp(ids, t->ids, (size_t)t->n * sizeof *ids) != 0)
		return err_set(e, ERR_USAGE,
			"the answer begins at position %d: that is as far back as its turn goes", t->n);
	set_turn(c, t);
	a = answer_begin(c, request);
	a->finished = true;
	for (int32_t i = t->n; i < n_ids; i++)
		answer_add(c, a, ids[i]);
	return c->lost ? err_set(e, ERR_MEMORY, "no memory to go back to that turn") : 0;
}

int conversation_resume(struct conversation *c, int64_t request, const int32_t *ids, int32_t n_ids,
	struct conversation_prompt *out, struct err *e)
{
	int result;

	memset(out, 0, sizeof *out);
	pthread_mutex_lock(&c->lock);
	result = resume(c, request, ids, n_ids, e);
	if (!result) {
		out->text = c->turn->text;
		out->ids = ids;
		out->n_ids = n_ids;
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

int32_t conversation_size(struct conversation *c, int64_t *request)
{
	const struct answer *a;
	int32_t n;

	pthread_mutex_lock(&c->lock);
	a = conv_answer(c);
	n = (c->turn ? c->turn->n : 0) + (a ? a->n : 0);
	*request = a ? a->request : 0;
	pthread_mutex_unlock(&c->lock);
	return conversation_busy(c) ? -1 : n;
}

bool conversation_has(struct conversation *c, int64_t request)
{
	bool has;

	pthread_mutex_lock(&c->lock);
	has = answer_of(c, request) != NULL;
	pthread_mutex_unlock(&c->lock);
	return has;
}

int32_t conversation_open_pos(struct conversation *c, int64_t request)
{
	const struct turn *t;

	pthread_mutex_lock(&c->lock);
	t = turn_of(c, request);
	pthread_mutex_unlock(&c->lock);
	return t ? t->n : -1;
}

bool conversation_busy(struct conversation *c)
{
	return conversation_running(c, NULL, 0) > 0;
}

int64_t conversation_goes_on(struct conversation *c, int64_t request, bool *other)
{
	const struct answer *a;

	pthread_mutex_lock(&c->lock);
	a = answer_of(c, request);
	a = a || !c->n_answers ? a : &c->answer[c->chosen];
	if (!a || (a->finished && !a->n))
		a = conv_answer(c);
	request = a ? a->request : 0;
	*other = c->n_answers > 1 || (c->n_asked && c->asked[c->n_asked - 1].request != request);
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
