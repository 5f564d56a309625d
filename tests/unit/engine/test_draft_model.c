/* Drafters that compute: whatever they guess, requests give the tokens and the hashes of plain
 * decoding; chains and trees, several requests at once, that go back, are preempted and find their
 * prompts in the cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/draft/draft_cost.h"
#include "engine/draft/file.h"
#include "tests/support/draft_world.h"
#include "tests/support/thorough.h"
#include "tests/support/tiny_draft.h"

static char *model_path, *eagle_path, *layers_path, *medusa_path, *pruned_path, *other_path;
static struct tiny_options target = TINY_DEFAULTS;
static char hash[17];

/* Two requests go back once, one of them with another token put in. */
static void go_back(struct world *w, int32_t request, int32_t when, int32_t keep, int32_t forced)
{
	struct err err = { 0 };

	if (w->went_back[request] || w->n[request] < PROMPT + when)
		return;
	w->went_back[request] = true;
	if (engine_rewind(w->e, request, PROMPT + keep, forced, &err))
		fail_msg("%s", err.text);
}

static void two_go_back(struct world *w)
{
	go_back(w, 2, 20, 9, 77);
	go_back(w, 3, 16, 12, -1);
}

static void run_all(struct world *w)
{
	world_submit(w, 2.5f);
	world_run(w, two_go_back);
	assert_true(w->went_back[2] && w->went_back[3]);
}

static const struct world *plain(void)
{
	static struct world w;
	static bool done;

	if (!done) {
		world_open(&w, model_path, &(struct place){ "ref", NULL, 1, 16, 64 }, "off");
		run_all(&w);
	}
	done = true;
	return &w;
}

static void run_spec(struct world *w, const struct place *p, const char *spec)
{
	world_open(w, model_path, p, spec);
	run_all(w);
	world_compare(plain(), w, false);
	print_message("%s on %s: %d accepted, %d rejected, %d unread, %d branches, %d preempted\n",
		spec, p->backend, w->n_accepted, w->n_rejected, w->n_unread, w->n_branches, w->n_preempted);
}

/* Everywhere: the reference, which takes as long as the others together (plain() is its anyway),
 * threads, page sizes, pages that run short. */
static void everywhere(const char *spec, bool tree)
{
	static const struct place places[] = {
		{ "ref", NULL, 1, 16, 64 },
		{ "cpu", NULL, 2, 32, 64 },
		{ "cpu", NULL, 3, 16, 64 },
		{ "cpu", NULL, 2, 16, 20 },
	};
	static struct world w;
	int n_branches = 0, n_preempted = 0, n_accepted = 0, n_rejected = 0;

	for (size_t i = wants_all() ? 0 : 1; i < sizeof places / sizeof *places; i++) {
		run_spec(&w, &places[i], spec);
		n_branches += w.n_branches;
		n_preempted += w.n_preempted;
		n_accepted += w.n_accepted;
		n_rejected += w.n_rejected;
	}
	assert_true(n_accepted > 10 && n_rejected > 10);
	assert_true(tree == (n_branches > 0));
	assert_true(n_preempted > 0);
}

static void once(const char *spec)
{
	static struct world w;

	run_spec(&w, &(struct place){ "cpu", NULL, 2, 16, 64 }, spec);
	assert_true(w.n_accepted > 5 && w.n_rejected > 5);
}

static void test_skip(void **state)
{
	(void)state;
	everywhere("skip:3,4,0", false);
	once("skip:2");
}

static const char *with(const char *name, const char *path, const char *numbers)
{
	static char spec[256];

	snprintf(spec, sizeof spec, "%s:%s%s", name, path, numbers);
	return spec;
}

static void test_eagle(void **state)
{
	(void)state;
	everywhere(with("eagle", eagle_path, ",5,12,0"), true);
	once(with("eagle", eagle_path, ",4,4,0"));
	once(with("eagle", eagle_path, ",16,63,1"));
}

/* ---- features of several layers ---- */

struct guesses { /* for the first request */
	int32_t id[512], n;
};

