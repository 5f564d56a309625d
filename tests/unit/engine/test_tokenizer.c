/* The tokenizer against goldens of independent code, against a plain form of itself, and against
 * files that lie. The ids come from Hugging Face's tokenizers with the model's vocabulary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/text/tokenizer_private.h"
#include "engine/text/tokenizer_pre.h"
#include "tests/support/jsonl.h"
#include "tests/support/tiny.h"

static const char model[] = "models/SmolLM2-135M-Instruct.Q4_1.gguf";

struct ids {
	int32_t *id;
	size_t n, cap;
};

static struct ids encode(const struct tokenizer *t, const char *text, size_t size, bool special)
{
	struct ids ids = { 0 };
	struct err e = { 0 };

	assert_int_equal(tokenizer_encode(t, text, size, special, &ids.id, &ids.n, &ids.cap, &e), 0);
	return ids;
}

static void expect_ids(const struct tokenizer *t, const char *text, size_t size, bool special,
	const int32_t *want, size_t n)
{
	struct ids got = encode(t, text, size, special);

	assert_int_equal(got.n, n);
	if (n)
		assert_memory_equal(got.id, want, n * sizeof *want);
	free(got.id);
}

static void open_tokenizer(const char *path, struct gguf **g, struct tokenizer **t)
{
	struct err e = { 0 };

	assert_int_equal(gguf_open(g, path, &e), 0);
	assert_int_equal(tokenizer_open(t, *g, &e), 0);
}

static struct tokenizer *open_tiny(const struct tiny_options *o)
{
	struct err e = { 0 };
	struct tokenizer *t;
	struct gguf *g;
	uint8_t *data;
	size_t size;

	assert_int_equal(tiny_make(o, &data, &size, &e), 0);
	assert_int_equal(gguf_open_memory(&g, data, size, &e), 0);
	assert_int_equal(tokenizer_open(&t, g, &e), 0);
	/* The tokenizer keeps nothing of the file. */
	gguf_close(g);
	free(data);
	return t;
}

static int check_golden_ids(const struct tokenizer *t, const char *path)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t cap = 0, size, n;
	int lines = 0;

	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		char *text = jsonl_string(jsonl_find(line, "text"), &size);
		int32_t *want = jsonl_ints(jsonl_find(line, "ids"), &n);

		expect_ids(t, text, size, true, want, n);
		free(text);
		free(want);
		lines++;
	}
	free(line);
	fclose(f);
	return lines;
}

static void test_golden_ids(void **state)
{
	struct tokenizer *t;
	struct gguf *g;

	(void)state;
	if (access(model, R_OK))
		skip();
	open_tokenizer(model, &g, &t);
	gguf_close(g);
	assert_int_equal(check_golden_ids(t, "tests/data/tokens.jsonl"), 39);
	assert_int_equal(check_golden_ids(t, "tests/data/tokens_random.jsonl"), 150);
	tokenizer_close(t);
}

/* --- property: the heap gives what the definition gives --- */

struct golden {
	struct {
		int32_t left, right;
	} merge[1024];
	int32_t n_merges;
};

/* Merges of the tiny model, from the file's texts and not from the tokenizer's own table. */
static void read_merges(struct golden *m, const struct gguf *g, const struct tokenizer *t)
{
	static struct gguf_text token[4096], text[1024];
	int64_t n = gguf_array_length(g, "tokenizer.ggml.merges");
	int32_t vocab = tokenizer_n_vocab(t);
	struct err e = { 0 };

	assert_true(n <= 1024 && vocab <= 4096);
	assert_int_equal(gguf_array_text(g, "tokenizer.ggml.merges", text, n, &e), 0);
	assert_int_equal(gguf_array_text(g, "tokenizer.ggml.tokens", token, vocab, &e), 0);
	for (int64_t i = 0; i < n; i++) {
		size_t left =
			(size_t)((const char *)memchr(text[i].data, ' ', text[i].size) - text[i].data);

		m->merge[i].left = m->merge[i].right = -1;
		for (int32_t k = vocab - 1; k >= 0; k--) {
			if (token[k].size == left && !memcmp(token[k].data, text[i].data, left))
				m->merge[i].left = k;
			if (token[k].size == text[i].size - left - 1 &&
				!memcmp(token[k].data, text[i].data + left + 1, token[k].size))
				m->merge[i].right = k;
		}
		assert_true(m->merge[i].left >= 0 && m->merge[i].right >= 0);
	}
	m->n_merges = (int32_t)n;
}

