/* Pruning: choices against plain versions in numpy (data/pruned.py); parts that do nothing, whose
 * removal must change no prediction; what is written; runs that are stopped; bad input. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "engine/observe/influence.h"
#include "lab/prune_impl.h"
#include "kernels/format/encode.h"
#include "tests/support/tiny.h"

enum { ROWS = 24, COLS = 96, SAMPLES = 320, HEAD = 32, W = ROWS * COLS };
enum { LAYERS = 4, DIM = 64, HEADS = 4, HEAD_DIM = 16, FFN = 128 }; /* of the tiny model */

static struct {
	float w[W], x[SAMPLES * COLS];
	float magnitude[W], wanda[W], magnitude_24[W], wanda_24[W], after[SAMPLES * COLS];
	float influence, heads[COLS / HEAD], channels[COLS];
} data;
static struct k_ctx *kernels;
static char source[256], result[300], part[320];
static const char text[] = "What is pruned is gone; what is left must do the work of both. ";
static char long_text[40000];

static int drop(void **state)
{
	(void)state;
	unlink(result);
	unlink(part);
	return 0;
}

static void make(enum k_type type)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err e = { 0 };
	char *path;

	if (*source)
		unlink(source);
	o.layers = LAYERS;
	o.type = type;
	o.embd_type = K_F32;
	o.seed = 3;
	path = tiny_temp(&o, &e);
	assert_non_null(path);
	snprintf(source, sizeof source, "%s", path);
	snprintf(result, sizeof result, "%s.result", source);
	snprintf(part, sizeof part, "%s.partial", result);
	free(path);
}

static int setup(void **state)
{
	FILE *f = fopen("tests/data/pruned.bin", "rb");
	struct err e = { 0 };

	(void)state;
	if (!f || fread(&data, 1, sizeof data, f) != sizeof data || fgetc(f) != EOF)
		return -1;
	fclose(f);
	while (strlen(long_text) + sizeof text < sizeof long_text)
		strcat(long_text, text);
	return k_open(&kernels, "cpu", NULL, 2, &e);
}

static int teardown(void **state)
{
	drop(state);
	unlink(source);
	k_close(kernels);
	return 0;
}

/* ---- choices ---- */

static void check_zeros(const struct prune_method *m, struct prune_options o, const float *expected)
{
	double squares[COLS] = { 0 };
	float w[W];
	struct quant_input in[CALIBRATION_INPUTS] = { { .n = COLS, .sum_squares = squares } };
	struct layer_part p = { .w = w, .rows = ROWS, .cols = COLS, .input = INPUT_QKV };
	struct change c = { .kernels = kernels };
	struct prune prune = { .o = &o, .c = &c };
	struct err e = { 0 };

	memcpy(w, data.w, sizeof w);
	for (int i = 0; i < SAMPLES * COLS; i++)
		squares[i % COLS] += (double)data.x[i] * (double)data.x[i];
	assert_int_equal(m->zeros(&prune, &p, in, &e), 0);
	assert_memory_equal(w, expected, sizeof w);
}

static void test_zeros(void **state)
{
	const struct prune_options half = { .sparsity = 0.5 }, two_of_four = { .keep = 2, .of = 4 };

	(void)state;
	check_zeros(&prune_magnitude, half, data.magnitude);
	check_zeros(&prune_wanda, half, data.wanda);
	check_zeros(&prune_magnitude, two_of_four, data.magnitude_24);
	check_zeros(&prune_wanda, two_of_four, data.wanda_24);
}

static void near(const char *what, double got, double expected)
{
	if (!(fabs(got - expected) <= 1e-4 * fabs(expected)))
		fail_msg("%s is %g, not %g", what, got, expected);
}