static void on_guess(void *arg, const struct event *ev)
{
	struct guesses *g = arg;

	if (ev->kind == EV_draft && ev->u.draft.request == 1 && g->n < 512)
		g->id[g->n++] = (int32_t)ev->u.draft.id;
}

/* The first prompt alone, or beside others that begin otherwise, so that it finds nothing cached.
 * row: what each further row of a step costs, in steps of one row; 0: as the clock says. */
static void guess_all(struct guesses *g, const struct place *p, int32_t chunk, int32_t requests,
	double row, const char *spec)
{
	struct engine_options o = ENGINE_DEFAULTS;
	double cost[DRAFT_COST_ROWS + 1];
	struct engine *e;
	struct err err = { 0 };

	memset(g, 0, sizeof *g);
	for (int i = 1; i <= DRAFT_COST_ROWS; i++)
		cost[i] = 1e6 * (1 + row * (i - 1));
	o.counted_cost = row > 0 ? cost : NULL;
	o.model = model_path;
	o.backend = p->backend;
	o.threads = p->threads;
	o.page_size = p->page_size;
	o.pages = p->pages;
	o.ctx = 256;
	o.slots = 4;
	o.prefill_chunk = chunk;
	o.spec = spec;
	assert_int_equal(engine_open(&e, &o, &err), 0);
	engine_add_sink(e, on_guess, g);
	engine_begin(e, NULL);
	for (int32_t r = 0; r < requests; r++) {
		struct sample_params greedy = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
		uint32_t s = 77u + (uint32_t)r;
		int32_t ids[PROMPT];
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = PROMPT,
			.max_tokens = TOKENS,
			.params = greedy,
			.ignore_end = true };

		for (int i = 0; i < PROMPT; i++)
			ids[i] = (int32_t)(world_chance(&s) % 512);
		assert_true(engine_submit(e, &q, &err) > 0);
	}
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
	engine_close(e);
}

/* What it guesses depends on the text alone, and on the layers that its file names. */
static void test_layers(void **state)
{
	static const struct place ref = { "ref", NULL, 1, 16, 64 }, cpu = { "cpu", NULL, 3, 32, 64 };
	static struct guesses g, other;
	struct tiny_draft_options o = { .seed = 7,
		.kind = "eagle",
		.hash = hash,
		.n_ids = 300,
		.n_lower = 2,
		.lower = { 1, 2 },
		.type = K_Q8_0 };
	struct err err = { 0 };
	char spec[256], *path = tiny_draft_temp(&target, &o, &err);

	(void)state;
	everywhere(with("eagle", layers_path, ",5,12,0"), true);
	snprintf(spec, sizeof spec, "eagle:%s,4,4,0", layers_path);
	guess_all(&g, &ref, 64, 1, 0, spec);
	assert_true(g.n > TOKENS);
	guess_all(&other, &cpu, 7, 1, 0, spec);
	assert_memory_equal(&g, &other, sizeof g);
	guess_all(&other, &cpu, 32, 3, 0, spec);
	assert_memory_equal(&g, &other, sizeof g);
	guess_all(&other, &ref, 64, 1, 0, with("eagle", path, ",4,4,0"));
	assert_memory_not_equal(&g, &other, sizeof g);
	unlink(path);
	free(path);
}

/* What is guessed follows what rows cost, unless the least is given. */
static void test_gain(void **state)
{
	static const struct place cpu = { "cpu", NULL, 1, 16, 64 };
	static struct guesses cheap, dear, again;

	(void)state;
	guess_all(&cheap, &cpu, 64, 1, 1e-4, with("eagle", eagle_path, ",3,8"));
	guess_all(&dear, &cpu, 64, 1, 1, with("eagle", eagle_path, ",3,8"));
	guess_all(&again, &cpu, 64, 1, 1e-4, with("eagle", eagle_path, ",3,8"));
	assert_true(cheap.n > TOKENS && dear.n < cheap.n / 4);
	assert_memory_equal(&cheap, &again, sizeof cheap);
	guess_all(&again, &cpu, 64, 1, 1, with("eagle", eagle_path, ",3,8,0"));
	assert_true(again.n > TOKENS);
}

