/* Unigram vocabularies against goldens of independent code, against the definition, and against
 * files that lie. The vocabulary and its table (data/unigram_vocab.jsonl) were trained with the
 * sentencepiece library; the ids of data/unigram_tokens.jsonl are its own, and those of Hugging
 * Face's tokenizers. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/charsmap.h"
#include "engine/text/tokenizer.h"
#include "tests/support/jsonl.h"
#include "tests/support/tiny.h"
#include "tests/support/token_ids.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };

struct piece {
	const char *text;
	size_t size;
	float score;
	uint32_t type;
};

struct file {
	const struct piece *piece;
	uint64_t n, n_scores;
	bool bare, endless; /* without a space before and with all others; add_eos_token is false */
	const char *prefix; /* add_space_prefix as text, which it must not be; or NULL */
	const struct bytes *table;
};

static void put_pieces(struct bytes *b, const struct file *f)
{
	gguf_put_kv_array(b, "tokenizer.ggml.tokens", 8, f->n);
	for (uint64_t i = 0; i < f->n; i++)
		gguf_put_string(b, f->piece[i].text, f->piece[i].size);
	gguf_put_kv_array(b, "tokenizer.ggml.scores", 6, f->n_scores);
	for (uint64_t i = 0; i < f->n_scores; i++)
		bytes_put(b, &f->piece[i].score, 4);
	gguf_put_kv_array(b, "tokenizer.ggml.token_type", 5, f->n);
	for (uint64_t i = 0; i < f->n; i++)
		bytes_u32(b, f->piece[i].type);
}

static int open_file(const struct file *f, struct tokenizer **t, struct err *e)
{
	struct bytes b = { 0 };
	struct gguf *g;
	int rc;

	gguf_put_header(&b, 3, 0, 7 + f->endless + (f->table ? 1 : 0));
	gguf_put_kv_text(&b, "tokenizer.ggml.model", "t5");
	gguf_put_kv_u32(&b, "tokenizer.ggml.eos_token_id", 1);
	if (f->prefix)
		gguf_put_kv_text(&b, "tokenizer.ggml.add_space_prefix", f->prefix);
	else
		gguf_put_kv_bool(&b, "tokenizer.ggml.add_space_prefix", !f->bare);
	gguf_put_kv_bool(&b, "tokenizer.ggml.remove_extra_whitespaces", !f->bare);
	if (f->endless)
		gguf_put_kv_bool(&b, "tokenizer.ggml.add_eos_token", false);
	if (f->table) {
		gguf_put_kv_array(&b, "tokenizer.ggml.precompiled_charsmap", 0, f->table->size);
		bytes_put(&b, f->table->data, f->table->size);
	}
	put_pieces(&b, f);
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, e), 0);
	rc = tokenizer_open(t, g, e);
	gguf_close(g);
	bytes_free(&b);
	return rc;
}

static struct tokenizer *open_good(const struct file *f)
{
	struct tokenizer *t;
	struct err e = { 0 };

	assert_int_equal(open_file(f, &t, &e), 0);
	return t;
}

/* --- goldens --- */

#define N_GOLDEN 500

static struct piece golden[N_GOLDEN];
static struct bytes golden_table;

static int read_golden(void **state)
{
	FILE *f = fopen("tests/data/unigram_vocab.jsonl", "r");
	char *line = NULL;
	size_t cap = 0, size = 0;
	int n = 0;

	(void)state;
	if (f && getline(&line, &cap, f) > 0) {
		int32_t *byte = jsonl_ints(jsonl_find(line, "charsmap"), &size);

		for (size_t i = 0; i < size; i++)
			bytes_put(&golden_table, &(char){ (char)byte[i] }, 1);
		free(byte);
	}
	while (f && n < N_GOLDEN && getline(&line, &cap, f) > 0) {
		struct piece *p = &golden[n++];

		p->text = jsonl_string(jsonl_find(line, "text"), &p->size);
		p->score = strtof(jsonl_find(line, "score"), NULL);
		p->type = (uint32_t)atoi(jsonl_find(line, "type"));
	}
	free(line);
	if (f)
		fclose(f);
	return n == N_GOLDEN ? 0 : -1;
}

