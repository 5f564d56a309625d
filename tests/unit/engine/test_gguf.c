/* GGUF files: good ones of every type, and ones that lie in every field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/model/gguf.h"
#include "tests/support/tiny.h"

/* --- good files --- */

static const struct tiny_options smallest = {
	.seed = 1,
	.dim = 32,
	.layers = 1,
	.heads = 2,
	.kv_heads = 1,
	.ffn = 32,
	.vocab = 262,
	.ctx = 64,
	.type = K_Q4_0,
	.embd_type = K_Q8_0,
	.tied = true,
	.arch = "llama",
	.tokenizer = "bpe",
	.pre = "gpt-2",
	.chat = "none",
};

static void check_tensor(const struct gguf *g, const char *name, enum k_type type, int64_t cols,
	int64_t rows, size_t bytes)
{
	const struct gguf_tensor *t = gguf_find(g, name);
	uint8_t *copy = malloc(bytes);
	struct err e = { 0 };

	assert_non_null(t);
	assert_string_equal(t->name, name);
	assert_int_equal(t->type, type);
	assert_int_equal(t->n_dims, rows ? 2 : 1);
	assert_int_equal(t->dim[0], cols);
	assert_int_equal(t->dim[1], rows ? rows : 1);
	assert_int_equal(t->dim[2], 1);
	assert_int_equal(t->dim[3], 1);
	assert_int_equal(t->bytes, bytes);
	assert_int_equal(gguf_read_tensor(t, copy, &e), 0);
	assert_memory_equal(copy, t->data, bytes);
	free(copy);
}

static void test_all_types(void **state)
{
	static const struct {
		enum k_type type;
		size_t bytes; /* of 64 x 64 values, or 256 x 256 */
	} all[] = { { K_F32, 16384 }, { K_F16, 8192 }, { K_BF16, 8192 }, { K_Q8_0, 4352 },
		{ K_Q4_0, 2304 }, { K_Q4_1, 2560 }, { K_Q5_0, 2816 }, { K_Q5_1, 3072 }, { K_IQ4_NL, 2304 },
		{ K_Q4_K, 36864 }, { K_Q5_K, 45056 }, { K_Q6_K, 53760 }, { K_Q2_K, 21504 },
		{ K_Q3_K, 28160 }, { K_IQ4_XS, 34816 }, { K_MXFP4, 2176 } };

	(void)state;
	assert_int_equal(sizeof all / sizeof *all, K_N_TYPES);
	for (size_t i = 0; i < K_N_TYPES; i++) {
		struct tiny_options o = TINY_DEFAULTS;
		struct err e = { 0 };
		struct gguf *g;
		struct stat st;
		char *path;

		const bool wide = k_types[all[i].type].block > 64;
		const int64_t dim = wide ? 256 : 64;

		o.type = all[i].type;
		o.dim = (int32_t)dim;
		o.ffn = wide ? 512 : o.ffn;
		o.tied = i % 2;
		o.bias = i % 3 == 0;
		path = tiny_temp(&o, &e);
		assert_int_equal(gguf_open(&g, path, &e), 0);
		check_tensor(g, "blk.1.attn_q.weight", all[i].type, dim, dim, all[i].bytes);
		check_tensor(g, "blk.0.ffn_norm.weight", K_F32, dim, 0, (size_t)dim * 4);
		check_tensor(g, "token_embd.weight", K_Q8_0, dim, 512, (size_t)dim * 512 / 32 * 34);
		assert_int_equal(gguf_find(g, "output.weight") == NULL, o.tied);
		assert_int_equal(gguf_find(g, "blk.0.attn_v.bias") != NULL, o.bias);
		assert_null(gguf_find(g, "blk.2.attn_q.weight"));
		assert_int_equal(gguf_n_tensors(g), 2 + !o.tied + 2 * (o.bias ? 12 : 9));
		assert_string_equal(gguf_tensor_at(g, 0)->name, "token_embd.weight");
		assert_null(gguf_tensor_at(g, gguf_n_tensors(g)));
		assert_null(gguf_tensor_at(g, -1));
		assert_string_equal(gguf_path(g), path);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(gguf_file_bytes(g), st.st_size);
		gguf_close(g);
		unlink(path);
		free(path);
	}
}

