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
	why = (struct err){ 0 };
	if (!setting_put(row, base, kept, &why))
		return 0;
	return err_set(s->e, ERR_INPUT, "%s: its settings cannot be taken up: %s; give --%s",
		s->p->path, why.text, name);
}

/* What belongs to the machine and to the screens stays as it is here. */
static bool is_kept(const struct setting *row)
{
	return row->when != SETTING_OPEN && strcmp(row->group, "Kernels") &&
		   strcmp(row->group, "Watching") && strcmp(row->group, "Measuring");
}

static int on_setting(struct restore *s, const char *name, const char *value, bool later)
{
	const struct setting *row = setting_find(engine_settings, name);

	if (row)
		return is_kept(row) && strcmp(value, "-") ? put(s, row, s->engine, name, value) : 0;
	row = setting_find(answer_settings, name);
	/* before the newest request, that has what was drawn with; stops add up */
	if (!row || row->type == SETTING_STOPS ||
		(!later && strcmp(row->group, "Chat") && row != &answer_settings[ANSWER_AT_system]))
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

/* Those that are columns of a request. */
static void take_params(struct restore *s, const struct history_request *r)
{
	const int64_t room = s->p->h->ctx - r->n_prompt;
	struct answer_settings own = { .params = r->params };

	if (r->max_tokens > 0 && r->max_tokens < room && r->max_tokens <= 1 << 20)
		own.max_tokens = (int32_t)r->max_tokens; /* else the context was the limit */
	for (int i = 0; i <= ANSWER_AT_max_tokens; i++)
		if (!s->given(s->arg, answer_settings[i].name))
			setting_copy(&answer_settings[i], s->answer, &own);
}

/* The next string of a JSON array as request_new() writes it, in the form that the setting reads
 * (\n, \t, \\). NULL: there is none, or it has an escape that the setting does not know. */
static char *next_stop(const char **at)
{
	const char *p = strchr(*at, '"');
	char *out = p ? malloc(strlen(p) + 1) : NULL;
	size_t n = 0;

	if (!out)
		return NULL;
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1] != '"' && p[1] != '/' && !strchr("\\nt", p[1])) {
			free(out);
			return NULL;
		}
		if (*p == '\\' && (p[1] == '"' || p[1] == '/'))
			p++;
		else if (*p == '\\')
			out[n++] = *p++;
		if (!*p)
			break;
		out[n++] = *p;
	}
	out[n] = '\0';
	*at = *p ? p + 1 : p;
	return out;
}

static int take_stops(struct restore *s, const char *json)
{
	const struct setting *row = &answer_settings[ANSWER_AT_stop];
	int rc = 0;

	if (s->given(s->arg, "stop"))
		return 0;
	while (!rc && strchr(json, '"')) {
		char *stop = next_stop(&json);

		rc = stop ? put(s, row, s->answer, "stop", stop)
				  : err_set(s->e, ERR_INPUT,
						"%s: its stop strings cannot be taken up; give --stop (or --stop off)",
						s->p->path);
		free(stop);
	}
	return rc;
}

int past_settings(struct past *p, struct engine_options *engine, struct answer_settings *answer,
	bool (*given)(void *arg, const char *name), void *arg, struct err *e)
{
	struct restore s = { p, engine, answer, given, arg, e };
	const struct history_request *r = p->turn[p->n_turns - 1].r;

	if (!given(arg, "ctx") && p->h->ctx > 0 && p->h->ctx <= 1 << 24)
		engine->ctx = (int32_t)p->h->ctx;
	take_params(&s, r);
	return take_stops(&s, r->stop) || read_settings(&s) ? -1 : 0;
}
