/* cutaway export: a recording in another tool's format. A file is written beside its name and renamed when
 * it is whole, so that a failure leaves what was there. Thread: main's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "sessions/export.h"
#include "tui/tui.h"

enum { CAST_W = 120, CAST_H = 40 }; /* the size at which all views have room */

struct shown {
	int64_t began_ns, told_ns;
	bool told;
};

/* On a terminal, from the second second on. */
static bool progress(void *arg, int64_t done, int64_t all)
{
	struct shown *s = arg;
	int64_t now = now_ns();

	if (isatty(STDERR_FILENO) && now - s->began_ns > 1000000000 && now - s->told_ns > 200000000) {
		fprintf(stderr, "\r%3.0f %%", all > 0 ? 100.0 * (double)done / (double)all : 0.0);
		s->told_ns = now;
		s->told = true;
	}
	return true;
}

static const char *format_of(const struct cli *c, struct err *e)
{
	static const char *const by_ending[][2] = { { ".json", "perfetto" }, { ".csv", "csv" },
												{ ".jsonl", "jsonl" },	 { ".html", "html" },
												{ ".htm", "html" },		 { ".cast", "asciicast" } };
	const char *dot = c->out ? strrchr(c->out, '.') : NULL;

	if (c->to)
		return c->to;
	for (size_t i = 0; dot && i < sizeof by_ending / sizeof *by_ending; i++)
		if (strcmp(by_ending[i][0], dot) == 0)
			return by_ending[i][1];
	err_set(e, ERR_USAGE, "which format? --to perfetto, csv, jsonl, asciicast or html");
	return NULL;
}

static int write_to(FILE *out, const struct cli *c, const char *format, struct err *e)
{
	struct shown s = { .began_ns = now_ns() };
	struct export_options o = { .to = format, .table = c->table, .progress = progress, .arg = &s };
	int rc = strcmp(format, "asciicast") ? export_session(c->operand[0], &o, out, e)
										 : tui_cast(c->operand[0], CAST_W, CAST_H, out, progress, &s, e);

	if (s.told)
		fputs("\r     \r", stderr);
	return rc;
}

static int write_file(const struct cli *c, const char *format, struct err *e)
{
	size_t n = strlen(c->out) + sizeof ".part";
	char *part = malloc(n);
	FILE *out;
	int rc = -1;

	if (!part)
		return err_set(e, ERR_MEMORY, "no memory for a path");
	snprintf(part, n, "%s.part", c->out);
	out = fopen(part, "w");
	if (!out) {
		err_set(e, ERR_IO, "%s: %s", part, strerror(errno));
		free(part);
		return -1;
	}
	rc = write_to(out, c, format, e);
	if (fclose(out))
		rc = err_set(e, ERR_IO, "%s: %s", part, strerror(errno));
	if (!rc && rename(part, c->out))
		rc = err_set(e, ERR_IO, "%s: %s", c->out, strerror(errno));
	if (rc)
		unlink(part);
	free(part);
	return rc;
}

int verb_export(const struct cli *c, struct err *e)
{
	const char *format = format_of(c, e);

	if (!format)
		return -1;
	if (c->out)
		return write_file(c, format, e);
	return write_to(stdout, c, format, e) || out_flush(e) ? -1 : 0;
}
