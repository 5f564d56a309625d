/* cutaway curve: what a model loses by fewer bits, method beside method. Thread: main's. */
#include <math.h>

#include "base/listing.h"
#include "cli/change.h"
#include "cli/out.h"
#include "lab/curve.h"

enum { CHART_W = 60, CHART_H = 16 };

static struct curve_opts {
	const char *bits, *methods, *formats, *group, *svg;
	bool zero_point;
} opts = {
	.bits = "8,6,5,4,3,2", .methods = "rtn,gptq", .formats = "q8_0,q5_0,q4_0", .group = "128"
};

static const struct setting curve_own[] = {
	OWN(TEXT, curve_opts, bits, "bits", "Curve", "of the grids, 2 to 8; off: none", .arg = "LIST"),
	OWN(TEXT, curve_opts, methods, "methods", "Curve",
		"of the grids: rtn, gptq, awq, smoothquant (see cutaway quantize)", .arg = "LIST"),
	OWN(TEXT, curve_opts, group, "group", "Curve",
		"of the grids: how many columns share a scale: 32, 64, 128 …, row or tensor",
		.arg = "COLUMNS"),
	OWN(FLAG, curve_opts, zero_point, "zero-point", "Curve",
		"of the grids: from the least weight to the greatest"),
	OWN(TEXT, curve_opts, formats, "formats", "Curve",
		"formats of files, rounded to nearest, whose speed is measured as well; off: none",
		.arg = "LIST"),
	OWN(TEXT, curve_opts, svg, "svg", "Curve", "the curve as a picture", .arg = "FILE"),
	{ 0 },
};

struct curve {
	struct curve_point point[CURVE_POINTS];
	int n;
};

/* ---- the points ---- */

/* The next word of a list with commas; false after the last. */
static bool next_word(const char **list, char word[32])
{
	const size_t n = strcspn(*list, ",");

	if (!**list || !strcmp(*list, "off"))
		return false;
	snprintf(word, 32, "%.*s", (int)(n < 31 ? n : 31), *list);
	*list += n + ((*list)[n] == ',');
	return true;
}

static struct curve_point *add(struct curve *v, struct err *e)
{
	if (v->n < CURVE_POINTS)
		return &v->point[v->n++];
	err_set(e, ERR_USAGE, "a curve has at most %d points: shorten the lists", CURVE_POINTS);
	return NULL;
}

static int add_formats(struct curve *v, struct err *e)
{
	const char *list = opts.formats;
	char word[32];

	while (next_word(&list, word)) {
		struct curve_point *p = add(v, e);

		if (!p || format_by_name(word, "--formats", &p->form.type, e))
			return -1;
	}
	return 0;
}

static int add_grid(struct curve *v, enum quant_method method, const char *bits, struct err *e)
{
	struct curve_point *p = add(v, e);
	char *end;

	if (!p)
		return -1;
	p->method = method;
	p->form = (struct quant_form){ .type = K_F16, .bits = (int32_t)strtol(bits, &end, 10) };
	p->form.zero_point = opts.zero_point;
	if (*end || p->form.bits < 2 || p->form.bits > 8)
		return err_set(e, ERR_USAGE, "--bits %s: 2 to 8 are possible", bits);
	return group_by_name(opts.group, &p->form.group, e);
}

static int add_grids(struct curve *v, struct err *e)
{
	const char *methods = opts.methods;
	char method[32], bits[32];

	while (next_word(&methods, method)) {
		const char *list = opts.bits;
		const enum quant_method m = quant_method_named(method);

		if (m >= QUANT_LLM_INT8)
			return err_set(
				e, ERR_USAGE, "--methods %s: rtn, gptq, awq and smoothquant are possible", method);
		while (next_word(&list, bits))
			if (add_grid(v, m, bits, e))
				return -1;
	}
	return v->n ? 0 : err_set(e, ERR_USAGE, "no points: give --bits and --methods, or --formats");
}

/* ---- measuring and telling ---- */

