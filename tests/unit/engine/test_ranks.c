/* Ranks: the logits and draws of one rank, bit for bit, however the model is split: tensor,
 * pipeline, sequence, experts and their products, with drafts, preemption, cache formats and what
 * rows see; what cannot be split says why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/draft/file.h"
#include "tests/support/invariants.h"
#include "tests/support/thorough.h"
#include "tests/support/tiny_draft.h"

enum { MOST = 512, PROMPTS = 3, TOKENS = 10 };

/* What a run computed, by request and position, and what ranks sent. */
struct found {
	int32_t n;
	struct {
		int64_t request, pos, id, hash;
	} row[MOST];
	int64_t n_ranks, sent, received, preempted, watched, priced;
	double influence, largest; /* of all layers, and of all inputs of products */
	double kl;                 /* to the exact twin, of all rows */
	uint64_t attention;        /* a hash of what rows were observed to attend to */
};

static void see(void *arg, const struct event *ev)
{
	struct found *f = arg;

	if (ev->kind == EV_token && f->n < MOST) {
		f->row[f->n].request = ev->u.token.request;
		f->row[f->n].pos = ev->u.token.pos;
		f->row[f->n].id = ev->u.token.id;
		f->row[f->n++].hash = ev->u.token.hash;
	} else if (ev->kind == EV_rank) {
		f->n_ranks++;
	} else if (ev->kind == EV_traffic) {
		f->sent += ev->u.traffic.sent;
		f->received += ev->u.traffic.received;
	} else if (ev->kind == EV_preempt) {
		f->preempted++;
	} else if (ev->kind == EV_price) {
		f->priced++;
		f->kl += ev->u.price.kl;
	} else if (ev->kind == EV_importance) {
		f->influence += ev->u.importance.influence;
	} else if (ev->kind == EV_outliers) {
		f->largest += ev->u.outliers.largest;
	} else if (ev->kind == EV_attention) {
		const uint8_t *at = ev->u.attention.share.data;

		f->watched++;
		for (size_t i = 0; i < ev->u.attention.share.size; i++)
			f->attention = f->attention * 31 + at[i];
		at = ev->u.attention.near_zero.data;
		for (size_t i = 0; i < ev->u.attention.near_zero.size; i++)
			f->attention = f->attention * 31 + at[i];
	}
}

static int by_request(const void *a, const void *b)
{
	return memcmp(a, b, 2 * sizeof(int64_t));
}

static void submit_all(struct engine *e, const struct engine_options *o)
{
	int32_t ids[400];
	struct err err = { 0 };

	for (int i = 0; i < PROMPTS; i++) {
		const int32_t n = i ? 40 + 17 * i : o->budget > 200 ? 300 : 90;
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = n,
			.max_tokens = TOKENS,
			.params = SAMPLE_DEFAULTS,
			.ignore_end = true };

		for (int32_t k = 0; k < n; k++) /* it repeats itself, so that there is something to draft */
			ids[k] = 3 + (k % 13 * 7 + i) % 200;
		q.params.seed = 5;
		q.params.temperature = i == 2 ? 0.8f : 0;
		if (engine_submit(e, &q, &err) < 1)
			fail_msg("%s", err.text);
	}
}

static bool sets; /* a setting that all ranks have, after each step */

/* False: it did not open. */
static bool try_run(const struct engine_options *o, struct found *f, struct err *err)
{
	struct engine *e = NULL;
	int more;

	memset(f, 0, sizeof *f);
	if (engine_open(&e, o, err))
		return false;
	engine_add_sink(e, see, f);
	engine_begin(e, NULL);
	submit_all(e, o);
	while ((more = engine_step(e, err)) > 0 && !(sets && engine_set(e, "near-zero", "0.01", err)))
		engine_check(e);
	if (more)
		fail_msg("%s", err->text);
	engine_close(e);
	qsort(f->row, (size_t)f->n, sizeof *f->row, by_request);
	return true;
}

static void run(const struct engine_options *o, struct found *f)
{
	struct err err = { 0 };

	if (!try_run(o, f, &err))
		fail_msg("%s", err.text);
}