/* The definition: ever again the first pair of the lowest rank. Merge i makes token 259 + i. */
static size_t encode_plainly(const struct golden *m, const char *word, size_t size, int32_t *id)
{
	size_t n = size;

	for (size_t i = 0; i < n; i++)
		id[i] = 3 + (unsigned char)word[i];
	for (;;) {
		int32_t best = m->n_merges;
		size_t at = 0;

		for (size_t i = 0; i + 1 < n; i++)
			for (int32_t r = 0; r < best; r++)
				if (m->merge[r].left == id[i] && m->merge[r].right == id[i + 1]) {
					best = r;
					at = i;
				}
		if (best == m->n_merges)
			return n;
		id[at] = 259 + best;
		memmove(id + at + 1, id + at + 2, (n - at - 2) * sizeof *id);
		n--;
	}
}

static void test_heap_equals_definition(void **state)
{
	static const char letters[] = "theanrsio tokencachepage \n.,";
	static struct golden m;
	struct err e = { 0 };
	char *path = tiny_temp(&TINY_DEFAULTS, &e);
	struct pre *pre = pre_compile(pre_by_name("smollm", 6));
	struct pre_words w;
	struct tokenizer *t;
	struct gguf *g;
	uint64_t r = 7;
	int32_t want[600];

	(void)state;
	open_tokenizer(path, &g, &t);
	read_merges(&m, g, t);
	for (int i = 0; i < 400; i++) {
		char text[64];
		size_t n = 0, size = 1 + (size_t)(r >> 59);

		for (size_t k = 0; k < size; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			text[k] = letters[(r >> 33) % (sizeof letters - 1)];
		}
		w = (struct pre_words){ .pre = pre, .text = text, .size = size };
		for (size_t word; (word = pre_next(&w));)
			n += encode_plainly(&m, text + w.at - word, word, want + n);
		expect_ids(t, text, size, false, want, n);
	}
	free(pre);
	tokenizer_close(t);
	gguf_close(g);
	unlink(path);
	free(path);
}

/* Decoding gives the text back, for all bytes: the tiny vocabulary has them all. */
static void test_round_trip(void **state)
{
	struct tokenizer *t = open_tiny(&TINY_DEFAULTS);
	char text[300], back[300];
	uint64_t r = 3;

	(void)state;
	for (int i = 0; i < 500; i++) {
		size_t size = (size_t)(r >> 40) % sizeof text, n = 0;

		for (size_t k = 0; k < size; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			text[k] = i % 2 ? (char)(r >> 56) : " the page<|im_end|>12\n"[(r >> 40) % 22];
		}
		struct ids ids = encode(t, text, size, i % 4 < 2);

		for (size_t k = 0; k < ids.n; k++) {
			struct gguf_text b = tokenizer_bytes(t, ids.id[k]);

			assert_true(n + b.size <= sizeof back);
			memcpy(back + n, b.data, b.size);
			n += b.size;
		}
		assert_int_equal(n, size);
		assert_memory_equal(back, text, size);
		free(ids.id);
	}
	tokenizer_close(t);
}

static void test_long_words(void **state)
{
	struct tokenizer *t = open_tiny(&TINY_DEFAULTS);
	size_t size = 1 << 20, n = 0;
	char *text = malloc(size);
	struct ids ids;

	(void)state;
	for (size_t i = 0; i < size; i++)
		text[i] = "the"[i % 3];
	ids = encode(t, text, size, true);
	for (size_t i = 0; i < ids.n; i++)
		n += tokenizer_bytes(t, ids.id[i]).size;
	assert_int_equal(n, size);
	free(ids.id);
	free(text);
	tokenizer_close(t);
}