static const struct listing_column columns[] = { { "method", "method", -12 },
	{ "form", "form", -12 }, { "bits", "bits", 7 }, { "mean_kl", "KL", 10 },
	{ "perplexity", "perplexity", 10 }, { "model_perplexity", NULL, 0 },
	{ "best_equal", "best =", 7 }, { "tokens", NULL, 0 }, { "relative_error", NULL, 0 },
	{ "tokens_s", "tokens/s", 9 }, { "seconds", "s", 7 }, { 0 } };

static void list_point(struct listing *l, const struct curve_point *p)
{
	char name[32];

	listing_text(l, quant_method_name(p->method));
	listing_text(l, form_name(&p->form, name));
	listing_as(l, "%.3f", p->bits);
	listing_real(l, p->bits, 6);
	listing_as(l, "%.5f", prices_kl(&p->prices));
	listing_real(l, prices_kl(&p->prices), 9);
	listing_as(l, "%.3f", prices_perplexity(&p->prices));
	listing_real(l, prices_perplexity(&p->prices), 9);
	listing_real(l, prices_exact_perplexity(&p->prices), 9);
	listing_as(l, "%.1f %%", 100.0 * p->prices.n_equal / p->prices.n);
	listing_int(l, p->prices.n_equal);
	listing_int(l, p->prices.n);
	listing_real(l, p->error, 6);
	if (p->tok_s > 0)
		listing_as(l, "%.1f", p->tok_s);
	listing_real(l, p->tok_s > 0 ? p->tok_s : (double)NAN, 6);
	listing_as(l, "%.1f", p->seconds);
	listing_real(l, p->seconds, 4);
	fflush(stdout);
}

static int measure_all(
	struct curve *v, const struct curve_options *o, struct bar *b, struct listing *l, struct err *e)
{
	char name[32];
	int rc = 0;

	bar_begin(b);
	for (int i = 0; !rc && i < v->n; i++) {
		struct curve_point *p = &v->point[i];

		snprintf(b->title, sizeof b->title, "%d of %d, %s %s", i + 1, v->n,
			quant_method_name(p->method), form_name(&p->form, name));
		rc = curve_measure(p, o, e);
		out_progress_end();
		if (!rc)
			list_point(l, p);
	}
	bar_end();
	return rc;
}

static int write_svg(const struct curve *v, const char *model, struct err *e)
{
	struct whole_file f;

	if (!opts.svg)
		return 0;
	if (whole_file_open(&f, opts.svg, e))
		return -1;
	curve_svg(v->point, v->n, basename(model), f.out);
	return whole_file_close(&f, 0, e);
}

static int measure_and_list(struct curve *v, const struct curve_options *o, struct bar *b,
	const struct cli *c, struct err *e)
{
	struct json j = { 0 };
	struct listing l;
	int rc;

	if (c->json) {
		json_object(&j, NULL);
		json_array(&j, "points");
	}
	if (listing_open(&l, columns, stdout, c->json ? &j : NULL, c->csv, e))
		return -1;
	rc = measure_all(v, o, b, &l, e) || write_svg(v, o->model, e);
	if (listing_end(&l, rc, e))
		return -1;
	if (c->json)
		return 0;
	printf("\nperplexity of the model itself: %.3f over %d tokens\n\n",
		prices_exact_perplexity(&v->point[0].prices), (int)v->point[0].prices.n);
	curve_draw(v->point, v->n, CHART_W, CHART_H, stdout);
	return 0;
}

static int curve_verb(const struct cli *c, struct err *e)
{
	static struct curve v;
	struct bar b = { 0 };
	struct curve_options o = { .model = c->operand[0],
		.common = { .seed = c->answer.params.seed,
			.threads = c->engine.threads,
			.progress = bar_progress,
			.arg = &b } };
	char *text = NULL, *calibrate = NULL;
	int rc = add_formats(&v, e) || add_grids(&v, e) || in_read(c->operand[1], &text, &o.size, e) ||
			 (c->calibrate && in_read(c->calibrate, &calibrate, &o.common.size, e));

	o.text = text;
	o.common.text = calibrate;
	rc = rc || measure_and_list(&v, &o, &b, c, e);
	free(text);
	free(calibrate);
	return rc ? -1 : 0;
}

const struct verb verb_curve = {
	VERB(curve, "MODEL TEXT", "calibrate|threads|seed|json|csv"),
	OPERANDS(2, 2, "FILE"),
};
