/* What the end of the context will do to the next turn, said under the last answer before that turn
 * is asked. */

#include "engine/visibility/visibility.h"
#include "tui/chat/chat.h"

enum {
	NEAR = 8,     /* said when less than so large a part of the context is left for a question */
	OPENING = 256 /* tokens of a template for an empty turn, at most: before that it is not asked */
};

struct view_text chat_trim_words(const struct app *a, const struct conversation_prompt *p)
{
	return view_form("%d turn%s left out (%s tokens), %s computed again", p->trimmed_turns,
		plural(p->trimmed_turns), view_count(p->trimmed_tokens).text,
		view_count(p->moved + p->same % view_page_size(&a->timeline)).text);
}

static struct view_text ahead_words(
	const struct app *a, const struct conversation_prompt *p, int32_t left)
{
	const bool drops = answer_drops(&a->chat->settings);

	if (left > 0)
		return view_form("%s token%s left%s", view_count(left).text, left == 1 ? " is" : "s are",
			drops ? ", then the oldest turns go" : "; /overflow drop makes room");
	return drops ? view_form("next: at least %s", chat_trim_words(a, p).text)
				 : view_form("the context is full: /overflow drop leaves out old turns, /new "
							 "begins anew");
}

/* How far sequences go is chosen when the model is opened; and a template that knows nothing of
 * thoughts cannot be told. */
int chat_refuses(void *arg, const struct setting *s, const char *value, struct err *e)
{
	const struct chat *c = ((struct app *)arg)->chat;

	if (s == &answer_settings[ANSWER_AT_thinking] && strcmp(value, "auto") != 0 &&
		!template_can_think(engine_info(c->live.session.engine)->chat))
		return err_set(
			e, ERR_USAGE, "/thinking %s: this model's template has no word for it", value);
	if (s != &answer_settings[ANSWER_AT_overflow] || strcmp(value, "sinks") != 0 ||
		c->options->engine.goes_on)
		return 0;
	return err_set(e, ERR_USAGE,
		"/overflow sinks: how far answers go is chosen at the start: cutaway chat --overflow sinks "
		"(--continue goes on with this conversation)");
}

/* Positions that are seen of a sequence, whatever its length; 0: all. */
static int32_t reach_of(const struct app *a)
{
	const char *spec = timeline_setting(&a->timeline, "visible");
	struct err ignored = { 0 };
	struct visible v;

	return spec && !visible_parse(&v, spec, &ignored) ? visible_reach(&v) : 0;
}

static struct view_text reach_words(int32_t size, int32_t reach)
{
	return size <= reach ? view_form("in %s tokens the oldest keys and values are given up",
							   view_count(reach - size).text)
						 : view_form("%s of %s tokens are seen: the first and the newest",
							   view_count(reach).text, view_count(size).text);
}

/* Once for each state of the conversation: it is rendered for that. */
void chat_look_ahead(struct app *a)
{
	struct chat *c = a->chat;
	const int32_t ctx = engine_info(c->live.session.engine)->ctx,
				  room = answer_room(&c->settings, ctx);
	struct chat_ahead now = { .room = room, .drops = answer_drops(&c->settings) };
	struct conversation_prompt p;
	struct err ignored = { 0 }; /* the turn will be told it */
	int32_t left, reach = reach_of(a);

	conversation_think(c->live.conversation, c->settings.thinking);
	now.size = conversation_size(c->live.conversation, &now.request);
	if (now.size == c->ahead.size && now.request == c->ahead.request && room == c->ahead.room &&
		now.drops == c->ahead.drops)
		return;
	a->dirty = true;
	if (now.size > 0 && now.size + room + ctx / NEAR + OPENING > ctx &&
		!conversation_ahead(c->live.conversation, room, now.drops, &p, &left, &ignored) &&
		left < ctx / NEAR)
		now.words = ahead_words(a, &p, left);
	else if (now.size > 0 && reach > 0 && now.size > reach - reach / NEAR)
		now.words = reach_words(now.size, reach);
	c->ahead = now;
	c->waiting.ahead = c->ahead.words.text;
}
