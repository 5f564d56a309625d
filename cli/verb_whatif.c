/* cutaway whatif: the recorded requests under other settings. Thread: main's. */
#include <math.h>

#include "base/json.h"
#include "cli/open.h"
#include "cli/out.h"
#include "sessions/history/history.h"
#include "sessions/verify/verify.h"
#include "sessions/whatif/whatif.h"

static struct whatif_opts {
	bool verify;
} opts;

static const struct setting whatif_own[] = {
	OWN(FLAG, whatif_opts, verify, "verify", "Output",
		"then run it for real, with the model, and compare"),
	{ 0 },
};

static const struct {
	const char *name, *doc;
	size_t at;
} figures[] = {
#define X(name, doc) { #name, doc, offsetof(struct whatif_counts, name) },
	WHATIF_FIGURES(X)
#undef X
};

static int64_t value(const struct whatif_counts *c, size_t at)
{
	int64_t v;

	memcpy(&v, (const char *)c + at, sizeof v);
	return v;
}

static void print_row(const char *name, const struct whatif *w, size_t at)
{
	int64_t was = value(&w->recorded, at), now = value(&w->changed, at);

	printf("%-46s%12lld%12lld", name, (long long)was, (long long)now);
	if (w->verified)
		printf("%12lld", (long long)value(&w->real, at));
	if (was > 0 && now != was)
		printf("   %+.0f %%", 100.0 * (double)(now - was) / (double)was);
	putchar('\n');
}

/* Compares predicted with predicted times: a measured time includes other load on the machine. */
static void print_times(const struct whatif *w)
{
	printf(
		"%-46s%12.3f%12.3f", "seconds of all steps, predicted", w->predicted, w->changed.seconds);
	if (w->predicted > 0 && fabs(w->changed.seconds / w->predicted - 1) >= 0.005)
		printf("%*s   %+.0f %%", w->verified ? 12 : 0, "",
			100 * (w->changed.seconds / w->predicted - 1));
	printf("\n%-46s%12.3f", "seconds of all steps, measured", w->recorded.seconds);
	if (w->verified)
		printf("%12s%12.3f", "", w->real.seconds);
	putchar('\n');
}

static void print_table(const struct whatif *w)
{
	int n_off = 0;

	printf("%-46s%12s%12s%s\n", "", "recorded", "what if", w->verified ? "    for real" : "");
	for (size_t i = 0; i < ARRAY_N(figures); i++) {
		print_row(figures[i].doc, w, figures[i].at);
		n_off += value(&w->recorded, figures[i].at) != value(&w->again, figures[i].at);
	}
	print_times(w);
	printf("\ncost of a step, fitted to the recording: median error %.0f %%, of the sum %+.1f %%\n",
		100 * w->step_error, 100 * w->time_error);
	if (w->unchecked)
		puts("it was recorded with a drafter that needs the model: that the counts are the log's "
			 "was not checked");
	else if (n_off)
		printf(
			"run again as recorded, %d of these figures differ%s from the log: arrivals cannot be "
			"placed exactly\n",
			n_off, n_off == 1 ? "s" : "");
	else
		puts("run again as recorded, every count is that of the log");
	if (w->verified)
		printf("the model of time is off by %+.1f %%\n",
			w->real.seconds > 0 ? 100 * (w->changed.seconds / w->real.seconds - 1) : 0.0);
}

static void add_counts(
	struct json *j, const char *name, const struct whatif_counts *c, const char *seconds)
{
	json_object(j, name);
	for (size_t i = 0; i < ARRAY_N(figures); i++)
		json_int(j, figures[i].name, value(c, figures[i].at));
	json_real(j, seconds, c->seconds, 9);
	json_end(j);
}

static int print_json(const struct whatif *w, struct err *e)
{
	struct json j = { 0 };

	json_object(&j, NULL);
	add_counts(&j, "recorded", &w->recorded, "seconds_measured");
	add_counts(&j, "again", &w->again, "seconds_predicted");
	add_counts(&j, "changed", &w->changed, "seconds_predicted");
	if (w->verified)
		add_counts(&j, "real", &w->real, "seconds_measured");
	json_put(&j, "'predicted_as_recorded': %.6g, 'step_error': %.4g, 'time_error': %.4g",
		w->predicted, w->step_error, w->time_error);
	return json_print(&j, e);
}

static bool progress(void *arg, int64_t done, int64_t all)
{
	(void)arg;
	if (done % 64 == 0)
		out_progress("for real: %lld of %lld tokens", (long long)done, (long long)all);
	return true;
}

/* That of the recording; --model names it where the file has moved. */
static int model_of(const struct cli *c, char **model, char **lora, struct err *e)
{
	struct history *h;
	int rc;

	if (history_open(&h, c->operand[0], e))
		return -1;
	rc = model_find_recorded(c, h, c->engine.model, model, e) ||
				 verify_adapters(h, c->engine.lora, lora, e)
			 ? -1
			 : 0;
	history_close(h);
	return rc;
}

static int run_real(
	const struct cli *c, const struct whatif_settings *s, struct whatif *w, struct err *e)
{
	struct engine_options o = c->engine;
	char *model = NULL, *lora = NULL;
	int rc;

	if (model_of(c, &model, &lora, e)) {
		free(model);
		return -1;
	}
	o.model = model;
	o.lora = lora;
	rc = whatif_verify(c->operand[0], s, &o, progress, NULL, w, e);
	out_progress_end();
	free(model);
	free(lora);
	return rc;
}

static int whatif_verb(const struct cli *c, struct err *e)
{
	struct whatif_settings s = { .to = c->engine };
	struct whatif w;

	for (int i = 0; i < N_ENGINE_SETTINGS; i++)
		s.given[i] = cli_given(c, engine_settings[i].name) && i != ENGINE_AT_model;
	if (!s.given[ENGINE_AT_spec])
		s.to.spec = NULL;
	if (whatif_run(c->operand[0], &s, &w, e) || (opts.verify && run_real(c, &s, &w, e)))
		return -1;
	if (!c->json)
		print_table(&w);
	else if (print_json(&w, e))
		return -1;
	return 0;
}

const struct verb verb_whatif = {
	VERB(whatif, "FILE", "model|lora|Scheduler|spec|json"),
	OPERANDS(1, 1, "RECORDING"),
};