static struct engine_options options(const char *model)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model;
	o.threads = 1;
	o.packed_cache = "off";
	o.prefill_chunk = 0;
	o.budget = 128;
	o.attention_every = 2;
	return o;
}

/* A way to split, and a setting beside it. */
struct split {
	int32_t tensor, pipeline, sequence;
	bool by_expert;
	const char *exchange;
};
static const struct split splits[] = { { 2, 1, 1, false, "q8" }, { 1, 2, 1, false, "q8" },
	{ 1, 1, 2, false, "q8" }, { 2, 2, 1, false, "f32" }, { 2, 1, 1, true, "q8" },
	{ 3, 1, 1, false, "q8" }, { 4, 1, 1, false, "f32" }, { 1, 1, 3, false, "q8" },
	{ 4, 2, 1, true, "q8" } };
enum { SPLITS = sizeof splits / sizeof *splits };

static void put_split(struct engine_options *o, const struct split *s)
{
	o->tensor_parallel = s->tensor;
	o->pipeline_parallel = s->pipeline;
	o->sequence_parallel = s->sequence;
	o->expert_parallel = s->by_expert;
	o->exchange = s->exchange;
}

/* watched: not where rows choose what they read, which rank 0 knows of its own heads alone, nor
 * where a drafter reads features, which it knows of its own rows and layers. */
static void check_equal(
	const struct found *one, const struct found *many, bool watched, const char *what)
{
	assert_int_equal(many->n, one->n);
	for (int32_t i = 0; i < one->n; i++)
		if (memcmp(&one->row[i], &many->row[i], sizeof one->row[i]))
			fail_msg("%s: token %d differs: id %lld of request %lld at %lld, hash %llx; one rank "
					 "has id %lld, hash %llx",
				what, i, (long long)many->row[i].id, (long long)many->row[i].request,
				(long long)many->row[i].pos, (unsigned long long)many->row[i].hash,
				(long long)one->row[i].id, (unsigned long long)one->row[i].hash);
	if (watched && (one->watched != many->watched || one->attention != many->attention))
		fail_msg("%s: attention is observed otherwise than on one rank", what);
	assert_true(many->n_ranks > 1 && many->sent > 0);
	assert_int_equal(many->sent, many->received);
}

/* All splits that the options allow, or by day every third, against one rank. */
static void check_splits(struct engine_options o, const char *what)
{
	struct found *one = calloc(2, sizeof *one), *many = one + 1;

	assert_non_null(one);
	run(&o, one);
	assert_true(one->n >= TOKENS);
	for (int i = 0; i < SPLITS; i++) {
		char name[96];

		snprintf(name, sizeof name, "%s, split %d", what, i);
		put_split(&o, &splits[i]);
		run(&o, many);
		check_equal(one, many,
			strncmp(o.visible, "top", 3) && strncmp(o.visible, "h2o", 3) &&
				strncmp(o.spec, "eagle", 5),
			name);
	}
	free(one);
}

static void test_settings(void **state)
{
	struct engine_options o = options(tiny_model);

	(void)state;
	check_splits(o, "plain");
	o.budget = 512;
	check_splits(o, "a long prompt in one step");
	o = options(tiny_model);
	o.spec = "ngram:4";
	o.prefill_chunk = 32;
	check_splits(o, "drafts");
	o.spec = "ngram:6,1,3,3";
	o.kv_cache = true;
	check_splits(o, "a tree of drafts");
}

/* A drafter that reads the stream after lower layers keeps it with an op on rank 0 alone. */
static void test_kept(void **state)
{
	const struct tiny_options target = TINY_DEFAULTS;
	struct tiny_draft_options eagle = { .kind = "eagle", .n_lower = 1, .type = K_Q8_0 };
	struct engine_options o = options(tiny_model);
	char hash[17], spec[128], *path;
	struct err err = { 0 };
	struct gguf *g;

	(void)state;
	if (gguf_open(&g, tiny_model, &err) || draft_vocab_hash(g, hash, &err))
		fail_msg("%s", err.text);
	gguf_close(g);
	eagle.hash = hash;
	path = tiny_draft_temp(&target, &eagle, &err);
	assert_non_null(path);
	snprintf(spec, sizeof spec, "eagle:%s,3,3,0", path);
	o.spec = spec;
	check_splits(o, "features of layers");
	unlink(path);
	free(path);
}