static void test_importance(void **state)
{
	static float h[COLS * COLS];

	(void)state;
	for (int s = 0; s < SAMPLES; s++)
		for (int i = 0; i < W / ROWS; i++)
			for (int j = 0; j < COLS; j++)
				h[i * COLS + j] += data.x[s * COLS + i] * data.x[s * COLS + j];
	near("influence", influence_sum(data.x, data.after, SAMPLES, COLS) / SAMPLES,
		(double)data.influence);
	for (int i = 0; i < COLS / HEAD; i++)
		near("a head",
			columns_importance(data.w, ROWS, COLS, i * HEAD, HEAD, h + (COLS + 1) * i * HEAD, COLS),
			(double)data.heads[i]);
	for (int i = 0; i < COLS; i++)
		near("a channel", columns_importance(data.w, ROWS, COLS, i, 1, &h[(COLS + 1) * i], 1),
			(double)data.channels[i]);
}

/* Equal scores go from the first on; none and all are possible. */
static void test_least(void **state)
{
	const float score[8] = { 2, 1, 1, 0, 1, 3, 1, 2 };
	static const char *const expected[9] = { "........", "...x....", ".x.x....", ".xxx....",
		".xxxx...", ".xxxx.x.", "xxxxx.x.", "xxxxx.xx", "xxxxxxxx" };
	bool gone[8];
	float scratch[8];

	(void)state;
	for (int k = 0; k <= 8; k++) {
		char got[9] = "........";

		prune_least(score, 8, k, gone, scratch);
		for (int i = 0; i < 8; i++)
			got[i] = gone[i] ? 'x' : '.';
		assert_string_equal(got, expected[k]);
	}
}

/* ---- files ---- */

static int prune(const struct prune_options *o, struct prune_result *r, struct err *e)
{
	drop(NULL);
	return prune_file(source, result, o, r, e);
}

static struct prune_options options(const struct prune_method *m)
{
	return (struct prune_options){ .method = m,
		.sparsity = 0.5,
		.remove = 1,
		.unit = 1,
		.to = K_N_TYPES,
		.common = {
			.text = m->reads ? long_text : NULL, .size = strlen(long_text), .threads = 2 } };
}

static struct gguf *open_good(const char *path)
{
	struct gguf *g = NULL;
	struct err e = { 0 };

	if (gguf_open(&g, path, &e))
		fail_msg("%s", e.text);
	return g;
}

static void must(const struct prune_options *o, struct prune_result *r)
{
	struct err e = { 0 };

	if (prune(o, r, &e))
		fail_msg("%s: %s", o->method->name, e.text);
}

/* What is not zero is as it was, to the bit of its value. */
static void zeros_of(enum k_type type, enum k_type to)
{
	const struct prune_options o = options(&prune_magnitude);
	struct prune_result r;
	struct gguf *a, *b;
	int64_t zeros = 0;

	make(type);
	must(&o, &r);
	a = open_good(source);
	b = open_good(result);
	for (int32_t i = 0; i < gguf_n_tensors(a); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(a, i), *u = gguf_find(b, t->name);
		const int64_t n = gguf_tensor_weights(t);
		float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);

		k_decode(t->type, t->data, n, x);
		k_decode(u->type, u->data, n, y);
		assert_int_equal(u->type, change_layer_of(t->name) >= 0 && t->n_dims > 1 ? to : t->type);
		for (int64_t k = 0; k < n; k++) {
			if (to == type && y[k] != 0)
				assert_true(y[k] == x[k]);
			zeros += change_layer_of(t->name) >= 0 && t->n_dims > 1 && y[k] == 0;
		}
		free(x);
		free(y);
	}
	assert_int_equal(zeros, r.n_gone);
	assert_true(2 * zeros >= r.n_weights - 64 && 2 * zeros <= r.n_weights + r.n_weights / 50);
	gguf_close(a);
	gguf_close(b);
}

static void test_types(void **state)
{
	(void)state;
	zeros_of(K_F32, K_F32);
	zeros_of(K_Q8_0, K_Q8_0);
	zeros_of(K_Q4_0, K_Q4_0);
	zeros_of(K_MXFP4, K_MXFP4);
	zeros_of(K_Q4_1, K_F16); /* its blocks have no zero */
	zeros_of(K_IQ4_NL, K_F16);
}

/* ---- parts that do nothing ---- */

