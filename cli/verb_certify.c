/* cutaway certify: runs the proof and prints the certificate. Thread: main's. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/model.h"
#include "cli/out.h"
#include "kernels/kernels.h"
#include "sessions/certify.h"

static struct certify_said {
	bool quick;
	int32_t seconds; /* 0: as usual */
} said;

static const struct setting certify_own[] = {
	OWN(FLAG, certify_said, quick, .name = "quick", .group = "Output", .doc = "a smaller proof, under half a minute"),
	OWN(INT, certify_said, seconds, .name = "seconds", .group = "Output", .arg = "N", .high = 1 << 20, .unit = "seconds",
		.doc = "begin no case that would end after N seconds; 0: 170, or 18 with --quick"),
	{ 0 },
};

enum { SECONDS = 170, SECONDS_QUICK = 18, LEFT_SHOWN = 120 };

struct report {
	bool progress;
	cJSON *cases; /* NULL: text */
};

static const char *verdict(const struct certify_case *c)
{
	return !c->equal ? "DIFFER" : *c->idle ? "idle" : "equal";
}

static void add_case(cJSON *cases, const struct certify_case *c)
{
	cJSON *o = cJSON_CreateObject();
	cJSON_AddStringToObject(o, "axis", c->axis);
	cJSON_AddStringToObject(o, "what", c->what);
	cJSON_AddStringToObject(o, "seen", c->seen);
	cJSON_AddStringToObject(o, "idle", c->idle);
	cJSON_AddNumberToObject(o, "tokens", c->tokens);
	cJSON_AddBoolToObject(o, "equal", c->equal);
	cJSON_AddItemToArray(cases, o);
}

static void tell(void *arg, const struct certify_case *c)
{
	struct report *r = arg;
	if (r->progress)
		fprintf(stderr, "\r\033[K");
	if (r->cases)
		add_case(r->cases, c);
	else
		printf("%-6s %-13s %-10s %4d tokens%s%s%s%s\n", verdict(c), c->axis, c->what, c->tokens,
			   *c->seen ? "  " : "", c->seen, *c->idle ? "; idle: " : "", c->idle);
	fflush(stdout);
	if (r->progress)
		fprintf(stderr, "certify: %d cases, %d of %d pairs, %.0f s; about %.0f s more …", c->n_done,
				c->pairs_met, c->pairs_possible, c->seconds, c->left);
}

static void print_coverage(const struct certify_summary *s)
{
	const char *axis = "";
	printf("\n%-14s %-10s %6s %6s %9s\n", "axis", "value", "cases", "idle", "tokens");
	for (int i = 0; i < s->n_values; i++) {
		const struct certify_value *v = &s->value[i];
		printf("%-14s %-10s ", strcmp(axis, v->axis) ? v->axis : "", v->value);
		if (v->base)
			printf("%6s\n", "base");
		else
			printf("%6d %6d %9lld\n", v->cases, v->idle, (long long)v->rows);
		axis = v->axis;
	}
}

/* What value i has not met: "  kernels ref with prefill chunk 512, batch 16 17" */
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
	printf("not met: %d pairs (%s)%s\n", left, why, left > LEFT_SHOWN ? "; --json lists them" : ":");
	for (int i = 0; left <= LEFT_SHOWN && i < s->n_values; i++)
		print_left_of(s, i);
}

static void print_text(const struct certify_summary *s, const char *sha, const struct cli *c,
					   const struct err *e)
{
	print_coverage(s);
	printf("\nmodel:    %s (%s)\nsha256:   %s\nbuild:    cutaway %s, %s\nmachine:  %s, base of %d threads\n",
		   s->model, s->formats, sha, CUTAWAY_VERSION, CUTAWAY_BUILD, s->isa, s->threads);
	printf("coverage: %d axes, %d cases, %d of them mixed, %d of %d pairs of values, %lld tokens "
		   "compared, seed %llu, %.0f s\n",
		   s->n_axes, s->n_cases, s->n_mixed, s->pairs_met, s->pairs_possible,
		   (long long)s->n_tokens, (unsigned long long)c->answer.params.seed, s->seconds);
	print_left(s);
	for (int i = 0; i < s->n_rules; i++)
		printf("impossible: %d pairs: %s\n", s->rule[i].n_pairs, s->rule[i].text);
	if (s->n_idle)
		printf("in %d cases a value had no occasion to matter (idle): it is not counted there\n",
			   s->n_idle);
	if (s->out_of_time)
		printf("time was up: %d cases that were planned were not begun\n", s->n_untried);
	printf("hash of all logits: %016llx (arithmetic %d, this model, %s texts)\n",
		   (unsigned long long)s->hash, K_ARITH_VERSION, said.quick ? "quick" : "full");
	if (s->n_differ)
		printf("%s\n%d of %d cases differ\n", e->text, s->n_differ, s->n_cases);
	else
		printf("all equal\n");
}