static void test_memory(void **state)
{
	struct engine_options o = options(tiny_model);

	(void)state;
	o.pages = 14; /* the longest alone has seven */
	o.slots = 3;
	check_splits(o, "few pages");
	o = options(tiny_model);
	o.page_size = 48;
	o.cache_format = "kivi4";
	check_splits(o, "codes");
	o = options(tiny_model);
	o.cache_format = "q8";
	o.visible = "sinks:4+window:32";
	check_splits(o, "a window");
}

static void test_lossy(void **state)
{
	struct engine_options o = options(tiny_model);

	(void)state;
	o.visible = "top:25%";
	check_splits(o, "chosen keys");
	o.visible = "stream:4+window:28";
	o.skip_below = 0.05f;
	check_splits(o, "stream, and small values skipped");
}

/* What heads keep is there before a drafter measures steps, which all ranks run. */
static void test_kept_by_heads(void **state)
{
	static const char *const shadow[] = { "off", "ngram" };
	struct engine_options o = options(tiny_model);

	(void)state;
	o.visible = "h2o:300";
	o.budget = 512;
	o.spec = "ngram";
	for (size_t i = 0; i < sizeof shadow / sizeof *shadow; i++) {
		o.shadow = shadow[i];
		check_splits(o, o.shadow);
	}
}

/* f16 is lossy, and repeats its own bits: they are those of any number of ranks,
 * whether or not zeros are left out. */
static void test_half(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found *f = calloc(4, sizeof *f);

	(void)state;
	assert_non_null(f);
	run(&o, &f[0]);
	o.exchange = "f16";
	o.tensor_parallel = 2;
	run(&o, &f[1]);
	o.tensor_parallel = 4;
	run(&o, &f[2]);
	o.skip_zeros = true;
	run(&o, &f[3]);
	for (int k = 2; k < 4; k++) {
		assert_int_equal(f[1].n, f[k].n);
		for (int32_t i = 0; i < f[1].n; i++)
			assert_memory_equal(&f[1].row[i], &f[k].row[i], sizeof f[1].row[i]);
	}
	assert_true(memcmp(f[0].row, f[1].row, (size_t)f[0].n * sizeof *f[0].row) != 0);
	free(f);
}

/* Beyond the context: others know that sequences go on, and how far each row sees. */
static void test_goes_on(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found *f = calloc(2, sizeof *f);

	(void)state;
	assert_non_null(f);
	o.ctx = 16;
	o.goes_on = true;
	run(&o, &f[0]);
	for (int i = 0; i < 3; i++) {
		put_split(&o, &splits[i]);
		run(&o, &f[1]);
		check_equal(&f[0], &f[1], false, "goes on");
	}
	free(f);
}

/* No page that was computed exactly is found again. */
static void test_half_later(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found *f = calloc(2, sizeof *f);
	struct engine *e;
	struct err err = { 0 };

	(void)state;
	assert_non_null(f);
	o.tensor_parallel = 2;
	assert_int_equal(engine_open(&e, &o, &err), 0);
	engine_add_sink(e, see, &f[0]);
	engine_begin(e, NULL);
	for (int i = 0; i < 2; i++) {
		f[0].n = 0;
		assert_int_equal(engine_set(e, "exchange", i ? "f16" : "q8", &err), 0);
		submit_all(e, &o);
		while (engine_step(e, &err) > 0)
			;
	}
	engine_close(e);
	qsort(f[0].row, (size_t)f[0].n, sizeof *f[0].row, by_request);
	o.exchange = "f16";
	run(&o, &f[1]);
	assert_int_equal(f[0].n, f[1].n);
	for (int32_t i = 0; i < f[1].n; i++)
		assert_int_equal(f[0].row[i].hash, f[1].row[i].hash);
	free(f);
}

/* Experts wide enough to be split by rows, too. */
static void test_mixture(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path;

	(void)state;
	tiny.experts = 8;
	tiny.used = 2;
	path = tiny_temp(&tiny, &err);
	assert_non_null(path);
	check_splits(options(path), "a mixture");
	unlink(path);
	free(path);
}