static int free_golden(void **state)
{
	(void)state;
	for (int i = 0; i < N_GOLDEN; i++)
		free((char *)golden[i].text);
	bytes_free(&golden_table);
	return 0;
}

static struct tokenizer *open_golden(bool bare)
{
	return open_good(&(struct file){ .piece = golden,
		.n = N_GOLDEN,
		.n_scores = N_GOLDEN,
		.bare = bare,
		.table = &golden_table });
}

static void test_golden_ids(void **state)
{
	static const char *const names[] = { "t5", "bare" };
	FILE *f = fopen("tests/data/unigram_tokens.jsonl", "r");
	struct tokenizer *t[2] = { open_golden(false), open_golden(true) };
	char *line = NULL;
	size_t cap = 0, size, n;
	int lines = 0;

	(void)state;
	assert_non_null(f);
	for (; getline(&line, &cap, f) > 0; lines++) {
		char *text = jsonl_string(jsonl_find(line, "text"), &size);

		for (int k = 0; k < 2; k++) {
			int32_t *want = jsonl_ints(jsonl_find(line, names[k]), &n);

			expect_ids(t[k], text, size, false, want, n);
			free(want);
		}
		free(text);
	}
	assert_int_equal(lines, 250);
	for (int k = 0; k < 2; k++)
		tokenizer_close(t[k]);
	free(line);
	fclose(f);
}

/* Decoding gives a normalised text back: words of the vocabulary with one space between them. */
static void test_round_trip(void **state)
{
	struct tokenizer *t = open_golden(false);
	uint64_t r = 3;

	(void)state;
	for (int i = 0; i < 500; i++) {
		struct bytes text = { 0 }, back = { 0 };
		struct ids ids = { 0 };

		for (int k = 0; k < 1 + i % 40; k++) {
			const char *word;

			r = r * 6364136223846793005u + 1442695040888963407u;
			word = golden[3 + (r >> 33) % (N_GOLDEN - 3)].text;
			word += strncmp(word, "\xe2\x96\x81", 3) ? 0 : 3;
			if (text.size && r >> 63 && text.data[text.size - 1] != ' ' && *word)
				bytes_put(&text, " ", 1);
			bytes_put(&text, word, strlen(word));
		}
		ids_add(&ids, t, (char *)text.data, text.size, false);
		for (size_t k = 0; k < ids.n; k++) {
			struct gguf_text b =
				k ? tokenizer_bytes(t, ids.id[k]) : tokenizer_first_bytes(t, ids.id[k]);

			bytes_put(&back, b.data, b.size);
		}
		assert_int_equal(back.size, text.size);
		if (text.size)
			assert_memory_equal(back.data, text.data, text.size);
		bytes_free(&text);
		bytes_free(&back);
		free(ids.id);
	}
	tokenizer_close(t);
}

/* --- property: the cells give what the definition gives --- */

#define P(text, score, type)                                                                       \
	{                                                                                              \
		text, sizeof text - 1, score, type                                                         \
	}
#define MARK "\xe2\x96\x81"

/* Scores whose sums are exact, many of them equal; no piece for "d" nor for U+00E9 alone. An
 * unknown character and "e" are a little worse than "de". */
static const struct piece knotty[] = {
	P("<pad>", 0, CONTROL),
	P("</s>", 0, CONTROL),
	P("<unk>", 0, UNKNOWN),
	P(MARK, -2, NORMAL),
	P("a", -3, NORMAL),
	P("b", -3, NORMAL),
	P("c", -4.5f, NORMAL),
	P("aa", -6, NORMAL),
	P("ab", -5.5f, NORMAL),
	P("ba", -6, NORMAL),
	P("aab", -8.25f, NORMAL),
	P("abc", -8, NORMAL),
	P("cab", -9, NORMAL),
	P("dd", -20, NORMAL),
	P("add", -21, NORMAL),
	P(MARK "a", -5, NORMAL),
	P(MARK "ab", -7, NORMAL),
	P("bbbb", -12, NORMAL),
	P("\xc3\xa9"
	  "a",
		-7.5f, NORMAL),
	P("b\xc3\xa9", -30, NORMAL),
	P("cc", 0, UNUSED),
	P("e", 8, NORMAL),
	P("de", -27, NORMAL),
	P("ddd", -29.5f, NORMAL),
};
#define N_KNOTTY ((int)(sizeof knotty / sizeof *knotty))
#define LEAST (-30.0)