static cJSON *left_json(const struct certify_summary *s)
{
	cJSON *left = cJSON_CreateArray();
	char pair[96];
	for (int i = 0; i < s->n_values; i++)
		for (int j = i + 1; j < s->n_values; j++)
			if (s->pair[i][j] == CERTIFY_PAIR_LEFT) {
				snprintf(pair, sizeof pair, "%s %s, %s %s", s->value[i].axis, s->value[i].value,
						 s->value[j].axis, s->value[j].value);
				cJSON_AddItemToArray(left, cJSON_CreateString(pair));
			}
	return left;
}

static cJSON *rules_json(const struct certify_summary *s)
{
	cJSON *rules = cJSON_CreateArray();
	for (int i = 0; i < s->n_rules; i++) {
		cJSON *o = cJSON_CreateObject();
		cJSON_AddNumberToObject(o, "pairs", s->rule[i].n_pairs);
		cJSON_AddStringToObject(o, "rule", s->rule[i].text);
		cJSON_AddItemToArray(rules, o);
	}
	return rules;
}

static cJSON *values_json(const struct certify_summary *s)
{
	cJSON *values = cJSON_CreateArray();
	for (int i = 0; i < s->n_values; i++) {
		const struct certify_value *v = &s->value[i];
		cJSON *o = cJSON_CreateObject();
		cJSON_AddStringToObject(o, "axis", v->axis);
		cJSON_AddStringToObject(o, "value", v->value);
		cJSON_AddBoolToObject(o, "base", v->base);
		cJSON_AddNumberToObject(o, "cases", v->cases);
		cJSON_AddNumberToObject(o, "idle", v->idle);
		cJSON_AddNumberToObject(o, "tokens", (double)v->rows);
		cJSON_AddItemToArray(values, o);
	}
	return values;
}

/* Numbers that a double cannot hold are text. */
static cJSON *certificate_json(const struct certify_summary *s, const char *sha, const struct cli *c,
							   cJSON *cases, const struct err *e)
{
	char hash[17], seed[24];
	cJSON *o = cJSON_CreateObject();
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->hash);
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->answer.params.seed);
	cJSON_AddBoolToObject(o, "equal", !s->n_differ);
	cJSON_AddStringToObject(o, "difference", s->n_differ ? e->text : "");
	cJSON_AddStringToObject(o, "hash", hash);
	cJSON_AddNumberToObject(o, "arithmetic", K_ARITH_VERSION);
	cJSON_AddStringToObject(o, "texts", said.quick ? "quick" : "full");
	cJSON_AddStringToObject(o, "model", s->model);
	cJSON_AddStringToObject(o, "formats", s->formats);
	cJSON_AddStringToObject(o, "sha256", sha);
	cJSON_AddStringToObject(o, "version", CUTAWAY_VERSION);
	cJSON_AddStringToObject(o, "build", CUTAWAY_BUILD);
	cJSON_AddStringToObject(o, "isa", s->isa);
	cJSON_AddNumberToObject(o, "threads", s->threads);
	cJSON_AddStringToObject(o, "seed", seed);
	cJSON_AddNumberToObject(o, "seconds", s->seconds);
	cJSON_AddBoolToObject(o, "out_of_time", s->out_of_time);
	cJSON_AddNumberToObject(o, "mixed", s->n_mixed);
	cJSON_AddNumberToObject(o, "idle", s->n_idle);
	cJSON_AddNumberToObject(o, "differ", s->n_differ);
	cJSON_AddNumberToObject(o, "pairs_met", s->pairs_met);
	cJSON_AddNumberToObject(o, "pairs_possible", s->pairs_possible);
	cJSON_AddNumberToObject(o, "tokens", (double)s->n_tokens);
	cJSON_AddItemToObject(o, "pairs_left", left_json(s));
	cJSON_AddItemToObject(o, "pairs_impossible", rules_json(s));
	cJSON_AddNumberToObject(o, "untried", s->n_untried);
	cJSON_AddItemToObject(o, "values", values_json(s));
	cJSON_AddItemToObject(o, "cases", cases);
	return o;
}

static int print_json(cJSON *o, struct err *e)
{
	char *text = cJSON_Print(o);
	if (!text)
		return err_set(e, ERR_MEMORY, "out of memory");
	printf("%s\n", text);
	cJSON_free(text);
	return 0;
}

/* ---- several models ---- */

/* What all certificates of a call have together. */
struct all {
	bool format[K_N_TYPES];
	int n_models, n_differ;
	cJSON *certificates; /* NULL: text */
};

