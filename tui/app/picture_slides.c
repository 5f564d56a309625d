/* All views of a run that have something to show, as pictures in one page (slides.html), which
 * pages by keys and prints one a sheet. Without a step of its own each view is drawn where it shows
 * much: a session's last step has no queue, and no attention. */

#include "base/embed.h"
#include "tui/app/picture.h"

EMBED(slides_page, "tui/app/slides.html");

enum { SLIDE_W = 100, SLIDE_H = 24, SAMPLES = 16 };

struct slide {
	int shows[SAMPLES]; /* cells that are drawn at the samples' steps; 0: it has nothing to show */
	int sample;         /* at which it is drawn; -1: never */
	int64_t step;
	char *svg; /* malloc'd */
	size_t size;
	struct view_text lossy;
};
struct slides {
	struct offscreen *o;
	struct picture p;
	int n; /* samples, oldest first; one: the step where the recording was opened */
	struct slide view[VIEW_N];
};

static void put(FILE *out, const char *text)
{
	char *clean = text_clean(text, strlen(text), false, NULL);

	if (clean)
		text_xml(out, clean, strlen(clean));
	free(clean);
}

/* ---- where a view shows most ---- */

static int go(struct slides *s, int sample, struct err *e)
{
	const double n = (double)player_n_steps(s->o->player); /* as the file says: anything */

	if (s->n == 1)
		return 0;
	return player_go(s->o->player, &s->o->app.timeline,
		sample + 1 == s->n ? INT64_MAX - 1 : (int64_t)(n * (sample + 1) / s->n), e);
}

static int cells_drawn(const struct canvas *c)
{
	int n = 0;

	for (int i = c->w; i < c->w * c->h; i++) /* below the head */
		n += *c->cell[i].text && strcmp(c->cell[i].text, " ") != 0;
	return c->nothing ? 0 : n;
}

static int look(struct slides *s, int sample, struct err *e)
{
	struct app *a = &s->o->app;

	if (go(s, sample, e))
		return -1;
	for (int v = 0; v < VIEW_N; v++) {
		s->p.view = v;
		canvas_clear(&a->canvas);
		if (!picture_check(&s->p, &(struct err){ 0 }))
			picture_draw(a, v);
		s->view[v].shows[sample] = cells_drawn(&a->canvas);
	}
	return 0;
}

/* The newest at which it shows nearly as much as it ever does. */
static int choose(const struct slide *v, int n)
{
	int most = 0, at = n - 1;

	for (int i = 0; i < n; i++)
		most = v->shows[i] > most ? v->shows[i] : most;
	while (most && v->shows[at] < most - most / 4)
		at--;
	return most ? at : -1;
}

/* ---- drawing ---- */

static int draw(struct slides *s, int sample, struct err *e)
{
	struct app *a = &s->o->app;

	if (go(s, sample, e))
		return -1;
	for (int i = 0; i < VIEW_N; i++) {
		struct slide *v = &s->view[i];

		if (v->sample != sample)
			continue;
		s->p.view = i;
		v->step = app_timeline(a)->last_step;
		v->lossy = app_lossy_title(app_timeline(a));
		v->svg = picture_svg(a, &s->p, &v->size);
		if (!v->svg)
			return err_no_memory(e, "the slides");
	}
	return 0;
}

static int make(struct slides *s, struct err *e)
{
	int n = 0, rc = 0;

	for (int i = 0; i < s->n && !rc; i++)
		rc = look(s, i, e);
	for (int v = 0; v < VIEW_N; v++)
		n += (s->view[v].sample = choose(&s->view[v], s->n)) >= 0;
	for (int i = 0; i < s->n && !rc; i++)
		rc = draw(s, i, e);
	return rc || n ? rc : err_set(e, ERR_INPUT, "no view has anything to show there");
}

/* ---- the page ---- */

static void put_title(const struct slides *s, const char *path, FILE *out)
{
	const struct timeline *t = app_timeline(&s->o->app);

	if (s->p.light)
		fputs("<script>document.documentElement.className = \"light\";</script>\n", out);
	fputs("<section id=\"views\">\n<h1>", out);
	put(out, basename(path));
	fputs("</h1>\n<p class=\"dim\">", out);
	put(out, t->model_name ? t->model_name : "");
	fprintf(out, "; %lld steps</p>\n<ul>\n", (long long)player_n_steps(s->o->player));
	for (int v = 0; v < VIEW_N; v++)
		if (s->view[v].svg)
			fprintf(out, "<li><a href=\"#%s\">%s</a></li>\n", views[v]->id, views[v]->name);
	fputs("</ul>\n<p class=\"dim\">Arrow keys turn pages.</p>\n</section>\n", out);
}

static void put_slide(const struct slides *s, int view, FILE *out)
{
	const struct timeline *t = app_timeline(&s->o->app);
	const struct slide *v = &s->view[view];
	char what[300];

	view_summary(view, what, sizeof what);
	fprintf(out, "<section id=\"%s\">\n<h2>%s</h2>\n<p>", views[view]->id, views[view]->name);
	put(out, what);
	fputs(".</p>\n", out);
	fwrite(v->svg, 1, v->size, out);
	fprintf(out, "<p class=\"dim\">step %lld of %lld; <b>", (long long)v->step,
		(long long)player_n_steps(s->o->player));
	put(out, v->lossy.text);
	fputs("</b>", out);
	put(out, t->model_name ? t->model_name : "");
	fputs("</p>\n</section>\n", out);
}

int tui_slides(const char *path, const struct tui_picture *o, FILE *out, struct err *e)
{
	struct slides *s = calloc(1, sizeof *s);
	int rc = s ? 0 : err_no_memory(e, "the slides");

	rc = rc || picture_take(&s->p, o, SLIDE_W, SLIDE_H, e) ||
		 picture_open(&s->o, path, &s->p, o->at ? o->at : "end", e);
	if (!rc) {
		int64_t steps = player_n_steps(s->o->player);

		s->n = o->at || steps < 2 ? 1 : steps < SAMPLES ? (int)steps : SAMPLES;
		rc = make(s, e);
	}
	if (!rc) {
		fputs(slides_page, out);
		put_title(s, path, out);
		for (int v = 0; v < VIEW_N; v++)
			if (s->view[v].svg)
				put_slide(s, v, out);
	}
	for (int v = 0; s && v < VIEW_N; v++)
		free(s->view[v].svg);
	picture_close(s ? s->o : NULL);
	free(s);
	return rc ? -1 : 0;
}
