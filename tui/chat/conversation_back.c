/* Going back in a conversation: restores the state at an earlier turn. See conversation.h. */

#include "base/array.h"
#include "tui/chat/conversation_impl.h"

static void turns_free(struct turn *turn, int n)
{
	for (int i = 0; turn && i < n; i++)
		conv_turn_free(&turn[i]);
	free(turn);
}

void conv_marks_free(struct conversation *c)
{
	for (int i = 0; i < c->n_marks; i++) {
		turns_free(c->mark[i].turn, c->mark[i].n_turns);
		free(c->mark[i].ids);
	}
	free(c->mark);
	c->mark = NULL;
	c->n_marks = c->cap_marks = 0;
}

static bool turn_copy(struct turn *to, const struct turn *from)
{
	*to = (struct turn){ .text = strdup(from->text),
		.n_answer = from->n_answer,
		.after_text = from->after_text,
		.mark = from->mark };
	if (from->answer)
		to->answer = malloc((from->n_answer + 1) * sizeof *to->answer);
	if (to->answer)
		memcpy(to->answer, from->answer, from->n_answer * sizeof *to->answer);
	return to->text && !from->answer == !to->answer;
}

/* Copies turns; NULL: out of memory, nothing is copied. */
static struct turn *turns_copy(const struct turn *turn, int n)
{
	struct turn *copy = calloc((size_t)n, sizeof *copy);

	for (int i = 0; copy && i < n; i++)
		if (!turn_copy(&copy[i], &turn[i])) {
			turns_free(copy, i + 1);
			return NULL;
		}
	return copy;
}

void conv_make_mark(struct conversation *c)
{
	struct mark m = { .n = (int32_t)c->n, .n_turns = c->n_turns, .sample = c->sample };

	c->marked = -1;
	c->marked_n = m.n;
	if (!ARRAY_ROOM(c->mark, c->cap_marks, c->n_marks + 1))
		return;
	c->turn[c->n_turns - 1].mark = c->n_marks;
	m.ids = malloc((size_t)m.n * sizeof *m.ids);
	m.turn = m.ids ? turns_copy(c->turn, c->n_turns) : NULL;
	if (!m.turn) {
		c->turn[c->n_turns - 1].mark = -1;
		free(m.ids);
		return;
	}
	memcpy(m.ids, c->ids, (size_t)m.n * sizeof *m.ids);
	c->marked = c->n_marks;
	c->mark[c->n_marks++] = m;
}

static int mark_of(const struct conversation *c, int64_t request)
{
	for (int i = c->n_asked; i-- > 0;)
		if (c->asked[i].request == request)
			return c->asked[i].mark;
	return -1;
}

int conv_take_mark(struct conversation *c, int mark, struct err *e)
{
	const struct mark *m = &c->mark[mark];
	struct turn *turn = turns_copy(m->turn, m->n_turns);

	if (!turn)
		return err_set(e, ERR_MEMORY, "no memory to go back to that turn");
	c->n = 0;
	if (conv_append(c, m->ids, (size_t)m->n, e) < 0) {
		turns_free(turn, m->n_turns);
		return -1;
	}
	turns_free(c->turn, c->n_turns);
	c->turn = turn;
	c->n_turns = m->n_turns;
	c->marked = mark;
	c->marked_n = m->n;
	c->open = true;
	c->sample = m->sample;
	conv_answers_clear(c);
	return 0;
}

/* Called with the lock held. */
static int resume(
	struct conversation *c, int64_t request, const int32_t *ids, int32_t n_ids, struct err *e)
{
	int mark = mark_of(c, request);
	struct answer *a;

	if (mark < 0)
		return err_set(
			e, ERR_USAGE, "request %lld is not part of the conversation", (long long)request);
	if (n_ids < c->mark[mark].n ||
		memcmp(ids, c->mark[mark].ids, (size_t)c->mark[mark].n * sizeof *ids) != 0)
		return err_set(e, ERR_USAGE,
			"the answer begins at position %d: that is as far back as its turn goes",
			c->mark[mark].n);
	if (conv_take_mark(c, mark, e) < 0)
		return -1;
	a = conv_answer_begin(c, request);
	a->finished = true;
	for (int32_t i = c->marked_n; i < n_ids; i++)
		conv_answer_add(c, a, ids[i]);
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
		out->text = c->turn[c->n_turns - 1].text;
		out->ids = ids;
		out->n_ids = n_ids;
	}
	pthread_mutex_unlock(&c->lock);
	return result;
}

bool conversation_has(struct conversation *c, int64_t request)
{
	bool has;

	pthread_mutex_lock(&c->lock);
	has = conv_answer_of(c, request) != NULL;
	pthread_mutex_unlock(&c->lock);
	return has;
}

int32_t conversation_open_pos(struct conversation *c, int64_t request)
{
	int mark;
	int32_t n;

	pthread_mutex_lock(&c->lock);
	mark = mark_of(c, request);
	n = mark < 0 ? -1 : c->mark[mark].n;
	pthread_mutex_unlock(&c->lock);
	return n;
}