/* The formats of a summary are names with spaces between. */
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
				printf("%s%s", n++ ? " " : covered ? "formats:  " : "not in these files: ",
					   k_types[t].name);
		if (n)
			printf("\n");
	}
}

static cJSON *formats_json(const struct all *all, bool covered)
{
	cJSON *names = cJSON_CreateArray();
	for (int t = 0; t < K_N_TYPES; t++)
		if (all->format[t] == covered)
			cJSON_AddItemToArray(names, cJSON_CreateString(k_types[t].name));
	return names;
}

/* One model: the object of its certificate is that of the call. */
static int print_all_json(const struct all *all, struct err *e)
{
	cJSON *o = cJSON_CreateObject();
	if (all->n_models == 1) {
		cJSON_Delete(o);
		o = cJSON_DetachItemFromArray(all->certificates, 0);
	} else {
		cJSON_AddBoolToObject(o, "equal", !all->n_differ);
		cJSON_AddItemReferenceToObject(o, "certificates", all->certificates);
	}
	cJSON_AddItemToObject(o, "formats_covered", formats_json(all, true));
	cJSON_AddItemToObject(o, "formats_not_covered", formats_json(all, false));
	int status = print_json(o, e);
	cJSON_Delete(o);
	return status;
}

static int certify_model(const struct cli *c, const char *path, double seconds, struct all *all,
						 struct err *e)
{
	static struct certify_summary sum;
	struct report r = {.progress = isatty(STDERR_FILENO)};
	struct err differs = {0};
	char sha[SHA256_HEX], after[SHA256_HEX];
	if (file_sha256_cached(path, sha, e))
		return -1;
	r.cases = c->json ? cJSON_CreateArray() : NULL;
	struct certify_options o = {
		.model = path, .quick = said.quick, .seed = c->answer.params.seed, .seconds = seconds};
	int status = certify_run(&o, tell, &r, &sum, &differs);
	if (r.progress)
		fprintf(stderr, "\r\033[K");
	if (status && differs.code != ERR_DIFFERS) {
		cJSON_Delete(r.cases);
		return err_set(e, differs.code, "%s", differs.text);
	}
	if (file_sha256_cached(path, after, e) || strcmp(sha, after)) {
		cJSON_Delete(r.cases);
		return err_set(e, ERR_INPUT, "%s was changed while it was certified", path);
	}
	add_formats(all, sum.formats);
	all->n_models++;
	all->n_differ += status != 0;
	if (status && !e->code)
		*e = differs;
	if (c->json)
		cJSON_AddItemToArray(all->certificates, certificate_json(&sum, sha, c, r.cases, &differs));
	else
		print_text(&sum, sha, c, &differs);
	return 0;
}

/* They share the time. */
static int certify_models(const struct cli *c, struct all *all, struct err *e)
{
	double seconds = said.seconds ? said.seconds : said.quick ? SECONDS_QUICK : SECONDS;
	if (!c->n_operands) {
		char *path = NULL;
		int status = model_find(c, &path, e) || certify_model(c, path, seconds, all, e) ? -1 : 0;
		free(path);
		return status;
	}
	if (c->engine.model)
		return err_set(e, ERR_USAGE, "certify: name the models after the verb or with --model, not both");
	for (int i = 0; i < c->n_operands; i++)
		if (certify_model(c, c->operand[i], seconds / c->n_operands, all, e))
			return -1;
	return 0;
}

static int certify_verb(const struct cli *c, struct err *e)
{
	struct all all = {.certificates = c->json ? cJSON_CreateArray() : NULL};
	if (K_FREE)
		return err_set(e, ERR_USAGE, "this build is free of the fixed order: nothing to certify");
	int status = certify_models(c, &all, e);
	if (!status && c->json)
		status = print_all_json(&all, e);
	else if (!status)
		print_formats(&all);
	if (!status && out_flush(e))
		status = -1;
	cJSON_Delete(all.certificates);
	return status || all.n_differ ? -1 : 0;
}

const struct verb verb_certify = {
	.name = "certify",
	.operands = "[MODEL …]",
	.summary = "the proof that all paths give the same bits",
	.doc = "Computes the same tokens along each axis that must not matter (kernels and instruction sets, "
		   "threads, page size, order of pages, prefill chunks, size of the batch, row in it, prefix cache, "
		   "preemption, drafts, watching and recording), then in mixed cases until every pair of values has "
		   "met or time is up, and compares every id and every hash of logits. What had no occasion to "
		   "matter is said to be idle and does not count. Several models, one of each weight format that "
		   "matters to you, share the time. Exit status 0 only if all are equal.",
	.example = "cutaway certify --quick",
	.takes = "model|seed|json",
	.min_operands = 0,
	.max_operands = CLI_MAX_OPERANDS,
	.run = certify_verb,
	.completes = "FILE",
	.own = certify_own,
	.said = &said,
};
