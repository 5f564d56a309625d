/* See picture.h. A view is drawn as it is when it fills the screen (zoomed), on a canvas of its own
 * size, which becomes SVG (svg.c); a PNG is that SVG, drawn by rsvg-convert of librsvg. */

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"
#include "base/whole_file.h"
#include "tui/app/picture.h"
#include "tui/term/svg.h"

enum { SCREEN_W = 120, SCREEN_H = 40, VIEW_W = 80, VIEW_H = 24 };
enum { LEAST_W = 20, LEAST_H = 5, MOST_W = 500, MOST_H = 200, NOTE_H = 8 };

/* ---- what is asked for ---- */

const char *tui_picture_name(int i)
{
	return i ? i - 1 < VIEW_N ? views[i - 1]->id : NULL : "screen";
}

/* The first i for which tui_picture_name is this; less one: the index of a view, or PICTURE_SCREEN.
 */
static int view_named(const char *name)
{
	int i = 0;

	while (tui_picture_name(i) && strcmp(tui_picture_name(i), name) != 0)
		i++;
	return i - 1;
}

int tui_size(const char *text, int *w, int *h, struct err *e)
{
	int used = 0;

	if (sscanf(text, "%4dx%4d%n", w, h, &used) == 2 && !text[used] && *w >= LEAST_W &&
		*h >= LEAST_H && *w <= MOST_W && *h <= MOST_H)
		return 0;
	return err_set(e, ERR_USAGE, "size %.40s: WIDTHxHEIGHT in cells, from %dx%d to %dx%d", text,
		LEAST_W, LEAST_H, MOST_W, MOST_H);
}

int picture_check(const struct picture *p, struct err *e)
{
	const struct view *v = p->view < 0 ? NULL : views[p->view];

	if (!v || (p->w >= v->min_w && p->h >= v->min_h))
		return 0;
	return err_set(e, ERR_USAGE, "%s needs %dx%d cells, and %dx%d are asked for", v->id, v->min_w,
		v->min_h, p->w, p->h);
}

/* ---- drawing ---- */

void picture_draw(struct app *a, int view)
{
	struct pen p = pen_of(&a->canvas, (struct rect){ 0, 0, a->canvas.w, a->canvas.h });
	int64_t message_ns = a->message_ns;

	if (view < 0) {
		a->message_ns = 0;
		app_draw(a);
		a->message_ns = message_ns;
		return;
	}
	a->state.focused = false;
	a->state.zoomed = true;
	view_draw(view, &p, app_timeline(a), &a->state);
}

/* Below the picture, whatever its size: a picture leaves the program, and what is lossy must be
 * seen in it. Returns its lines. */
static int draw_note(struct canvas *c, int y, const char *text)
{
	struct pen p = pen_of(c, (struct rect){ 0, y, c->w, NOTE_H });

	p.ink = INK_REJECTED;
	return *text ? pen_wrap(&p, 0, 0, c->w, NOTE_H, text) : 0;
}

/* The picture as SVG; malloc'd. NULL: no memory. */
static char *draw_svg(struct app *a, const struct picture *p, size_t *size)
{
	const struct timeline *t = app_timeline(a);
	struct theme theme = { .depth = p->mono ? THEME_MONO : THEME_TRUE, .light = p->light };
	const struct view_text lossy = app_lossy_title(t);
	struct view_text title;
	char *svg = NULL;
	FILE *out = open_memstream(&svg, size);

	if (!out)
		return NULL;
	title = view_form("cutaway: %s, step %lld, %s%s", p->view < 0 ? "screen" : views[p->view]->name,
		(long long)t->last_step, lossy.text, t->model_name ? t->model_name : "");
	a->canvas.h = p->h;
	picture_draw(a, p->view);
	a->canvas.h = p->h + NOTE_H;
	a->canvas.h = p->h + draw_note(&a->canvas, p->h, lossy.text);
	svg_write(out, &a->canvas, &theme, title.text);
	if (!fclose(out))
		return svg;
	free(svg);
	return NULL;
}

/* On a canvas of the picture's size; the screen stays as it is. */
char *picture_svg(struct app *a, const struct picture *p, size_t *size)
{
	struct canvas own = a->canvas;
	struct layout layout = a->layout;
	char *svg = NULL;

	a->canvas = (struct canvas){ .mono = p->mono };
	if (!canvas_resize(&a->canvas, p->w, p->h + NOTE_H, NULL))
		svg = draw_svg(a, p, size);
	canvas_free(&a->canvas);
	a->canvas = own;
	a->layout = layout;
	return svg;
}