/* Sets columns [at, at + n) of a matrix of the source to zero. */
static void zero_columns(const char *name, int at, int n)
{
	struct gguf *g = open_good(source);
	const struct gguf_tensor *t = gguf_find(g, name),
							 *last = gguf_tensor_at(g, gguf_n_tensors(g) - 1);
	const long start = (long)gguf_file_bytes(g) - (last->data + last->bytes - t->data);
	const float zeros[FFN] = { 0 };
	FILE *f = fopen(source, "r+b");

	assert_non_null(f);
	for (int64_t r = 0; r < t->dim[1]; r++) {
		fseek(f, start + (long)(r * t->dim[0] + at) * (long)sizeof(float), SEEK_SET);
		assert_int_equal(fwrite(zeros, sizeof *zeros, (size_t)n, f), n);
	}
	fclose(f);
	gguf_close(g);
}

static void on_price(void *arg, const struct event *ev)
{
	double *kl = arg;

	if (ev->kind == EV_price)
		kl[0] += ev->u.price.kl, kl[1]++;
}

/* Mean divergence of the result from the source; its name goes to `name`. */
static double divergence(char name[192])
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_score, .params = SAMPLE_DEFAULTS, .text = "t"
	};
	double kl[2] = { 0 };
	struct engine *engine;
	struct err e = { 0 };
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;

	o.model = result;
	o.twin = source;
	o.threads = 2;
	if (engine_open(&engine, &o, &e))
		fail_msg("%s", e.text);
	snprintf(name, 192, "%s", engine_info(engine)->name);
	assert_int_equal(engine_add_sink(engine, on_price, kl), 0);
	engine_begin(engine, NULL);
	tokenizer_encode(engine_tokenizer(engine), text, strlen(text), false, &ids, &n, &cap, &e);
	q.ids = ids;
	q.n_ids = (int32_t)n;
	assert_true(engine_submit(engine, &q, &e) >= 0);
	while (engine_step(engine, &e) > 0)
		;
	free(ids);
	engine_close(engine);
	assert_true(kl[1] > 10);
	return kl[0] / kl[1];
}

static void must_not_matter(const struct prune_options *o, const char *words)
{
	struct prune_result r;
	char name[192];
	double kl;

	must(o, &r);
	assert_true(r.common.bytes < r.common.source_bytes);
	kl = divergence(name);
	if (!(kl < 1e-6))
		fail_msg("%s: a divergence of %g", o->method->name, kl);
	if (!strstr(name, words))
		fail_msg("\"%s\" is not in the name %s", words, name);
}

static void test_layer_of_nothing(void **state)
{
	struct prune_options o = options(&prune_layers);
	struct prune_result r;
	struct gguf *a, *b;

	(void)state;
	make(K_F32);
	zero_columns("blk.1.attn_output.weight", 0, DIM);
	zero_columns("blk.1.ffn_down.weight", 0, FFN);
	must_not_matter(&o, " F32 pruned 1 of 4 layers");
	must(&o, &r);
	assert_true(r.removed[1] && r.influence[1] < 1e-9f && r.influence[0] > 0.001f);
	a = open_good(source);
	b = open_good(result);
	assert_memory_equal(gguf_find(a, "blk.3.ffn_up.weight")->data,
		gguf_find(b, "blk.2.ffn_up.weight")->data, gguf_find(b, "blk.2.ffn_up.weight")->bytes);
	assert_null(gguf_find(b, "blk.3.ffn_up.weight"));
	gguf_close(a);
	gguf_close(b);
}

static void test_heads_of_nothing(void **state)
{
	struct prune_options o = options(&prune_heads);

	(void)state;
	make(K_F32);
	for (int i = 0; i < LAYERS; i++) { /* one of each group: 0 and 1, 2 and 3 */
		char name[64];

		snprintf(name, sizeof name, "blk.%d.attn_output.weight", i);
		zero_columns(name, i % 2 * HEAD_DIM, HEAD_DIM);
		zero_columns(name, (2 + i / 2) * HEAD_DIM, HEAD_DIM);
	}
	o.remove = 2;
	must_not_matter(&o, "pruned 2 of 4 heads");
	make(K_F32);
	for (int i = 0; i < LAYERS; i++) {
		char name[64];

		snprintf(name, sizeof name, "blk.%d.attn_output.weight", i);
		zero_columns(name, i % 2 * 2 * HEAD_DIM, 2 * HEAD_DIM);
	}
	o = options(&prune_kv_heads);
	must_not_matter(&o, "pruned 1 of 2 kv-heads");
}

