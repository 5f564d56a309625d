/* Quantising a file: what becomes of tensors and metadata, that nothing half-written gets the final
 * name, that a stopped run is taken up again, and bad input. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "engine/model/gguf_write.h"
#include "lab/quant.h"
#include "kernels/format/encode.h"
#include "tests/support/tiny.h"

static char *source, result[256], part[300];

static int setup(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err e = { 0 };

	(void)state;
	o.type = o.embd_type = K_F32;
	source = tiny_temp(&o, &e);
	snprintf(result, sizeof result, "%s.result", source);
	snprintf(part, sizeof part, "%s.partial", result);
	return !source;
}

static int teardown(void **state)
{
	(void)state;
	unlink(source);
	free(source);
	return 0;
}

static int drop(void **state)
{
	(void)state;
	unlink(result);
	unlink(part);
	return 0;
}

static int quantize(const struct quant_options *o, struct quant_result *r, struct err *e)
{
	return quantize_file(source, result, o, r, e);
}

static struct gguf *open_good(const char *path)
{
	struct gguf *g = NULL;
	struct err e = { 0 };

	if (gguf_open(&g, path, &e))
		fail_msg("%s", e.text);
	return g;
}

/* ---- what is written ---- */

static void check_tensor(
	const struct gguf_tensor *from, const struct gguf_tensor *to, enum k_type t)
{
	const int64_t n = gguf_tensor_weights(from);
	uint8_t *bytes = malloc((size_t)n * 4);

	assert_int_equal(from->n_dims, to->n_dims);
	assert_memory_equal(from->dim, to->dim, sizeof from->dim);
	assert_int_equal(to->type, from->n_dims > 1 ? t : from->type);
	k_encode(to->type, (const float *)(const void *)from->data, n, bytes);
	assert_memory_equal(bytes, to->data, to->bytes);
	free(bytes);
}

static void check_metadata(const struct gguf *a, const struct gguf *b)
{
	size_t own = 0, i = 0;

	for (struct gguf_pair p, q; (q = gguf_pair_at(b, i + own)).key;) {
		p = gguf_pair_at(a, i);
		if (strstr(q.key, "cutaway.quantize.") == q.key ||
			strstr(q.key, "general.file_type") == q.key) {
			own++;
			continue;
		}
		assert_non_null(p.key);
		assert_int_equal(p.size, q.size);
		assert_memory_equal(p.bytes, q.bytes, p.size);
		i++;
	}
	assert_true(own >= 8);
	assert_null(gguf_pair_at(a, i).key);
}

static void test_formats(void **state)
{
	for (enum k_type t = 0; t < K_N_TYPES; t++) {
		const struct quant_options o = { .to = { .type = t }, .otherwise = K_N_TYPES };
		struct quant_result r;
		struct err e = { 0 };
		struct gguf *a, *b;

		if (k_types[t].block > 32) /* the tiny model has rows of 64 and 128 */
			continue;
		drop(state);
		if (quantize(&o, &r, &e))
			fail_msg("%s: %s", k_types[t].name, e.text);
		a = open_good(source);
		b = open_good(result);
		assert_false(r.common.from_quantised);
		assert_int_equal(r.common.bytes, gguf_file_bytes(b));
		assert_true(fabs(r.bits - 8.0 * k_types[t].block_bytes / k_types[t].block) < 1e-9);
		assert_int_equal(gguf_n_tensors(a), gguf_n_tensors(b));
		for (int32_t i = 0; i < gguf_n_tensors(a); i++) {
			const struct gguf_tensor *from = gguf_tensor_at(a, i);

			check_tensor(from, gguf_find(b, from->name), t);
		}
		check_metadata(a, b);
		gguf_close(a);
		gguf_close(b);
	}
}

/* A file that was quantised twice says so in its name, which screens and logs show. */
static void test_lineage(void **state)
{
	const struct quant_options first = { .to = { .type = K_Q5_1 }, .otherwise = K_N_TYPES },
							   second = { .to = { .type = K_Q8_0 }, .otherwise = K_N_TYPES };
	struct engine_options o = ENGINE_DEFAULTS;
	char again[300];
	struct quant_result r;
	struct engine *engine;
	struct err e = { 0 };

	drop(state);
	snprintf(again, sizeof again, "%s2", result);
	assert_int_equal(quantize(&first, &r, &e), 0);
	assert_int_equal(quantize_file(result, again, &second, &r, &e), 0);
	assert_true(r.common.from_quantised);
	assert_string_equal(r.common.source, "Q5_1");
	o.model = again;
	o.threads = 1;
	assert_int_equal(engine_open(&engine, &o, &e), 0);
	assert_non_null(strstr(engine_info(engine)->name, " Q8_0 from Q5_1"));
	engine_close(engine);
	unlink(again);
}