/* One pair of every type; numbers above 2^31 and 2^63, texts with NULs, arrays. */
static void make_metadata(struct bytes *b)
{
	static const uint32_t widths[] = { 1, 1, 2, 2, 4, 4, 4, 1 };
	const int32_t ints[] = { -1, 2, 3 };
	const float floats[] = { 0.5f, -2.0f };
	const double d = 0.1;
	const uint64_t large = UINT64_MAX;
	const int64_t negative = -5;
	char key[8];

	gguf_put_header(b, 3, 0, 17);
	for (uint32_t type = 0; type < 8; type++) {
		snprintf(key, sizeof key, "t%u", type);
		gguf_put_kv(b, key, type,
			type == 7   ? "\1"
			: type == 6 ? "\0\0\x80\x3f"
						: "\xff\xff\xff\xff",
			widths[type]);
	}
	gguf_put_kv(b, "t10", 10, &large, 8);
	gguf_put_kv(b, "t11", 11, &negative, 8);
	gguf_put_kv(b, "t12", 12, &d, 8);
	gguf_put_kv(b, "text", 8, "\3\0\0\0\0\0\0\0a\0b", 11);
	gguf_put_kv_text(b, "empty", "");
	gguf_put_kv_array(b, "ints", 5, 3);
	bytes_put(b, ints, sizeof ints);
	gguf_put_kv_array(b, "floats", 6, 2);
	bytes_put(b, floats, sizeof floats);
	gguf_put_kv_array(b, "texts", 8, 2);
	gguf_put_string(b, "one", 3);
	gguf_put_string(b, "", 0);
	gguf_put_kv_array(b, "nothing", 12, 0);
}

static void test_numbers(void **state)
{
	static const struct {
		const char *key;
		int64_t value;
	} ints[] = { { "t0", 255 }, { "t1", -1 }, { "t2", 65535 }, { "t3", -1 }, { "t4", 4294967295 },
		{ "t5", -1 }, { "t11", -5 } };
	struct bytes b = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	int64_t i;
	double d;
	bool is = false;

	(void)state;
	make_metadata(&b);
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, &e), 0);
	for (size_t k = 0; k < sizeof ints / sizeof *ints; k++) {
		i = 77;
		assert_int_equal(gguf_get_i64(g, ints[k].key, &i, &e), 0);
		assert_int_equal(i, ints[k].value);
	}
	assert_true(gguf_opt_f64(g, "t6", &d, &e));
	assert_true(d == 1.0);
	assert_true(gguf_opt_f64(g, "t12", &d, &e));
	assert_true(d == 0.1);
	assert_true(gguf_opt_bool(g, "t7", &is, &e));
	assert_true(is);
	assert_int_equal(e.code, 0);

	/* what does not fit, is of another type, or is not there */
	assert_int_equal(gguf_get_i64(g, "t10", &i, &e), -1);
	assert_non_null(strstr(e.text, "t10"));
	e.code = 0;
	assert_false(gguf_opt_f64(g, "t4", &d, &e));
	assert_int_equal(e.code, ERR_INPUT);
	e.code = 0;
	assert_int_equal(gguf_get_i64(g, "absent", &i, &e), -1);
	assert_non_null(strstr(e.text, "absent"));
	e.code = 0;
	i = 5;
	assert_false(gguf_opt_i64(g, "absent", &i, &e));
	assert_int_equal(e.code, 0);
	assert_int_equal(i, 5);
	assert_false(gguf_opt_i64(g, "t7", &i, &e));
	assert_int_equal(e.code, ERR_INPUT);
	assert_int_equal(i, 5);
	gguf_close(g);
	bytes_free(&b);
}