static void test_channels_of_nothing(void **state)
{
	struct prune_options o = options(&prune_channels);

	(void)state;
	make(K_F32);
	for (int i = 0; i < LAYERS; i++) {
		char name[64];

		snprintf(name, sizeof name, "blk.%d.ffn_down.weight", i);
		for (int k = 0; k < 32; k++)
			zero_columns(name, (k * 3 + i) % FFN, 1);
	}
	o.remove = 32;
	must_not_matter(&o, "pruned 32 of 128 channels");
}

/* ---- the setting importance ---- */

struct heard {
	double influence[LAYERS];
	float head[LAYERS][HEADS], least[LAYERS][16];
	int n;
};

static void on_importance(void *arg, const struct event *ev)
{
	const struct ev_importance *i = &ev->u.importance;
	struct heard *t = arg;

	if (ev->kind != EV_importance)
		return;
	assert_int_equal(i->layer, t->n);
	assert_int_equal(i->heads.size, sizeof t->head[0]);
	assert_int_equal(i->least.size, sizeof t->least[0]);
	assert_int_equal(i->channels, FFN);
	t->influence[t->n] = i->influence;
	memcpy(t->head[t->n], i->heads.data, i->heads.size);
	memcpy(t->least[t->n++], i->least.data, i->least.size);
}

/* What is known of it: a layer of nothing, a head of nothing, half of the channels of nothing. */
static void test_measured(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct heard t = { .n = 0 };
	struct engine *engine;
	struct err e = { 0 };

	(void)state;
	make(K_F32);
	zero_columns("blk.1.attn_output.weight", 0, DIM);
	zero_columns("blk.1.ffn_down.weight", 0, FFN);
	zero_columns("blk.2.attn_output.weight", 3 * HEAD_DIM, HEAD_DIM);
	zero_columns("blk.3.ffn_down.weight", FFN / 4, FFN / 2);
	o.model = source;
	o.threads = 2;
	assert_int_equal(engine_open(&engine, &o, &e), 0);
	assert_int_equal(engine_add_sink(engine, on_importance, &t), 0);
	engine_begin(engine, NULL);
	assert_int_equal(engine_set(engine, "importance", "much", &e), -1);
	e.code = 0;
	assert_int_equal(engine_set(engine, "importance", "measure", &e), 0);
	engine_close(engine);
	assert_int_equal(t.n, LAYERS);
	assert_true(fabs(t.influence[1]) < 1e-9 && t.influence[0] > 0.001);
	assert_true(t.influence[2] > 0.001 && t.influence[LAYERS - 1] > 0.001);
	assert_true(t.head[2][3] == 0);
	near("shares of heads", (double)(t.head[2][0] + t.head[2][1] + t.head[2][2]), 1);
	assert_true(t.least[3][7] == 0 && t.least[3][8] > 0 && t.least[3][14] < 1);
	near("all channels", (double)t.least[3][15], 1);
}

/* Whole blocks of a quantised matrix keep their bytes. */
static void test_blocks(void **state)
{
	struct prune_options o = options(&prune_channels);
	struct prune_result r;
	struct gguf *a, *b;
	const struct gguf_tensor *from, *to;
	size_t block = 20, found = 0; /* bytes of Q4_1 */

	(void)state;
	make(K_Q4_1);
	o.remove = o.unit = 32;
	must(&o, &r);
	a = open_good(source);
	b = open_good(result);
	from = gguf_find(a, "blk.2.ffn_down.weight");
	to = gguf_find(b, "blk.2.ffn_down.weight");
	assert_int_equal(to->dim[0], FFN - 32);
	for (size_t i = 0; i < to->bytes / block; i++) /* in each row three of four, in order */
		for (size_t k = 0; k < 4; k++)
			if (!memcmp(to->data + i * block, from->data + (i / 3 * 4 + k) * block, block)) {
				found++;
				break;
			}
	assert_int_equal(found, to->bytes / block);
	gguf_close(a);
	gguf_close(b);
}

