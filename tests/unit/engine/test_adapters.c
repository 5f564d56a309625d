/* Low-rank adapters: an adapter gives what a model with it merged gives; requests with different
 * ones, and with none, have the same bits together and alone, however they are computed; the prefix
 * cache has a tree for each; what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "engine/observe/probe.h"
#include "tests/support/adapter_file.h"
#include "tests/support/tiny.h"

enum { CTX = 512, PROMPT = 90, NEW = 12, MOST = 8, WHO = 3 };

static const char *const all_parts[] = { "attn_q.weight", "attn_k.weight", "attn_v.weight",
	"attn_output.weight", "ffn_gate.weight", "ffn_up.weight", "ffn_down.weight", NULL };
static const char *const some_parts[] = { "attn_q.weight", "attn_v.weight", "ffn_down.weight",
	NULL };
static const struct adapter_spec first = {
	.seed = 5, .rank = 8, .alpha = 16, .size = 0.2f, .parts = all_parts, .arch = "llama"
};
static const struct adapter_spec second = {
	.seed = 9, .rank = 3, .size = 0.4f, .parts = some_parts, .arch = "llama"
};

static char *model, *file[2], lora[200];
static const char *who[WHO] = { "off" }; /* and the names of both */

/* What an engine told of its requests, which come by threes: of none, of the first, of the second.
 */
struct found {
	int64_t hash[MOST][NEW], id[MOST][NEW], hit[MOST];
	char name[MOST][80];
	int n_adapters, preempted, priced, drafted;
	double dearest;
};

static void see(void *arg, const struct event *ev)
{
	struct found *f = arg;

	if (ev->kind == EV_token && ev->u.token.request <= MOST) {
		const int64_t at = ev->u.token.pos - PROMPT, r = ev->u.token.request - 1;

		assert_true(at >= 0 && at < NEW);
		f->hash[r][at] = ev->u.token.hash;
		f->id[r][at] = ev->u.token.id;
	} else if (ev->kind == EV_lookup && ev->u.lookup.request <= MOST) {
		f->hit[ev->u.lookup.request - 1] = ev->u.lookup.hit;
	} else if (ev->kind == EV_request && ev->u.request.request <= MOST) {
		ev_copy(f->name[ev->u.request.request - 1], sizeof f->name[0], ev->u.request.adapter);
	} else if (ev->kind == EV_price) {
		f->priced++;
		f->dearest = fmax(f->dearest, ev->u.price.kl);
	}
	f->n_adapters += ev->kind == EV_adapter;
	f->preempted += ev->kind == EV_preempt;
	f->drafted += ev->kind == EV_draft;
}

static struct engine_options options(void)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model;
	o.lora = lora;
	o.ctx = CTX;
	o.threads = 1;
	o.packed_cache = "off";
	return o;
}

static struct engine *open_engine(const struct engine_options *o, struct found *f)
{
	struct err err = { 0 };
	struct engine *e;

	memset(f, 0, sizeof *f);
	if (engine_open(&e, o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, see, f);
	engine_begin(e, NULL);
	return e;
}

static int64_t submit(struct engine *e, const char *adapter, struct err *err)
{
	int32_t ids[PROMPT];
	struct engine_request q;

	for (int i = 0; i < PROMPT; i++)
		ids[i] = 3 + (i * i * 37 + i % 9) % 250;
	q = engine_own_request(EV_REQUEST_KIND_run, ids, PROMPT, NEW, "");
	q.adapter = adapter;
	return engine_submit(e, &q, err);
}

static void finish(struct engine *e)
{
	struct err err = { 0 };

	while (!engine_idle(e))
		if (engine_step(e, &err) < 0)
			fail_msg("%s", err.text);
}

/* The same prompt by each, at once or (apart) one after the other; twice where n is 2 WHO. */
static struct found answers(const struct engine_options *o, int n, bool apart)
{
	struct found f;
	struct engine *e = open_engine(o, &f);
	struct err err = { 0 };