static void test_texts_and_arrays(void **state)
{
	struct bytes b = { 0 };
	struct gguf *g;
	struct err e = { 0 };
	struct gguf_text t, texts[2];
	int64_t ints[3];
	float floats[2];

	(void)state;
	make_metadata(&b);
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, &e), 0);
	assert_int_equal(gguf_get_text(g, "text", &t, &e), 0);
	assert_int_equal(t.size, 3);
	assert_memory_equal(t.data, "a\0b", 3);
	assert_true(gguf_opt_text(g, "empty", &t, &e));
	assert_int_equal(t.size, 0);
	assert_int_equal(gguf_array_length(g, "ints"), 3);
	assert_int_equal(gguf_array_length(g, "nothing"), 0);
	assert_int_equal(gguf_array_length(g, "text"), -1);
	assert_int_equal(gguf_array_length(g, "absent"), -1);
	assert_int_equal(gguf_array_i64(g, "ints", ints, 3, &e), 0);
	assert_true(ints[0] == -1 && ints[1] == 2 && ints[2] == 3);
	assert_int_equal(gguf_array_f32(g, "floats", floats, 2, &e), 0);
	assert_true(floats[0] == 0.5f && floats[1] == -2.0f);
	assert_int_equal(gguf_array_text(g, "texts", texts, 2, &e), 0);
	assert_true(texts[0].size == 3 && !memcmp(texts[0].data, "one", 3) && texts[1].size == 0);

	assert_int_equal(gguf_array_i64(g, "ints", ints, 4, &e), -1); /* too many */
	e.code = 0;
	assert_int_equal(gguf_array_i64(g, "floats", ints, 1, &e), -1);
	assert_int_equal(gguf_array_f32(g, "ints", floats, 1, NULL), -1);
	assert_int_equal(gguf_array_text(g, "ints", texts, 1, NULL), -1);
	assert_int_equal(gguf_array_i64(g, "t0", ints, 1, NULL), -1);
	assert_int_equal(gguf_array_i64(g, "absent", ints, 1, NULL), -1);
	gguf_close(g);
	bytes_free(&b);
}

/* --- lies --- */

/* A file of two tensors; each lie sets one field. */
struct spec {
	uint32_t version;
	uint64_t n_tensors, n_kv;
	uint64_t key_size; /* claimed for the key "general.alignment" */
	uint32_t align_type;
	uint32_t align;
	const char *kv; /* one more pair, raw, if n_kv is 2 */
	uint64_t kv_size;
	const char *name;   /* of the second tensor */
	uint64_t name_size; /* claimed */
	uint32_t n_dims;
	uint64_t dim0, dim1, dim2;
	uint32_t type;
	uint64_t offset;
	uint64_t data; /* bytes of the data section */
};

static const struct spec truth = { 3, 2, 1, 17, 4, 32, "", 0, "two", 3, 2, 32, 2, 1, 8, 64, 132 };

static void make_file(struct bytes *b, const struct spec *s)
{
	const uint64_t dims[] = { s->dim0, s->dim1, s->dim2, 1, 1 };
	const uint64_t one[] = { 4, 4 };

	gguf_put_header(b, s->version, s->n_tensors, s->n_kv);
	bytes_u64(b, s->key_size);
	bytes_put(b, "general.alignment", 17);
	bytes_u32(b, s->align_type);
	bytes_u32(b, s->align);
	bytes_put(b, s->kv, s->kv_size);
	gguf_put_tensor(b, "one", 2, one, 0, 0);
	bytes_u64(b, s->name_size);
	bytes_put(b, s->name, strlen(s->name));
	bytes_u32(b, s->n_dims);
	for (uint32_t i = 0; i < s->n_dims && i < 5; i++)
		bytes_u64(b, dims[i]);
	bytes_u32(b, s->type);
	bytes_u64(b, s->offset);
	bytes_pad(b, 32);
	for (uint64_t i = 0; i < s->data; i++)
		bytes_put(b, "", 1);
}

/* In memory that ends where the file ends, so that the sanitizers see one byte too far. */
static int open_exact(struct gguf **g, const struct bytes *b, size_t size, struct err *e)
{
	uint8_t *exact = malloc(size ? size : 1);
	int rc;

	memcpy(exact, b->data, size);
	rc = gguf_open_memory(g, exact, size, e);
	if (!rc)
		gguf_close(*g);
	free(exact);
	return rc;
}

