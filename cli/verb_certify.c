/* cutaway certify: runs the proof and prints the certificate. Thread: main's. */
#include "base/listing.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/open.h"
#include "cli/out.h"
#include "kernels/kernels.h"
#include "sessions/certify/certify.h"

static struct certify_opts {
	bool quick;
	int32_t seconds; /* 0: the default */
} opts;

static const struct setting certify_own[] = {
	OWN(FLAG, certify_opts, quick, "quick", "Output", "a smaller proof, under half a minute"),
	OWN(INT, certify_opts, seconds, "seconds", "Output",
		"begin no case that would end after N seconds; 0: 170, or 18 with --quick", .arg = "N",
		.high = 1 << 20, .unit = "seconds"),
	{ 0 },
};

enum { SECONDS = 170, SECONDS_QUICK = 18, LEFT_SHOWN = 120 };

static void add_case(struct json *j, const struct certify_case *c)
{
	json_put(j, "{'axis': %s, 'what': %s, 'seen': %s, 'idle': %s, 'tokens': %d, 'equal': %hhd}",
		c->axis, c->what, c->seen, c->idle, c->tokens, c->equal);
}

/* json: in the array of cases; NULL: text. */
static void certify_progress(void *json, const struct certify_case *c)
{
	out_progress_end();
	if (json)
		add_case(json, c);
	else
		printf("%-6s %-13s %-10s %4d tokens%s%s%s%s\n",
			!c->equal  ? "DIFFER"
			: *c->idle ? "idle"
					   : "equal",
			c->axis, c->what, c->tokens, *c->seen ? "  " : "", c->seen, *c->idle ? "; idle: " : "",
			c->idle);
	fflush(stdout);
	out_progress("certify: %d cases, %d of %d pairs, %.0f s; about %.0f s more …", c->n_done,
		c->pairs_met, c->pairs_possible, c->seconds, c->left);
}

static const struct listing_column columns[] = { { "axis", "axis", -14 }, { "value", "value", -10 },
	{ "base", NULL, 0 }, { "cases", "cases", 6 }, { "idle", "idle", 6 }, { "tokens", "tokens", 9 },
	{ 0 } };

/* As text, or into the array that is open in j. */
static void list_values(const struct certify_summary *s, struct json *j)
{
	struct listing l;

	listing_open(&l, columns, stdout, j, NULL, NULL); /* no file, so that nothing fails */
	for (const struct certify_value *v = s->value; v < s->value + s->n_values; v++) {
		const bool again = v > s->value && !strcmp(v->axis, v[-1].axis);
		const int64_t count[] = { v->cases, v->idle, v->rows };

		listing_as(&l, "%s", again ? " " : "");
		listing_text(&l, v->axis);
		listing_text(&l, v->value);
		listing_bool(&l, v->base);
		for (int i = 0; i < 3; i++) {
			listing_as(&l, "%s", !v->base ? "" : i ? " " : "base");
			listing_int(&l, count[i]);
		}
	}
}

/* Values that value i was not paired with: "  kernels ref with prefill chunk 512, batch 16 17" */
static void print_left_of(const struct certify_summary *s, int i)
{
	const char *axis = "";
	for (int j = i + 1; j < s->n_values; j++) {
		const struct certify_value *v = &s->value[j];
		if (s->pair[i][j] != CERTIFY_PAIR_LEFT)
			continue;
		if (!*axis)
			printf("  %s %s with %s", s->value[i].axis, s->value[i].value, v->axis);
		else if (strcmp(axis, v->axis))
			printf(", %s", v->axis);
		printf(" %s", v->value);
		axis = v->axis;
	}
	if (*axis)
		printf("\n");
}

static void print_left(const struct certify_summary *s)
{
	int left = s->pairs_possible - s->pairs_met;
	const char *why = s->out_of_time ? "for want of time: see --seconds"
									 : "a value was idle whenever they were tried";
	if (!left)
		return;
	printf("not met: %d pair%s (%s)%s\n", left, plural(left), why,
		left > LEFT_SHOWN ? "; --json lists them" : ":");
	for (int i = 0; left <= LEFT_SHOWN && i < s->n_values; i++)
		print_left_of(s, i);
}

static const char *lossy_opts(const struct cli *c, char buf[128])
{
	const struct lossy_settings l = lossy_of_options(&c->engine);

	return lossy_print(&l, buf, 128);
}

