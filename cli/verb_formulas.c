/* cutaway formulas: the arithmetic of inference with a model's numbers, as the view shows it.
 * Thread: main's. */
#include "base/listing.h"
#include "base/text.h"
#include "cli/open.h"
#include "trace/reader.h"
#include "tui/views/view_util.h"

enum { DEFAULT_DEPTH = 128, MOST_RUN = 256 /* slots */ };

static struct formulas_opts {
	int32_t batch, depth, drafts;
	const char *machine;
} opts = { .drafts = -1 };

static const struct setting formulas_own[] = {
	OWN(INT, formulas_opts, batch, "sequences", "Formulas",
		"sequences that decode together (without it: as recorded, or 1)", .arg = "B", .low = 1,
		.high = 1 << 16),
	OWN(INT, formulas_opts, depth, "depth", "Formulas",
		"tokens of each (without it: as recorded, or 128)", .arg = "S", .low = 1, .high = 1 << 20),
	OWN(INT, formulas_opts, drafts, "drafts", "Formulas",
		"drafted tokens that a step verifies: a prediction", .arg = "K", .low = 0, .high = 64),
	OWN(TEXT, formulas_opts, machine, "machine", "Formulas",
		"predict for this machine: pi5, laptop, m1, m4-max, rtx4090, a100, h100 or h200",
		.arg = "ID"),
	{ 0 },
};

static void fold(void *arg, const struct event *ev)
{
	timeline_fold(arg, ev);
}

/* Requests of such a depth, which decode together for as many steps as a sample has. */
static int run_batch(
	struct engine *engine, const struct timeline *t, int32_t batch, int32_t depth, struct err *e)
{
	const struct engine_info *info = engine_info(engine);
	int32_t *ids = calloc((size_t)depth, sizeof *ids);
	int more = 1;

	if (!ids)
		return err_no_memory(e, "%d tokens", depth);
	for (int32_t b = 0; b < batch && more > 0; b++) {
		const struct engine_request q =
			engine_own_request(EV_REQUEST_KIND_load, ids, depth, info->ctx - depth, "formulas");

		for (int32_t i = 0; i < depth; i++) /* no two prompts have pages in common */
			ids[i] = (int32_t)((7919LL * i + 104729LL * b + 257) % info->vocab);
		more = engine_submit(engine, &q, e) < 0 ? -1 : 1;
	}
	free(ids);
	for (int n = 0; more > 0 && n < TL_MEAN && !engine_idle(engine);) {
		const struct tl_step *s;

		more = engine_step(engine, e);
		s = timeline_last_step(t);
		n += s && timeline_phase(s) == TL_DECODE && s->n_batch == batch;
	}
	return more < 0 ? -1 : 0;
}

static int run_model(struct timeline *t, const struct cli *c, struct err *e)
{
	struct session s = { 0 };
	struct cli quiet = *c;
	const int32_t batch = opts.batch ? opts.batch : 1,
				  depth = opts.depth ? opts.depth : DEFAULT_DEPTH;
	const bool run = !opts.machine && opts.drafts < 0;
	int rc;

	if (run && batch > MOST_RUN)
		return err_set(
			e, ERR_USAGE, "%d sequences at most can run; --machine predicts more", MOST_RUN);
	quiet.no_record = true;
	if (run && batch > quiet.engine.slots)
		quiet.engine.slots = batch;
	if (run && !cli_given(c, "pages")) /* all at once, and what they draw */
		quiet.engine.pages = batch * ((depth + 2 * (TL_MEAN + batch)) / quiet.engine.page_size + 2);
	rc = cli_open(&s, &quiet, fold, t, e);
	if (!rc && run) {
		engine_observe(s.engine, true);
		rc = run_batch(s.engine, t, batch, depth, e);
	}
	if (!rc)
		rc = engine_set(s.engine, "roof", "measure", e);
	return session_close(&s, rc ? NULL : e) || rc ? -1 : 0;
}

/* ---- output ---- */

static void put_padded(const char *text, int w, bool right)
{
	const int pad = w - text_width(text, strlen(text), false);

	printf("%*s%s%*s", right && pad > 0 ? pad : 0, "", text, !right && pad > 0 ? pad : 0, "");
}