#define SET(field, value) offsetof(struct spec, field), sizeof truth.field, (uint64_t)(value)
#define PAIR(bytes) SET(n_kv, 2), bytes, sizeof(bytes) - 1
#define N4 "\4\0\0\0\0\0\0\0"
#define HUGE8 "\xff\xff\xff\xff\xff\xff\xff\x7f"

static const struct lie {
	const char *says;
	size_t at, size;
	uint64_t value;
	const char *kv;
	size_t kv_size;
} lies[] = {
	{ "version 1", SET(version, 1), NULL, 0 },
	{ "version 4", SET(version, 4), NULL, 0 },
	{ "version 0", SET(version, 0), NULL, 0 },
	{ "big-endian", SET(version, 0x03000000), NULL, 0 },
	{ "tensor 2 has no name", SET(n_tensors, 3), NULL, 0 }, /* padding is none */
	{ "tensor 2 has no name", SET(n_tensors, 1 << 20), NULL, 0 },
	{ "claims", SET(n_tensors, (1 << 20) + 1), NULL, 0 },
	{ "claims", SET(n_tensors, UINT64_MAX), NULL, 0 },
	{ "is cut off or lies", SET(n_kv, 2), NULL, 0 }, /* a tensor is no pair */
	{ "", SET(n_kv, 65536), NULL, 0 },
	{ "claims", SET(n_kv, 65537), NULL, 0 },
	{ "claims", SET(n_kv, UINT64_MAX), NULL, 0 },
	{ "is no type", SET(key_size, 0), NULL, 0 },
	{ "is no type", SET(key_size, 16), NULL, 0 },
	{ "is cut off or lies", SET(key_size, 4096), NULL, 0 },
	{ "is cut off or lies", SET(key_size, UINT64_MAX), NULL, 0 },
	{ "is cut off or lies", SET(key_size, INT64_MAX), NULL, 0 },
	{ "general.alignment", SET(align_type, 6), NULL, 0 },
	{ "is no type", SET(align_type, 13), NULL, 0 },
	{ "is no type", SET(align_type, UINT32_MAX), NULL, 0 },
	{ "general.alignment", SET(align, 0), NULL, 0 },
	{ "general.alignment", SET(align, 4), NULL, 0 },
	{ "general.alignment", SET(align, 48), NULL, 0 },
	{ "general.alignment", SET(align, 0x80000000), NULL, 0 },
	{ "has no name", SET(name_size, 0), NULL, 0 },
	{ "is cut off or lies", SET(name_size, UINT64_MAX), NULL, 0 },
	{ "the most", SET(name_size, 128), NULL, 0 },
	{ "has a byte 0x2", SET(name_size, 4), NULL, 0 },
	{ "0 dimensions", SET(n_dims, 0), NULL, 0 },
	{ "5 dimensions", SET(n_dims, 5), NULL, 0 },
	{ "4294967295 dimensions", SET(n_dims, UINT32_MAX), NULL, 0 },
	{ "a dimension of 0", SET(dim0, 0), NULL, 0 },
	{ "a dimension of 0", SET(dim1, 0), NULL, 0 },
	{ "a multiple of 32", SET(dim0, 31), NULL, 0 },
	{ "a multiple of 32", SET(dim0, 48), NULL, 0 },
	{ "a dimension of 18446744073709551584", SET(dim0, -32), NULL, 0 },
	{ "a dimension of 4294967296", SET(dim1, 1ull << 32), NULL, 0 },
	{ "larger than the file", SET(dim1, INT32_MAX), NULL, 0 },
	{ "ends after the file", SET(dim1, 3), NULL, 0 },
	{ "two has type Q8_K (15)", SET(type, 15), NULL, 0 },
	{ "Q4_K needs a multiple of 256", SET(type, 12), NULL, 0 },
	{ "two has type IQ2_XS (17)", SET(type, 17), NULL, 0 },
	{ "two has type NVFP4 (40)", SET(type, 40), NULL, 0 },
	{ "two has type unknown (9999)", SET(type, 9999), NULL, 0 },
	{ "supported are F32 F16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS BF16 "
	  "MXFP4",
		SET(type, UINT32_MAX), NULL, 0 },
	{ "no multiple of 32", SET(offset, 65), NULL, 0 },
	{ "no multiple of 32", SET(offset, 72), NULL, 0 },
	{ "ends after the file", SET(offset, 96), NULL, 0 },
	{ "ends after the file", SET(offset, 1ull << 40), NULL, 0 },
	{ "ends after the file", SET(offset, UINT64_MAX - 31), NULL, 0 },
	{ "one and two overlap", SET(offset, 32), NULL, 0 },
	{ "overlap", SET(offset, 0), NULL, 0 },
	{ "ends after the file", SET(data, 131), NULL, 0 },
	{ "ends after the file", SET(data, 0), NULL, 0 },
	/* one more pair: empty, there already, arrays, strings */
	{ "is empty", PAIR("\0\0\0\0\0\0\0\0\4\0\0\0\1\0\0\0") },
	{ "comes twice", PAIR("\x11\0\0\0\0\0\0\0general.alignment\4\0\0\0\x20\0\0\0") },
	{ "array of arrays", PAIR(N4 "list\x09\0\0\0\x09\0\0\0\1\0\0\0\0\0\0\0") },
	{ "is no type", PAIR(N4 "list\x09\0\0\0\x0d\0\0\0\1\0\0\0\0\0\0\0") },
	{ "is cut off or lies", PAIR(N4 "list\x09\0\0\0\0\0\0\0" HUGE8) },
	{ "claims", PAIR(N4 "list\x09\0\0\0\x0c\0\0\0" HUGE8) },
	{ "is cut off or lies", PAIR(N4 "list\x09\0\0\0\x08\0\0\0" HUGE8) },
	{ "is cut off or lies", PAIR(N4 "text\x08\0\0\0" HUGE8) },
	{ "one part of a model", PAIR("\x0b\0\0\0\0\0\0\0split.count\2\0\0\0\2\0") },
	{ "one part of a model", PAIR("\x0b\0\0\0\0\0\0\0split.count\x08\0\0\0\1\0\0\0\0\0\0\0"
								  "2") },
};