static void test_keep_and_else(void **state)
{
	struct quant_options o = { .to = { .type = K_Q4_K }, .otherwise = K_N_TYPES };
	struct quant_result r;
	struct err e = { 0 };
	struct gguf *g;

	drop(state);
	assert_int_equal(quantize(&o, &r, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "--else"));
	assert_int_equal(access(part, F_OK), -1);
	o.otherwise = K_IQ4_NL;
	o.keep = "token_embd,down";
	e.code = 0;
	assert_int_equal(quantize(&o, &r, &e), 0);
	assert_int_equal(r.n_otherwise, r.n_tensors);
	assert_int_equal(r.n_kept, 3);
	g = open_good(result);
	assert_int_equal(gguf_find(g, "token_embd.weight")->type, K_F32);
	assert_int_equal(gguf_find(g, "blk.1.ffn_down.weight")->type, K_F32);
	assert_int_equal(gguf_find(g, "blk.1.ffn_up.weight")->type, K_IQ4_NL);
	gguf_close(g);
}

/* ---- half-written files ---- */

static uint8_t *read_whole(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data = malloc(1 << 22);

	assert_non_null(f);
	*size = fread(data, 1, 1 << 22, f);
	fclose(f);
	return data;
}

static bool stop_at(void *arg, const char *what, int64_t done, int64_t all)
{
	(void)what;
	(void)all;
	return done < *(int64_t *)arg;
}

static int quantize_until(
	const struct quant_options *o, int64_t at, struct quant_result *r, struct err *e)
{
	struct quant_options stopped = *o;

	stopped.common.progress = stop_at;
	stopped.common.arg = &at;
	return quantize_file(source, result, &stopped, r, e);
}

static void test_resume(void **state)
{
	const struct quant_options o = { .to = { .type = K_Q4_0 }, .otherwise = K_N_TYPES };
	struct quant_result r;
	struct err e = { 0 };
	size_t n, m;
	uint8_t *whole, *again;

	drop(state);
	assert_int_equal(quantize(&o, &r, &e), 0);
	whole = read_whole(result, &n);
	for (int64_t at = 1; at <= r.n_weights; at += r.n_weights / 7) {
		drop(state);
		assert_int_equal(quantize_until(&o, at, &r, &e), -1);
		assert_int_equal(e.code, ERR_INTERRUPTED);
		assert_int_equal(access(result, F_OK), -1);
		e.code = 0;
		if (quantize(&o, &r, &e))
			fail_msg("%s", e.text);
		assert_true((r.common.n_resumed > 0) == (at > 512 * 64 /* the embedding */));
		again = read_whole(result, &m);
		assert_int_equal(n, m);
		assert_memory_equal(whole, again, n);
		free(again);
	}
	free(whole);
}

/* What another run began is not written over. */
static void test_other_options(void **state)
{
	struct quant_options o = { .to = { .type = K_Q4_0 }, .otherwise = K_N_TYPES };
	struct quant_result r;
	struct err e = { 0 };
	int64_t at = 30000;

	drop(state);
	assert_int_equal(quantize_until(&o, at, &r, &e), -1);
	o.to.type = K_Q8_0;
	e.code = 0;
	assert_int_equal(quantize(&o, &r, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "other options"));
}

/* A limit on the size of files is to the program what a full disk is. */
static void test_full_disk(void **state)
{
	const struct quant_options o = { .to = { .type = K_Q8_0 }, .otherwise = K_N_TYPES };
	struct rlimit old, small;
	struct quant_result r;
	struct err e = { 0 };

	drop(state);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ 90000, old.rlim_max };
	signal(SIGXFSZ, SIG_IGN);
	setrlimit(RLIMIT_FSIZE, &small);
	assert_int_equal(quantize(&o, &r, &e), -1);
	setrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_DFL);
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.text, "goes on from it"));
	assert_int_equal(access(result, F_OK), -1);
	e.code = 0;
	assert_int_equal(quantize(&o, &r, &e), 0);
	assert_int_equal(access(part, F_OK), -1);
}

/* ---- bad input ---- */

static void test_names(void **state)
{
	const struct quant_options o = { .to = { .type = K_Q8_0 }, .otherwise = K_N_TYPES };
	struct quant_result r;
	struct err e = { 0 };

	drop(state);
	assert_int_equal(quantize_file(source, source, &o, &r, &e), -1);
	assert_non_null(strstr(e.text, "the source itself"));
	e.code = 0;
	assert_int_equal(quantize(&o, &r, &e), 0);
	assert_int_equal(quantize(&o, &r, &e), -1);
	assert_int_equal(e.code, ERR_USAGE);
	assert_non_null(strstr(e.text, "there already"));
}