static int find_piece(const char *text, size_t size)
{
	for (int i = 0; i < N_KNOTTY; i++)
		if (knotty[i].type == NORMAL && knotty[i].size == size &&
			!memcmp(knotty[i].text, text, size))
			return i;
	return -1;
}

/* Whether cuts[0 … n] is the better of two with equal sums: the later words are longer. */
static bool is_later(const size_t *a, size_t n, const size_t *b, size_t m)
{
	for (; n && m; n--, m--)
		if (a[n - 1] != b[m - 1])
			return a[n - 1] < b[m - 1];
	return false;
}

/* One of 2^(n - 1) ways to cut n characters; its sum, -DBL_MAX if a part is no piece. */
static double sum_of(
	const char *text, const size_t *at, size_t n, unsigned way, size_t *cut, size_t *n_cuts)
{
	size_t begin = 0;
	double sum = 0;

	*n_cuts = 0;
	for (size_t i = 1; i <= n; i++) {
		int k;

		if (i < n && !(way >> (i - 1) & 1))
			continue;
		k = find_piece(text + at[begin], at[i] - at[begin]);
		if (k < 0 && i - begin > 1)
			return -DBL_MAX;
		sum += k < 0 ? LEAST - 10 : (double)knotty[k].score;
		cut[(*n_cuts)++] = at[begin];
		begin = i;
	}
	cut[*n_cuts] = at[n];
	return sum;
}

static size_t encode_plainly(const char *text, size_t size, int32_t *id)
{
	size_t at[20], cut[20], best[20], n = 0, n_cuts, n_best = 0, n_ids = 0;
	double high = -DBL_MAX;

	for (size_t i = 0; i < size; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80)
			at[n++] = i;
	at[n] = size;
	for (unsigned way = 0; way < 1u << (n - 1); way++) {
		double sum = sum_of(text, at, n, way, cut, &n_cuts);

		if (sum == -DBL_MAX || sum < high || (sum == high && !is_later(cut, n_cuts, best, n_best)))
			continue;
		high = sum;
		n_best = n_cuts;
		memcpy(best, cut, sizeof cut);
	}
	for (size_t i = 0; i < n_best; i++) {
		int k = find_piece(text + best[i], best[i + 1] - best[i]);

		if (k >= 0 || !n_ids || id[n_ids - 1] != 2) /* a run without pieces is one unknown */
			id[n_ids++] = k < 0 ? 2 : k;
	}
	return n_ids;
}

static void test_cells_equal_definition(void **state)
{
	static const char *const parts[] = { "a", "a", "a", "b", "b", "b", "c", "d", "d", "e", MARK,
		"\xc3\xa9" };
	struct tokenizer *t = open_good(
		&(struct file){ .piece = knotty, .n = N_KNOTTY, .n_scores = N_KNOTTY, .bare = true });
	uint64_t r = 5;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		char text[64] = "";
		int32_t want[20];
		int n = 1 + (int)(r >> 60) % 12;

		for (int k = 0; k < n; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			strcat(text, parts[(r >> 33) % 12]);
		}
		expect_ids(t, text, strlen(text), false, want, encode_plainly(text, strlen(text), want));
	}
	tokenizer_close(t);
}

/* --- spaces, bytes, special tokens --- */

static const struct piece small[] = {
	P("<pad>", 0, CONTROL),
	P("</s>", 0, CONTROL),
	P("<unk>", 0, UNKNOWN),
	P("<0x21>", 0, BYTE),
	P("<0xc3>", 0, BYTE),
	P("<0xA9>", 0, BYTE),
	P(MARK, -5, NORMAL),
	P("a", -5, NORMAL),
	P(MARK "a", -1, NORMAL),
	P("<x>", -90, USER),
	P("aaaa", -99, USER),
	P("\xef\xbf\xbd", -8, NORMAL),
};
#define N_SMALL (sizeof small / sizeof *small)