static void print_text(
	const struct certify_summary *s, const char *sha, const struct cli *c, const struct err *e)
{
	char lossy[128];

	putchar('\n');
	list_values(s, NULL);
	printf(
		"\nmodel:    %s (%s)\nmemory:   %s\nsha256:   %s\nbuild:    cutaway %s, %s\nmachine:  %s, "
		"base of %d threads\n",
		s->model, s->formats, s->memory, sha, CUTAWAY_VERSION, CUTAWAY_BUILD, s->isa, s->threads);
	printf("coverage: %d axes, %d cases, %d of them mixed, %d of %d pairs of values, %lld tokens "
		   "compared, seed %llu, %.0f s\n",
		s->n_axes, s->n_cases, s->n_mixed, s->pairs_met, s->pairs_possible, (long long)s->n_tokens,
		(unsigned long long)c->answer.params.seed, s->seconds);
	print_left(s);
	for (int i = 0; i < s->n_rules; i++)
		printf("impossible: %d pair%s: %s\n", s->rule[i].n_pairs, plural(s->rule[i].n_pairs),
			s->rule[i].text);
	if (s->n_idle)
		printf("in %d case%s a value had no occasion to matter (idle): it is not counted there\n",
			s->n_idle, plural(s->n_idle));
	if (s->out_of_time)
		printf("time was up: %d cases that were planned were not begun\n", s->n_untried);
	printf("hash of all logits: %016llx (arithmetic %d, this model, %s, %s texts)\n",
		(unsigned long long)s->hash, K_ARITH_VERSION, *lossy_opts(c, lossy) ? lossy : "exact",
		opts.quick ? "quick" : "full");
	if (s->n_differ)
		printf("%s\n%d of %d cases differ\n", e->text, s->n_differ, s->n_cases);
	else
		printf("all equal\n");
}

static void add_left(struct json *j, const struct certify_summary *s)
{
	char pair[96];
	json_array(j, "pairs_left");
	for (int i = 0; i < s->n_values; i++)
		for (int k = i + 1; k < s->n_values; k++)
			if (s->pair[i][k] == CERTIFY_PAIR_LEFT) {
				snprintf(pair, sizeof pair, "%s %s, %s %s", s->value[i].axis, s->value[i].value,
					s->value[k].axis, s->value[k].value);
				json_text(j, NULL, pair);
			}
	json_end(j);
}

static void add_rules(struct json *j, const struct certify_summary *s)
{
	json_array(j, "pairs_impossible");
	for (int i = 0; i < s->n_rules; i++)
		json_put(j, "{'pairs': %d, 'rule': %s}", s->rule[i].n_pairs, s->rule[i].text);
	json_end(j);
}

/* Numbers that a double cannot hold are text. The object is open, and its cases are already
 * written. */
static void add_certificate(struct json *j, const struct certify_summary *s, const char *sha,
	const struct cli *c, const struct err *e)
{
	char seed[24], lossy[128];
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->answer.params.seed);
	json_put(j, "'equal': %hhd, 'difference': %s, 'hash': %lx, 'arithmetic': %d, 'texts': %s",
		(bool)!s->n_differ, s->n_differ ? e->text : "", s->hash, K_ARITH_VERSION,
		opts.quick ? "quick" : "full");
	json_put(j, "'model': %s, 'formats': %s, 'lossy': %s, 'memory': %s, 'sha256': %s", s->model,
		s->formats, lossy_opts(c, lossy), s->memory, sha);
	json_put(j, "'version': %s, 'build': %s, 'isa': %s, 'threads': %d, 'seed': %s", CUTAWAY_VERSION,
		CUTAWAY_BUILD, s->isa, s->threads, seed);
	json_put(j, "'seconds': %.15g, 'out_of_time': %hhd, 'mixed': %d, 'idle': %d, 'differ': %d",
		s->seconds, s->out_of_time, s->n_mixed, s->n_idle, s->n_differ);
	json_put(j, "'pairs_met': %d, 'pairs_possible': %d, 'tokens': %ld", s->pairs_met,
		s->pairs_possible, s->n_tokens);
	add_left(j, s);
	add_rules(j, s);
	json_int(j, "untried", s->n_untried);
	json_array(j, "values");
	list_values(s, j);
	json_end(j);
}

/* ---- several models ---- */

/* Totals over all certificates of a call. */
struct all {
	bool format[K_N_TYPES];
	int n_models, n_differ;
	struct json json;
};