/* ---- writing ---- */

/* What rsvg-convert said, or that it said nothing. */
static int failed_png(int errors, struct err *e)
{
	char said[200];
	ssize_t n = pread(errors, said, sizeof said - 1, 0);
	char *clean;

	said[n > 0 ? n : 0] = '\0';
	clean = text_clean(said, strcspn(said, "\n"), false, NULL);
	err_set(e, ERR_IO, "rsvg-convert failed%s%s; an SVG needs no other program",
		clean && *clean ? ": " : "", clean ? clean : "");
	free(clean);
	return -1;
}

static int convert(int in, int out, int errors, struct err *e)
{
	static const char *const argv[] = { "rsvg-convert", "--format", "png", "--zoom", "2", NULL };
	int failed, status;
	pid_t pid;

	if (in < 0 || out < 0 || errors < 0)
		return err_set(e, ERR_IO, "no file for rsvg-convert: %s", strerror(errno));
	failed = spawn(argv, in, out, errors, &pid);
	if (failed == ENOENT)
		return err_set(e, ERR_IO,
			"a PNG is drawn by rsvg-convert, which is not installed (Debian: librsvg2-bin); an SVG "
			"needs no other program");
	if (failed)
		return err_set(e, ERR_IO, "rsvg-convert cannot be started: %s", strerror(failed));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status ? failed_png(errors, e) : 0;
}

static void copy_all(FILE *out, int from)
{
	char part[1 << 14];

	lseek(from, 0, SEEK_SET);
	for (ssize_t n; (n = read(from, part, sizeof part)) > 0;)
		fwrite(part, 1, (size_t)n, out);
}

/* Through unnamed files, so that neither program waits for the other. */
static int write_png(FILE *out, const char *svg, size_t size, struct err *e)
{
	int file[3] = { spawn_input(svg, size), memfd_create("png", MFD_CLOEXEC),
		memfd_create("errors", MFD_CLOEXEC) };
	int rc = convert(file[0], file[1], file[2], e);

	if (!rc)
		copy_all(out, file[1]);
	for (int i = 0; i < 3; i++)
		if (file[i] >= 0)
			close(file[i]);
	return rc;
}

static int picture_write(struct app *a, const struct picture *p, FILE *out, struct err *e)
{
	size_t size = 0;
	char *svg = picture_svg(a, p, &size);
	int rc = 0;

	if (!svg)
		return err_no_memory(e, "a picture of %dx%d cells", p->w, p->h);
	if (p->png)
		rc = write_png(out, svg, size, e);
	else
		fwrite(svg, 1, size, out);
	free(svg);
	return rc;
}

/* ---- of a recording ---- */

static int go(struct offscreen *o, const char *path, const char *at, struct err *e)
{
	struct watch_hit hit = { 0 };

	const bool end = !strcmp(at, "end");
	int found = 1;

	if (*at && !at[strspn(at, "-0123456789")])
		hit.step = strtoll(at, NULL, 10);
	else if (!end)
		found = watch_find(path, at, 0, false, NULL, NULL, &hit, e);
	if (found < 0)
		return -1;
	if (!found || hit.step < 0)
		return err_set(e, ERR_USAGE, "--at %.40s: there is no such step", at);
	if (player_go(o->player, &o->app.timeline, end ? INT64_MAX - 1 : hit.step, e))
		return -1;
	if (hit.step > player_at(o->player))
		return err_set(e, ERR_USAGE, "step %lld: the recording has %lld", (long long)hit.step,
			(long long)player_at(o->player));
	app_look_at(&o->app, &hit);
	return 0;
}

int picture_open(
	struct offscreen **o, const char *path, const struct picture *p, const char *at, struct err *e)
{
	*o = malloc(sizeof **o);
	if (!*o)
		return err_no_memory(e, "a screen");
	return offscreen_open(*o, path, p->w, p->h, e) || go(*o, path, at, e) ? -1 : 0;
}

void picture_close(struct offscreen *o)
{
	if (o)
		offscreen_close(o);
	free(o);
}

int picture_take(struct picture *p, const struct tui_picture *o, int w, int h, struct err *e)
{
	*p = (struct picture){ .view = PICTURE_SCREEN,
		.w = w,
		.h = h,
		.light = o->light || o->mono,
		.mono = o->mono,
		.png = o->png };
	return o->size ? tui_size(o->size, &p->w, &p->h, e) : 0;
}

