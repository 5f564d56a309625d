/* See zoo.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "engine/core/engine.h"
#include "tests/support/invariants.h"
#include "tests/support/zoo.h"

enum { SEQUENCES = 3, MOST = 128, GREEDY = 16 };

struct sequence {
	int32_t n, ids[2 * MOST], greedy[GREEDY];
	int32_t input; /* of an encoder-decoder model: of ids, those that the encoder reads */
	double logp[MOST], margin[GREEDY];
};

/* What an engine said of a sequence. */
struct answer {
	double logp[MOST];
	uint64_t hash[MOST];
	int32_t greedy[GREEDY];
	int n, n_greedy;
	bool finished;
	char why[200];
};
struct world {
	struct engine *e;
	int32_t input[SEQUENCES];                /* tokens that an encoder reads */
	struct answer answer[2 * SEQUENCES + 1]; /* by number of request: scores first */
};

/* ---- references ---- */

static void read_sequence(const char *line, struct sequence *s)
{
	cJSON *all = cJSON_Parse(line);
	const cJSON *ids = cJSON_GetObjectItem(all, "ids"), *logp = cJSON_GetObjectItem(all, "logp");
	const cJSON *greedy = cJSON_GetObjectItem(all, "greedy"),
				*margin = cJSON_GetObjectItem(all, "margin"),
				*input = cJSON_GetObjectItem(all, "encoder_ids");

	assert_non_null(margin);
	s->n = cJSON_GetArraySize(ids);
	assert_in_range(s->n, 2, MOST);
	assert_int_equal(cJSON_GetArraySize(greedy), GREEDY);
	s->input = cJSON_GetArraySize(input); /* 0: there is none */
	assert_in_range(s->input, 0, MOST);
	for (int i = 0; i < s->input; i++)
		s->ids[i] = (int32_t)cJSON_GetArrayItem(input, i)->valuedouble;
	for (int i = 0; i < s->n; i++)
		s->ids[s->input + i] = (int32_t)cJSON_GetArrayItem(ids, i)->valuedouble;
	for (int i = 0; i + 1 < s->n; i++)
		s->logp[i] = cJSON_GetArrayItem(logp, i)->valuedouble;
	for (int i = 0; i < GREEDY; i++) {
		s->greedy[i] = (int32_t)cJSON_GetArrayItem(greedy, i)->valuedouble;
		s->margin[i] = cJSON_GetArrayItem(margin, i)->valuedouble;
	}
	cJSON_Delete(all);
}

static void read_reference(const char *name, struct sequence s[SEQUENCES])
{
	char path[128], *line = NULL;
	size_t cap = 0;
	FILE *f;

	snprintf(path, sizeof path, "tests/data/zoo/%s.jsonl", name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(getline(&line, &cap, f) > 0); /* where it comes from */
	for (int i = 0; i < SEQUENCES; i++) {
		assert_true(getline(&line, &cap, f) > 0);
		read_sequence(line, &s[i]);
	}
	free(line);
	fclose(f);
}

/* ---- running ---- */

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_score) {
		struct answer *a = &w->answer[ev->u.score.request - 1];

		const int64_t at = ev->u.score.pos - 1 - w->input[(ev->u.score.request - 1) % SEQUENCES];

		a->logp[at] = ev->u.score.logp;
		a->hash[at] = (uint64_t)ev->u.score.hash;
		a->n++;
	} else if (ev->kind == EV_token) {
		struct answer *a = &w->answer[ev->u.token.request - 1];

		if (a->n_greedy < GREEDY)
			a->greedy[a->n_greedy++] = (int32_t)ev->u.token.id;
	} else if (ev->kind == EV_finish) {
		struct answer *a = &w->answer[ev->u.finish.request - 1];

		a->finished = true;
		snprintf(a->why, sizeof a->why, "%.*s", (int)ev->u.finish.why.size,
			ev->u.finish.why.data ? (const char *)ev->u.finish.why.data : "");
	}
}

static void submit(struct engine *e, const struct sequence *s, enum ev_code_request_kind kind)
{
	struct engine_request q = {
		.kind = kind, .ids = s->ids, .n_ids = s->input + s->n, .ignore_end = true
	};
	struct err err = { 0 };

	q.max_tokens = kind == EV_REQUEST_KIND_score ? 0 : GREEDY;
	q.params = (struct sample_params)SAMPLE_DEFAULTS;
	q.params.temperature = 0;
	if (engine_submit(e, &q, &err) < 1)
		fail_msg("%s", err.text);
}

