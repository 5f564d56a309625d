/* Models of the zoo whose numbers are changed in place: an error that says what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/arch/open.h"
#include "tests/support/tiny.h"

static uint8_t file[1 << 19];

static size_t load(const char *name)
{
	char path[128];
	FILE *f;
	size_t size;

	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", name);
	f = fopen(path, "rb");
	assert_non_null(f);
	size = fread(file, 1, sizeof file, f);
	fclose(f);
	assert_in_range(size, 1, sizeof file - 1);
	return size;
}

/* Replaces the number, of four bytes, that follows a key and its type. */
static void set(size_t size, const char *key, const void *value)
{
	uint8_t *at = memmem(file, size, key, strlen(key));

	assert_non_null(at);
	memcpy(at + strlen(key) + 4, value, 4);
}

static void refused(const char *name, size_t size, const char *words)
{
	struct k_ctx *kernels;
	struct gguf *g;
	struct model *m = NULL;
	struct model_options o = { 0 };
	struct err e = { 0 };
	int32_t ctx = 64;

	assert_int_equal(k_open(&kernels, "ref", NULL, 1, &e), 0);
	assert_int_equal(gguf_open_memory(&g, file, size, &e), 0);
	if (!model_open(&m, g, kernels, &o, &ctx, &e))
		fail_msg("%s: opened where \"%s\" was expected", name, words);
	if (!strstr(e.text, words))
		fail_msg("%s: \"%s\", not \"%s\"", name, e.text, words);
	gguf_close(g);
	k_close(kernels);
}

static void test_numbers(void **state)
{
	static const struct {
		const char *model, *key;
		uint32_t value;
		const char *words;
	} cases[] = {
		{ "qwen3moe", "qwen3moe.expert_count", 0, "ffn_gate.weight is missing" },
		{ "qwen3moe", "qwen3moe.expert_count", 10000, "expert_count is 10000" },
		{ "qwen3moe", "qwen3moe.expert_count", 5, "ffn_gate_inp.weight is 4 x" },
		{ "qwen3moe", "qwen3moe.expert_used_count", 5, "expert_used_count is 5; 1 to 4" },
		{ "qwen3moe", "qwen3moe.expert_used_count", 0, "expert_used_count is 0" },
		{ "qwen3moe", "qwen3moe.expert_feed_forward_length", 64, "ffn_gate_exps.weight is" },
		{ "olmoe", "olmoe.expert_count", 0, "without experts" },
		{ "gpt-oss", "gpt-oss.expert_count", 0, "without experts" },
		{ "deepseek3", "deepseek2.expert_count", 10000, "expert_count is 10000" },
		{ "deepseek3", "deepseek2.expert_used_count", 5, "no 5 can be chosen" },
		{ "deepseek3", "deepseek2.expert_group_count", 4, "6 experts in 4 groups" },
		{ "deepseek3", "deepseek2.expert_group_count", 1000, "expert_group_count is 1000" },
		{ "deepseek3", "deepseek2.expert_group_used_count", 4, "4 of them used" },
		{ "deepseek3", "deepseek2.expert_group_used_count", 0, "0 of them used" },
		{ "deepseek3", "deepseek2.expert_shared_count", 1000, "ffn_gate_shexp.weight is 32" },
		{ "deepseek3", "deepseek2.expert_shared_count", 2000, "expert_shared_count is 2000" },
		{ "deepseek3", "deepseek2.leading_dense_block_count", 2, "ffn_gate.weight is missing" },
		{ "deepseek3", "deepseek2.attention.head_count", 3, "attn_q_b.weight is" },
		{ "deepseek3", "deepseek2.attention.head_count_kv", 2, "head_count_kv is 2" },
		{ "deepseek3", "deepseek2.attention.kv_lora_rank", 64, "key_length is 40" },
		{ "deepseek3", "deepseek2.attention.kv_lora_rank", 100000, "kv_lora_rank is 100000" },
		{ "deepseek3", "deepseek2.attention.key_length_mla", 8, "rank 32, with heads of 8" },
		{ "deepseek3", "deepseek2.attention.value_length_mla", 24, "attn_v_b.weight is" },
		{ "deepseek3", "deepseek2.rope.dimension_count", 0, "dimension_count is 0" },
		{ "gpt-oss", "gpt-oss.attention.sliding_window", 0, "sliding_window is 0" },
		{ "gpt-oss", "gpt-oss.attention.head_count", 5, "cannot share" },
		{ "phi3", "phi3.attention.sliding_window", 0xffffffff, "window is 4294967295; 0 to" },
		{ "qwen3next", "qwen3next.expert_count", 0, "without experts" },
		{ "qwen3next", "qwen3next.expert_shared_feed_forward_length", 64,
			"ffn_gate_shexp.weight is" },
		{ "qwen3next", "qwen3next.ssm.state_size", 0, "state_size is 0" },
		{ "dream", "tokenizer.ggml.mask_token_id", 272, "the vocabulary has 272 tokens" },
		{ "dream", "tokenizer.ggml.mask_token_id", 0xffffffff, "mask_token_id is 4294967295" },
		{ "rwkv7-heads", "rwkv7.wkv.head_size", 0x7fffffff, "is possible" },
		{ "rwkv7-heads", "rwkv7.embedding_length", 64, "token_embd.weight is" },
		{ "rwkv7-heads", "rwkv7.block_count", 3, "is missing" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const size_t size = load(cases[i].model);

		set(size, cases[i].key, &cases[i].value);
		refused(cases[i].model, size, cases[i].words);
	}
}

/* The groups of a model have so many layers, which keep so many values a position. */
static void keeps(const char *name, int n, const int layers[], const int values[])
{
	const size_t size = load(name);
	const struct model_options o = { 0 };
	struct err e = { 0 };
	struct k_ctx *kernels;
	struct gguf *g;
	struct model *m;
	int32_t ctx = 64;

	assert_int_equal(k_open(&kernels, "ref", NULL, 1, &e), 0);
	assert_int_equal(gguf_open_memory(&g, file, size, &e), 0);
	assert_int_equal(model_open(&m, g, kernels, &o, &ctx, &e), 0);
	assert_int_equal(m->memory.n, n);
	for (int i = 0; i < n; i++) {
		const struct memory_spec *s = &m->memory.group[i];

		assert_int_equal(s->n_layers, layers[i]);
		assert_int_equal(
			s->kind->page_bytes(s, 16), 16 * (size_t)(layers[i] * values[i]) * sizeof(uint16_t));
	}
	model_close(m);
	gguf_close(g);
	k_close(kernels);
}

static uint8_t *architecture_at(size_t size)
{
	static const char key[] = "general.architecture";
	uint8_t *at = memmem(file, size, key, sizeof key - 1);

	assert_non_null(at);
	return at + sizeof key - 1 + 4 + 8; /* the type, the length */
}

/* An unknown family: all that are known, to the last. One with an encoder: that, by its tensors. */
static void test_families(void **state)
{
	size_t size = load("qwen3");

	(void)state;
	*architecture_at(size) = 'x';
	refused("qwen3", size, "\"xwen3\" is not supported; supported are ");
	refused("qwen3", size, ", t5");
	size = load("t5");
	*architecture_at(size) = 'x';
	refused("t5", size, "\"x5\" is not supported: it is an encoder alone");
}

/* An encoder-decoder model without a part of either, and with distances in odd buckets. */
static void test_encoder(void **state)
{
	static const char *const part[] = { "dec.blk.0.cross_attn_q", "dec.blk.1.cross_attn_v",
		"enc.blk.1.attn_o", "enc.blk.0.attn_rel_b", "dec.blk.0.attn_rel_b", "enc.output_norm" };
	char why[80];
	size_t size;

	(void)state;
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		size = load("t5");
		memcpy(memmem(file, size, part[i], strlen(part[i])), "xxx", 3);
		snprintf(why, sizeof why, "tensor %s.weight is missing", part[i]);
		refused("t5", size, why);
	}
	size = load("t5");
	set(size, "t5.attention.relative_buckets_count", &(uint32_t){ 18 });
	refused("t5", size, "18 buckets of distances; a multiple of 4 is needed");
}