int tui_picture(const char *path, const struct tui_picture *o, FILE *out, struct err *e)
{
	const int view = view_named(o->view);
	struct offscreen *s = NULL;
	struct picture p;
	int rc;

	if (picture_take(&p, o, view < 0 ? SCREEN_W : VIEW_W, view < 0 ? SCREEN_H : VIEW_H, e))
		return -1;
	p.view = view;
	if (picture_check(&p, e))
		return -1;
	rc = picture_open(&s, path, &p, o->at, e) || picture_write(&s->app, &p, out, e) ? -1 : 0;
	picture_close(s);
	return rc;
}

/* ---- of what is looked at ---- */

static int take_word(struct app *a, struct picture *p, const char *word, struct err *e)
{
	struct command_names known;
	const char *name;

	if (*word >= '0' && *word <= '9')
		return tui_size(word, &p->w, &p->h, e);
	known = commands_pictures(&a->host);
	name = command_names_choose(&known, "export", word, e);
	if (name)
		p->view = view_named(name);
	return name ? 0 : -1;
}

static int take_words(struct app *a, struct picture *p, const char *words, struct err *e)
{
	char copy[64], *rest = copy;

	snprintf(copy, sizeof copy, "%s", words);
	for (char *word; (word = strtok_r(rest, " \t", &rest));)
		if (take_word(a, p, word, e))
			return -1;
	if (p->w)
		return picture_check(p, e);
	p->w = p->view < 0 ? a->canvas.w : a->layout.body.w;
	p->h = p->view < 0 ? a->canvas.h : a->layout.body.h;
	return picture_check(p, e);
}

static int write_new(struct app *a, const struct picture *p, const char *name, struct err *e)
{
	struct whole_file f;
	struct stat s;

	if (stat(name, &s) == 0)
		return err_set(e, ERR_USAGE, "%s exists already: choose another name", name);
	if (whole_file_open(&f, name, e))
		return -1;
	return whole_file_close(&f, picture_write(a, p, f.out, e), e);
}

int app_picture(struct app *a, const char *text, struct err *e)
{
	struct picture p = { .view = a->focus < 0 ? a->last_focus : a->focus,
		.light = term_theme(a->term)->light };
	size_t n = command_picture_file(text);
	char *name;
	int rc;

	if (!n)
		return err_set(e, ERR_USAGE,
			"a picture is FILE.svg or FILE.png; the shell's cutaway export writes other formats");
	p.png = !memcmp(text + n - 4, ".png", 4);
	name = take_words(a, &p, text + n, e) ? NULL : strndup(text, n);
	if (!name)
		return err_no_memory(e, "a name"); /* the first error stays */
	rc = write_new(a, &p, name, e);
	if (!rc)
		app_say(a, SAY_INFO, "%s at step %lld, %dx%d cells, was drawn in %s",
			p.view < 0 ? "the screen" : views[p.view]->name, (long long)app_timeline(a)->last_step,
			p.w, p.h, name);
	free(name);
	return rc;
}

/* --- a recording without a terminal --- */

static struct view_text name(struct app *a)
{
	return view_form("%s", a->timeline.begun ? a->timeline.model_name : "");
}

static void status(struct app *a, struct app_status *s)
{
	struct offscreen *o = a->mode_data;

	app_field(s, INK_BRIGHT, "step %lld of %lld", (long long)player_at(o->player),
		(long long)player_n_steps(o->player));
}

static const struct hint no_hints[] = { { NULL, NULL } };
static const struct app_mode offscreen_mode = {
	.label = "", .hints = no_hints, .help = "", .status = status, .name = name
};

int offscreen_open(struct offscreen *o, const char *path, int w, int h, struct err *e)
{
	struct app *a = &o->app;
	struct prompt_options po = { .complete = commands_complete, .arg = &a->host };

	*o =
		(struct offscreen){ .app = { .mode_data = o, .host.replay = true, .prompt_hidden = true } };
	app_init(a, &offscreen_mode);
	return prompt_open(&po, e) || canvas_resize(&a->canvas, w, h, e) ||
				   player_open(&o->player, path, e)
			   ? -1
			   : 0;
}

void offscreen_close(struct offscreen *o)
{
	if (o->player)
		player_close(o->player);
	prompt_close();
	canvas_free(&o->app.canvas);
	timeline_free(&o->app.timeline);
}