static void test_special(void **state)
{
	struct tokenizer *t = open_tiny(&TINY_DEFAULTS);
	static const char text[] = "a<|im_end|><|im_end|";
	size_t at, used;
	struct ids ids;

	(void)state;
	ids = encode(t, text, sizeof text - 1, true);
	assert_int_equal(ids.id[0], 3 + 'a');
	assert_int_equal(ids.id[1], 2);
	for (size_t i = 2; i < ids.n; i++)
		assert_false(tokenizer_is_special(t, ids.id[i]));
	free(ids.id);
	ids = encode(t, text, sizeof text - 1, false);
	for (size_t i = 0; i < ids.n; i++)
		assert_false(tokenizer_is_special(t, ids.id[i]));
	free(ids.id);

	assert_int_equal(tokenizer_find_special(t, text, sizeof text - 1, &at, &used), 2);
	assert_int_equal(at, 1);
	assert_int_equal(used, 10);
	assert_int_equal(tokenizer_find_special(t, "<|im_en", 7, &at, &used), -1);
	assert_int_equal(tokenizer_id_of(t, "<|im_start|>"), 1);
	assert_int_equal(tokenizer_id_of(t, "<|eot_id|>"), -1);
	assert_int_equal(tokenizer_bos(t), 1);
	assert_int_equal(tokenizer_eos(t), 2);
	assert_false(tokenizer_adds_bos(t));
	assert_true(tokenizer_is_end(t, 0)); /* <|endoftext|> */
	assert_false(tokenizer_is_end(t, 1));
	assert_true(tokenizer_is_end(t, 2));
	assert_false(tokenizer_is_end(t, -1));
	assert_false(tokenizer_is_end(t, 512));
	assert_int_equal(tokenizer_bytes(t, 512).size, 0);
	tokenizer_close(t);
}

/* --- small vocabularies of one's own --- */

struct vocabulary {
	const char *const *token; /* NULL-terminated, in the byte alphabet */
	const uint32_t *kind;     /* or NULL: no token types */
	const char *const *merge; /* NULL-terminated, or NULL: no such key */
	const char *model, *pre;
	int64_t eos; /* -1: none */
};

static int open_made(const struct vocabulary *v, struct tokenizer **t, struct err *e)
{
	struct bytes b = { 0 };
	struct gguf *g;
	uint64_t n = 0, n_merges = 0;
	int rc;

	while (v->token && v->token[n])
		n++;
	while (v->merge && v->merge[n_merges])
		n_merges++;
	gguf_put_header(&b, 3, 0,
		(v->model != NULL) + (v->pre != NULL) + (v->token != NULL) + (v->merge != NULL) +
			(v->eos >= 0) + (v->kind != NULL));
	if (v->model)
		gguf_put_kv_text(&b, "tokenizer.ggml.model", v->model);
	if (v->pre)
		gguf_put_kv_text(&b, "tokenizer.ggml.pre", v->pre);
	if (v->eos >= 0)
		gguf_put_kv_u32(&b, "tokenizer.ggml.eos_token_id", (uint32_t)v->eos);
	if (v->token) {
		gguf_put_kv_array(&b, "tokenizer.ggml.tokens", 8, n);
		for (uint64_t i = 0; i < n; i++)
			gguf_put_string(&b, v->token[i], strlen(v->token[i]));
	}
	if (v->kind) {
		gguf_put_kv_array(&b, "tokenizer.ggml.token_type", 5, n);
		for (uint64_t i = 0; i < n; i++)
			bytes_u32(&b, v->kind[i]);
	}
	if (v->merge) {
		gguf_put_kv_array(&b, "tokenizer.ggml.merges", 8, n_merges);
		for (uint64_t i = 0; i < n_merges; i++)
			gguf_put_string(&b, v->merge[i], strlen(v->merge[i]));
	}
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, e), 0);
	rc = tokenizer_open(t, g, e);
	gguf_close(g);
	bytes_free(&b);
	return rc;
}

static const char *const abc[] = { "a", "b", "c", "ab", "bc", "abc", "\xc4\xa0", "<x>", NULL };
static const char *const abc_merges[] = { "b c", "a b", NULL };

/* An id beyond the vocabulary is ignored, and that is said. */
static void test_odd_ids(void **state)
{
	static const int64_t id[] = { 7, 8, 4294967295 };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct vocabulary v = { abc, NULL, abc_merges, "gpt2", "gpt-2", id[i] };
		struct tokenizer *t;
		struct err e = { 0 };

		assert_int_equal(open_made(&v, &t, &e), 0);
		assert_int_equal(tokenizer_eos(t), i ? -1 : 7);
		assert_true(!tokenizer_note(t) == !i);
		assert_true(!i || strstr(tokenizer_note(t), "eos_token_id is "));
		tokenizer_close(t);
	}
}