static void test_medusa(void **state)
{
	(void)state;
	everywhere(with("medusa", medusa_path, ",3,20,0"), true);
	once(with("medusa", medusa_path, ",3,3,0"));
	once(with("medusa", medusa_path, ",16,63,1"));
}

/* Layers between the target's ends, and the target itself, whose guesses are nearly always
 * right. */
static void test_draft(void **state)
{
	static struct world w;

	(void)state;
	everywhere(with("draft", pruned_path, ",4,16,0"), true);
	once(with("draft", pruned_path, ",3,3,0"));
	run_spec(&w, &(struct place){ "cpu", NULL, 2, 16, 64 }, with("draft", model_path, ",4,4,0"));
	assert_true(w.n_accepted > 100 && w.n_rejected == 0);
	run_spec(&w, &(struct place){ "cpu", NULL, 2, 16, 64 }, with("draft", model_path, ",5,30,0"));
	assert_true(w.n_accepted > 100);
}

/* Few nodes: a row costs the shim a thousand times what it costs a GPU. */
static void test_device(void **state)
{
	static struct world w;

	(void)state;
	if (!world_has_device())
		skip();
	run_spec(
		&w, &(struct place){ "cuda", "graph", 1, 16, 64 }, with("eagle", layers_path, ",2,3,0"));
	if (!wants_all())
		return;
	run_spec(&w, &(struct place){ "cuda", "launches", 1, 16, 64 }, "skip:3,1,0");
	run_spec(
		&w, &(struct place){ "cuda", "graph", 1, 16, 64 }, with("medusa", medusa_path, ",2,2,0"));
}

static void refused_by(const char *model, const char *spec, enum err_code code, const char *words)
{
	static struct world w;
	struct err err = { 0 };

	world_open(&w, model, &(struct place){ "cpu", NULL, 1, 16, 64 }, "off");
	assert_int_equal(engine_set(w.e, "spec", spec, &err), -1);
	if (err.code != code || !strstr(err.text, words))
		fail_msg("%s: %s", spec, err.text);
	engine_close(w.e);
}

static void refused(const char *spec, enum err_code code, const char *words)
{
	refused_by(model_path, spec, code, words);
}

static void test_arguments(void **state)
{
	static const char *const bad[] = { "skip:0", "skip:4", "skip:2,0", "skip:2,17", "skip:2,4,101",
		"skip:x" };

	static struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		refused(bad[i], ERR_USAGE, "layers from 1 to 3");
	/* has a default, as all others */
	world_open(&w, model_path, &(struct place){ "cpu", NULL, 1, 16, 64 }, "skip");
	engine_close(w.e);
}

/* Of the same vocabulary, but with nothing to say of the next token. */
static void test_diffusion(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		refused_by("tests/data/zoo/qwen3.gguf",
			i ? "beside:tests/data/zoo/dream.gguf,2" : "draft:tests/data/zoo/llada.gguf,2",
			ERR_USAGE, "a diffusion model has no next token");
}

/* Layers like a mixture's, of a file that lacks the first tensor: what the model's own layer has
 * stays. */
static void test_mixture(void **state)
{
	struct tiny_draft_options o = { .seed = 7,
		.kind = "eagle",
		.hash = hash,
		.n_ids = 300,
		.type = K_Q8_0,
		.drop = "blk.0.attn_q.weight" };
	struct tiny_options mixture = target;
	struct err err = { 0 };
	char *model, *path;

	(void)state;
	mixture.experts = 4;
	mixture.used = 2;
	model = tiny_temp(&mixture, &err);
	path = tiny_draft_temp(&target, &o, &err);
	assert_true(model && path);
	refused_by(model, with("eagle", path, ""), ERR_INPUT, "blk.0.attn_q.weight is missing");
	unlink(model);
	unlink(path);
	free(model);
	free(path);
}