/* ---- stopped, and bad input ---- */

static bool stop_at(void *arg, const char *what, int64_t done, int64_t all)
{
	(void)all;
	return strcmp(what, "pruning") != 0 || done < *(int64_t *)arg;
}

static uint8_t *read_whole(size_t *size)
{
	FILE *f = fopen(result, "rb");
	uint8_t *bytes = malloc(1 << 22);

	assert_non_null(f);
	*size = fread(bytes, 1, 1 << 22, f);
	fclose(f);
	return bytes;
}

static void test_stopped(void **state)
{
	static const struct prune_method *const methods[] = { &prune_magnitude, &prune_wanda,
		&prune_layers, &prune_heads };

	(void)state;
	make(K_Q8_0);
	for (size_t i = 0; i < 4; i++) {
		struct prune_options o = options(methods[i]);
		struct prune_result r, again;
		int64_t at = 512 * DIM + 110000; /* in the third layer */
		struct err e = { 0 };
		uint8_t *whole, *resumed;
		size_t n, m;

		o.remove = i == 3 ? 2 : 1;
		must(&o, &r);
		whole = read_whole(&n);
		drop(NULL);
		o.common.progress = stop_at;
		o.common.arg = &at;
		assert_int_equal(prune_file(source, result, &o, &again, &e), -1);
		assert_int_equal(e.code, ERR_INTERRUPTED);
		assert_int_equal(access(result, F_OK), -1);
		e.code = 0;
		o.common.progress = NULL;
		if (prune_file(source, result, &o, &again, &e))
			fail_msg("%s", e.text);
		assert_true((again.common.n_resumed > 0) == (i < 3));
		assert_int_equal(again.n_gone, r.n_gone);
		resumed = read_whole(&m);
		assert_int_equal(n, m);
		assert_memory_equal(whole, resumed, n);
		free(whole);
		free(resumed);
	}
}

static void refused(struct prune_options o, const char *words)
{
	struct prune_result r;
	struct err e = { 0 };

	assert_int_equal(prune(&o, &r, &e), -1);
	if (e.code != ERR_USAGE || !strstr(e.text, words))
		fail_msg("\"%s\" is not in: %s", words, e.text);
	assert_int_equal(access(part, F_OK), -1);
}

static void test_refused(void **state)
{
	struct prune_options o = options(&prune_magnitude);

	(void)state;
	make(K_Q4_1);
	o.sparsity = 1;
	refused(o, "above 0 and below 1");
	o.sparsity = (double)NAN;
	refused(o, "above 0 and below 1");
	o = options(&prune_magnitude);
	o.keep = o.of = 4;
	refused(o, "keeps N of each M");
	o.keep = 2;
	o.of = 5;
	refused(o, "which 5 do not divide");
	o = options(&prune_wanda);
	o.to = K_Q4_1;
	refused(o, "minimum of their own");
	o.to = K_Q6_K;
	refused(o, "blocks of 256");
	o.to = K_N_TYPES;
	o.common.size = 200;
	refused(o, "give a longer one");
	o = options(&prune_layers);
	o.remove = LAYERS;
	refused(o, "so that one is left");
	o = options(&prune_heads);
	refused(o, "each group loses as many");
	o = options(&prune_kv_heads);
	o.remove = 2;
	refused(o, "so that one is left");
	o = options(&prune_channels);
	o.remove = 20;
	refused(o, "leaves whole blocks");
	o.unit = 48;
	refused(o, "does not divide");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zeros),
		cmocka_unit_test(test_importance),
		cmocka_unit_test(test_least),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_layer_of_nothing),
		cmocka_unit_test(test_heads_of_nothing),
		cmocka_unit_test(test_channels_of_nothing),
		cmocka_unit_test(test_measured),
		cmocka_unit_test(test_blocks),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests_name("pruned", tests, setup, teardown);
}