/* Merges that a file's maker chose to fall into four slots by a hash without a seed: with one they
 * lie apart, so that a file is read in a time that grows with its length. */
static void test_colliding_merges(void **state)
{
	enum { HALVES = 300, MOST = 600, NAME = 16 };
	static char half[HALVES][NAME], both[MOST][NAME], pair[MOST][NAME];
	static const char *token[HALVES + MOST + 1], *merge[MOST + 1];
	struct vocabulary v = { token, NULL, merge, "gpt2", "gpt-2", -1 };
	uint32_t run = 0, longest = 0;
	struct tokenizer *t;
	struct err e = { 0 };
	int n = 0;

	(void)state;
	for (int i = 0; i < HALVES; i++) {
		snprintf(half[i], NAME, "%c%c", 'a' + i % 26, 'A' + i / 26);
		token[i] = half[i];
	}
	for (int64_t i = 0; i < HALVES * HALVES && n < MOST; i++) {
		const uint64_t l = (uint64_t)i / HALVES, r = (uint64_t)i % HALVES;

		if (((l << 32 | r) * 0x9E3779B97F4A7C15u >> 32 & 1023) >= 4)
			continue;
		snprintf(both[n], NAME, "%s%s", half[l], half[r]);
		snprintf(pair[n], NAME, "%s %s", half[l], half[r]);
		token[HALVES + n] = both[n];
		merge[n] = pair[n];
		n++;
	}
	assert_in_range(n, 257, 511); /* 1,024 slots */
	assert_int_equal(open_made(&v, &t, &e), 0);
	assert_int_equal(t->merge_mask, 1023);
	for (uint32_t i = 0; i <= t->merge_mask; i++) {
		run = t->merge_slot[i] < 0 ? 0 : run + 1;
		longest = run > longest ? run : longest;
	}
	assert_in_range(longest, 1, 100);
	tokenizer_close(t);
}

/* llama-bpe takes a word that is a token whole, even if no merges lead to it. */
static void test_whole_words(void **state)
{
	struct vocabulary v = { abc, NULL, abc_merges, "gpt2", "llama-bpe", -1 };
	struct tokenizer *t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(open_made(&v, &t, &e), 0);
	expect_ids(t, "abc", 3, false, (int32_t[]){ 5 }, 1);
	expect_ids(t, "abcc", 4, false, (int32_t[]){ 0, 4, 2 }, 3);
	tokenizer_close(t);
	v.pre = "gpt-2";
	assert_int_equal(open_made(&v, &t, &e), 0);
	expect_ids(t, "abc", 3, false, (int32_t[]){ 0, 4 }, 2);
	/* bytes without a token are left out, and their neighbours then meet */
	expect_ids(t,
		"a\x04"
		"bzc",
		5, false, (int32_t[]){ 0, 4 }, 2);
	tokenizer_close(t);
}

/* Characters that are tokens, bytes where they are none; lines keep their spaces; newlines in a row
 * are one token though no merge makes it. */
static void test_gemma4(void **state)
{
	static const char *const token[] = { "<pad>", "\xe2\x96\x81", "a", "\xc3\xa9", "\n", "\n\n",
		"a\xc3\xa9",
		"\xe2\x96\x81"
		"a",
		"\xe2\x96\x81\xe2\x96\x81", "<0x62>", "<0xFF>", "<0x0A>", NULL };
	static const uint32_t kind[] = { 3, 1, 1, 1, 1, 1, 1, 1, 1, 6, 6, 6 };
	static const char *const merge[] = { "\xe2\x96\x81 \xe2\x96\x81", "\xe2\x96\x81 a",
		"a \xc3\xa9", NULL };
	struct vocabulary v = { token, kind, merge, "gemma4", NULL, -1 };
	struct tokenizer *t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(open_made(&v, &t, &e), 0);
	expect_ids(t, "a  a\xc3\xa9", 6, false, (int32_t[]){ 2, 8, 6 }, 3);
	expect_ids(t,
		"\xe2\x96\x81"
		"aa\xc3\xa9",
		7, false, (int32_t[]){ 7, 6 }, 2);
	expect_ids(t, "a\n\na\n\n\na", 8, false, (int32_t[]){ 2, 5, 2, 4, 4, 4, 2 }, 7);
	expect_ids(t, "ab\xff\xc3", 4, false, (int32_t[]){ 2, 9, 10 }, 3);
	assert_int_equal(tokenizer_bytes(t, 8).size, 2);
	tokenizer_close(t);
}

