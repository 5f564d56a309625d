/* cutaway export: a recording in another tool's format. Thread: main's. */
#include "base/clock.h"
#include "base/whole_file.h"
#include "cli/change.h"
#include "cli/interrupt.h"
#include "cli/out.h"
#include "sessions/export/export.h"
#include "tui/app/tui.h"

static struct export_opts {
	const char *to, *out, *table, *view, *at, *size;
} opts = { .view = "screen", .at = "end" };

static const struct setting export_own[] = {
	OWN(CHOICE, export_opts, to, "to", "Output", "the format (without it: by the ending of --out)",
		SETTING_WORDS("perfetto", "csv", "jsonl", "asciicast", "html", "svg", "png", "slides")),
	OWN(FILE, export_opts, out, "out", "Output",
		"write to FILE, also -o (without it: standard output)", .arg = "FILE"),
	OWN(TEXT, export_opts, table, "table", "Output",
		"csv: a table or view of docs/trace.md, such as tokens, latency, candidates (token)",
		.arg = "NAME"),
	OWN(CHOICE, export_opts, view, "view", "Output", "svg, png: a view, or the whole screen",
		.arg = "NAME", .more = tui_picture_name),
	OWN(TEXT, export_opts, at, "at", "Output",
		"svg, png, slides: the step that is shown, or the first for which an expression of /find "
		"holds; end: the last (slides without it: where each view shows much)",
		.arg = "STEP", SETTING_WORDS("end")),
	OWN(TEXT, export_opts, size, "size", "Output",
		"svg, png, slides, asciicast: in cells (without it: 80x24 for a view, 100x24 for slides, "
		"else 120x40)",
		.arg = "WxH", SETTING_WORDS("80x24", "120x40", "200x50")),
	{ 0 },
};

enum { CAST_W = 120, CAST_H = 40 }; /* large enough for all views */

static bool progress(void *arg, int64_t done, int64_t all)
{
	return bar_progress(arg, "", done, all);
}

static const char *format_of(struct err *e)
{
	static const char *const by_ending[][2] = { { ".json", "perfetto" }, { ".csv", "csv" },
		{ ".jsonl", "jsonl" }, { ".html", "html" }, { ".htm", "html" }, { ".cast", "asciicast" },
		{ ".svg", "svg" }, { ".png", "png" } };
	const char *dot = opts.out ? strrchr(opts.out, '.') : NULL;

	if (opts.to)
		return opts.to;
	for (size_t i = 0; dot && i < ARRAY_N(by_ending); i++)
		if (strcmp(by_ending[i][0], dot) == 0)
			return by_ending[i][1];
	err_set(e, ERR_USAGE,
		"which format? --to perfetto, csv, jsonl, asciicast, html, svg, png or slides");
	return NULL;
}

static bool is_picture(const char *format)
{
	return !strcmp(format, "svg") || !strcmp(format, "png");
}

/* What has no meaning for a format is refused, not ignored. */
static int check_given(const struct cli *c, const char *format, struct err *e)
{
	static const char *const of_pictures[] = { "view", "at", "theme", "size" };
	const int n = !strcmp(format, "slides") ? 1 : !strcmp(format, "asciicast") ? 3 : 4;

	if (opts.table && strcmp(format, "csv") != 0)
		return err_set(e, ERR_USAGE, "--table is for csv, not for %s", format);
	for (int i = 0; i < n && !is_picture(format); i++)
		if (cli_given(c, of_pictures[i]))
			return err_set(
				e, ERR_USAGE, "--%s is for svg and png, not for %s", of_pictures[i], format);
	return 0;
}

static int write_picture(FILE *out, const struct cli *c, const char *format, struct err *e)
{
	const bool slides = !strcmp(format, "slides");
	struct tui_picture o = { .view = opts.view,
		.size = opts.size,
		.at = slides && !cli_given(c, "at") ? NULL : opts.at,
		.light = !strcmp(c->theme, "light"),
		.mono = !strcmp(c->theme, "mono"),
		.png = !strcmp(format, "png") };

	return (slides ? tui_slides : tui_picture)(c->operand[0], &o, out, e);
}

static int write_cast(FILE *out, const struct cli *c, struct bar *b, struct err *e)
{
	int w = CAST_W, h = CAST_H;

	if (opts.size && tui_size(opts.size, &w, &h, e))
		return -1;
	return tui_cast(c->operand[0], w, h, out, progress, b, e);
}

static int write_as(
	FILE *out, const struct cli *c, const char *format, struct bar *b, struct err *e)
{
	struct export_options o = { .to = format, .table = opts.table, .progress = progress, .arg = b };

	if (!strcmp(format, "asciicast"))
		return write_cast(out, c, b, e);
	if (is_picture(format) || !strcmp(format, "slides"))
		return write_picture(out, c, format, e);
	return export_session(c->operand[0], &o, out, e);
}

static int write_to(FILE *out, const struct cli *c, const char *format, struct err *e)
{
	struct bar b = { .began_ns = now_ns() };
	int rc = write_as(out, c, format, &b, e);

	if (interrupted) /* Ctrl-C may have caused the error */
		*e = (struct err){ .code = ERR_INTERRUPTED };
	out_progress_end();
	return interrupted ? -1 : rc;
}

/* Never overwrites the recording or leaves half a file: base/whole_file.h. */
static int write_file(const struct cli *c, const char *format, struct err *e)
{
	struct whole_file f;

	if (whole_file_open(&f, opts.out, e)) {
		if (interrupted) /* while opening a FIFO that has no reader */
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
		return -1; /* its error is empty if the reader has gone */
	return why.code ? err_set(e, why.code, "%s", why.text) : 0;
}

static int export_verb(const struct cli *c, struct err *e)
{
	const char *format = format_of(e);

	if (!format || check_given(c, format, e))
		return -1;
	interrupt_catch(SIGINT, (int)SA_RESETHAND);
	return opts.out ? write_file(c, format, e) : write_stdout(c, format, e);
}

const struct verb verb_export = {
	VERB(export, "FILE", "theme"),
	OPERANDS(1, 1, "RECORDING"),
};