static void test_lies(void **state)
{
	int believed = 0;

	(void)state;
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct spec s = truth;
		struct bytes b = { 0 };
		struct err e = { 0 };
		struct gguf *g;

		memcpy((char *)&s + lies[i].at, &lies[i].value, lies[i].size);
		if (lies[i].kv) {
			s.kv = lies[i].kv;
			s.kv_size = lies[i].kv_size;
		}
		make_file(&b, &s);
		if (open_exact(&g, &b, b.size, &e) != -1 || e.code != ERR_INPUT ||
			!strstr(e.text, lies[i].says)) {
			print_error("lie %zu: \"%s\" does not say \"%s\"\n", i, e.text, lies[i].says);
			believed++;
		}
		bytes_free(&b);
	}
	assert_int_equal(believed, 0);
}

/* The same file without a lie, of both versions; with a name that comes twice; with names that are
 * no text. */
static void test_names(void **state)
{
	static const char *const bad[] = { "one", "a b", "t\x1b[m", "\xc3\xa9", "del\x7f" };
	struct spec s = truth;
	struct bytes b = { 0 };
	struct err e = { 0 };
	struct gguf *g;

	(void)state;
	for (s.version = 2; s.version <= 3; s.version++) {
		b.size = 0;
		make_file(&b, &s);
		assert_int_equal(open_exact(&g, &b, b.size, &e), 0);
	}
	s.version = 3;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		b.size = 0;
		e.code = 0;
		s.name = bad[i];
		s.name_size = strlen(bad[i]);
		make_file(&b, &s);
		assert_int_equal(open_exact(&g, &b, b.size, &e), -1);
		assert_non_null(strstr(e.text, i ? "has a byte" : "one comes twice"));
		for (const char *p = e.text; *p; p++)
			assert_true(*p >= 0x20 && *p < 0x7f);
	}
	bytes_free(&b);
}

