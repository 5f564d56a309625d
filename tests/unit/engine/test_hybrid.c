/* Models whose layers keep states, beside attention or alone: going back and a prefix from the
 * cache give the same tokens and hashes again, by the snapshots that a state's pages are; and files
 * that lie about sizes are refused with a clear error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "tests/support/invariants.h"

enum { N_PROMPT = 45, N_NEW = 50, MOST = N_PROMPT + N_NEW };

struct told {
	int32_t id[MOST];
	int64_t hash[MOST];
	int end;
};
struct world {
	struct engine *e;
	struct told r[3]; /* by number of request */
	int prefill_rows;
};

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token) {
		struct told *r = &w->r[ev->u.token.request];

		r->id[ev->u.token.pos] = (int32_t)ev->u.token.id;
		r->hash[ev->u.token.pos] = ev->u.token.hash;
		r->end = (int)ev->u.token.pos + 1;
	} else if (ev->kind == EV_step) {
		w->prefill_rows += (int)ev->u.step.prefill_rows;
	} else if (ev->kind == EV_rewind) {
		w->r[ev->u.rewind.request].end = (int)ev->u.rewind.kept;
	}
}

static int open_file(struct world *w, const char *path, struct err *err)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = path;
	o.threads = 1;
	o.ctx = 128;
	o.pages = 32;
	o.packed_cache = "off";
	memset(w, 0, sizeof *w);
	return engine_open(&w->e, &o, err);
}

static void submit(struct world *w)
{
	int32_t ids[N_PROMPT];
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = N_PROMPT,
		.max_tokens = N_NEW,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true };
	struct err err = { 0 };

	for (int i = 0; i < N_PROMPT; i++)
		ids[i] = 3 + i * 37 % 200;
	q.params.temperature = 0.9f;
	q.params.seed = 7;
	if (engine_submit(w->e, &q, &err) < 1)
		fail_msg("%s", err.text);
}

static void step(struct world *w)
{
	struct err err = { 0 };

	if (engine_step(w->e, &err) < 0)
		fail_msg("%s", err.text);
	engine_check(w->e);
}

static void check_same(const struct told *a, const struct told *b)
{
	assert_int_equal(a->end, MOST);
	assert_int_equal(b->end, MOST);
	for (int p = N_PROMPT; p < MOST; p++) {
		assert_int_equal(a->id[p], b->id[p]);
		assert_true(a->hash[p] == b->hash[p]);
	}
}

static void test_back(void **state)
{
	static const int keeps[] = { N_PROMPT, 46, 47, 48, 49, 63, 64, 65, 80 };
	static struct world plain, w;
	struct err err = { 0 };
	char path[96];

	snprintf(path, sizeof path, "tests/data/zoo/%s.gguf", (const char *)*state);
	assert_int_equal(open_file(&plain, path, &err), 0);
	assert_int_equal(open_file(&w, path, &err), 0);
	for (struct world *of = &plain; of; of = of == &plain ? &w : NULL) {
		engine_add_sink(of->e, on_event, of);
		engine_begin(of->e, NULL);
		submit(of);
	}
	while (!engine_idle(plain.e))
		step(&plain);
	for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++) {
		while (w.r[1].end < 85)
			step(&w);
		assert_int_equal(engine_rewind(w.e, 1, keeps[i], -1, &err), 0);
		engine_check(w.e);
	}
	while (!engine_idle(w.e))
		step(&w);
	check_same(&plain.r[1], &w.r[1]);
	w.prefill_rows = 0;
	submit(&w); /* its first blocks are in the prefix cache */
	while (!engine_idle(w.e))
		step(&w);
	check_same(&plain.r[1], &w.r[2]);
	assert_in_range(w.prefill_rows, 1, N_PROMPT - 16);
	engine_close(w.e);
	engine_close(plain.e);
}

static unsigned char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	unsigned char *data = malloc(1 << 20);

	assert_non_null(f);
	assert_non_null(data);
	*n = fread(data, 1, 1 << 20, f);
	fclose(f);
	return data;
}

