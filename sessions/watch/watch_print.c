/* One expression, or all columns, of one step of a recording, in words: see watch_print in
 * watch.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sessions/watch/watch.h"
#include "trace/reader.h"

/* Feeds the events of a step: those after the step before. 0, or -1. */
static int feed_step(struct watch_set *s, const char *path, int64_t step, struct err *e)
{
	struct reader *r;
	struct event ev;
	int64_t seq, before;
	int rc;

	if (reader_open(&r, path, e))
		return -1;
	seq = reader_step_seq(r, step);
	before = step > 1 ? reader_step_seq(r, step - 1) : 0;
	rc = seq < 0 ? err_set(e, ERR_USAGE, "step %lld is not in the recording", (long long)step)
				 : watch_texts(s, path, e) || reader_seek(r, before < 0 ? 1 : before + 1, e);
	while (!rc && (rc = reader_next(r, &ev, e)) > 0 && !watch_feed(s, &ev))
		rc = 0;
	reader_close(r);
	return rc > 0 ? 0 : -1;
}

struct line {
	FILE *out;
	int n;
	char first[80];
	bool differs; /* the values are not all equal */
};

static void compare(void *arg, const struct watch_value_text *v)
{
	struct line *l = arg;
	char now[sizeof l->first];

	snprintf(
		now, sizeof now, "%.*s", (int)(v->size < sizeof now ? v->size : sizeof now - 1), v->text);
	if (!l->n++)
		memcpy(l->first, now, sizeof now);
	l->differs |= strcmp(l->first, now) != 0 || v->size >= sizeof now;
}

static void say_value(void *arg, const struct watch_value_text *v)
{
	struct line *l = arg;
	char *clean;

	if (l->n && !l->differs)
		return;
	clean = text_clean(v->text, v->size, false, NULL);
	fprintf(l->out, "%s%s%s%s", l->n++ ? ", " : "", v->is_text ? "'" : "", clean ? clean : "",
		v->is_text ? "'" : "");
	free(clean);
}

/* A value that is the same for all tokens of the step is printed once. */
static void say_values(struct watch_set *s, int n, FILE *out)
{
	struct line l = { .out = out };

	watch_each(s, n, compare, &l);
	l.n = 0;
	watch_each(s, n, say_value, &l);
	if (*watch_trouble(s, n))
		fprintf(out, "no value: %s", watch_trouble(s, n));
}

/* The unit, if it adds something to the column's name. */
static const char *unit_of(const struct watch_column *c)
{
	static const char *const units[] = { "ns", "bytes", "ops", "bits", NULL };

	for (int i = 0; units[i]; i++)
		if (!strcmp(c->unit, units[i]))
			return units[i];
	return "";
}

static void say_columns(struct watch_set *s, FILE *out)
{
	for (int i = 0; watch_column(i); i++) {
		struct err none = { 0 };
		char name[64];
		int n;

		/* hashes in the form used everywhere */
		snprintf(name, sizeof name,
			strcmp(watch_column(i)->name, "hash") ? "\"%s\"" : "printf('%%016x', \"%s\")",
			watch_column(i)->name);
		n = watch_add(s, name, NULL, &none);
		if (n < 0)
			continue;
		fprintf(out, "%-20s", watch_column(i)->name);
		say_values(s, n, out);
		fprintf(out, "%s%s\n", *unit_of(watch_column(i)) ? " " : "", unit_of(watch_column(i)));
		watch_remove(s, n);
	}
}

int watch_print(
	const char *path, const char *expr, int64_t step, char **say, int *where, struct err *e)
{
	struct watch_set *s = NULL;
	size_t size;
	FILE *out;
	int n = 0;

	*say = NULL;
	*where = -1;
	if (watch_open(&s, e) || (*expr && (n = watch_add(s, expr, where, e)) < 0) ||
		feed_step(s, path, step, e)) {
		watch_close(s);
		return -1;
	}
	out = open_memstream(say, &size);
	if (out && *expr)
		say_values(s, n, out);
	else if (out)
		say_columns(s, out);
	if (out)
		fclose(out);
	watch_close(s);
	return *say ? 0 : err_no_memory(e, "an answer");
}
