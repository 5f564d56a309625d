/* What the end of the context will do to the next turn, said under the last answer before that turn
 * is asked. */
#include <stdio.h>
#include <string.h>

#include "tui/chat/chat.h"
#include "tui/views/view_util.h"

enum {
	NEAR = 8,     /* said when less than so large a part of the context is left for a question */
	OPENING = 256 /* tokens of a template for an empty turn, at most: before that it is not asked */
};

const char *chat_trim_words(
	const struct app *a, const struct conversation_prompt *p, char *buf, size_t cap)
{
	const int64_t page = view_page_size(&a->timeline);
	char tokens[VIEW_NUM], again[VIEW_NUM];

	snprintf(buf, cap, "%d turn%s left out (%s tokens), %s computed again", p->trimmed_turns,
		p->trimmed_turns == 1 ? "" : "s", view_count(tokens, p->trimmed_tokens),
		view_count(again, p->moved + p->same % page));
	return buf;
}

static void write_ahead(
	const struct app *a, const struct conversation_prompt *p, int32_t left, char *buf, size_t cap)
{
	const bool drops = answer_drops(&((struct chat *)a->mode_data)->settings);
	char words[120], n[VIEW_NUM];

	if (left > 0 && drops)
		snprintf(buf, cap, "%s token%s left for a question, else the oldest turns are left out",
			view_count(n, left), left == 1 ? " is" : "s are");
	else if (left > 0)
		snprintf(buf, cap, "%s token%s left for a question: /new or /overflow drop makes room",
			view_count(n, left), left == 1 ? " is" : "s are");
	else if (drops)
		snprintf(buf, cap, "next: at least %s", chat_trim_words(a, p, words, sizeof words));
	else
		snprintf(
			buf, cap, "the context is full: /overflow drop leaves out old turns, /new begins anew");
}

/* Once for each state of the conversation: it is rendered for that. */
void chat_look_ahead(struct app *a)
{
	struct chat *c = a->mode_data;
	const int32_t ctx = engine_info(c->live.session.engine)->ctx,
				  room = answer_room(&c->settings, ctx);
	struct chat_ahead now = { .room = room, .drops = answer_drops(&c->settings) };
	struct conversation_prompt p;
	struct err ignored = { 0 }; /* the turn will be told it */
	int32_t left;

	now.size = conversation_size(c->live.conversation, &now.request);
	if (now.size == c->ahead.size && now.request == c->ahead.request && room == c->ahead.room &&
		now.drops == c->ahead.drops)
		return;
	a->dirty = true;
	if (now.size > 0 && now.size + room + ctx / NEAR + OPENING > ctx &&
		!conversation_ahead(c->live.conversation, room, now.drops, &p, &left, &ignored) &&
		left < ctx / NEAR)
		write_ahead(a, &p, left, now.text, sizeof now.text);
	c->ahead = now;
	c->waiting.ahead = c->ahead.text;
}
