/* A recording as a terminal recording: the replay's screens, step by step, as asciicast v2 (one
 * header line, then [seconds, "o", text] a frame; docs.asciinema.org/manual/asciicast/v2). No
 * terminal is touched: frames are canvases, written as the differences from the frame before.
 * Thread: main's. */

#include "tui/app/picture.h"

enum { FRAME_MS = 40, LAST_MS = 3000, MAX_GAP_MS = 2000 };

struct cast {
	struct offscreen screen;
	struct theme theme;
	struct cell *shown; /* the content of the viewer's terminal; [h][w] */
	FILE *out;
	double at; /* time of the frame being written, seconds */
};

/* ---- the frame as text for a terminal ---- */

static void colour(FILE *f, bool back, int c)
{
	if (c < 0)
		fprintf(f, ";%d9", back ? 4 : 3);
	else
		fprintf(f, ";%d8;5;%d", back ? 4 : 3, c);
}

static void put_style(const struct cast *k, const struct cell *c, FILE *f)
{
	struct theme_style s = theme_style(&k->theme, c->ink, c->paper, c->attr);

	fputs("\033[0", f);
	if (s.bold)
		fputs(";1", f);
	if (s.dim)
		fputs(";2", f);
	if (s.underline)
		fputs(";4", f);
	if (s.reverse)
		fputs(";7", f);
	colour(f, false, s.fg);
	colour(f, true, s.bg);
	putc('m', f);
}

static bool same_look(const struct cell *a, const struct cell *b)
{
	return a->ink == b->ink && a->paper == b->paper && a->attr == b->attr;
}

/* The changed cells of a row, from the first to the last of them: unchanged cells in between are
 * few. */
static void put_row(struct cast *k, int y, FILE *f)
{
	const struct canvas *c = &k->screen.app.canvas;
	const struct cell *row = c->cell + (size_t)y * (size_t)c->w;
	struct cell *old = k->shown + (size_t)y * (size_t)c->w;
	int from = 0, to = c->w;

	while (from < to && !memcmp(&row[from], &old[from], sizeof *row))
		from++;
	while (to > from && !memcmp(&row[to - 1], &old[to - 1], sizeof *row))
		to--;
	if (from == to)
		return;
	while (from > 0 && !*row[from].text) /* a wide character begins at its left half */
		from--;
	fprintf(f, "\033[%d;%dH", y + 1, from + 1);
	for (int x = from; x < to; x++) {
		if (x == from || !same_look(&row[x], &row[x - 1]))
			put_style(k, &row[x], f);
		fputs(row[x].text, f);
	}
	memcpy(old + from, row + from, (size_t)(to - from) * sizeof *row);
}

static int put_frame(struct cast *k, struct err *e)
{
	char *text = NULL, *json;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return err_no_memory(e, "a frame");
	app_draw(&k->screen.app);
	for (int y = 0; y < k->screen.app.canvas.h; y++)
		put_row(k, y, f);
	fclose(f);
	json = text && size ? text_json(text, size) : NULL;
	if (json)
		fprintf(k->out, "[%.3f, \"o\", %s]\n", k->at, json);
	free(json);
	free(text);
	return 0;
}

static int put_header(struct cast *k, struct err *e)
{
	const struct timeline *t = &k->screen.app.timeline;
	struct view_text text;
	char *title;

	if (player_go(k->screen.player, &k->screen.app.timeline, 0, e))
		return -1;
	text = app_lossy_title(t);
	view_add(&text, "%s", t->model_name ? t->model_name : "cutaway");
	title = text_json(text.text, strlen(text.text));
	if (!title)
		return err_no_memory(e, "a title");
	fprintf(k->out,
		"{\"version\": 2, \"width\": %d, \"height\": %d, \"timestamp\": %lld, \"title\": %s, "
		"\"env\": {\"TERM\": \"xterm-256color\"}}\n",
		k->screen.app.canvas.w, k->screen.app.canvas.h,
		t->session.unix_ns > 0 ? (long long)(t->session.unix_ns / 1000000000) : 0LL, title);
	free(title);
	fputs("[0.000, \"o\", \"\\u001b[?25l\\u001b[2J\"]\n", k->out);
	return 0;
}

/* Steps at their recorded pace; waits longer than two seconds are cut to that, frames nearer than
 * 40 ms are left out. Step numbers may be missing. */
static int put_steps(struct cast *k, bool (*progress)(void *arg, int64_t done, int64_t all),
	void *arg, struct err *e)
{
	int64_t n = player_n_steps(k->screen.player), last_ns = 0;
	double last_frame = -1;

	for (int64_t step = 0; step < n; step = player_at(k->screen.player)) {
		int64_t ns, gap;

		if (player_go(k->screen.player, &k->screen.app.timeline, step + 1, e))
			return -1;
		if (player_at(k->screen.player) <= step)
			break; /* the file ends before its stated end */
		ns = k->screen.app.timeline.last_t_ns;
		gap = ns > last_ns ? ns - last_ns : 0;
		k->at +=
			(double)(gap < MAX_GAP_MS * INT64_C(1000000) ? gap : MAX_GAP_MS * INT64_C(1000000)) /
			1e9;
		last_ns = ns;
		if (player_at(k->screen.player) < n && k->at - last_frame < FRAME_MS / 1e3)
			continue;
		last_frame = k->at;
		if (put_frame(k, e))
			return -1;
		if (progress && !progress(arg, player_at(k->screen.player), n))
			return err_set(e, ERR_INTERRUPTED, "stopped");
	}
	k->at += LAST_MS / 1e3;
	fprintf(k->out, "[%.3f, \"o\", \"\\u001b[0m\\u001b[?25h\"]\n", k->at);
	return 0;
}

int tui_cast(const char *path, int w, int h, FILE *out,
	bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct err *e)
{
	struct cast *k = calloc(1, sizeof *k);
	int rc;

	if (!k)
		return err_no_memory(e, "a screen");
	k->out = out;
	k->theme = (struct theme){ .depth = THEME_256 };
	rc = offscreen_open(&k->screen, path, w, h, e);
	k->shown = rc ? NULL : calloc((size_t)w * (size_t)h, sizeof *k->shown);
	if (!rc && !k->shown)
		rc = err_no_memory(e, "%d x %d cells", w, h);
	rc = rc || put_header(k, e) || put_steps(k, progress, arg, e) ? -1 : 0;
	offscreen_close(&k->screen);
	free(k->shown);
	free(k);
	return rc;
}