/* Gives a number of a file, or the first of an array, another value: a key is followed by its type,
 * and an array's by that of its items and how many there are. */
static void set_number(unsigned char *data, size_t n, const char *key, uint32_t value)
{
	const size_t size = strlen(key);

	for (size_t i = 0; i + size + 24 < n; i++)
		if (!memcmp(data + i, key, size)) {
			memcpy(data + i + size + (data[i + size] == 9 ? 16 : 4), &value, sizeof value);
			return;
		}
	fail_msg("no key %s", key);
}

static void test_lies(void **state)
{
	static const struct {
		const char *file, *key;
		uint32_t value;
		const char *words;
	} cases[] = {
		{ "lfm2", "lfm2.shortconv.l_cache", 0, "l_cache is 0" },
		{ "lfm2", "lfm2.shortconv.l_cache", 9, "1 to 8 is possible" },
		{ "lfm2", "lfm2.shortconv.l_cache", 4, "shortconv.conv.weight" },
		{ "lfm2", "lfm2.attention.head_count_kv", 3, "cannot share" },
		{ "lfm2", "lfm2.attention.head_count_kv", 0xffffffff, "cannot share" },
		{ "lfm2", "lfm2.attention.head_count_kv", 2, "blk.0.attn" },
		{ "mamba2", "mamba2.ssm.group_count", 3, "do not divide" },
		{ "mamba2", "mamba2.ssm.group_count", 0, "group_count is 0" },
		{ "mamba2", "mamba2.ssm.time_step_rank", 3, "do not divide" },
		{ "mamba2", "mamba2.ssm.inner_size", 0x7fffffff, "is possible" },
		{ "mamba2", "mamba2.ssm.state_size", 0x40000000, "is possible" },
		{ "mamba2", "mamba2.ssm.state_size", 1024, "blk.0.ssm" },
		{ "mamba2", "mamba2.ssm.conv_kernel", 0, "conv_kernel is 0" },
		{ "falcon-h1", "falcon-h1.ssm.time_step_rank", 0, "time_step_rank is 0" },
		{ "falcon-h1", "falcon-h1.ssm.inner_size", 65536, "blk.0.ssm" },
		{ "qwen35", "qwen35.ssm.group_count", 3, "do not divide" },
		{ "qwen35", "qwen35.ssm.state_size", 1024, "blk.0.attn_qkv" },
		{ "qwen35", "qwen35.ssm.inner_size", 48, "blk.0" },
		{ "granitehybrid", "granitehybrid.ssm.time_step_rank", 3, "do not divide" },
		{ "granitehybrid", "granitehybrid.ssm.group_count", 0, "group_count is 0" },
		{ "granitehybrid", "granitehybrid.attention.head_count_kv", 2, "blk.0.attn" },
		{ "granitehybrid", "granitehybrid.expert_used_count", 4, "1 to 3 is possible" },
		{ "granitehybrid", "granitehybrid.expert_shared_feed_forward_length", 64, "shexp.weight" },
		{ "granitehybrid", "granitehybrid.logit_scale", 0, "divided by 0" },
		{ "lfm2moe", "lfm2moe.leading_dense_block_count", 0,
			"blk.0.ffn_gate_inp.weight is missing" },
		{ "lfm2moe", "lfm2moe.leading_dense_block_count", 2, "blk.1.ffn_gate.weight is missing" },
		{ "lfm2moe", "lfm2moe.leading_dense_block_count", 9999, "block_count is 9999" },
		{ "lfm2moe", "lfm2moe.expert_count", 0, "without experts" },
		{ "lfm2moe", "lfm2moe.expert_count", 1000000, "expert_count is 1000000" },
		{ "gemma4", "gemma4.feed_forward_length", 0, "of layer 0 is 0" },
		{ "gemma4", "gemma4.feed_forward_length", 0x7fffffff, "of layer 0 is 2147483647" },
		{ "gemma4", "gemma4.feed_forward_length", 64, "blk.0.ffn_gate" },
		{ "gemma4", "gemma4.attention.shared_kv_layers", 4, "0 to 3 is possible" },
		{ "gemma4", "gemma4.attention.shared_kv_layers", 3, "for layer 1 to share" },
		{ "gemma4", "gemma4.attention.shared_kv_layers", 0, "blk.2.attn_k" },
		{ "gemma4", "gemma4.attention.key_length_swa", 24, "values of 16" },
		{ "gemma4", "gemma4.attention.key_length_swa", 1024, "key_length_swa is 1024" },
		{ "gemma4", "gemma4.rope.dimension_count_swa", 64, "does not fit" },
		{ "gemma4", "gemma4.embedding_length_per_layer_input", 12, "multiple of 8" },
		{ "gemma4", "gemma4.embedding_length_per_layer_input", 16,
			"per_layer_token_embd.weight is" },
		{ "gemma4", "gemma4.embedding_length_per_layer_input", 0x40000000, "is possible" },
		{ "gemma4", "gemma4.attention.sliding_window", 0, "sliding_window is 0" },
		{ "gemma4", "gemma4.attention.sliding_window_pattern", 0, "blk.0.attn_q" },
		{ "gemma4", "gemma4.final_logit_softcapping", 0xc0000000, "soft cap of -2" },
		{ "qwen3next", "qwen3next.ssm.time_step_rank", 6, "do not divide" },
		{ "qwen3next", "qwen3next.ssm.time_step_rank", 8, "blk.0" },
		{ "qwen3next", "qwen3next.expert_used_count", 4, "is possible" },
		{ "rwkv7-heads", "rwkv7.wkv.head_size", 0, "head_size is 0" },
		{ "rwkv7-heads", "rwkv7.wkv.head_size", 24, "no multiple" },
		{ "rwkv7-heads", "rwkv7.attention.decay_lora_rank", 33, "time_mix_w1.weight" },
		{ "rwkv7-heads", "rwkv7.attention.gate_lora_rank", 64, "time_mix_g1.weight" },
		{ "rwkv7-heads", "rwkv7.feed_forward_length", 96, "channel_mix" },
		{ "mixed", "cutaway-mixed.linear.feature_length", 0, "feature_length is 0" },
		{ "mixed", "cutaway-mixed.linear.feature_length", 33, "feature_length is 33" },
		{ "mixed", "cutaway-mixed.linear.feature_length", 9, "attn_q.weight is" },
		{ "mixed", "cutaway-mixed.attention.window", 0xffffffff, "window of layer 0 is -1" },
		{ "mixed", "cutaway-mixed.attention.kv_from", 4, "of layer 4" },
		{ "mixed", "cutaway-mixed.attention.kv_from", 0x80000000, "of layer -2147483648" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char from[96], path[] = "/tmp/cutaway-hybrid-XXXXXX";
		int fd = mkstemp(path);
		struct world w;
		struct err err = { 0 };
		unsigned char *data;
		size_t n;

		snprintf(from, sizeof from, "tests/data/zoo/%s.gguf", cases[i].file);
		data = read_file(from, &n);
		set_number(data, n, cases[i].key, cases[i].value);
		assert_true(fd >= 0 && write(fd, data, n) == (ssize_t)n);
		close(fd);
		if (!open_file(&w, path, &err) || !strstr(err.text, cases[i].words))
			fail_msg("%s %u: \"%s\" does not say \"%s\"", cases[i].key, cases[i].value, err.text,
				cases[i].words);
		assert_int_equal(err.code, ERR_INPUT);
		unlink(path);
		free(data);
	}
}

int main(void)
{
	static char *const names[] = { "lfm2", "mamba2", "falcon-h1", "qwen35", "minimax",
		"granitehybrid", "lfm2moe", "gemma4", "jamba", "qwen3next", "rwkv7-heads", "mixed",
		"mixed-states" };
	enum { N = sizeof names / sizeof *names };
	struct CMUnitTest tests[N + 1] = { cmocka_unit_test(test_lies) };

	for (size_t i = 0; i < N; i++)
		tests[i + 1] = (struct CMUnitTest){
			.name = names[i], .test_func = test_back, .initial_state = names[i]
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