/* Each architecture: the splits that it allows give the bits of one rank, others say why. */
static void check_family(const char *name)
{
	char path[96];
	struct found *one = calloc(2, sizeof *one), *many = one + 1;
	struct engine_options o;
	int allowed = 0;

	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", name);
	o = options(path);
	assert_non_null(one);
	run(&o, one);
	for (int i = 0; i < SPLITS; i += wants_all() ? 1 : 2) {
		struct err err = { 0 };
		char what[96];

		snprintf(what, sizeof what, "%s, split %d", name, i);
		put_split(&o, &splits[i]);
		if (try_run(&o, many, &err))
			check_equal(one, many, true, what);
		else if (err.code != ERR_USAGE || !strstr(err.text, "-parallel"))
			fail_msg("%s: %s", what, err.text);
		allowed += !err.code;
	}
	if (!allowed)
		fail_msg("%s: no split is allowed", name);
	free(one);
}

static const char *const families[] = { "qwen3", "gemma3", "mixtral", "gpt-oss", "deepseek3",
	"mamba2", "gemma4", "rwkv7-heads", "olmo2", "phi3", "cohere2", "qwen3next", "jamba", "lfm2",
	"gpt2", "bitnet", "minimax", "falcon-h1", "t5", "granitehybrid" };

static void test_families(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof families / sizeof *families; i += wants_all() ? 1 : 2)
		check_family(families[i]);
}

static void refuse(struct engine_options o, const char *says)
{
	struct engine *e = NULL;
	struct err err = { 0 };

	assert_int_equal(engine_open(&e, &o, &err), -1);
	if (!strstr(err.text, says))
		fail_msg("\"%s\" does not say \"%s\"", err.text, says);
}

static void test_refused(void **state)
{
	struct engine_options o = options(tiny_model);

	(void)state;
	o.pipeline_parallel = 3;
	refuse(o, "the model has 2 layers");
	o = options("tests/data/zoo/mamba2.gguf");
	o.sequence_parallel = 2;
	refuse(o, "keep states");
	o = options(tiny_model);
	o.tensor_parallel = o.sequence_parallel = 2;
	refuse(o, "not with tensor-parallel");
	o = options(tiny_model);
	o.tensor_parallel = 2;
	o.link = "fast";
	refuse(o, "1gbit,50us");
	o = options(tiny_model);
	o.pipeline_parallel = 2;
	o.exchange = "f16";
	refuse(o, "nothing is rounded");
	o = options(tiny_model);
	o.tensor_parallel = 2;
	o.spec = "skip:1,2";
	refuse(o, "has a part");
	o = options("tests/data/zoo/gpt-oss.gguf");
	o.pipeline_parallel = 2;
	o.watch_layers = true;
	refuse(o, "watch-layers: ");
}

/* Others open the file by its whole name. */
static void test_long_path(void **state)
{
	struct engine_options o;
	struct found f;
	char path[700] = "";

	(void)state;
	while (strlen(path) < 600)
		strcat(path, "/.");
	strcat(path, tiny_model);
	o = options(path);
	o.tensor_parallel = 2;
	run(&o, &f);
}

/* Rank 0 has a part of the model, and a twin all of it. */
static void test_twins(void **state)
{
	struct engine_options o = options(tiny_model);
	struct found f;

	(void)state;
	o.twin = "on";
	o.pipeline_parallel = 2;
	run(&o, &f);
	assert_true(f.priced >= PROMPTS * TOKENS && f.kl == 0);
	o.pipeline_parallel = 1;
	o.tensor_parallel = 2;
	run(&o, &f);
	assert_true(f.priced >= PROMPTS * TOKENS && f.kl == 0);
	o.exchange = "f16";
	run(&o, &f);
	assert_true(f.priced >= PROMPTS * TOKENS && f.kl > 0);
}

