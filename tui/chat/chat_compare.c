/* The comparison in the chat. See chat.h. */

#include <ctype.h>

#include "sessions/compare/compare_run.h"
#include "tui/chat/chat.h"

enum { REPEAT = 6, TURNS = 2 * (REPEAT + 1), TOKENS = 64, LOOK_NS = 1000000000, BEFORE = 2 };

/* ---- what was typed ---- */

/* The next word, or what stands in quotes; *at moves behind it. False: it does not fit. */
static bool take_word(const char **at, char *word, size_t cap)
{
	const char *from = *at + strspn(*at, " \t\n");
	const bool quoted = *from == '\'' || *from == '"';
	const char ends[2] = { *from, '\0' };
	size_t n = strcspn(from += quoted, quoted ? ends : " \t\n");

	*at = from + n + (quoted && from[n]);
	snprintf(word, cap, "%.*s", (int)(n < cap ? n : cap - 1), from);
	return n < cap;
}

/* A setting of the engine is noted with its value of before for both sides, until one names it. */
static int note_setting(struct app *a, struct chat_compare *c, const struct setting *s, int side,
	const char *value, struct err *e)
{
	int i = 0;

	if (s->when < SETTING_IDLE)
		return err_set(e, ERR_USAGE,
			"%s is fixed when the model is opened; `cutaway compare` can compare it", s->name);
	if (setting_check(s, value, e))
		return -1;
	while (i < c->n_set && c->set[i].s != s)
		i++;
	if (i == CHAT_COMPARE_SETTINGS || strlen(value) >= CHAT_COMPARE_VALUE)
		return err_set(e, ERR_USAGE, "%s: too much for a comparison", s->name);
	if (i == c->n_set) {
		c->set[c->n_set++].s = s;
		for (int k = 0; k < 3; k++)
			if (chat_engine_get(a, s->name, c->set[i].value[k], CHAT_COMPARE_VALUE))
				return err_set(e, ERR_USAGE, "%s has no value here", s->name);
	}
	snprintf(c->set[i].value[side], CHAT_COMPARE_VALUE, "%s", value);
	return 0;
}

static int put_setting(struct app *a, struct chat_compare *c, int side, const char *name,
	const char *value, struct err *e)
{
	const struct setting *s = setting_find(engine_settings, name);

	if (s && a->host.lesson && setting_names_file(s, value))
		return err_set(e, ERR_USAGE, "%s %.60s: a lesson may not name a file", name, value);
	if (!s && !setting_find(answer_settings, name))
		return err_set(e, ERR_USAGE, "there is no setting %.40s: /set alone lists them", name);
	if (!*value)
		return err_set(e, ERR_USAGE, "%s needs a value", name);
	if (s)
		return note_setting(a, c, s, side, value, e);
	s = setting_find(answer_settings, name);
	if (s - answer_settings > ANSWER_AT_max_tokens)
		return err_set(e, ERR_USAGE, "%s cannot be compared here", name);
	return setting_put(s, &c->answer[side], value, e);
}

/* "NAME=VALUE", "NAME VALUE", with or without dashes. */
static int take_settings(struct app *a, struct chat_compare *c, int side, struct err *e)
{
	char name[COMPARE_LABEL], value[COMPARE_LABEL];
	struct err own = { 0 };

	for (const char *at = c->label[side]; *(at += strspn(at, " -"));) {
		const size_t n = strcspn(at, " =");

		snprintf(name, sizeof name, "%.*s", (int)n, at);
		at += n + (at[n] == '=');
		take_word(&at, value, sizeof value);
		put_setting(a, c, side, name, value, &own);
		if (own.code)
			return err_set(e, own.code, "/compare: %c: %s", 'A' + side, own.text);
	}
	return 0;
}

/* ---- the prompt ---- */

