/* The settings with which a conversation ended: see past.h. Those of the engine are in the log as
 * they stood at the start and with every change; those of an answer are in each request, and in the
 * log as they were changed. */
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "base/array.h"
#include "sessions/past/past.h"
#include "trace/foreign.h"

struct restore {
	struct past *p;
	struct engine_options *engine;
	struct answer_settings *answer;
	bool (*given)(void *arg, const char *name);
	void *arg;
	struct err *e;
};

/* A copy that lives as long as the past; NULL with the error. */
static const char *keep(struct restore *s, const char *text)
{
	struct past *p = s->p;
	char *copy = strdup(text);

	if (!copy || !ARRAY_ROOM(p->text, p->cap_texts, p->n_texts + 1)) {
		free(copy);
		err_set(s->e, ERR_MEMORY, "no memory for the settings of %s", p->path);
		return NULL;
	}
	return p->text[p->n_texts++] = copy;
}

static int put(
	struct restore *s, const struct setting *row, void *base, const char *name, const char *value)
{
	const char *kept;
	struct err why;

	if (s->given(s->arg, name) || (row->part && s->given(s->arg, row[-1].name)))
		return 0;
	kept = keep(s, value);
	if (!kept)
		return -1;
	if (setting_names_file(row, value))
		return err_set(s->e, ERR_INPUT,
			"%s: it was recorded with --%s %.60s, and a recording may not choose files: give --%s",
			s->p->path, name, value, name);
	why = (struct err){ 0 };
	if (!setting_put(row, base, kept, &why))
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

static int on_setting(struct restore *s, const char *name, const char *value, bool later)
{
	const struct setting *row = setting_find(engine_settings, name);

	if (row)
		return is_kept(row) && strcmp(value, "-") ? put(s, row, s->engine, name, value) : 0;
	row = setting_find(answer_settings, name);
	/* before the newest request, that has what was drawn with; stops add up */
	if (!row || row->type == SETTING_STOPS || (!later && is_of_request(row)))
		return 0;
	return put(s, row, s->answer, name, value);
}

static int read_settings(struct restore *s)
{
	struct history *h = s->p->h;
	const struct past_turn *last = &s->p->turn[s->p->n_turns - 1];
	sqlite3_stmt *q = NULL;
	int rc = sqlite3_prepare_v2(h->db,
		"SELECT name, value, max(seq) FROM setting WHERE name IS NOT NULL AND value IS NOT NULL"
		" GROUP BY name",
		-1, &q, NULL);

	while (!rc && !s->e->code && (rc = sqlite3_step(q)) == SQLITE_ROW)
		rc = on_setting(s, (const char *)sqlite3_column_text(q, 0),
			(const char *)sqlite3_column_text(q, 1), sqlite3_column_int64(q, 2) > last->r->seq);
	if (!s->e->code && rc != SQLITE_DONE)
		foreign_fail(h->db, h->path, s->e);
	sqlite3_finalize(q);
	return s->e->code ? -1 : 0;
}

/* Those that are columns of a request; the stops are of its list. */
static int take_request(struct restore *s, const struct past_turn *t)
{
	const struct answer_settings own = { .params = t->r->params,
		.max_tokens = t->max_tokens,
		.user = *t->r->user ? t->r->user : NULL,
		.priority = t->r->priority,
		.deadline = t->r->deadline };

	for (const struct setting *row = answer_settings; row->name; row++)
		if (is_of_request(row) && row->type != SETTING_STOPS && !s->given(s->arg, row->name))
			setting_copy(row, s->answer, &own);
	return s->given(s->arg, "stop") ? 0 : setting_stops_copy(&s->answer->stop, &t->stop, s->e);
}

int past_settings(struct past *p, struct engine_options *engine, struct answer_settings *answer,
	bool (*given)(void *arg, const char *name), void *arg, struct err *e)
{
	struct restore s = { p, engine, answer, given, arg, e };

	if (!given(arg, "ctx") && p->h->ctx > 0 && p->h->ctx <= 1 << 24)
		engine->ctx = (int32_t)p->h->ctx;
	return take_request(&s, &p->turn[p->n_turns - 1]) || read_settings(&s) ? -1 : 0;
}