/* Latent attention keeps its latent and the turned part of a key, for all heads, and nothing else.
 */
static void test_latent_bytes(void **state)
{
	(void)state;
	keeps("deepseek3", 1, (int[]){ 2 }, (int[]){ 32 + 8 });
}

/* Of Gemma 4's four layers the last two keep nothing: key and value of one local head of 16, and of
 * one global head of 32. */
static void test_shared_bytes(void **state)
{
	(void)state;
	keeps("gemma4", 2, (int[]){ 1, 1 }, (int[]){ 2 * 16, 2 * 32 });
}

/* With q, k and v in one tensor no shape of a tensor says that a layer has no keys. */
static void test_no_keys(void **state)
{
	struct attention a = { .n_heads = 4, .head_dim = 8, .fused = true };
	struct memory_specs specs = { 0 };
	struct err e = { 0 };

	(void)state;
	assert_int_equal(layer_attention.memory(&a, &specs, &e), -1);
	assert_non_null(strstr(e.text, "no key-value heads"));
}

/* A number a layer where one for all is known: taken if they are equal, else the key is named. */
static void test_by_layer(void **state)
{
	(void)state;
	for (int by_layer = 1; by_layer <= 2; by_layer++) {
		struct tiny_options o = TINY_DEFAULTS;
		struct model *m = NULL;
		struct model_options mo = { 0 };
		struct k_ctx *kernels;
		struct gguf *g;
		struct err e = { 0 };
		uint8_t *data;
		size_t size;
		int32_t ctx = 64;

		o.by_layer = by_layer;
		assert_int_equal(k_open(&kernels, "ref", NULL, 1, &e), 0);
		assert_int_equal(tiny_make(&o, &data, &size, &e), 0);
		assert_int_equal(gguf_open_memory(&g, data, size, &e), 0);
		assert_int_equal(model_open(&m, g, kernels, &mo, &ctx, &e), by_layer == 1 ? 0 : -1);
		if (by_layer == 2)
			assert_non_null(
				strstr(e.text, "llama.attention.head_count is 4 in layer 0 and 2 in layer 1"));
		model_close(m);
		gguf_close(g);
		k_close(kernels);
		free(data);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_layer),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_no_keys),
		cmocka_unit_test(test_encoder),
		cmocka_unit_test(test_latent_bytes),
		cmocka_unit_test(test_shared_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