static int take_prompt(struct app *a, struct chat_compare *c, const char *typed, struct err *e)
{
	const struct live *l = &a->chat->live;
	const struct engine_info *info = engine_info(l->session.engine);
	struct chat_input chat = engine_chat(l->session.engine);
	const struct tl_request *last = chat_newest(a, &a->timeline);
	size_t n = 0, cap = 0;

	typed += strspn(typed, " \t\n");
	if (!*typed && !last)
		return err_set(e, ERR_USAGE, "/compare: there is no turn yet: give a prompt after A and B");
	c->text = strdup(*typed ? typed : last->text);
	if (!*typed && (c->ids = malloc((size_t)last->n_prompt * sizeof *c->ids)))
		memcpy(c->ids, last->prompt, (n = (size_t)last->n_prompt) * sizeof *c->ids);
	template_think(&chat, c->answer[0].thinking);
	if (*typed && template_first(&chat, answer_system(&c->answer[0], info->default_system), typed,
					  strlen(typed), &c->ids, &n, &cap, e))
		return -1;
	c->n_ids = (int32_t)n;
	return c->text && c->ids ? 0 : err_no_memory(e, "a prompt");
}

/* ---- on the engine's thread, between two steps ---- */

/* which: A, B, or BEFORE. */
static int apply(struct chat_compare *c, struct engine *engine, int which, struct err *e)
{
	char now[512];
	int rc = 0;

	for (int i = 0; i < c->n_set; i++) {
		const char *name = c->set[i].s->name, *value = c->set[i].value[which];

		engine_get(engine, name, now, sizeof now);
		if (strcmp(now, value) != 0 && engine_set(engine, name, value, e))
			rc = -1;
	}
	return rc;
}

/* The answers, then A's first one scored under both. */
static int begin(struct chat_compare *c, struct engine *engine, struct err *e)
{
	const bool scores = c->turn >= TURNS;
	const int run = c->turn / 2 - 1, side = scores ? c->turn & 1 : (c->turn + run + 1) & 1;
	struct engine_request q = engine_answer_request(&c->answer[side]);

	q.kind = scores ? EV_REQUEST_KIND_score : EV_REQUEST_KIND_load;
	q.ids = scores ? c->scored : c->ids;
	q.n_ids = c->n_ids + (scores ? c->n_scored : 0);
	q.text = c->text;
	if (scores)
		q.max_tokens = 0;
	if (apply(c, engine, side, e) || compare_fresh(engine, e))
		return -1;
	compare_mark(engine, side,
		scores    ? COMPARE_SCORE
		: run < 0 ? COMPARE_WARM_UP
				  : COMPARE_RUN,
		c->n_ids, c->label[side]);
	c->request = engine_submit(engine, &q, e);
	if (c->request > 0 && run == 0 && !side)
		c->first = c->request;
	c->turn++;
	return c->request < 0 ? -1 : 0;
}

struct job {
	struct chat_compare *c;
	bool idle, over;
};

static void next(struct engine *engine, void *arg)
{
	struct job *j = arg;
	struct chat_compare *c = j->c;

	j->idle = engine_idle(engine);
	if (!j->idle)
		return;
	j->over = c->stopping || c->err.code || c->turn == TURNS + (c->n_scored ? 2 : 0);
	if (!j->over && begin(c, engine, &c->err))
		j->over = true;
	if (!j->over)
		return;
	compare_mark(engine, 0, COMPARE_OTHER, 0, "");
	apply(c, engine, BEFORE, &c->err);
}

/* ---- on the UI's ---- */

static int show_table(struct app *a, const char *path, struct err *e)
{
	struct compare c = { 0 };
	struct compare_table t;
	FILE *out;
	int rc = -1;

	if (!compare_read(&c, -1, path, e) && !compare_table(&c, &t, e)) {
		out = app_write(a, e);
		if (out) {
			compare_print(&c, &t, out);
			rc = app_show_written(a, "compare", e);
		}
		compare_table_free(&t);
	}
	compare_free(&c);
	return rc;
}

static void end(struct app *a, struct chat_compare *c)
{
	struct err e = c->err;
	const bool stopped = c->stopping, measured = c->turn > 4;
	const char *path = e.code || (stopped && !measured) ? NULL : a->mode->recording(a, &e);

	chat_compare_free(c);
	if (path)
		show_table(a, path, &e);
	app_complain(a, &e);
	if (!e.code)
		app_say(a, SAY_INFO, "the comparison %s; all settings are as before it",
			stopped ? "was stopped" : "is over");
}