static void test_spaces(void **state)
{
	struct tokenizer *t =
		open_good(&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL });

	(void)state;
	expect_ids(t, "", 0, true, NULL, 0);
	expect_ids(t, "  ", 2, true, NULL, 0);
	EXPECT(t, "a", false, 8);
	EXPECT(t, "  a   a ", false, 8, 8);
	EXPECT(t, MARK "a" MARK MARK "a" MARK, false, 6, 8, 6, 8); /* no spaces, but at the end */
	EXPECT(t, "!\xc3\xa9", false, 6, 3, 4, 5);                 /* byte by byte */
	EXPECT(t, "zz!zzaz", false, 6, 2, 3, 2, 7, 2);             /* a run is one unknown */
	EXPECT(t, "a\xff\xc3", false, 8, 11, 11);                  /* no UTF-8 */
	EXPECT(t, "a </s> a<pad>a", true, 8, 1, 8, 0, 8);
	EXPECT(t, "a</s>", false, 8, 2);
	EXPECT(t, "a <x> a<x>", false, 8, 9, 8, 9); /* what lies between is a text of its own */
	EXPECT(t, "aaaa", false, 10);
	assert_false(tokenizer_adds_bos(t));
	assert_true(tokenizer_adds_eos(t));
	assert_int_equal(tokenizer_bytes(t, 8).size, 2);
	assert_int_equal(tokenizer_first_bytes(t, 8).size, 1);
	tokenizer_close(t);
}

/* After an ordinary id a text goes on: the space before it counts, and none is added. */
static void test_continued(void **state)
{
	struct tokenizer *t =
		open_good(&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL });
	static const int32_t want[] = { 8, 7, 8, 1, 8 };
	struct ids ids = { 0 };

	(void)state;
	ids_add(&ids, t, "a", 1, true);
	ids_add(&ids, t, "a", 1, true);
	ids_add(&ids, t, " ", 1, true);
	ids_add(&ids, t, "  a", 3, true);
	ids_add(&ids, t, "</s>", 4, true);
	ids_add(&ids, t, "a", 1, true);
	assert_int_equal(ids.n, 5);
	assert_memory_equal(ids.id, want, sizeof want);
	free(ids.id);
	tokenizer_close(t);
}

static void test_bare(void **state)
{
	struct tokenizer *t = open_good(&(struct file){
		.piece = small, .n = N_SMALL, .n_scores = N_SMALL, .bare = true, .endless = true });

	(void)state;
	EXPECT(t, "a", false, 7);
	EXPECT(t, "  a a ", false, 6, 8, 8, 6);
	assert_false(tokenizer_adds_eos(t));
	tokenizer_close(t);
}

/* A long run of one character takes time by its length. */
static void test_long_text(void **state)
{
	enum { SIZE = 1 << 20 };
	struct tokenizer *t = open_golden(false);
	char *text = malloc(SIZE);
	struct ids ids = { 0 };

	(void)state;
	assert_non_null(text);
	memset(text, '-', SIZE);
	ids_add(&ids, t, text, SIZE, false);
	assert_in_range(ids.n, SIZE / 16, SIZE);
	free(ids.id);
	free(text);
	tokenizer_close(t);
}

/* --- tables --- */

#define VALUE (UINT32_C(1) << 31)
#define HAS_VALUE (1u << 8)
#define FAR (1u << 9)

/* A table under construction: node k has its children in block k + 1, of 256 units. */
struct table {
	uint32_t unit[256 * 32];
	uint32_t n_blocks, n_text;
	char text[1024];
};

static uint32_t offset_of(uint32_t unit)
{
	return unit >> 10 << (unit & FAR ? 8 : 0);
}

static uint32_t children_of(struct table *t, uint32_t at)
{
	if (!offset_of(t->unit[at])) {
		uint32_t offset = at ^ ++t->n_blocks * 256;

		t->unit[at] |= offset & 0xff ? offset << 10 : offset >> 8 << 10 | FAR;
	}
	return at ^ offset_of(t->unit[at]);
}

static void add_rule(struct table *t, const char *from, const char *to)
{
	uint32_t at = 0, below;

	for (; *from; from++) {
		at = children_of(t, at) ^ (unsigned char)*from;
		t->unit[at] |= (unsigned char)*from;
	}
	below = children_of(t, at);
	t->unit[at] |= HAS_VALUE;
	t->unit[below] = VALUE | t->n_text;
	strcpy(t->text + t->n_text, to);
	t->n_text += (uint32_t)strlen(to) + 1;
}