static void print_line(const struct formula_sheet *f, const struct formula_line *l)
{
	if (l->unit == FORMULA_HEAD) {
		putchar('\n');
		put_padded(l->label, 60, false);
		put_padded(f->predicted ? "predicted" : "formula", 14, true);
		puts(f->predicted ? "" : "          seen");
		return;
	}
	fputs("  ", stdout);
	put_padded(l->label, 26, false);
	put_padded(l->rule, 32, false);
	put_padded(view_formula_number(l->unit, l->formula).text, 14, true);
	if (isfinite(l->seen))
		put_padded(view_formula_number(l->unit, l->seen).text, 14, true);
	printf(*l->note ? "\n    %s\n" : "\n", l->note);
}

static void print_table(const struct timeline *t, const struct formula_sheet *f)
{
	const char *name = t->model_name ? t->model_name : "?";
	char clean[256];

	printf("%s, %.4g sequence%s of %.0f tokens, k %.3g, on %s",
		text_cleaned(clean, sizeof clean, name, strlen(name)), f->batch, plural(f->batch), f->depth,
		f->drafts, f->machine.name);
	if (f->machine.reads > 0)
		printf(", %s (%s)", view_rate(f->machine.reads).text, f->machine.source);
	printf("\n%s\n", f->predicted
						 ? "a prediction: this was not run"
						 : "beside each formula what the last decode steps counted or measured");
	for (int i = 0; i < f->n; i++)
		print_line(f, &f->line[i]);
	printf("\n%s\n", view_formula_letters);
}

static const struct listing_column columns[] = { { "what", NULL, 0 }, { "formula", NULL, 0 },
	{ "value", NULL, 0 }, { "seen", NULL, 0 }, { 0 } };

/* As JSON, after what is in j unless it is NULL, and as CSV. */
static int list_lines(const struct formula_sheet *f, struct json *j, const char *csv, struct err *e)
{
	struct listing l;

	if (listing_open(&l, columns, NULL, j, csv, e))
		return -1;
	for (int i = 0; i < f->n; i++) {
		const struct formula_line *line = &f->line[i];

		if (line->unit == FORMULA_HEAD)
			continue;
		listing_text(&l, line->label);
		listing_text(&l, line->rule);
		listing_real(&l, line->formula, 9);
		listing_real(&l, line->seen, 9);
	}
	return listing_end(&l, 0, e);
}

static int print_json(const struct formula_sheet *f, const char *csv, struct err *e)
{
	struct json j = { 0 };

	json_put(&j,
		"{'predicted': %hhd, 'machine': %s, 'bandwidth': %.9g, 'batch': %.9g, 'depth': %.9g, "
		"'formulas': [",
		f->predicted, f->machine.id, f->machine.reads, f->batch, f->depth);
	return list_lines(f, &j, csv, e);
}

static int print_sheet(const struct timeline *t, const struct cli *c, struct err *e)
{
	const bool file = c->n_operands > 0, given = file || opts.machine || opts.drafts >= 0;
	struct formula_knobs k = { .drafts = opts.drafts };
	struct formula_sheet f;

	k.machine = opts.machine ? formula_machine_named(opts.machine) : 0;
	if (given && (opts.batch || opts.machine))
		k.batch = opts.batch ? opts.batch : file ? 0 : 1;
	if (given && (opts.depth || opts.machine))
		k.depth = opts.depth ? opts.depth : file ? 0 : DEFAULT_DEPTH;
	formula_sheet(t, 0, k, &f);
	if (!f.known)
		return err_set(e, ERR_INPUT, "the recording does not say what its model is");
	if (c->json)
		return print_json(&f, c->csv, e);
	print_table(t, &f);
	if (c->csv && list_lines(&f, NULL, c->csv, e))
		return -1;
	return 0;
}

static int formulas_verb(const struct cli *c, struct err *e)
{
	struct timeline t;
	int rc;

	if (opts.machine && formula_machine_named(opts.machine) < 0)
		return err_set(
			e, ERR_USAGE, "no machine %.40s: cutaway formulas --help lists them", opts.machine);
	timeline_init(&t);
	rc = c->n_operands ? reader_each(c->operand[0], UINT64_MAX, 0, fold, &t, e)
					   : run_model(&t, c, e);
	if (!rc)
		rc = print_sheet(&t, c, e);
	timeline_free(&t);
	return rc;
}

const struct verb verb_formulas = {
	VERB(formulas, "[FILE]", "Model|Kernels|Exactness|Scheduler|json|csv"),
	OPERANDS(0, 1, "RECORDING"),
};