static void test_other_files(void **state)
{
	static const struct {
		const char *start, *says;
	} other[] = {
		{ "", "is empty" },
		{ "GGU", "is cut off" },
		{ "GGUF", "is cut off" },
		{ "GGML....", "no GGUF file" },
		{ "tjgg....", "an old GGJT file" },
		{ "version https://git-lfs.github.com/spec/v1\n", "Git LFS" },
		{ "<!DOCTYPE html>", "a web page" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
		struct bytes b = { 0 };
		struct err e = { 0 };
		struct gguf *g;

		bytes_put(&b, other[i].start, strlen(other[i].start) + 1);
		assert_int_equal(open_exact(&g, &b, b.size - 1, &e), -1);
		assert_int_equal(e.code, ERR_INPUT);
		assert_non_null(strstr(e.text, other[i].says));
		bytes_free(&b);
	}
}

static void test_no_file(void **state)
{
	char fifo[] = "/tmp/cutaway-fifo-XXXXXX";
	struct err e = { 0 };
	struct gguf *g;

	(void)state;
	assert_int_equal(gguf_open(&g, "/nonexistent/model.gguf", &e), -1);
	assert_int_equal(e.code, ERR_IO);
	assert_null(g);
	e.code = 0;
	assert_int_equal(gguf_open(&g, "/tmp", &e), -1);
	assert_non_null(strstr(e.text, "is not a file"));
	e.code = 0;
	assert_non_null(mkdtemp(fifo));
	rmdir(fifo);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(gguf_open(&g, fifo, &e), -1); /* and does not hang */
	assert_int_equal(e.code, ERR_IO);
	unlink(fifo);
}

/* --- cut off, damaged, shrinking --- */

/* Where the last tensor ends: what is cut off after that is only padding. */
static size_t data_end(const struct gguf *g, const uint8_t *start)
{
	size_t end = 0;

	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		size_t at = (size_t)(t->data - start) + t->bytes;

		end = at > end ? at : end;
	}
	return end;
}

static void test_cut_off(void **state)
{
	struct bytes b = { 0 };
	struct err e = { 0 };
	struct gguf *g;
	size_t end;

	(void)state;
	assert_int_equal(tiny_make(&smallest, &b.data, &b.size, &e), 0);
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, &e), 0);
	end = data_end(g, b.data);
	gguf_close(g);
	for (size_t n = 0; n < end; n += n < 200 ? 1 : 37) {
		e.code = 0;
		assert_int_equal(open_exact(&g, &b, n, &e), -1);
		assert_int_equal(e.code, ERR_INPUT);
	}
	assert_int_equal(open_exact(&g, &b, end, &e), 0);
	bytes_free(&b);
}

/* Any byte of the head changed: an error or another model, never a crash. */
static void test_damaged(void **state)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	struct bytes b = { 0 };
	struct err e = { 0 };
	struct gguf *g;
	size_t head;

	(void)state;
	assert_int_equal(tiny_make(&smallest, &b.data, &b.size, &e), 0);
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, &e), 0);
	head = (size_t)(gguf_tensor_at(g, 0)->data - b.data);
	gguf_close(g);
	for (size_t i = 0; i < head; i++) {
		b.data[i] ^= flips[i % 3];
		e.code = 0;
		if (open_exact(&g, &b, b.size, &e))
			assert_true(e.code == ERR_INPUT);
		b.data[i] ^= flips[i % 3];
	}
	bytes_free(&b);
}

static void test_shrinks(void **state)
{
	struct err e = { 0 };
	char *path = tiny_temp(&TINY_DEFAULTS, &e);
	const struct gguf_tensor *t;
	struct gguf *g;
	int64_t layers;
	uint8_t *out;

	(void)state;
	assert_int_equal(gguf_open(&g, path, &e), 0);
	assert_int_equal(gguf_unchanged(g, &e), 0);
	assert_int_equal(truncate(path, 64), 0);
	assert_int_equal(gguf_unchanged(g, &e), -1);
	assert_non_null(strstr(e.text, "changed while it was read"));
	e = (struct err){ 0 };
	/* metadata was copied at open */
	assert_int_equal(gguf_get_i64(g, "llama.block_count", &layers, &e), 0);
	assert_int_equal(layers, 2);
	t = gguf_find(g, "output_norm.weight");
	out = malloc(t->bytes);
	assert_int_equal(gguf_read_tensor(t, out, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.text, "has shrunk"));
	assert_non_null(strstr(e.text, "output_norm.weight"));
	free(out);
	gguf_close(g);
	unlink(path);
	free(path);
}

