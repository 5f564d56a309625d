/* Takes up the conversation of an earlier session: its turns are emitted again, as answers that
 * were computed there, so that the screens, the new recording and whoever goes back find them like
 * any others. The next prompt begins with exactly their tokens, which are computed again then. */

#include "tui/chat/chat.h"

struct noting {
	const struct resumed_turn *turn; /* NULL: only notes whose conversation it is */
	const char *path;
	struct err err;
};

/* On the engine's thread. */
static void note_turn(struct engine *engine, void *arg)
{
	struct noting *n = arg;
	const struct resumed_turn *t = n->turn;
	struct engine_request q;

	if (!t) {
		engine_note_setting(engine, "continues", n->path);
		return;
	}
	q = (struct engine_request){ .kind = EV_REQUEST_KIND_chat,
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
	engine_note_answer(engine, &q, t->token, t->n - t->n_prompt, t->reason, EV_NULL_I, &n->err);
}

static int note(struct chat *c, struct noting *n, struct err *e)
{
	actor_call(c->live.session.actor, note_turn, n);
	return n->err.code ? err_set(e, n->err.code, "%s: %s", n->path, n->err.text) : 0;
}

int chat_continue(struct app *a, struct err *e)
{
	struct chat *c = a->chat;
	const struct resumed *p = c->options->resumed;
	const char *slash = strrchr(p->path, '/');
	struct noting n = { .path = p->path };

	if (note(c, &n, e))
		return -1;
	for (int32_t i = 0; i < p->n_turns; i++) {
		n.turn = &p->turn[i];
		if (conversation_recall(
				c->live.conversation, n.turn->r->text, n.turn->ids, n.turn->n_prompt, e))
			return -1;
		conversation_expect(c->live.conversation, 1);
		if (note(c, &n, e))
			return -1;
		conversation_expect(c->live.conversation, 0);
	}
	app_say(a, SAY_INFO,
		"%s goes on: %d turn%s, %d tokens, computed again with your next words; /settings has its "
		"settings",
		slash ? slash + 1 : p->path, p->n_turns, plural(p->n_turns), p->turn[p->n_turns - 1].n);
	return 0;
}