	for (int i = 0; i < n; i++) {
		if (submit(e, who[i % WHO], &err) < 1)
			fail_msg("%s", err.text);
		if (apart)
			finish(e);
	}
	finish(e);
	engine_close(e);
	return f;
}

static void same(const struct found *want, const struct found *got, const char *what, int at)
{
	if (memcmp(want->hash, got->hash, WHO * sizeof want->hash[0]) ||
		memcmp(want->id, got->id, WHO * sizeof want->id[0]))
		fail_msg("%s, case %d: other bits", what, at);
}

/* ---- what it is ---- */

static void logits_of(const char *path, const char *adapters, const char *adapter, float *to)
{
	struct engine_options o = options();
	struct err err = { 0 };
	struct probe *p;
	struct found f;
	struct engine *e;
	int32_t ids[40];

	o.model = path;
	o.lora = adapters;
	e = open_engine(&o, &f);
	for (int i = 0; i < 40; i++)
		ids[i] = 3 + i * 7 % 250;
	if (probe_open(&p, e, adapter, ids, 40, -1, NULL, NULL, &err))
		fail_msg("%s", err.text);
	memcpy(to, p->logits, (size_t)p->vocab * sizeof *to);
	probe_close(p);
	engine_close(e);
}

/* Weights that are floats: what is left is rounding. */
static void test_merged(void **state)
{
	const struct tiny_options floats = { .seed = 3,
		.dim = 64,
		.layers = 2,
		.heads = 4,
		.kv_heads = 2,
		.ffn = 128,
		.vocab = 512,
		.ctx = 512,
		.type = K_F32,
		.embd_type = K_F32,
		.tied = true,
		.arch = "llama",
		.tokenizer = "bpe",
		.pre = "smollm",
		.chat = "chatml" };
	const struct adapter_spec *const specs[] = { &first, &second };
	struct err err = { 0 };
	char *path = tiny_temp(&floats, &err);
	float base[512], own[512], merged[512];

	(void)state;
	for (int i = 0; i < 2; i++) {
		char *adapter = adapter_temp(path, specs[i]), list[120];
		char *whole = adapter_merged(path, adapter, 0.5f);
		double change = 0, error = 0;

		snprintf(list, sizeof list, "%s:0.5", adapter);
		logits_of(path, list, "off", base);
		logits_of(path, list, NULL, own);
		logits_of(whole, NULL, NULL, merged);
		for (int k = 0; k < 512; k++) {
			change = fmax(change, fabs((double)merged[k] - (double)base[k]));
			error = fmax(error, fabs((double)merged[k] - (double)own[k]));
		}
		assert_true(change > 0.1);
		if (error > 1e-4)
			fail_msg("adapter %d: %g from the merged model, which changes by %g", i, error, change);
		unlink(adapter);
		unlink(whole);
		free(adapter);
		free(whole);
	}
	unlink(path);
	free(path);
}

/* ---- bits ---- */

static void test_same_bits(void **state)
{
	struct engine_options o = options();
	const struct found want = answers(&o, WHO, true);
	struct found got;

	(void)state;
	assert_int_equal(want.n_adapters, 2);
	assert_string_equal(want.name[0], "");
	assert_string_equal(want.name[1], who[1]);
	for (int a = 0; a < WHO; a++)
		for (int b = 0; b < a; b++)
			assert_int_not_equal(want.hash[a][0], want.hash[b][0]);
	o.lora = NULL; /* who has none has the bits of a model without */
	got = answers(&o, 1, true);
	assert_memory_equal(got.hash[0], want.hash[0], sizeof got.hash[0]);
	for (int i = 0; i < 12; i++) {
		o = options();
		o.prefill_chunk = i == 1 ? 7 : i == 2 ? 0 : -1;
		o.budget = i == 1 ? 16 : i == 2 ? 1024 : 0;
		o.threads = i == 3 ? 3 : 1;
		o.backend = i == 4 ? "ref" : "cpu";
		o.page_size = i == 5 ? 64 : 16;
		o.prefix_cache = i != 6;
		o.kv_cache = i != 7;
		o.spec = i == 8 ? "ngram:3" : i == 9 ? "ngram:4,1,3,2" : i == 10 ? "skip:1" : "off";
		o.pages = i == 11 ? 13 : 0;
		got = answers(&o, WHO, false);
		same(&want, &got, "options", i);
		assert_true(i != 11 || got.preempted);
	}
	for (const char *const *isa = k_isas(); *isa; isa++) {
		o = options();
		o.isa = *isa;
		got = answers(&o, WHO, false);
		same(&want, &got, *isa, 0);
	}
}

/* The same prompt is found again by those with the same adapter alone. */
static void test_prefix(void **state)
{
	struct engine_options o = options();
	const struct found f = answers(&o, 2 * WHO, true);

	(void)state;
	for (int i = 0; i < WHO; i++) {
		assert_int_equal(f.hit[i], 0);
		assert_int_equal(f.hit[WHO + i], PROMPT / 16 * 16);
		assert_memory_equal(f.hash[i], f.hash[WHO + i], sizeof f.hash[i]);
	}
}

static void test_twin(void **state)
{
	struct engine_options o = options();
	struct found f;

	(void)state;
	o.twin = "on";
	f = answers(&o, 2 * WHO, false);
	assert_int_equal(f.priced, 2 * WHO * NEW);
	assert_true(f.dearest == 0);
}

static void test_probe(void **state)
{
	struct engine_options o = options();
	const struct found want = answers(&o, WHO, true);
	struct err err = { 0 };
	struct found f;
	struct engine *e = open_engine(&o, &f);
	int32_t ids[PROMPT];

	(void)state;
	for (int i = 0; i < PROMPT; i++)
		ids[i] = 3 + (i * i * 37 + i % 9) % 250;
	for (int i = 0; i < WHO; i++) {
		struct probe *p;

		if (probe_open(&p, e, who[i], ids, PROMPT, -1, NULL, NULL, &err))
			fail_msg("%s", err.text);
		assert_int_equal((int64_t)p->stats.hash, want.hash[i][0]);
		probe_close(p);
	}
	engine_close(e);
}

/* ---- what is refused ---- */

static void refuse(struct engine_options o, const char *why)
{
	struct err err = { 0 };
	struct engine *e = NULL;

	if (!engine_open(&e, &o, &err))
		fail_msg("opened, though: %s", why);
	if (!strstr(err.text, why))
		fail_msg("%s; expected: %s", err.text, why);
}

static void refuse_spec(const struct adapter_spec *spec, const char *why)
{
	struct engine_options o = options();
	char *path = adapter_temp(model, spec);

	o.lora = path;
	refuse(o, why);
	unlink(path);
	free(path);
}

static void test_refused(void **state)
{
	static const char *const embedding[] = { "token_embd.weight", NULL }, *const none[] = { NULL };
	struct adapter_spec spec = first;
	struct engine_options o = options();
	struct err err = { 0 };
	struct found f;
	struct engine *e;
	char twice[420];

	(void)state;
	spec.arch = "qwen2";
	refuse_spec(&spec, "for models of architecture qwen2; this one is llama");
	spec = first;
	spec.parts = embedding;
	refuse_spec(&spec, "embedding");
	spec.parts = none;
	refuse_spec(&spec, "no matrices");
	o.lora = model;
	refuse(o, "no LoRA adapter");
	snprintf(twice, sizeof twice, "%s,%s", file[0], file[0]);
	o.lora = twice;
	refuse(o, "another adapter is called");
	o = options();
	o.tensor_parallel = 2;
	refuse(o, "not with ranks");
	o = options();
	o.activations = "bf16";
	refuse(o, "not with adapters");
	o = options();
	e = open_engine(&o, &f);
	assert_int_equal(submit(e, "nobody", &err), -1);
	assert_non_null(strstr(err.text, who[1]));
	engine_close(e);
	o.lora = NULL;
	e = open_engine(&o, &f);
	assert_int_equal(submit(e, "nobody", &err), -1);
	assert_non_null(strstr(err.text, "--lora"));
	engine_close(e);
}

static int make(void **state)
{
	if (tiny_model_make(state))
		return -1;
	model = tiny_model;
	file[0] = adapter_temp(model, &first);
	file[1] = adapter_temp(model, &second);
	snprintf(lora, sizeof lora, "%s,%s:0.7", file[0], file[1]);
	who[1] = strrchr(file[0], '/') + 1;
	who[2] = strrchr(file[1], '/') + 1;
	return 0;
}

static int drop(void **state)
{
	for (int i = 0; i < 2; i++) {
		unlink(file[i]);
		free(file[i]);
	}
	return tiny_model_drop(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_merged),
		cmocka_unit_test(test_same_bits), cmocka_unit_test(test_prefix),
		cmocka_unit_test(test_twin), cmocka_unit_test(test_probe), cmocka_unit_test(test_refused) };

	return cmocka_run_group_tests(tests, make, drop);
}