/* A's first answer, to be scored under both. */
static int take_answer(struct app *a, struct chat_compare *c, struct err *e)
{
	const struct tl_request *r = timeline_request(&a->timeline, c->first);
	const int32_t n = r ? r->n_tokens : 0;

	if (!n)
		return 0;
	c->scored = malloc((size_t)(c->n_ids + n) * sizeof *c->scored);
	if (!c->scored)
		return err_no_memory(e, "a text");
	memcpy(c->scored, c->ids, (size_t)c->n_ids * sizeof *c->ids);
	for (int32_t i = 0; i < n; i++)
		c->scored[c->n_ids + i] = (int32_t)r->token[i].id;
	c->n_scored = n;
	return 0;
}

static void stepped(void *app, void *arg)
{
	const struct job *j = arg;
	struct app *a = app;
	struct chat_compare *c = j->c;

	c->asked = false;
	if (!a)
		return;
	a->dirty = true;
	chat_feed(a);
	if (j->over)
		end(a, c);
	else if (j->idle && c->turn <= TURNS)
		app_say(a, SAY_INFO, "comparing: answer %d of %d%s; ^C stops", c->turn, TURNS,
			c->turn <= 2 ? ", to warm up" : "");
}

/* The newest answer has ended; what it ended by may be an error. */
static bool is_done(struct app *a, struct chat_compare *c)
{
	const struct tl_request *r = c->request ? timeline_request(&a->timeline, c->request) : NULL;

	if (!c->request)
		return true;
	if (!r || r->state != TL_FINISHED)
		return false;
	if (r->finish.reason == EV_FINISH_refused)
		err_set(&c->err, ERR_USAGE, "/compare: the prompt does not fit: %s",
			r->finish_why ? r->finish_why : "");
	if (c->turn == TURNS && !c->scored)
		take_answer(a, c, &c->err);
	return true;
}

void chat_compare_work(struct app *a)
{
	struct chat_compare *c = &a->chat->compare;
	struct job j = { .c = c };

	if (!c->running || c->asked || (!is_done(a, c) && now_ns() - c->looked_ns < LOOK_NS))
		return;
	c->looked_ns = now_ns();
	c->asked = actor_post(a->chat->live.session.actor, next, stepped, &j, sizeof j);
}

void chat_compare_free(struct chat_compare *c)
{
	free(c->text);
	free(c->ids);
	free(c->scored);
	for (int side = 0; side < 2; side++)
		setting_stops_free(&c->answer[side].stop);
	*c = (struct chat_compare){ 0 };
}

static int take_all(struct app *a, struct chat_compare *c, const char *typed, struct err *e)
{
	for (int side = 0; side < 2; side++) {
		const struct answer_settings *now = &a->chat->settings;

		c->answer[side] = *now;
		if (setting_stops_copy(&c->answer[side].stop, &now->stop, e))
			return -1;
		if (!c->answer[side].max_tokens)
			c->answer[side].max_tokens = TOKENS;
		if (!take_word(&typed, c->label[side], COMPARE_LABEL))
			return err_set(e, ERR_USAGE, "/compare: %c: settings of at most %d bytes are needed",
				'A' + side, COMPARE_LABEL - 1);
		if (!side && !typed[strspn(typed, " \t\n")])
			return err_set(e, ERR_USAGE,
				"/compare 'A' 'B' [PROMPT]: A and B are settings, such as spec=off and "
				"spec=ngram:4");
	}
	return take_settings(a, c, 0, e) || take_settings(a, c, 1, e) || take_prompt(a, c, typed, e);
}

int chat_compare(struct app *a, const char *typed, struct err *e)
{
	if (chat_busy(a))
		return err_set(e, ERR_USAGE, "/compare: an answer runs: wait for its end, or /cancel it");
	if (!a->mode->recording(a, e))
		return -1;
	chat_past_leave(a);
	if (take_all(a, &a->chat->compare, typed, e)) {
		chat_compare_free(&a->chat->compare);
		return -1;
	}
	a->chat->compare.running = true;
	return 0;
}