static struct bytes blob_of(const uint32_t *unit, uint32_t n, const char *text, size_t size)
{
	struct bytes b = { 0 };

	bytes_u32(&b, 4 * n);
	bytes_put(&b, unit, 4 * n);
	bytes_put(&b, text, size);
	return b;
}

static size_t match(const struct bytes *b, const char *text, size_t size, struct gguf_text *out)
{
	struct charsmap *m;
	struct err e = { 0 };
	size_t used;
	static char kept[CHARSMAP_LONGEST];

	assert_int_equal(charsmap_open(&m, b->data, b->size, &e), 0);
	used = charsmap_match(m, text, size, out);
	assert_true(used <= size && used <= CHARSMAP_LONGEST);
	if (used) {
		assert_in_range(out->size, 0, CHARSMAP_LONGEST);
		memcpy(kept, out->data, out->size);
		out->data = kept;
	}
	charsmap_close(m);
	return used;
}

static void test_rules(void **state)
{
	static const struct {
		const char *text;
		size_t used;
		const char *to;
	} want[] = { { "abcd", 3, "x" }, { "abd", 1, "yy" }, { "\xc2\xab", 2, "<x>" }, { "b", 0, "" },
		{ "\t", 1, " " }, { "\x01z", 1, "" }, { "\xc2", 0, "" } };
	static struct table t;
	struct bytes b;

	(void)state;
	add_rule(&t, "abc", "x");
	add_rule(&t, "a", "yy");
	add_rule(&t, "\xc2\xab", "<x>");
	add_rule(&t, "\t", " ");
	add_rule(&t, "\x01", "");
	b = blob_of(t.unit, 256 * (t.n_blocks + 1), t.text, t.n_text);
	for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
		struct gguf_text out = { "", 0 };

		assert_int_equal(match(&b, want[i].text, strlen(want[i].text), &out), want[i].used);
		assert_int_equal(out.size, strlen(want[i].to));
		assert_memory_equal(out.data, want[i].to, out.size);
	}
	bytes_free(&b);
}

/* A rule may make a word of the authors, which scores about nothing; and spaces, which are
 * removed. */
static void test_rules_of_a_file(void **state)
{
	static struct table table;
	struct bytes b;
	struct tokenizer *t;

	(void)state;
	add_rule(&table, "\xc2\xab", "<x>");
	add_rule(&table, "\t", " ");
	add_rule(&table, "\xc2\xa8", " a");
	add_rule(&table, "\x01", "");
	add_rule(&table, "\xc2\xbb", "aaaa");
	b = blob_of(table.unit, 256 * (table.n_blocks + 1), table.text, table.n_text);
	t = open_good(&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL, .table = &b });
	EXPECT(t,
		"a\xc2\xab"
		"a",
		false, 8, 9, 7);
	EXPECT(t, "a\xc2\xbb", false, 8, 10);
	EXPECT(t, "\t\ta\t \ta\t", false, 8, 8);
	EXPECT(t, " \xc2\xa8\xc2\xa8", false, 8, 8);
	EXPECT(t, "a \x01 a\x01", false, 8, 8);
	expect_ids(t, "\x01\t", 2, false, NULL, 0);
	tokenizer_close(t);
	bytes_free(&b);
}

/* --- tables that lie --- */

static void test_refused_tables(void **state)
{
	static const uint8_t data[12] = { 5 };
	const struct {
		uint32_t trie;
		size_t size;
	} lie[] = { { 0, 1 }, { 0, 3 }, { 8, 8 }, { 8, 11 }, { 1, 12 }, { 6, 12 }, { 4294967292, 12 },
		{ 4294967295, 12 } };

	(void)state;
	for (size_t i = 0; i < sizeof lie / sizeof *lie; i++) {
		struct bytes b = { 0 };
		struct tokenizer *t;
		struct err e = { 0 };

		bytes_u32(&b, lie[i].trie);
		bytes_put(&b, data, sizeof data);
		b.size = lie[i].size;
		assert_int_equal(
			open_file(&(struct file){ small, N_SMALL, N_SMALL, .table = &b }, &t, &e), -1);
		assert_int_equal(e.code, ERR_INPUT);
		assert_non_null(strstr(e.text, "precompiled_charsmap"));
		bytes_free(&b);
	}
}