static void run_world(struct world *w, const char *name, const struct engine_options *options,
	const struct sequence *s)
{
	struct engine_options o = *options;
	char path[128];
	struct err err = { 0 };
	int status;

	memset(w, 0, sizeof *w);
	for (int i = 0; i < SEQUENCES; i++)
		w->input[i] = s[i].input;
	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", name);
	if (access(path, R_OK))
		snprintf(path, sizeof path, "demos/models/family/%s.gguf", name);
	o.model = path;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s on %s: %s", name, o.backend, err.text);
	assert_int_equal(engine_add_sink(w->e, on_event, w), 0);
	engine_begin(w->e, NULL);
	for (int i = 0; i < SEQUENCES; i++)
		submit(w->e, &s[i], EV_REQUEST_KIND_score);
	for (int i = 0; i < SEQUENCES; i++)
		submit(w->e, &s[i], EV_REQUEST_KIND_run);
	while ((status = engine_step(w->e, &err)) > 0)
		engine_check(w->e);
	if (status)
		fail_msg("%s on %s: %s", name, o.backend, err.text);
	for (int i = 0; i < 2 * SEQUENCES; i++)
		assert_true(w->answer[i].finished);
	engine_close(w->e);
}

/* ---- comparing ---- */

/* The references' tolerance (docs/arithmetic.md, "How it is checked"), `times` as much. */
static void check_reference(
	const char *name, const struct world *w, const struct sequence *s, double times)
{
	for (int i = 0; i < SEQUENCES; i++) {
		const struct answer *score = &w->answer[i], *run = &w->answer[SEQUENCES + i];
		double sum = 0, most = 0;

		if (score->n != s[i].n - 1)
			fail_msg("%s, sequence %d: %d of %d positions: %s", name, i, score->n, s[i].n - 1,
				score->why);
		for (int k = 0; k + 1 < s[i].n; k++) {
			double d = fabs(score->logp[k] - s[i].logp[k]);

			sum += d;
			most = d > most ? d : most;
		}
		if (!(sum / (s[i].n - 1) < times * 3e-3 && most < times * 0.06))
			fail_msg("%s, sequence %d: off by %.5f in the mean, by %.4f at most", name, i,
				sum / (s[i].n - 1), most);
		for (int k = 0; k < GREEDY && s[i].margin[k] > times * 0.1; k++)
			if (run->greedy[k] != s[i].greedy[k])
				fail_msg("%s, sequence %d: greedy token %d is %d, not %d", name, i, k,
					run->greedy[k], s[i].greedy[k]);
	}
}

static void check_same(
	const char *name, const char *what, const struct world *a, const struct world *b)
{
	for (int i = 0; i < 2 * SEQUENCES; i++) {
		if (memcmp(a->answer[i].hash, b->answer[i].hash, sizeof a->answer[i].hash) ||
			memcmp(a->answer[i].greedy, b->answer[i].greedy, sizeof a->answer[i].greedy))
			fail_msg("%s: %s has other bits than the reference", name, what);
	}
}

static struct engine_options options(const char *backend, const char *isa)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.backend = backend;
	o.isa = isa;
	o.threads = 2;
	o.packed_cache = "off";
	return o;
}

/* The emulated GPU (tests/cuda/shim), whose fibers sanitizers do not know. */
static bool has_shim(void)
{
#ifndef __SANITIZE_ADDRESS__
	static const char library[] = "build/tests/libcuda_shim.so";

	setenv("CUTAWAY_CUDA_DRIVER", library, 1);
	return !access(library, R_OK);
#else
	return false;
#endif
}

/* With weights of 8 bits what a product reads is rounded to 8 bits too, which no reference does:
 * the family's files are so. */
static bool reads_eights(const char *name)
{
	return !strncmp(name, "mend", 4);
}

void zoo_check(const char *name, bool on_gpu)
{
	static struct world base, other;
	struct sequence s[SEQUENCES];
	struct engine_options o = options("ref", NULL);
	const bool shim = has_shim(); /* before anything looks for a driver */

	read_reference(name, s);
	run_world(&base, name, &o, s);
	check_reference(name, &base, s, reads_eights(name) ? 5 : 1);
	for (const char *const *isa = k_isas(); *isa; isa++) {
		o = options("cpu", *isa);
		run_world(&other, name, &o, s);
		check_same(name, *isa, &base, &other);
	}
	o = options("cpu", NULL);
	o.page_size = 32;
	o.prefill_chunk = 7;
	o.budget = 11;
	o.slots = 2;
	run_world(&other, name, &o, s);
	check_same(name, "a small batch in chunks", &base, &other);
	if (!shim || !on_gpu)
		return;
	o = options("cuda", NULL);
	run_world(&other, name, &o, s);
	check_same(name, "the emulated GPU", &base, &other);
}
