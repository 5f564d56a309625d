/* Takes up the conversation of an earlier session: its turns are emitted again, as answers that
 * were computed there, so that the screens, the new recording and whoever goes back find them like
 * any others. The next prompt begins with exactly their tokens, which are computed again then. */

#include "tui/chat/chat.h"

struct noting {
	const struct engine_request *q;
	const struct ev_token *token;
	int32_t n;
	enum ev_code_finish reason;
	struct err err;
};

static void note(struct engine *engine, void *arg)
{
	struct noting *n = arg;

	engine_note_answer(engine, n->q, n->token, n->n, n->reason, EV_NULL_I, &n->err);
}

int chat_recall(struct chat *c, const struct engine_request *q, const struct ev_token *token,
	int32_t n, enum ev_code_finish reason, struct err *e)
{
	struct noting job = { .q = q, .token = token, .n = n, .reason = reason };

	if (conversation_recall(c->live.conversation, q->text, q->ids, q->n_ids, e))
		return -1;
	conversation_expect(c->live.conversation, 1);
	actor_call(c->live.session.actor, note, &job);
	conversation_expect(c->live.conversation, 0);
	return job.err.code ? err_set(e, job.err.code, "%s", job.err.text) : 0;
}

static int recall(struct chat *c, const struct resumed_turn *t, struct err *e)
{
	const struct engine_request q = { .kind = EV_REQUEST_KIND_chat,
		.ids = t->ids,
		.n_ids = t->n_prompt,
		.max_tokens = t->max_tokens,
		.params = t->r->params,
		.sample = t->r->sample,
		.text = t->r->text,
		.stop = setting_stops(&t->stop),
		.user = *t->r->user ? t->r->user : NULL,
		.priority = t->r->priority,
		.deadline = t->r->deadline,
		.grammar = t->r->grammar,
		.adapter = t->r->adapter,
		.bound_from = t->r->bound_from };

	return chat_recall(c, &q, t->token, t->n - t->n_prompt, t->reason, e);
}

int chat_continue(struct app *a, struct err *e)
{
	struct chat *c = a->chat;
	const struct resumed *p = c->options->resumed;
	const char *slash = strrchr(p->path, '/');
	struct err why = { 0 };

	chat_note(a, "continues", p->path);
	for (int32_t i = 0; i < p->n_turns; i++)
		if (recall(c, &p->turn[i], &why))
			return err_set(e, why.code, "%s: %s", p->path, why.text);
	app_say(a, SAY_INFO,
		"%s goes on: %d turn%s, %d tokens, computed again with your next words; /settings has its "
		"settings",
		slash ? slash + 1 : p->path, p->n_turns, plural(p->n_turns), p->turn[p->n_turns - 1].n);
	return 0;
}
