/* See trace_file.h. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "load/trace_file.h"

enum { LINE = 1024, COLUMNS = 64, MOST_TOKENS = 1 << 24 };

static const char *const names[] = { "TIMESTAMP", "ContextTokens", "GeneratedTokens" };

static int damaged(const struct trace_file *t, const char *what, struct err *e)
{
	return err_set(e, ERR_INPUT, "%s line %lld: %s", t->path, (long long)t->line, what);
}

/* Without its end of line. 1; 0: none is left. */
static int read_line(struct trace_file *t, char line[LINE], struct err *e)
{
	size_t n = 0;
	int c;

	t->line++;
	while ((c = getc(t->in)) != EOF && c != '\n') {
		if (!c || n == LINE - 1)
			return damaged(t, c ? "it is longer than any line of a trace" : "a zero byte", e);
		line[n++] = (char)c;
	}
	if (ferror(t->in))
		return err_set(e, ERR_IO, "%s: %s", t->path, strerror(errno));
	n -= n && line[n - 1] == '\r';
	line[n] = '\0';
	return c != EOF || n > 0;
}

/* Cuts at commas, in place; returns how many there are, COLUMNS at most. */
static int cut_columns(char *line, char *cell[COLUMNS])
{
	int n = 0;

	for (char *at = line; at && n < COLUMNS; n++) {
		cell[n] = at + strspn(at, " \t\"");
		at = strchr(at, ',');
		if (at)
			*at++ = '\0';
		cell[n][strcspn(cell[n], "\"")] = '\0';
	}
	return n;
}

int trace_file_open(struct trace_file *t, const char *path, struct err *e)
{
	char line[LINE], *cell[COLUMNS];
	int n, rc;

	*t = (struct trace_file){ .path = path, .in = fopen(path, "re"), .start_s = NAN };
	if (!t->in)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	rc = read_line(t, line, e);
	n = rc > 0 ? cut_columns(line + 3 * !strncmp(line, "\xef\xbb\xbf", 3), cell) : 0;
	for (int k = 0; k < 3 && rc >= 0; k++) {
		t->column[k] = 0;
		while (t->column[k] < n && strcasecmp(cell[t->column[k]], names[k]))
			t->column[k]++;
		if (t->column[k] == n)
			rc = err_set(e, ERR_INPUT,
				"%s: the first line has no column %s; a trace has TIMESTAMP, ContextTokens and "
				"GeneratedTokens, as those of Azure",
				path, names[k]);
	}
	if (rc < 0)
		trace_file_close(t);
	return rc < 0 ? -1 : 0;
}

void trace_file_close(struct trace_file *t)
{
	if (t->in)
		fclose(t->in);
	t->in = NULL;
}

/* A date, or a number of seconds; NAN: neither. */
static double seconds_of(const char *text)
{
	struct tm day = { 0 }, zone = { 0 };
	const char *at = strptime(text, "%Y-%m-%d", &day);
	char *end;
	double s;

	at = at && *at && strchr(" T", *at) ? strptime(at + 1, "%H:%M:", &day) : NULL;
	s = strtod(at ? at : text, &end);
	if (!at)
		return end == text || *end || !isfinite(s) || fabs(s) > 1e12 ? (double)NAN : s;
	if (strspn(at, "0123456789.") < 1)
		return (double)NAN;
	if (*end) {
		at = strchr("+-Z", *end) ? strptime(end, "%z", &zone) : NULL;
		if (!at || *at)
			return (double)NAN;
	}
	return (double)timegm(&day) + (s - (double)zone.tm_gmtoff);
}

static bool tokens_of(const char *text, int32_t *out)
{
	char *end;
	long n;

	if (strspn(text, "0123456789") < 1)
		return false;
	n = strtol(text, &end, 10);
	*out = n < 1 ? 1 : (int32_t)n;
	return !end[strspn(end, " \t")] && n <= MOST_TOKENS;
}

int trace_file_next(struct trace_file *t, struct trace_row *out, struct err *e)
{
	char line[LINE], *cell[COLUMNS];
	double s;
	int n, rc;

	do
		rc = read_line(t, line, e);
	while (rc > 0 && !*line);
	if (!rc && isnan(t->start_s))
		return err_set(e, ERR_INPUT, "%s: no request follows the first line", t->path);
	if (rc <= 0)
		return rc;
	n = cut_columns(line, cell);
	for (int k = 0; k < 3; k++)
		if (t->column[k] >= n)
			return damaged(t, "it has fewer columns than the first line", e);
	s = seconds_of(cell[t->column[0]]);
	if (!isfinite(s))
		return damaged(t, "TIMESTAMP is neither a date with a time nor a number of seconds", e);
	if (!tokens_of(cell[t->column[1]], &out->n_prompt) ||
		!tokens_of(cell[t->column[2]], &out->n_output))
		return damaged(t, "ContextTokens and GeneratedTokens: whole numbers up to 16777216", e);
	if (isnan(t->start_s))
		t->start_s = t->newest_s = s;
	if (s < t->newest_s)
		return damaged(t, "an earlier time than the line before; sort the file by TIMESTAMP", e);
	t->newest_s = s;
	out->at_s = s - t->start_s;
	return 1;
}