/* formats: names with spaces between. */
static void add_formats(struct all *all, const char *formats)
{
	char name[sizeof((struct certify_summary *)0)->formats];
	snprintf(name, sizeof name, "%s", formats);
	char *rest = NULL;
	for (char *f = strtok_r(name, " ", &rest); f; f = strtok_r(NULL, " ", &rest))
		for (int t = 0; t < K_N_TYPES; t++)
			all->format[t] |= !strcmp(k_types[t].name, f);
}

static void print_formats(const struct all *all)
{
	for (int covered = 1; covered >= 0; covered--) {
		int n = 0;
		for (int t = 0; t < K_N_TYPES; t++)
			if (all->format[t] == (covered != 0))
				printf("%s%s",
					n++       ? " "
					: covered ? "formats:  "
							  : "not in these files: ",
					k_types[t].name);
		if (n)
			printf("\n");
	}
}

static void json_formats(struct json *j, const char *key, const struct all *all, bool covered)
{
	json_array(j, key);
	for (int t = 0; t < K_N_TYPES; t++)
		if (all->format[t] == covered)
			json_text(j, NULL, k_types[t].name);
	json_end(j);
}

/* With one model, its certificate is the outermost object. */
static int print_all_json(struct all *all, struct err *e)
{
	if (all->n_models > 1) {
		json_end(&all->json); /* the array of certificates */
		json_bool(&all->json, "equal", !all->n_differ);
	}
	json_formats(&all->json, "formats_covered", all, true);
	json_formats(&all->json, "formats_not_covered", all, false);
	return json_print(&all->json, e);
}

static int certify_model(
	const struct cli *c, const char *path, double seconds, struct all *all, struct err *e)
{
	static struct certify_summary sum;
	struct json *j = c->json ? &all->json : NULL;
	struct err differs = { 0 };
	char sha[SHA256_HEX], after[SHA256_HEX];
	if (file_sha256_cached(path, sha, e))
		return -1;
	if (j) {
		json_object(j, NULL);
		json_array(j, "cases");
	}
	const struct certify_options o = { .model = path,
		.lossy = lossy_of_options(&c->engine),
		.lora = c->engine.lora,
		.quick = opts.quick,
		.seed = c->answer.params.seed,
		.seconds = seconds };
	int status = certify_run(&o, certify_progress, j, &sum, &differs);
	out_progress_end();
	if (status && differs.code != ERR_DIFFERS)
		return err_set(e, differs.code, "%s", differs.text);
	if (file_sha256_cached(path, after, e) || strcmp(sha, after))
		return err_set(e, ERR_INPUT, "%s was changed while it was certified", path);
	add_formats(all, sum.formats);
	all->n_models++;
	all->n_differ += status != 0;
	if (status && !e->code)
		*e = differs;
	if (!j) {
		print_text(&sum, sha, c, &differs);
		return 0;
	}
	json_end(j); /* the cases */
	add_certificate(j, &sum, sha, c, &differs);
	if (c->n_operands > 1)
		json_end(j);
	return 0;
}

/* The models share the time limit. */
static int certify_models(const struct cli *c, struct all *all, struct err *e)
{
	double seconds = opts.seconds ? opts.seconds : opts.quick ? SECONDS_QUICK : SECONDS;
	if (!c->n_operands) {
		char *path = NULL;
		int status = model_find(c, &path, e) || certify_model(c, path, seconds, all, e) ? -1 : 0;
		free(path);
		return status;
	}
	if (c->engine.model)
		return err_set(
			e, ERR_USAGE, "certify: name the models after the verb or with --model, not both");
	if (c->json && c->n_operands > 1) {
		json_object(&all->json, NULL);
		json_array(&all->json, "certificates");
	}
	for (int i = 0; i < c->n_operands; i++)
		if (certify_model(c, c->operand[i], seconds / c->n_operands, all, e))
			return -1;
	return 0;
}

static int certify_verb(const struct cli *c, struct err *e)
{
	struct all all = { 0 };
	if (K_FREE)
		return err_set(e, ERR_USAGE, "this build is free of the fixed order: nothing to certify");
	int status = certify_models(c, &all, e);
	if (!status && c->json)
		status = print_all_json(&all, e);
	else if (!status)
		print_formats(&all);
	json_drop(&all.json);
	return status || all.n_differ ? -1 : 0;
}

const struct verb verb_certify = {
	VERB(certify, "[MODEL …]", "model|lora|seed|visible|skip-below|weights|activations|json"),
	OPERANDS(0, CLI_MAX_OPERANDS, "FILE"),
};