/* Command-R: U+200D in the byte alphabet, and as it is, which no text becomes. */
static void test_mute(void **state)
{
	static const char *const token[] = { "\xe2\x80\x8d", "\xc3\xa2", "\xc4\xa2", "\xc4\xaf",
		"\xc3\xa2\xc4\xa2", "\xc3\xa2\xc4\xa2\xc4\xaf", NULL };
	static const char *const merge[] = { "\xc3\xa2 \xc4\xa2", "\xc3\xa2\xc4\xa2 \xc4\xaf", NULL };
	struct vocabulary v = { token, NULL, merge, "gpt2", "command-r", -1 };
	struct tokenizer *t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(open_made(&v, &t, &e), 0);
	expect_ids(t, "\xe2\x80\x8d", 3, false, (int32_t[]){ 5 }, 1);
	assert_int_equal(tokenizer_bytes(t, 0).size, 3);
	tokenizer_close(t);
}

/* Without token types the ids that the file names are control tokens; user tokens always count. */
static void test_kinds(void **state)
{
	static const uint32_t kinds[] = { 1, 1, 1, 1, 1, 1, 1, 4 };
	struct vocabulary v = { abc, NULL, abc_merges, "gpt2", NULL, 7 };
	struct tokenizer *t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(open_made(&v, &t, &e), 0);
	assert_true(tokenizer_is_special(t, 7) && tokenizer_is_end(t, 7));
	expect_ids(t, "a<x>b", 5, true, (int32_t[]){ 0, 7, 1 }, 3);
	expect_ids(t, "a<x>b", 5, false, (int32_t[]){ 0, 1 }, 2);
	tokenizer_close(t);
	v.kind = kinds;
	assert_int_equal(open_made(&v, &t, &e), 0);
	assert_false(tokenizer_is_special(t, 7));
	expect_ids(t, "a<x>b", 5, false, (int32_t[]){ 0, 7, 1 }, 3);
	tokenizer_close(t);
}

/* What ends a turn though the file names it nowhere; not what is between the parts of an answer. */
static void test_ends(void **state)
{
	static const char *const token[] = { "a", "<|end|>", "<|return|>", "<turn|>", NULL };
	static const char *const phi[] = { "a", "<|end|>", NULL };
	static const uint32_t kind[] = { 1, 3, 3, 3 };
	struct vocabulary v = { token, kind, (const char *const[]){ NULL }, "gpt2", "gpt-4o", -1 };
	struct tokenizer *t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(open_made(&v, &t, &e), 0);
	for (int32_t id = 0; id < 4; id++)
		assert_int_equal(tokenizer_is_end(t, id), id >= 2);
	tokenizer_close(t);
	v.token = phi;
	assert_int_equal(open_made(&v, &t, &e), 0);
	assert_true(tokenizer_is_end(t, 1));
	tokenizer_close(t);
}

/* The definition: at each place the longest that stands there, of equals the first; else a byte. */
static size_t by_definition(
	const struct vocabulary *v, const char *text, bool control, int32_t *out)
{
	size_t n = 0;

	for (size_t at = 0; text[at];) {
		size_t longest = 1;

		out[n] = text[at] - 'a';
		for (int32_t id = 2; v->token[id]; id++) {
			size_t size = strlen(v->token[id]);

			if ((v->kind[id] == 4 || control) &&
				(size > longest || (size == longest && out[n] < 2)) &&
				!strncmp(text + at, v->token[id], size)) {
				out[n] = id;
				longest = size;
			}
		}
		at += longest;
		n++;
	}
	return n;
}

