/* See lesson.h: what there is to read, and what comes next. */
#include <stdlib.h>
#include <string.h>

#include "base/models.h"
#include "base/text.h"
#include "sessions/lesson/lesson.h"

/* Of the program's own files, not of those that lie here. */
static int take_adapter(const char *name, struct engine_options *to, struct err *e)
{
	char *path = models_own(name);

	to->lora = name;
	if (!path)
		return err_set(e, ERR_INPUT, "lora %.60s: there is no adapter of this name", name);
	free(path);
	return 0;
}

int lesson_options(const struct lesson *l, struct engine_options *to, struct err *e)
{
	size_t n;

	for (const char *line = l->start; line && *line; line += n + (line[n] == '\n')) {
		char name[64];

		n = strcspn(line, "\n");
		if (!strncmp(line, "lora ", 5))
			return take_adapter(line + 5, to, e);
		snprintf(name, sizeof name, "%.*s", (int)n - 2, line); /* a digit follows: check_start() */
		if (setting_put(setting_find(engine_settings, name), to, (char[]){ line[n - 1], 0 }, e))
			return -1;
	}
	return 0;
}

/* On the ranks and with the adapter that it begins with; a lesson without such a line, on any. */
static bool has_start(const struct lesson *l, const struct engine_options *now)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err ignored = { 0 };

	return !l->start ||
		   (!lesson_options(l, &o, &ignored) && o.tensor_parallel == now->tensor_parallel &&
			   o.pipeline_parallel == now->pipeline_parallel &&
			   o.sequence_parallel == now->sequence_parallel &&
			   o.prefill_ranks == now->prefill_ranks &&
			   (!o.lora || (now->lora && !strcmp(o.lora, now->lora))));
}

bool lesson_fits(const struct lesson *l, const char *path, const struct engine_options *now)
{
	const size_t n = path ? strlen(path) : 0, k = l->model ? strlen(l->model) : 0;

	return (!now || has_start(l, now)) &&
		   (!l->model || !path || (k <= n && !strcmp(path + n - k, l->model)));
}

struct lesson *lesson_open(const char *name, struct err *e)
{
	struct lesson *l = NULL;
	char *text = NULL;
	size_t size;

	if (!lesson_load(name, &text, &size, e))
		lesson_parse(&l, name, text, size, e);
	free(text);
	return l;
}

static bool has_model(const char *name)
{
	struct err ignored = { 0 };
	struct lesson *l = lesson_open(name, &ignored);
	const bool has = l && l->model;

	lesson_free(l);
	return has;
}

bool lesson_next(const char *after, const char *model_path, const struct engine_options *now,
	char *out, size_t cap)
{
	/* one without a model is of the reader's, and not of the one that another lesson brought */
	const bool brought = model_path && has_model(after);
	struct err ignored = { 0 };
	const char *name;
	bool past = false;

	for (int i = 0; (name = lesson_name(i)); i++) {
		struct lesson *l;
		bool fits;

		snprintf(out, cap, "%s", name);
		if (!past) {
			past = !strcmp(name, after);
			continue;
		}
		l = lesson_open(out, &ignored);
		fits = l && lesson_fits(l, model_path, now) && (l->model || !brought);
		lesson_free(l);
		if (fits)
			return true;
	}
	return false;
}

/* ---- the list ---- */

const char *lesson_topic(const char *name)
{
	for (int i = 0; lessons_shipped[i].name; i++)
		if (!strcmp(lessons_shipped[i].name, name))
			return lessons_shipped[i].topic;
	return "your own";
}

int lesson_count(const struct lesson *l, enum lesson_kind kind)
{
	int n = 0;

	for (int32_t i = 0; l && i < l->n; i++)
		n += l->part[i].kind == kind;
	return n;
}

static int words_of(const char *text)
{
	int n = 0;

	for (const char *at = text ? text : ""; *(at += strspn(at, " \n"));)
		n++, at += strcspn(at, " \n");
	return n;
}

int lesson_words(const struct lesson *l)
{
	int words = 0;

	for (int32_t i = 0; i < l->n; i++) {
		const enum lesson_kind kind = l->part[i].kind;

		if (kind <= LESSON_CODE || kind == LESSON_PREDICT || kind == LESSON_CHECK)
			words += words_of(l->part[i].text);
	}
	return words;
}

/* To read it; what it runs comes on top, and depends on the machine. */
static int minutes(const struct lesson *l)
{
	return (lesson_words(l) + LESSON_WORDS_A_MINUTE - 1) / LESSON_WORDS_A_MINUTE +
		   lesson_count(l, LESSON_PREDICT);
}

static void far(const char *name, char *out, size_t cap)
{
	struct lesson_progress p;

	lesson_progress_get(name, &p);
	*out = '\0';
	if (p.parts && p.part >= p.parts)
		snprintf(out, cap, "done");
	else if (p.parts)
		snprintf(out, cap, "%d %%", (int)(100 * (int64_t)p.part / p.parts));
}

bool lesson_entry(int i, struct lesson_entry *out)
{
	const char *name = lesson_name(i);
	struct err e = { 0 };
	const char *text;
	struct lesson *l;

	if (!name)
		return false;
	*out = (struct lesson_entry){ .topic = lesson_topic(name) };
	snprintf(out->name, sizeof out->name, "%s", name); /* opening reads the list again */
	l = lesson_open(out->name, &e);
	text = !l ? e.text : l->title ? l->title : "";
	text_cleaned(out->title, sizeof out->title, text, strlen(text));
	out->pages = 1 + lesson_count(l, LESSON_PAGE);
	out->questions = lesson_count(l, LESSON_PREDICT);
	out->minutes = l ? minutes(l) : 0;
	far(out->name, out->read, sizeof out->read);
	lesson_free(l);
	return true;
}

void lesson_list(FILE *out)
{
	struct lesson_entry l;
	const char *topic = "";

	fprintf(out, "%-33s %5s %6s %10s %8s\n", "", "read", "pages", "questions", "minutes");
	for (int i = 0; lesson_entry(i, &l); i++) {
		if (strcmp(l.topic, topic) != 0)
			fprintf(out, "%s%s\n", i ? "\n" : "", l.topic);
		topic = l.topic;
		fprintf(out, "%2d  %-29s %5s %6d %10d %8d\n    ", i + 1, l.name, l.read, l.pages,
			l.questions, l.minutes);
		text_wrapped(out, *l.title ? l.title : "-", 4);
	}
}