/* A file that lies is refused with words that say so. */
static void test_lies(void **state)
{
	struct tiny_draft_options good = {
		.seed = 7, .kind = "eagle", .hash = hash, .n_ids = 300, .type = K_Q8_0
	};
	const struct {
		struct tiny_draft_options o;
		const char *words;
	} lies[] = {
		{ { .drop = "architecture" }, "not a drafter's file" },
		{ { .drop = "kind" }, "not a drafter's file" },
		{ { .kind = "medusa", .heads = 2 }, "not a drafter's file of kind eagle" },
		{ { .drop = "dim" }, "cutaway.draft.dim" },
		{ { .dim = 96 }, "whose dim is 96" },
		{ { .drop = "vocab" }, "cutaway.draft.vocab" },
		{ { .vocab = 511 }, "whose vocab is 511" },
		{ { .hash = "0123456789abcdef" }, "another vocabulary" },
		{ { .drop = "vocab_hash" }, "another vocabulary" },
		{ { .bad_id = 512 }, "must ascend" },
		{ { .bad_id = 3 }, "must ascend" },
		{ { .bad_id = -5 }, "must ascend" },
		{ { .n_ids = 513 }, "trimmed vocabulary of 513" },
		{ { .n_lower = 2, .lower = { 2, 3 } }, "cutaway.draft.lower: number 1 is 3 after 2" },
		{ { .n_lower = 1, .lower = { -1 } }, "cutaway.draft.lower: number 0" },
		{ { .n_lower = 2, .lower = { 1, 1 } }, "they must ascend from 0, below 3" },
		{ { .n_lower = 3, .lower = { 0, 2, 1 } }, "number 2 is 1 after 2" },
		{ { .n_lower = 5, .lower = { 0, 1, 2 } }, "cutaway.draft.lower has 5 numbers" },
		{ { .n_lower = 2, .lower = { 0, 2 }, .drop = "fc.lower.1.weight" },
			"fc.lower.1.weight is missing" },
		{ { .drop = "fc.hidden.weight" }, "fc.hidden.weight is missing" },
		{ { .drop = "output_norm.weight" }, "output_norm.weight is missing" },
		{ { .drop = "blk.0.ffn_down.weight" }, "ffn_down.weight is missing" },
		{ { .extra_rows = 1 }, "was expected" },
		{ { .as = "medusa", .kind = "medusa", .heads = 9 }, "cutaway.draft.heads is 9" },
		{ { .as = "medusa", .kind = "medusa", .heads = 3, .drop = "heads" },
			"cutaway.draft.heads" },
		{ { .as = "medusa", .kind = "medusa", .heads = 3, .drop = "medusa.2.up.weight" },
			"medusa.2.up.weight" },
		{ { .as = "medusa", .kind = "medusa", .heads = 3, .drop = "medusa.0.gate.weight" },
			"medusa.0.gate.weight" },
		{ { .as = "medusa", .kind = "medusa", .heads = 3, .extra_rows = 1 }, "no multiple of 32" },
		{ { .as = "draft", .kind = "model", .layers = 65 }, "cutaway.draft.layers is 65" },
		{ { .as = "draft", .kind = "model", .layers = 2, .drop = "blk.1.attn_k.weight" },
			"blk.1.attn_k.weight" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct tiny_draft_options o = lies[i].o;
		struct err err = { 0 };
		char *path;

		o.seed = good.seed;
		o.type = good.type;
		o.kind = o.kind ? o.kind : good.kind;
		o.hash = o.hash ? o.hash : good.hash;
		o.n_ids = o.n_ids ? o.n_ids : good.n_ids;
		path = tiny_draft_temp(&target, &o, &err);
		assert_non_null(path);
		refused(with(lies[i].o.as ? lies[i].o.as : "eagle", path, ""), ERR_INPUT, lies[i].words);
		unlink(path);
		free(path);
	}
	refused(with("draft", other_path, ""), ERR_INPUT, "another vocabulary");
	refused(with("draft", eagle_path, ""), ERR_INPUT, "not a drafter's file of kind model");
	refused("eagle:/nowhere/eagle.gguf", ERR_IO, "/nowhere/eagle.gguf");
	refused("eagle:nobody-made-this,4", ERR_IO, "nobody-made-this.gguf");
	refused(with("eagle", model_path, ""), ERR_INPUT, "not a drafter's file");
}

static void answer(struct engine *e)
{
	static const int32_t ids[] = { 5, 6, 7, 8, 9 };
	struct sample_params p = SAMPLE_DEFAULTS;
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 5,
		.max_tokens = 5,
		.params = p,
		.ignore_end = true };
	struct err err = { 0 };

	assert_true(engine_submit(e, &q, &err) > 0);
	while (engine_step(e, &err) > 0)
		;
	assert_int_equal(err.code, 0);
}

