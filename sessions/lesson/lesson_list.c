/* See lesson.h: what there is to read, and what comes next. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sessions/lesson/lesson.h"
#include "sessions/lesson/lesson_shipped.h"

int lesson_options(const struct lesson *l, struct engine_options *to, struct err *e)
{
	size_t n;

	for (const char *line = l->start; line && *line; line += n + (line[n] == '\n')) {
		char name[64];

		n = strcspn(line, "\n");
		snprintf(name, sizeof name, "%.*s", (int)n - 2, line); /* a digit follows: check_start() */
		if (setting_put(setting_find(engine_settings, name), to, (char[]){ line[n - 1], 0 }, e))
			return -1;
	}
	return 0;
}

/* On the ranks that it begins with; a lesson without such a line, on any. */
static bool has_ranks(const struct lesson *l, const struct engine_options *now)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err ignored = { 0 };

	return !l->start || (!lesson_options(l, &o, &ignored) &&
							o.tensor_parallel == now->tensor_parallel &&
							o.pipeline_parallel == now->pipeline_parallel &&
							o.sequence_parallel == now->sequence_parallel &&
							o.prefill_ranks == now->prefill_ranks);
}

bool lesson_fits(const struct lesson *l, const char *path, const struct engine_options *now)
{
	const size_t n = path ? strlen(path) : 0, k = l->model ? strlen(l->model) : 0;

	return has_ranks(l, now) && (!l->model || !path || (k <= n && !strcmp(path + n - k, l->model)));
}

static struct lesson *open_lesson(const char *name, struct err *e)
{
	struct lesson *l = NULL;
	char *text = NULL;
	size_t size;

	if (!lesson_load(name, &text, &size, e))
		lesson_parse(&l, name, text, size, e);
	free(text);
	return l;
}

bool lesson_next(const char *after, const char *model_path, const struct engine_options *now,
	char *out, size_t cap)
{
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
		l = open_lesson(out, &ignored);
		fits = l && lesson_fits(l, model_path, now);
		lesson_free(l);
		if (fits)
			return true;
	}
	return false;
}

/* ---- the list ---- */

static const char *topic_of(const char *name)
{
	for (int i = 0; lessons_shipped[i].name; i++)
		if (!strcmp(lessons_shipped[i].name, name))
			return lessons_shipped[i].topic;
	return NULL;
}

static int count(const struct lesson *l, enum lesson_kind kind)
{
	int n = 0;

	for (int32_t i = 0; l && i < l->n; i++)
		n += l->part[i].kind == kind;
	return n;
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

static void put_lesson(FILE *out, bool commands, int i, const char *name)
{
	struct err e = { 0 };
	struct lesson *l = open_lesson(name, &e);
	const char *text = l ? l->title : e.text;
	char *title = text ? text_clean(text, strlen(text), false, NULL) : NULL, mark[16];
	const int pages = 1 + count(l, LESSON_PAGE), asked = count(l, LESSON_PREDICT);

	far(name, mark, sizeof mark);
	if (commands)
		fprintf(out, "/lesson %-29s %2d page%s %2d question%s  %s\n    %s\n", name, pages,
			pages == 1 ? ", " : "s,", asked, asked == 1 ? " " : "s", mark, title ? title : "");
	else
		fprintf(out, "%2d  %-29s %5s %6d %10d  %s\n", i + 1, name, mark, pages, asked,
			title ? title : "");
	free(title);
	lesson_free(l);
}

void lesson_list(FILE *out, bool commands)
{
	const char *name, *topic = "";

	if (!commands)
		fprintf(out, "%-33s %5s %6s %10s\n", "", "read", "pages", "questions");
	for (int i = 0; (name = lesson_name(i)); i++) {
		const char *now = topic_of(name) ? topic_of(name) : "your own";
		char copy[64]; /* the list is read again meanwhile */

		snprintf(copy, sizeof copy, "%s", name);
		if (strcmp(now, topic) != 0)
			fprintf(out, "%s%s\n", i ? "\n" : "", now);
		topic = now;
		put_lesson(out, commands, i, copy);
	}
}