/* Units that lead out of the table, in a circle, or to a text that is not there or does not end. */
static void test_lying_tables(void **state)
{
	static char long_text[600], run[5000];
	uint32_t unit[512] = { 0 };
	struct gguf_text out;
	struct bytes b;

	(void)state;
	memset(long_text, 'x', sizeof long_text);
	memset(run, 'a', sizeof run);
	for (int k = 0; k < 8; k++) {
		memset(unit, 0, sizeof unit);
		unit[0] = (k == 1 ? 0x1fffff : 256) << 10 | (k == 1 ? FAR : 0);
		unit[256 + 'a'] = 'a' | HAS_VALUE | (k == 2 ? 0x1fffffu : 'a') << 10; /* to itself */
		unit[256] = VALUE | (k == 3 ? 0x7fffffff : k == 4 ? 599 : k == 5 ? 600 : 0);
		long_text[599] = k == 6 ? '\0' : 'x'; /* it ends, too late */
		long_text[2] = k == 7 ? '\0' : 'x';
		b = blob_of(unit, k ? 512 : 0, long_text, sizeof long_text);
		assert_int_equal(match(&b, run, sizeof run, &out), k == 7 ? CHARSMAP_LONGEST : 0);
		bytes_free(&b);
	}
}

static void test_random_tables(void **state)
{
	uint64_t r = 11;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint32_t unit[300];
		char text[40], to[64];
		struct gguf_text out;
		struct bytes b;

		for (int k = 0; k < 300; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			unit[k] = (uint32_t)(r >> 32) & (i % 2 ? 0xffffffff : 0x8003fdff);
			unit[k] = r >> 20 & 3 ? (unit[k] & ~(VALUE | 0xffu)) | (uint32_t)(k % 8) : unit[k];
			text[k % 40] = (char)(r >> 40 & 7);
			to[k % 64] = (char)(r >> 50 & 3);
		}
		b = blob_of(unit, 1 + (uint32_t)(r >> 33) % 300, to, (size_t)(r >> 50) % 65);
		match(&b, text, sizeof text, &out);
		bytes_free(&b);
	}
}

/* --- files that lie --- */

static void test_lies(void **state)
{
	static const struct piece nameless[] = { P("", 0, NORMAL), P("a", -1, NORMAL) };
	static const struct piece wild[] = { P("<u>", 0, UNKNOWN), P("</s>", 0, CONTROL),
		{ "a", 1, NAN, NORMAL }, { "b", 1, FLT_MAX, NORMAL }, { "ab", 2, -FLT_MAX, NORMAL },
		{ "c", 1, INFINITY, NORMAL }, { "d", 1, -INFINITY, NORMAL } };
	struct tokenizer *t;
	struct err e = { 0 };
	struct ids ids = { 0 };

	(void)state;
	assert_int_equal(
		open_file(&(struct file){ small, N_SMALL, .n_scores = N_SMALL - 1 }, &t, &e), -1);
	assert_non_null(strstr(e.text, "tokenizer.ggml.scores"));
	e = (struct err){ 0 };
	assert_int_equal(
		open_file(&(struct file){ small, N_SMALL, N_SMALL, .prefix = "yes" }, &t, &e), -1);
	assert_non_null(strstr(e.text, "add_space_prefix"));
	t = open_good(&(struct file){ .piece = nameless, .n = 2, .n_scores = 2 });
	EXPECT(t, "zaz", false, 1); /* no unknown token */
	tokenizer_close(t);
	t = open_good(&(struct file){ .piece = wild, .n = 7, .n_scores = 7 });
	ids_add(&ids, t, "abcdabcdaabbccddzzz", 19, false);
	assert_in_range(ids.n, 1, 20);
	free(ids.id);
	tokenizer_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_ids),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_cells_equal_definition),
		cmocka_unit_test(test_spaces),
		cmocka_unit_test(test_continued),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_rules_of_a_file),
		cmocka_unit_test(test_refused_tables),
		cmocka_unit_test(test_lying_tables),
		cmocka_unit_test(test_random_tables),
		cmocka_unit_test(test_lies),
	};

	return cmocka_run_group_tests(tests, read_golden, free_golden);
}