static void put_weight(const char *path, long at, float value)
{
	FILE *f = fopen(path, "r+b");

	assert_non_null(f);
	fseek(f, at, SEEK_SET);
	assert_int_equal(fwrite(&value, sizeof value, 1, f), 1);
	fclose(f);
}

static void test_not_finite(void **state)
{
	const struct quant_options o = { .to = { .type = K_Q8_0 }, .otherwise = K_N_TYPES };
	struct gguf *g = open_good(source);
	const struct gguf_tensor *t = gguf_find(g, "blk.1.attn_k.weight");
	const struct gguf_tensor *last = gguf_tensor_at(g, gguf_n_tensors(g) - 1);
	/* the last tensor's end is the file's */
	const long at = (long)gguf_file_bytes(g) - (last->data + last->bytes - t->data) + 400;
	const float bad[] = { NAN, -INFINITY };
	struct quant_result r;
	float was;

	memcpy(&was, t->data + 400, sizeof was);
	gguf_close(g);
	for (int i = 0; i < 2; i++) {
		struct err e = { 0 };

		drop(state);
		put_weight(source, at, bad[i]);
		assert_int_equal(quantize(&o, &r, &e), -1);
		assert_int_equal(e.code, ERR_INPUT);
		assert_non_null(strstr(e.text, i ? "infinite, in row 1" : "no number, in row 1"));
	}
	put_weight(source, at, was);
}

/* A copy of the source with two more tensors: of a layer that the model has not, and of a name that
 * it would read, in another width, if it were of another family. */
static void write_odd(const char *path)
{
	const struct gguf_tensor more[] = {
		{ .name = "blk.900000.attn_q.weight", .n_dims = 2, .dim = { 64, 32, 1, 1 } },
		{ .name = "blk.0.attn_qkv.weight", .n_dims = 2, .dim = { 160, 32, 1, 1 } },
	};
	struct gguf *g = open_good(source);
	struct gguf_head h;
	struct err e = { 0 };
	FILE *f = fopen(path, "wb");
	static const uint8_t zeros[160 * 32 * 4];

	gguf_head_begin(&h, GGUF_ALIGN);
	for (size_t i = 0; gguf_pair_at(g, i).key; i++) {
		const struct gguf_pair p = gguf_pair_at(g, i);

		gguf_head_copy(&h, &p);
	}
	for (int32_t i = 0; i < gguf_n_tensors(g); i++)
		gguf_head_tensor(&h, gguf_tensor_at(g, i), K_F32);
	for (int i = 0; i < 2; i++)
		gguf_head_tensor(&h, &more[i], K_F32);
	assert_int_equal(gguf_head_end(&h, &e), 0);
	fwrite(h.data, 1, h.size, f);
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);

		assert_int_equal(t->bytes % GGUF_ALIGN, 0);
		fwrite(t->data, 1, t->bytes, f);
	}
	for (int i = 0; i < 2; i++)
		fwrite(zeros, 1, gguf_tensor_bytes(&more[i], K_F32), f);
	assert_int_equal(fclose(f), 0);
	gguf_head_free(&h);
	gguf_close(g);
}

static void test_odd_tensors(void **state)
{
	static char text[40000];
	struct quant_options o = { .to = { .type = K_Q4_0 },
		.otherwise = K_N_TYPES,
		.damping = 0.01,
		.alpha = 0.5,
		.common = { .text = text, .threads = 1 } };
	char odd[300];
	struct quant_result r;

	for (size_t i = 0; i + 1 < sizeof text; i++)
		text[i] = "The fox, and 7 lazy dogs. "[(i * 7 + i / 11) % 26];
	o.common.size = sizeof text - 1;
	snprintf(odd, sizeof odd, "%s.odd", source);
	write_odd(odd);
	for (int m = 0; m < QUANT_N_METHODS; m++) {
		struct err e = { 0 };

		drop(state);
		o.method = (enum quant_method)m;
		o.to = (struct quant_form){ .type = m >= QUANT_LLM_INT8 ? K_F16 : K_Q4_0,
			.bits = m >= QUANT_LLM_INT8 ? 8 : 0 };
		if (quantize_file(odd, result, &o, &r, &e))
			fail_msg("%s: %s", quant_method_name(o.method), e.text);
		assert_int_equal(r.n_tensors, o.to.bits ? 16 : 17);
	}
	unlink(odd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_formats, drop),
		cmocka_unit_test_teardown(test_lineage, drop),
		cmocka_unit_test_teardown(test_keep_and_else, drop),
		cmocka_unit_test_teardown(test_resume, drop),
		cmocka_unit_test_teardown(test_other_options, drop),
		cmocka_unit_test_teardown(test_full_disk, drop),
		cmocka_unit_test_teardown(test_names, drop),
		cmocka_unit_test_teardown(test_not_finite, drop),
		cmocka_unit_test_teardown(test_odd_tensors, drop),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