static void test_special_definition(void **state)
{
	enum { TOKENS = 40, TEXT = 80 };
	char spelled[TOKENS][8], text[TEXT + 1] = "";
	const char *token[TOKENS + 1] = { "a", "b" };
	uint32_t kind[TOKENS] = { 1, 1 };
	struct vocabulary v = { token, kind, (const char *const[]){ NULL }, "gpt2", "gpt-2", -1 };
	struct err e = { 0 };
	int32_t want[TEXT];

	(void)state;
	srand(7);
	for (int round = 0; round < 300; round++) {
		struct tokenizer *t;

		for (int i = 2; i < TOKENS; i++) {
			int n = 1 + rand() % 7;

			for (int k = 0; k < n; k++)
				spelled[i][k] = (char)('a' + (rand() & 1));
			spelled[i][n] = '\0';
			token[i] = spelled[i];
			kind[i] = 3 + (uint32_t)(rand() & 1);
		}
		for (int i = 0; i < TEXT; i++)
			text[i] = (char)('a' + (rand() & 1));
		assert_int_equal(open_made(&v, &t, &e), 0);
		for (int control = 0; control < 2; control++)
			expect_ids(t, text, TEXT, control, want, by_definition(&v, text, control, want));
		tokenizer_close(t);
	}
}

/* A vocabulary of nothing but tokens that begin alike, and a text of their beginning: what looks at
 * each of them at each place is not done before the suite is ended. */
static void test_many_special(void **state)
{
	enum { TOKENS = 200000, TEXT = 50000 };
	char(*spelled)[9] = malloc(TOKENS * sizeof *spelled), *text = malloc(TEXT);
	const char **token = calloc(TOKENS + 2, sizeof *token);
	uint32_t *kind = calloc(TOKENS + 1, sizeof *kind);
	struct vocabulary v = { token, kind, (const char *const[]){ NULL }, "gpt2", "gpt-2", -1 };
	struct tokenizer *t;
	struct err e = { 0 };
	struct ids ids;

	(void)state;
	token[0] = "a";
	kind[0] = 1;
	for (int i = 0; i < TOKENS; i++) {
		snprintf(spelled[i], sizeof *spelled, "a%06d", i);
		token[i + 1] = spelled[i];
		kind[i + 1] = 4;
	}
	memset(text, 'a', TEXT);
	memcpy(text + TEXT - 7, "a199999", 7);
	assert_int_equal(open_made(&v, &t, &e), 0);
	ids = encode(t, text, TEXT, false);
	assert_int_equal(ids.n, TEXT - 6);
	assert_int_equal(ids.id[ids.n - 1], TOKENS);
	tokenizer_close(t);
	free(ids.id);
	free(kind);
	free(token);
	free(text);
	free(spelled);
}

