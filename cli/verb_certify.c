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

enum { SECONDS = 150, SECONDS_QUICK = 16 };

struct report {
	bool progress;
	double limit;
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
		fprintf(stderr, "certify: %d cases, %d of %d pairs, %.0f s of %.0f …", c->n_done,
				c->pairs_met, c->pairs_possible, c->seconds, r->limit);
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

static void print_text(const struct certify_summary *s, const char *sha, const struct cli *c,
					   const struct err *e)
{
	print_coverage(s);
	printf("\nmodel:    ");
	out_text(s->model, strlen(s->model));
	printf(" (%s)\nsha256:   %s\nbuild:    cutaway %s, %s\nmachine:  %s, base of %d threads\n",
		   s->formats, sha, CUTAWAY_VERSION, CUTAWAY_BUILD, s->isa, s->threads);
	printf("coverage: %d axes, %d cases, %d of them mixed, %d of %d pairs of values, %lld tokens "
		   "compared, seed %llu, %.0f s\n",
		   s->n_axes, s->n_cases, s->n_mixed, s->pairs_met, s->pairs_possible,
		   (long long)s->n_tokens, (unsigned long long)c->params.seed, s->seconds);
	if (s->n_idle)
		printf("in %d cases a value had no occasion to matter (idle): it is not counted there\n",
			   s->n_idle);
	if (s->out_of_time)
		printf("time was up before every value had been tried: see --seconds\n");
	printf("hash of all logits: %016llx (arithmetic %d, this model, %s texts)\n",
		   (unsigned long long)s->hash, K_ARITH_VERSION, c->quick ? "quick" : "full");
	if (s->n_differ)
		printf("%s\n%d of %d cases differ\n", e->text, s->n_differ, s->n_cases);
	else
		printf("all equal\n");
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
static int print_json(const struct certify_summary *s, const char *sha, const struct cli *c,
					  cJSON *cases, struct err *e)
{
	char hash[17], seed[24];
	cJSON *o = cJSON_CreateObject();
	snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->hash);
	snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->params.seed);
	cJSON_AddBoolToObject(o, "equal", !s->n_differ);
	cJSON_AddStringToObject(o, "difference", s->n_differ ? e->text : "");
	cJSON_AddStringToObject(o, "hash", hash);
	cJSON_AddNumberToObject(o, "arithmetic", K_ARITH_VERSION);
	cJSON_AddStringToObject(o, "texts", c->quick ? "quick" : "full");
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
	cJSON_AddItemToObject(o, "values", values_json(s));
	cJSON_AddItemReferenceToObject(o, "cases", cases);
	char *text = cJSON_Print(o);
	cJSON_Delete(o);
	if (!text)
		return err_set(e, ERR_MEMORY, "out of memory");
	printf("%s\n", text);
	cJSON_free(text);
	return 0;
}

int verb_certify(const struct cli *c, struct err *e)
{
	struct certify_summary sum;
	struct report r = {.progress = isatty(STDERR_FILENO)};
	char *path = NULL, sha[SHA256_HEX];
	int status = -1;
	if (K_FREE)
		return err_set(e, ERR_USAGE, "this build is free of the fixed order: nothing to certify");
	if (model_find(c, &path, e) || file_sha256_cached(path, sha, e))
		goto out;
	r.limit = c->seconds ? c->seconds : c->quick ? SECONDS_QUICK : SECONDS;
	r.cases = c->json ? cJSON_CreateArray() : NULL;
	struct certify_options o = {
		.model = path, .quick = c->quick, .seed = c->params.seed, .seconds = r.limit};
	status = certify_run(&o, tell, &r, &sum, e);
	if (r.progress)
		fprintf(stderr, "\r\033[K");
	if (!status || e->code == ERR_DIFFERS) {
		if (!c->json)
			print_text(&sum, sha, c, e);
		else if (print_json(&sum, sha, c, r.cases, e))
			status = -1;
		if (out_flush(e))
			status = -1;
	}
	cJSON_Delete(r.cases);
out:
	free(path);
	return status;
}