static void measure(const struct engine_options *o, struct found *f)
{
	struct engine *e;
	struct err err = { 0 };

	memset(f, 0, sizeof *f);
	if (engine_open(&e, o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, see, f);
	engine_begin(e, NULL);
	if (engine_set(e, "importance", "measure", &err) || engine_set(e, "outliers", "measure", &err))
		fail_msg("%s", err.text);
	engine_close(e);
}

/* A measurement reads the whole model, with its own heads, formats and choices; its text takes more
 * than one chunk, which reads what the one before has kept. */
static void test_measured(void **state)
{
	static const char *const how[][2] = { { "full", "f16" }, { "full", "kivi4" },
		{ "top:25%", "f16" }, { "h2o:300", "f32" } };
	struct engine_options o = options("demos/models/family/relu.gguf");
	struct found *f = calloc(2, sizeof *f);

	(void)state;
	assert_non_null(f);
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		o.visible = how[i][0];
		o.cache_format = how[i][1];
		put_split(&o, &(struct split){ 1, 1, 1, false, "q8" });
		measure(&o, &f[0]);
		assert_true(f[0].influence > 0 && f[0].largest > 0);
		for (int k = 0; k < 2; k++) {
			put_split(&o, &splits[k]);
			measure(&o, &f[1]);
			assert_true(f[0].influence == f[1].influence && f[0].largest == f[1].largest);
		}
	}
	free(f);
}

/* Settings that change while the engine is open change on all ranks. */
static void test_set(void **state)
{
	static const char *const change[][2] = { { "cache-format", "bf16" }, { "visible", "window:24" },
		{ "page-size", "64" }, { "budget", "40" }, { "cache-format", "f16" },
		{ "visible", "full" } };
	struct engine_options o = options(tiny_model);
	struct engine *e[2] = { NULL };
	struct found *f = calloc(2, sizeof *f);
	struct err err = { 0 };

	(void)state;
	assert_non_null(f);
	for (int i = 0; i < 2; i++) {
		put_split(&o, i ? &splits[0] : &(struct split){ 1, 1, 1, false, "q8" });
		assert_int_equal(engine_open(&e[i], &o, &err), 0);
		engine_add_sink(e[i], see, &f[i]);
		engine_begin(e[i], NULL);
		for (size_t c = 0; c < sizeof change / sizeof *change; c++) {
			if (engine_set(e[i], change[c][0], change[c][1], &err))
				fail_msg("%s", err.text);
			submit_all(e[i], &o);
			while (engine_step(e[i], &err) > 0)
				;
		}
		engine_close(e[i]);
		qsort(f[i].row, (size_t)f[i].n, sizeof *f[i].row, by_request);
	}
	check_equal(&f[0], &f[1], true, "settings");
	free(f);
}

/* One rank, and several as `split` says. */
static void check_split(
	struct engine_options o, const struct split *split, bool watched, const char *what)
{
	struct found *f = calloc(2, sizeof *f);

	assert_non_null(f);
	run(&o, &f[0]);
	put_split(&o, split);
	run(&o, &f[1]);
	check_equal(&f[0], &f[1], watched, what);
	free(f);
}

/* What S4D reads its states with is of the layer, not of the row. */
static void test_stages_of_s4d(void **state)
{
	struct engine_options o = options("tests/data/zoo/mixed-states.gguf");

	(void)state;
	o.budget = 256; /* several requests are parts of a step */
	check_split(o, &splits[1], true, "stages of S4D");
}

/* A state that is copied after a step, for drafts that may fail, is copied on all ranks, whatever
 * they hear of next. */
static void test_set_between(void **state)
{
	struct engine_options o = options("tests/data/zoo/minimax.gguf");

	(void)state;
	o.spec = "ngram:4";
	sets = true;
	check_split(o, &splits[0], false, "set between steps");
	sets = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_settings),
		cmocka_unit_test(test_kept), cmocka_unit_test(test_memory), cmocka_unit_test(test_lossy),
		cmocka_unit_test(test_kept_by_heads), cmocka_unit_test(test_half),
		cmocka_unit_test(test_half_later), cmocka_unit_test(test_mixture),
		cmocka_unit_test(test_families), cmocka_unit_test(test_goes_on),
		cmocka_unit_test(test_refused), cmocka_unit_test(test_long_path),
		cmocka_unit_test(test_twins), cmocka_unit_test(test_measured), cmocka_unit_test(test_set),
		cmocka_unit_test(test_set_between), cmocka_unit_test(test_stages_of_s4d) };

	return cmocka_run_group_tests_name("ranks", tests, tiny_model_make, tiny_model_drop);
}
