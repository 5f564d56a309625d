/* The settings with which a conversation ended: see resumed.h. Those of the engine are in the
 * log as they stood at the start and with every change; those of an answer are in each request, and
 * in the log as they were changed. */
#include <string.h>

#include "sessions/history/resumed.h"

struct restore {
	struct resumed *p;
	struct engine_options *engine;
	struct answer_settings *answer;
	bool (*given)(void *arg, const char *name);
	void *arg;
	struct err *e;
};

static int put(
	struct restore *s, const struct setting *row, void *base, const char *name, const char *value)
{
	struct err why = { 0 };

	if (s->given(s->arg, name) || (row->part && s->given(s->arg, row[-1].name)))
		return 0;
	if (setting_names_file(row, value))
		return err_set(s->e, ERR_INPUT,
			"%s: it was recorded with --%s %.60s, and a recording may not choose files: give --%s",
			s->p->path, name, value, name);
	if (!setting_put(row, base, value, &why))
		return 0;
	return err_set(s->e, ERR_INPUT, "%s: its settings cannot be taken up: %s; give --%s",
		s->p->path, why.text, name);
}

/* What belongs to the machine and to the screens stays as it is here. */
static bool is_kept(const struct setting *row)
{
	return (row->when != SETTING_OPEN || row->recorded) && strcmp(row->group, "Kernels") &&
		   strcmp(row->group, "Watching") && strcmp(row->group, "Measuring");
}

/* A field of struct engine_request. */
static bool is_of_request(const struct setting *row)
{
	return strcmp(row->group, "Chat") != 0 && row != &answer_settings[ANSWER_AT_system];
}

/* later: after the newest request, which has what was drawn with; stops add up. */
static bool is_taken(const struct setting *row, const char *value, bool of_engine, bool later)
{
	return of_engine ? is_kept(row) && strcmp(value, "-") != 0
					 : row->type != SETTING_STOPS && (later || !is_of_request(row));
}

static int take_settings(struct restore *s, const struct setting *rows, void *base)
{
	const struct resumed *p = s->p;
	const int64_t newest = p->turn[p->n_turns - 1].r->seq;

	for (const struct setting *row = rows; row->name; row++) {
		const struct history_setting *v = history_setting(p->h, row->name, INT64_MAX);

		if (v && is_taken(row, v->value, rows == engine_settings, v->seq > newest) &&
			put(s, row, base, v->name, v->value))
			return -1;
	}
	return 0;
}

/* Those that are columns of a request; the stops are of its list. */
static int take_request(struct restore *s, const struct resumed_turn *t)
{
	const struct answer_settings own = { .params = t->r->params,
		.max_tokens = t->max_tokens,
		.user = *t->r->user ? t->r->user : NULL,
		.priority = t->r->priority,
		.deadline = t->r->deadline,
		.grammar = *t->r->grammar ? t->r->grammar : "off",
		.adapter = t->r->adapter };

	for (const struct setting *row = answer_settings; row->name; row++)
		if (is_of_request(row) && row->type != SETTING_STOPS && !s->given(s->arg, row->name))
			setting_copy(row, s->answer, &own);
	return s->given(s->arg, "stop") ? 0 : setting_stops_copy(&s->answer->stop, &t->stop, s->e);
}

int resumed_settings(struct resumed *p, struct engine_options *engine,
	struct answer_settings *answer, bool (*given)(void *arg, const char *name), void *arg,
	struct err *e)
{
	struct restore s = { p, engine, answer, given, arg, e };

	if (!given(arg, "ctx") && p->h->ctx > 0 && p->h->ctx <= 1 << 24)
		engine->ctx = (int32_t)p->h->ctx;
	return take_request(&s, &p->turn[p->n_turns - 1]) ||
				   take_settings(&s, engine_settings, engine) ||
				   take_settings(&s, answer_settings, answer)
			   ? -1
			   : 0;
}