/* A large file (of holes) whose one string claims nearly all of it: refused, not read. */
static void test_large_lie(void **state)
{
	char path[] = "/tmp/cutaway-holes-XXXXXX";
	int fd = mkstemp(path);
	struct bytes b = { 0 };
	struct err e = { 0 };
	struct gguf *g;

	(void)state;
	gguf_put_header(&b, 3, 0, 1);
	gguf_put_kv(&b, "text", 8, "\0\0\0\0\1\0\0\0", 8); /* 4 GB */
	assert_int_equal(write(fd, b.data, b.size), b.size);
	if (ftruncate(fd, 5ll << 30)) {
		close(fd);
		unlink(path);
		skip();
	}
	close(fd);
	assert_int_equal(gguf_open(&g, path, &e), -1);
	assert_int_equal(e.code, ERR_INPUT);
	assert_non_null(strstr(e.text, "256 MB is the most"));
	unlink(path);
	bytes_free(&b);
}

/* --- models in parts, which gguf-py cut --- */

#define WHOLE "tests/data/zoo/phi3-longrope.gguf"
#define PART(n) "tests/data/parts/longrope-0000" #n "-of-00002.gguf"

static void test_parts(void **state)
{
	struct gguf *whole, *parts;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(gguf_open(&whole, WHOLE, &e), 0);
	assert_int_equal(gguf_open(&parts, PART(2), &e), 0);
	assert_string_equal(gguf_path(parts), PART(1));
	assert_int_equal(gguf_n_tensors(parts), gguf_n_tensors(whole));
	for (int32_t i = 0; i < gguf_n_tensors(whole); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(whole, i), *p = gguf_find(parts, t->name);
		uint8_t *read = malloc(t->bytes);

		assert_non_null(p);
		assert_int_equal(p->bytes, t->bytes);
		assert_int_equal(gguf_read_tensor(p, read, &e), 0);
		assert_memory_equal(read, t->data, t->bytes);
		free(read);
	}
	assert_int_equal(gguf_file_bytes(parts), gguf_stamp(parts)->size);
	assert_true(gguf_file_bytes(parts) > gguf_file_bytes(whole));
	assert_int_equal(gguf_unchanged(parts, &e), 0);
	gguf_close(parts);
	gguf_close(whole);
}

/* What opening says if PART(1) has this name, and `other`, if any, that of its second part. */
static void check_parts(const char *name, const char *other, const char *says)
{
	char folder[] = "/tmp/cutaway-parts-XXXXXX", *first = realpath(PART(1), NULL),
		 *second = other ? realpath(other, NULL) : NULL, path[2][64];
	struct err e = { 0 };
	struct gguf *g;

	assert_non_null(mkdtemp(folder));
	snprintf(path[0], sizeof path[0], "%s/%s", folder, name);
	snprintf(path[1], sizeof path[1], "%s/x-00002-of-00002.gguf", folder);
	assert_int_equal(symlink(first, path[0]), 0);
	if (second)
		assert_int_equal(symlink(second, path[1]), 0);
	assert_int_equal(gguf_open(&g, path[0], &e), -1);
	assert_non_null(strstr(e.text, says));
	unlink(path[0]);
	unlink(path[1]);
	rmdir(folder);
	free(second);
	free(first);
}

static void test_parts_that_lie(void **state)
{
	(void)state;
	check_parts("x-00001-of-00002.gguf", NULL, "x-00002-of-00002.gguf: No such file");
	check_parts("x-00001-of-00002.gguf", PART(1), "does not say that it is part 2 of 2");
	check_parts("x-00001-of-00002.gguf", WHOLE, "does not say that it is part 2 of 2");
	check_parts("x-00001-of-00003.gguf", PART(2), "must keep their names");
	check_parts("x.gguf", PART(2), "must keep their names");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_types),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_texts_and_arrays),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_other_files),
		cmocka_unit_test(test_no_file),
		cmocka_unit_test(test_cut_off),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_large_lie),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_parts_that_lie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