/* Bytes changed anywhere, and files that end early: refused or used, nothing else. */
static void damage(struct engine *e, const char *name, const char *file, int rounds)
{
	static uint8_t data[1 << 20];
	FILE *f = fopen(file, "rb");
	uint32_t chance = 11;
	size_t size;

	assert_non_null(f);
	size = fread(data, 1, sizeof data, f);
	fclose(f);
	assert_true(size > 1000 && size < sizeof data);
	for (int round = 0; round < rounds; round++) {
		char path[] = "/tmp/tiny-damaged-XXXXXX";
		size_t at = world_chance(&chance) % (round % 3 ? 3000 : size),
			   length = round % 5 ? size : world_chance(&chance) % size;
		struct err err = { 0 };
		uint8_t was = data[at];
		int fd = mkstemp(path);

		data[at] = (uint8_t)world_chance(&chance);
		assert_int_equal(write(fd, data, length), length);
		close(fd);
		data[at] = was;
		if (engine_set(e, "spec", with(name, path, ",4,12,0"), &err))
			assert_true(err.text[0]);
		else
			answer(e);
		unlink(path);
	}
}

static void test_damage(void **state)
{
	static struct world w;

	(void)state;
	world_open(&w, model_path, &(struct place){ "cpu", NULL, 1, 16, 64 }, "off");
	engine_observe(w.e, false);
	damage(w.e, "eagle", eagle_path, 90);
	damage(w.e, "eagle", layers_path, 60);
	damage(w.e, "medusa", medusa_path, 60);
	damage(w.e, "draft", pruned_path, 60);
	engine_close(w.e);
}

static int setup(void **state)
{
	struct tiny_draft_options eagle = {
		.seed = 7, .kind = "eagle", .hash = hash, .n_ids = 300, .type = K_Q8_0
	};
	struct tiny_draft_options layers = { .seed = 7,
		.kind = "eagle",
		.hash = hash,
		.n_ids = 300,
		.n_lower = 2,
		.lower = { 0, 2 },
		.type = K_Q8_0 };
	struct tiny_draft_options medusa = {
		.seed = 8, .kind = "medusa", .hash = hash, .heads = 3, .type = K_Q4_1
	};
	struct tiny_draft_options pruned = {
		.seed = 9, .kind = "model", .hash = hash, .n_ids = 400, .layers = 2, .type = K_Q8_0
	};
	struct tiny_options other = TINY_DEFAULTS;
	struct err err = { 0 };
	struct gguf *g;

	(void)state;
	target.layers = 4;
	other.vocab = 500;
	model_path = tiny_temp(&target, &err);
	if (!model_path || gguf_open(&g, model_path, &err) || draft_vocab_hash(g, hash, &err))
		return -1;
	gguf_close(g);
	eagle_path = tiny_draft_temp(&target, &eagle, &err);
	layers_path = tiny_draft_temp(&target, &layers, &err);
	medusa_path = tiny_draft_temp(&target, &medusa, &err);
	pruned_path = tiny_draft_temp(&target, &pruned, &err);
	other_path = tiny_temp(&other, &err);
	return eagle_path && layers_path && medusa_path && pruned_path && other_path ? 0 : -1;
}

static int teardown(void **state)
{
	char *paths[] = { model_path, eagle_path, layers_path, medusa_path, pruned_path, other_path };

	(void)state;
	for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
		unlink(paths[i]);
		free(paths[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_skip), cmocka_unit_test(test_eagle),
		cmocka_unit_test(test_layers), cmocka_unit_test(test_gain), cmocka_unit_test(test_medusa),
		cmocka_unit_test(test_draft), cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_diffusion), cmocka_unit_test(test_mixture),
		cmocka_unit_test(test_lies), cmocka_unit_test(test_damage), cmocka_unit_test(test_device) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
