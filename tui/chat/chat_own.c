/* What every chat has and the engine need not know: how fast answers grow on the screen, an answer
 * that repeats itself is held, the clipboard. */

#include "tui/chat/chat.h"
#include "tui/views/chat_turn.h"

/* ---- settings ---- */

bool chat_own_is(const char *name)
{
	return !strcmp(name, "pace") || !strcmp(name, "loops");
}

int chat_own_set(struct app *a, const char *name, const char *value, struct err *e)
{
	char *end;
	double pace;

	if (!strcmp(name, "loops")) {
		a->chat->loops_run = !strcmp(value, "run");
		return 0;
	}
	pace = !strcmp(value, "off") ? 0 : strtod(value, &end);
	if (strcmp(value, "off") != 0 && (end == value || *end || !(pace >= 0.001 && pace <= 1000)))
		return err_set(e, ERR_USAGE, "/pace %.40s: steps a second, 0.001 to 1000, or off", value);
	a->chat->pace = pace;
	actor_pace(a->chat->live.session.actor, pace);
	return 0;
}

void chat_own_get(const struct chat *c, const char *name, char *buf, size_t cap)
{
	if (!strcmp(name, "loops"))
		snprintf(buf, cap, "%s", c->loops_run ? "run" : "hold");
	else if (c->pace > 0)
		snprintf(buf, cap, "%g", c->pace);
	else
		snprintf(buf, cap, "off");
}

/* ---- loops ---- */

/* Nobody is there to choose while a file or a lesson types, and others may use the engine. */
static bool is_attended(const struct chat *c)
{
	return !c->script && !c->lesson.l && !c->options->guest;
}

/* An answer that has begun to repeat itself would go on to the end of the context. It is held, so
 * that nothing is lost, whatever is chosen; once. */
void chat_hold_loop(struct app *a)
{
	struct chat *c = a->chat;
	const struct tl_request *r = chat_newest(a, &a->timeline);

	if (c->loops_run || !is_attended(c) || a->past || !r || r->finished || !r->period ||
		r->id == c->looped || actor_steps(c->live.session.actor))
		return;
	c->looped = r->id;
	actor_pause(c->live.session.actor);
	app_say(a, SAY_INFO,
		"held: the answer repeats %d token%s. F5 goes on, ^C or another question ends it; %s; "
		"/loops run never holds",
		r->period, plural(r->period), turn_loop_help(r));
}

bool chat_end_loop(struct app *a)
{
	struct chat *c = a->chat;
	const struct tl_request *r = c->live.ready ? chat_newest(a, &a->timeline) : NULL;

	if (!r || r->finished || r->id != c->looped || a->past || c->standing ||
		!actor_paused(c->live.session.actor))
		return false;
	chat_stop(a, false);
	actor_resume(c->live.session.actor);
	return true;
}

/* ---- the clipboard ---- */

/* The last block between lines of three backquotes; without one all of it. */
static const char *last_block(const char *text, size_t *n)
{
	const char *begin = NULL, *end = NULL, *open = NULL;

	for (const char *at = text; (at = strstr(at, "```")); at += 3) {
		if (at != text && at[-1] != '\n')
			continue;
		if (open) {
			begin = open + strcspn(open, "\n");
			begin += *begin == '\n';
			end = at;
			open = NULL;
		} else {
			open = at;
		}
	}
	*n = begin && end > begin ? (size_t)(end - begin) : 0;
	return begin;
}

static int put(struct app *a, const char *what, const char *text, size_t n, struct err *e)
{
	if (!n)
		return err_set(e, ERR_USAGE, "/copy: there is no %s to copy", what);
	term_copy(a->term, text, n);
	app_say(a, SAY_INFO,
		"%zu bytes of the %s are on the clipboard, if the terminal lets programs put something "
		"there",
		n, what);
	return 0;
}

/* The newest answer; malloc'd, NULL: there is none. */
static char *last_answer(struct conversation *c)
{
	char *text, *answer = NULL, *next;
	size_t size;

	for (int i = 0; conversation_turn(c, i, &text, &next, &size) == 1; i++) {
		free(text);
		free(answer);
		answer = next;
	}
	return answer;
}

int chat_copy(struct app *a, const char *what, struct err *e)
{
	const bool code = !strcmp(what, "code");
	char *answer;
	const char *text;
	size_t n;
	int rc;

	if (*what && !code)
		return err_set(e, ERR_USAGE, "/copy %.40s: nothing, for the answer, or code", what);
	answer = last_answer(a->chat->live.conversation);
	n = answer ? strlen(answer) : 0;
	text = answer && code ? last_block(answer, &n) : answer;
	rc = put(a, code ? "code block" : "answer", text, n, e);
	free(answer);
	return rc;
}

/* --- settings that a lesson puts back --- */

void chat_kept_free(struct chat_kept *k)
{
	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		free(k->engine[i]);
	*k = (struct chat_kept){ 0 };
}

/* What is measured is no setting, and what is observed follows the screen. */
static bool is_kept(int i)
{
	return engine_settings[i].when != SETTING_OPEN &&
		   strcmp(engine_settings[i].group, "Measuring") && i != ENGINE_AT_observe_layer &&
		   i != ENGINE_AT_observe_head;
}

void chat_kept_take(struct chat_kept *k, struct app *a)
{
	chat_kept_free(k);
	for (int i = 0; i < N_ENGINE_SETTINGS; i++) {
		const char *value =
			is_kept(i) ? timeline_setting(&a->timeline, engine_settings[i].name) : NULL;

		k->engine[i] = value ? strdup(value) : NULL;
	}
	k->answer = a->chat->settings;
	snprintf(k->search, sizeof k->search, "%s",
		a->chat->search.method[0] ? a->chat->search.method : "off");
	k->on = true;
}

struct words {
	char text[400];
	size_t n;
};

static void add(struct words *w, const char *name, const char *value)
{
	if (w->n < sizeof w->text)
		w->n += (size_t)snprintf(
			w->text + w->n, sizeof w->text - w->n, "%s%s %.60s", w->n ? ", " : "", name, value);
}

static void put_engine(struct app *a, struct words *w, const char *name, const char *value)
{
	char now[256];

	if (!value || chat_engine_get(a, name, now, sizeof now) || !strcmp(now, value))
		return;
	chat_engine_put_back(a, name, value);
	add(w, name, value);
}

static void put_answer(struct app *a, struct words *w, const struct chat_kept *k, int i)
{
	struct answer_settings *now = &a->chat->settings;
	const struct setting *s = &answer_settings[i];
	char value[SAMPLE_BIAS_TEXT], current[SAMPLE_BIAS_TEXT];

	if (s->type == SETTING_TEXT || s->type == SETTING_STOPS)
		return;
	setting_text(s, &k->answer, value, sizeof value);
	setting_text(s, now, current, sizeof current);
	if (!strcmp(value, current))
		return;
	setting_copy(s, now, &k->answer);
	chat_note(a, s->name, value);
	add(w, s->name, value);
}

void chat_kept_put_back(struct chat_kept *k, struct app *a)
{
	struct words w = { .n = 0 };

	for (int i = 0; k->on && i < N_ANSWER_SETTINGS; i++)
		put_answer(a, &w, k, i);
	for (int i = 0; k->on && i < N_ENGINE_SETTINGS; i++)
		put_engine(a, &w, engine_settings[i].name, k->engine[i]);
	if (k->on)
		put_engine(a, &w, "search", k->search);
	if (w.n)
		app_say(a, SAY_INFO, "as before the lesson: %s", w.text);
	chat_kept_free(k);
}
