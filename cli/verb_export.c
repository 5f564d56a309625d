/* cutaway export: a recording in another tool's format. Thread: main's. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/whole_file.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "sessions/export.h"
#include "tui/tui.h"

enum { CAST_W = 120, CAST_H = 40 }; /* the size at which all views have room */

struct shown {
	int64_t began_ns, told_ns;
	bool told;
};

static atomic_bool interrupted;

static void on_sigint(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

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
	return !atomic_load(&interrupted);
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

	if (interrupted) /* it may have ended a write, too */
		*e = (struct err){ .code = ERR_INTERRUPTED };
	if (s.told)
		fputs("\r     \r", stderr);
	return interrupted ? -1 : rc;
}

/* Not the recording itself, and not half of it: base/whole_file.h. */
static int write_file(const struct cli *c, const char *format, struct err *e)
{
	struct whole_file f;

	if (whole_file_open(&f, c->out, e)) {
		if (interrupted) /* while it waited for a FIFO's reader */
			*e = (struct err){ .code = ERR_INTERRUPTED };
		return -1;
	}
	return whole_file_close(&f, write_to(f.out, c, format, e), e);
}

static int write_stdout(const struct cli *c, const char *format, struct err *e)
{
	struct err why = { 0 };

	write_to(stdout, c, format, &why);
	if (out_flush(e))
		return -1; /* it knows whether anybody is left to tell */
	return why.code ? err_set(e, why.code, "%s", why.text) : 0;
}

int verb_export(const struct cli *c, struct err *e)
{
	struct sigaction action = { .sa_handler = on_sigint, .sa_flags = (int)SA_RESETHAND };
	const char *format = format_of(c, e);

	if (!format)
		return -1;
	sigaction(SIGINT, &action, NULL);
	return c->out ? write_file(c, format, e) : write_stdout(c, format, e);
}