static void test_lies(void **state)
{
	static const char *const none[] = { NULL };
	static const char *const odd[] = { "a b", "nospace", NULL }, *const unknown[] = { "a c", NULL };
	static const char *const empty[] = { "a ", NULL }, *const first[] = { " a", NULL };
	const struct {
		struct vocabulary v;
		const char *says;
	} lie[] = {
		{ { abc, NULL, abc_merges, NULL, "gpt-2", -1 }, "tokenizer.ggml.model" },
		{ { abc, NULL, abc_merges, "llama", NULL, -1 }, "tokenizer.ggml.scores" },
		{ { abc, NULL, abc_merges, "t5", NULL, -1 }, "tokenizer.ggml.scores" },
		{ { abc, NULL, abc_merges, "bert", NULL, -1 },
			"kind \"bert\" (tokenizer.ggml.model); supported are \"gpt2\"" },
		{ { abc, NULL, abc_merges, "rwkv", NULL, -1 }, "\"llama\" (SentencePiece" },
		{ { abc, NULL, abc_merges, "", NULL, -1 }, "kind \"\"" },
		{ { abc, NULL, abc_merges, "gpt2", "tiktok", -1 },
			"vocabulary \"gpt2\" with the pre-tokenizer \"tiktok\"" },
		{ { abc, NULL, abc_merges, "gpt2", "tiktok", -1 },
			"supported are gpt-2, smollm, llama-bpe" },
		{ { abc, NULL, abc_merges, "gpt2", "a\x1b[31m", -1 }, "\"a?[31m\"" },
		{ { NULL, NULL, abc_merges, "gpt2", "gpt-2", -1 }, "no vocabulary" },
		{ { none, NULL, abc_merges, "gpt2", "gpt-2", -1 }, "no vocabulary" },
		{ { abc, NULL, NULL, "gpt2", "gpt-2", -1 }, "no merges" },
		{ { abc, NULL, odd, "gpt2", "gpt-2", -1 }, "merge 1" },
		{ { abc, NULL, unknown, "gpt2", "gpt-2", -1 }, "merge 0" },
		{ { abc, NULL, empty, "gpt2", "gpt-2", -1 }, "merge 0" },
		{ { abc, NULL, first, "gpt2", "gpt-2", -1 }, "merge 0" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof lie / sizeof *lie; i++) {
		struct tokenizer *t;
		struct err e = { 0 };

		assert_int_equal(open_made(&lie[i].v, &t, &e), -1);
		assert_null(t);
		assert_int_equal(e.code, ERR_INPUT);
		if (!strstr(e.text, lie[i].says))
			fail_msg("\"%s\" does not say %s", e.text, lie[i].says);
	}
}

/* --- streaming decode --- */

/* Feeds text in pieces of every size; what comes out must not depend on them. */
static void expect_stream(const char *text, size_t size, const char *want)
{
	for (size_t piece = 1; piece <= size; piece++) {
		struct utf8_stream s = { 0 };
		char out[256];
		size_t n = 0;

		for (size_t at = 0; at < size; at += piece) {
			size_t part = size - at < piece ? size - at : piece;

			n += utf8_stream_feed(&s, text + at, part, out + n, sizeof out - n);
			/* whole characters only */
			assert_true(!n || utf8proc_decompose(
								  (utf8proc_uint8_t *)out, (utf8proc_ssize_t)n, NULL, 0, 0) >= 0);
		}
		n += utf8_stream_flush(&s, out + n, sizeof out - n);
		assert_int_equal(n, strlen(want));
		assert_memory_equal(out, want, n);
	}
}

#define BAD "\xef\xbf\xbd"

static void test_stream(void **state)
{
	(void)state;
	expect_stream("plain", 5, "plain");
	expect_stream(
		"\xf0\x9f\x99\x82\xc3\xa9\xe4\xb8\xad", 9, "\xf0\x9f\x99\x82\xc3\xa9\xe4\xb8\xad");
	expect_stream("\xff"
				  "a\x80",
		3, BAD "a" BAD);
	expect_stream("\xf0\x9f\x99"
				  "a",
		4, BAD "a");
	expect_stream("\xe4\xb8\xe4\xb8\xad", 5, BAD "\xe4\xb8\xad");
	expect_stream("\xe4\xb8", 2, BAD);
	/* Table 3-8 of the Unicode Standard, 3.9 */
	expect_stream("\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", 9, BAD BAD BAD BAD BAD BAD BAD BAD "A");
	expect_stream("\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", 9, BAD BAD BAD BAD BAD BAD BAD BAD "A");
	expect_stream("\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", 9, BAD BAD BAD BAD BAD "A" BAD BAD "B");
	expect_stream("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", 9, BAD BAD BAD BAD "A");
}

static void test_stream_is_bounded(void **state)
{
	struct utf8_stream s = { 0 };
	char text[64], out[65];

	(void)state;
	memset(text, 0xff, sizeof text);
	out[64] = 'x';
	assert_true(utf8_stream_feed(&s, text, sizeof text, out, 64) <= 64);
	assert_int_equal(out[64], 'x');
	assert_int_equal(utf8_stream_feed(&s, "\xe4\xb8", 2, out, 0), 0);
	assert_int_equal(utf8_stream_flush(&s, out, 2), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_heap_equals_definition),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_long_words),
		cmocka_unit_test(test_special),
		cmocka_unit_test(test_odd_ids),
		cmocka_unit_test(test_colliding_merges),
		cmocka_unit_test(test_whole_words),
		cmocka_unit_test(test_gemma4),
		cmocka_unit_test(test_mute),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_special_definition),
		cmocka_unit_test(test_many_special),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_stream),
		cmocka_unit_test(test_stream_is_bounded),
		cmocka_unit_test(test_golden_ids),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
