/* SentencePiece vocabularies against goldens of independent code, against the definition, and
 * against files that lie. The vocabulary (data/spm_vocab.jsonl) was trained with the sentencepiece
 * library, the ids of data/spm_tokens.jsonl are its own; those of data/spm_chat.jsonl come from
 * jinja2 and Hugging Face's tokenizers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/text/template.h"
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
	bool bare;          /* without add_space_prefix */
	const char *arch;   /* or NULL */
	const char *prefix; /* add_space_prefix as text, which it must not be; or NULL */
};

static int open_file(const struct file *f, struct tokenizer **t, struct err *e)
{
	struct bytes b = { 0 };
	struct gguf *g;
	int rc;

	gguf_put_header(&b, 3, 0, 7 + (f->arch ? 1 : 0));
	gguf_put_kv_text(&b, "tokenizer.ggml.model", "llama");
	gguf_put_kv_u32(&b, "tokenizer.ggml.bos_token_id", 1);
	gguf_put_kv_u32(&b, "tokenizer.ggml.eos_token_id", 2);
	if (f->prefix)
		gguf_put_kv_text(&b, "tokenizer.ggml.add_space_prefix", f->prefix);
	else
		gguf_put_kv_bool(&b, "tokenizer.ggml.add_space_prefix", !f->bare);
	if (f->arch)
		gguf_put_kv_text(&b, "general.architecture", f->arch);
	gguf_put_kv_array(&b, "tokenizer.ggml.tokens", 8, f->n);
	for (uint64_t i = 0; i < f->n; i++)
		gguf_put_string(&b, f->piece[i].text, f->piece[i].size);
	gguf_put_kv_array(&b, "tokenizer.ggml.scores", 6, f->n_scores);
	for (uint64_t i = 0; i < f->n_scores; i++)
		bytes_put(&b, &f->piece[i].score, 4);
	gguf_put_kv_array(&b, "tokenizer.ggml.token_type", 5, f->n);
	for (uint64_t i = 0; i < f->n; i++)
		bytes_u32(&b, f->piece[i].type);
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

#define N_GOLDEN 900

static struct piece golden[N_GOLDEN];

static int read_golden(void **state)
{
	FILE *f = fopen("tests/data/spm_vocab.jsonl", "r");
	char *line = NULL;
	size_t cap = 0;
	int n = 0;

	(void)state;
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
	return 0;
}

static void test_golden_ids(void **state)
{
	static const char *const names[] = { "llama", "gemma" };
	FILE *f = fopen("tests/data/spm_tokens.jsonl", "r");
	struct tokenizer *t[2];
	char *line = NULL;
	size_t cap = 0, size, n;
	int lines = 0;

	(void)state;
	assert_non_null(f);
	for (int k = 0; k < 2; k++)
		t[k] = open_good(
			&(struct file){ .piece = golden, .n = N_GOLDEN, .n_scores = N_GOLDEN, .bare = k });
	while (getline(&line, &cap, f) > 0) {
		char *text = jsonl_string(jsonl_find(line, "text"), &size);

		for (int k = 0; k < 2; k++) {
			int32_t *want = jsonl_ints(jsonl_find(line, names[k]), &n);

			expect_ids(t[k], text, size, true, want, n);
			free(want);
		}
		free(text);
		lines++;
	}
	assert_int_equal(lines, 109);
	for (int k = 0; k < 2; k++)
		tokenizer_close(t[k]);
	free(line);
	fclose(f);
}

/* --- chats: what each family's own template and tokenizer make of them --- */

static const struct {
	const char *name, *jinja;
	bool bare, keep_control, keep_user;
	const char *arch;
} family[] = {
	/* the parts of the makers' texts that are at work here */
	{ "llama2",
		"{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set "
		"system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% "
		"set system_message = false %}{% endif %}{% for message in loop_messages %}{% if "
		"loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + "
		"system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = "
		"message['content'] %}{% endif %}{% if message['role'] == 'user' %}{{ bos_token + '[INST] "
		"' + content.strip() + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ ' '  + "
		"content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
		false, false, false, NULL },
	/* TinyLlama has no tokens for its roles: they are text */
	{ "zephyr",
		"{% for message in messages %}\n{{ '<|' + message['role'] + '|>\n' + message['content'] + "
		"eos_token }}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n"
		"{% endif %}\n{% endfor %}",
		false, false, false, NULL },
	{ "gemma",
		"{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'assistant') %}"
		"{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}"
		"{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}"
		"{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
		true, true, true, NULL },
	/* its special tokens take the white space after them */
	{ "phi3",
		"{% for message in messages %}{{ '<|' + message['role'] + '|>' + '\n' + message['content'] "
		"+ '<|end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% "
		"endif %}",
		false, true, false, "phi3" },
};

static struct tokenizer *open_family(int k)
{
	static struct piece piece[N_GOLDEN];

	memcpy(piece, golden, sizeof piece);
	for (int i = 3; i < N_GOLDEN; i++)
		if ((piece[i].type == CONTROL && !family[k].keep_control) ||
			(piece[i].type == USER && !family[k].keep_user))
			piece[i].type = UNUSED;
	return open_good(&(struct file){ .piece = piece,
		.n = N_GOLDEN,
		.n_scores = N_GOLDEN,
		.bare = family[k].bare,
		.arch = family[k].arch });
}

static const struct chat_template *template_for(int k)
{
	struct bytes b = { 0 };
	struct err e = { 0 };
	struct gguf *g;
	const struct chat_template *c;
	int known;

	gguf_put_header(&b, 3, 0, 1);
	gguf_put_kv_text(&b, "tokenizer.chat_template", family[k].jinja);
	assert_int_equal(gguf_open_memory(&g, b.data, b.size, &e), 0);
	c = template_of(g, &known);
	assert_string_equal(c->name, "jinja");
	gguf_close(g);
	bytes_free(&b);
	return c;
}

static char *field(const char *line, const char *key)
{
	size_t size;

	return jsonl_string(jsonl_find(line, key), &size);
}

/* One turn, or two with an answer between them. */
static void talk(int k, const struct tokenizer *t, const char *line, struct ids *ids)
{
	const char *const role[] = { "system", "user", "assistant", "user" };
	char *text[] = { field(line, "system"), field(line, "user"), field(line, "answer"),
		field(line, "again") };
	struct chat_input chat = { .c = template_for(k), .t = t, .now = 1, .open = true };
	struct chat_message m[4];
	struct err e = { 0 };

	for (int i = 0; i < 4; i++)
		if (*text[i])
			m[chat.n++] =
				(struct chat_message){ .role = role[i], .text = text[i], .size = strlen(text[i]) };
	chat.message = m;
	if (template_ids(&chat, NULL, 0, &ids->id, &ids->n, &ids->cap, &e))
		fail_msg("%s", e.text);
	for (int i = 0; i < 4; i++)
		free(text[i]);
}

static void test_chats(void **state)
{
	FILE *f = fopen("tests/data/spm_chat.jsonl", "r");
	char *line = NULL;
	size_t cap = 0, n;
	int lines = 0;

	(void)state;
	assert_non_null(f);
	while (getline(&line, &cap, f) > 0) {
		char *name = field(line, "template");
		int32_t *want = jsonl_ints(jsonl_find(line, "ids"), &n);
		struct ids got = { 0 };
		struct tokenizer *t;
		int k = 0;

		while (strcmp(family[k].name, name))
			assert_in_range(++k, 0, 3);
		t = open_family(k);
		talk(k, t, line, &got);
		assert_int_equal(got.n, n);
		assert_memory_equal(got.id, want, n * sizeof *want);
		tokenizer_close(t);
		free(got.id);
		free(want);
		free(name);
		lines++;
	}
	assert_int_equal(lines, 11);
	free(line);
	fclose(f);
}

static void expect_text(const struct tokenizer *t, const char *text, const char *want)
{
	struct bytes b = { 0 };
	struct ids ids = { 0 };

	ids_add(&ids, t, text, strlen(text), true);
	for (size_t i = 0; i < ids.n; i++)
		bytes_put(&b, tokenizer_bytes(t, ids.id[i]).data, tokenizer_bytes(t, ids.id[i]).size);
	bytes_put(&b, "", 1);
	assert_string_equal((char *)b.data, want);
	bytes_free(&b);
	free(ids.id);
}

/* Of Phi-3's special tokens two leave the white space after them, and it is all Unicode's. */
static void test_eaten_space(void **state)
{
	struct tokenizer *t = open_family(3);

	(void)state;
	expect_text(t, "<|user|>\n \xc2\xa0\ta b\n<|end|>\n", "<|user|> a b\n<|end|>");
	expect_text(t, "</s>\na", "</s> a");
	expect_text(t, "<s>\na<|endoftext|> a", "<s> \na<|endoftext|>  a");
	tokenizer_close(t);
}

/* In its own files </s> is a user token; it takes white space as well, in every text. */
static void test_eaten_after_user(void **state)
{
	static const struct piece piece[] = { { "<unk>", 5, 0, UNKNOWN }, { "<s>", 3, 0, CONTROL },
		{ "</s>", 4, 0, USER }, { "\xe2\x96\x81", 3, 0, NORMAL }, { "a", 1, 0, NORMAL },
		{ "<0x0A>", 6, 0, BYTE } };
	struct tokenizer *t =
		open_good(&(struct file){ .piece = piece, .n = 6, .n_scores = 6, .arch = "phi3" });
	struct err e = { 0 };
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;

	(void)state;
	assert_int_equal(tokenizer_encode(t, "</s> \na", 7, false, &ids, &n, &cap, &e), 0);
	assert_int_equal(n, 3);
	assert_int_equal(ids[0], 2);
	assert_int_equal(ids[1], 3);
	assert_int_equal(ids[2], 4);
	free(ids);
	tokenizer_close(t);
}

/* --- property: the heap gives what the definition gives --- */

#define P(text, score, type)                                                                       \
	{                                                                                              \
		text, sizeof text - 1, score, type                                                         \
	}
#define MARK "\xe2\x96\x81"

/* Equal scores, tokens whose parts are none, several ways to the same token, no token for "d". */
static const struct piece knotty[] = {
	P("<unk>", 0, UNKNOWN),
	P("<s>", 0, CONTROL),
	P("</s>", 0, CONTROL),
	P(MARK, -9, NORMAL),
	P("a", -9, NORMAL),
	P("b", -9, NORMAL),
	P("c", -9, NORMAL),
	P("aa", -1, NORMAL),
	P("ab", -1, NORMAL),
	P("ba", -1, NORMAL),
	P("bc", -0.5f, NORMAL),
	P("aab", -2, NORMAL),
	P("abc", 1, NORMAL),
	P("cab", 1, NORMAL),
	P("dd", -1, NORMAL),
	P("add", -1, NORMAL),
	P(MARK "a", -1, NORMAL),
	P(MARK "ab", -3, NORMAL),
	P("bb", -3, NORMAL),
	P("bbbb", 5, NORMAL),
	P(MARK MARK, 0, NORMAL),
	P("ca", -0.0f, NORMAL),
	P("aba", 0, NORMAL),
	P("cc", 0, UNUSED),
	P("ac", 0, NORMAL),
};
#define N_KNOTTY ((int)(sizeof knotty / sizeof *knotty))

static int find_piece(const char *text, size_t size)
{
	for (int i = 0; i < N_KNOTTY; i++)
		if (knotty[i].type == NORMAL && knotty[i].size == size &&
			!memcmp(knotty[i].text, text, size))
			return i;
	return -1;
}

/* Ever again the first pair of the highest score. text has U+2581 for spaces. */
static size_t encode_plainly(const char *text, size_t size, int32_t *id)
{
	size_t cut[200], n = 0, n_ids = 0; /* a piece begins at each cut */

	for (size_t at = 0; at < size; at += text[at] == MARK[0] ? 3 : 1)
		cut[n++] = at;
	cut[n] = size;
	for (;;) {
		size_t best = n;
		float high = 0;

		for (size_t i = 0; i + 1 < n; i++) {
			int k = find_piece(text + cut[i], cut[i + 2] - cut[i]);

			if (k >= 0 && (best == n || knotty[k].score > high)) {
				best = i;
				high = knotty[k].score;
			}
		}
		if (best == n)
			break;
		memmove(cut + best + 1, cut + best + 2, (n - best - 1) * sizeof *cut);
		n--;
	}
	for (size_t i = 0; i < n; i++) {
		int k = find_piece(text + cut[i], cut[i + 1] - cut[i]);

		if (k >= 0 || !n_ids || id[n_ids - 1]) /* a run without tokens is one unknown */
			id[n_ids++] = k < 0 ? 0 : k;
	}
	return n_ids;
}

static void test_heap_equals_definition(void **state)
{
	struct tokenizer *t =
		open_good(&(struct file){ .piece = knotty, .n = N_KNOTTY, .n_scores = N_KNOTTY });
	uint64_t r = 5;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		char text[64], marked[200] = MARK;
		size_t size = 1 + (size_t)(r >> 58) % 40, n_marked = 3;
		int32_t want[64];

		for (size_t k = 0; k < size; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			text[k] = "aaabbbccd "[(r >> 33) % 10];
			memcpy(marked + n_marked, text[k] == ' ' ? MARK : &text[k], text[k] == ' ' ? 3 : 1);
			n_marked += text[k] == ' ' ? 3 : 1;
		}
		expect_ids(t, text, size, false, want, encode_plainly(marked, n_marked, want));
	}
	tokenizer_close(t);
}

/* --- spaces, bytes, special tokens --- */

/* Decoding gives the text back, for all bytes, but for the space before it. */
static void test_round_trip(void **state)
{
	struct tokenizer *t = open_family(1); /* no user tokens: a space follows each */
	char text[300];
	uint64_t r = 3;

	(void)state;
	for (int i = 0; i < 500; i++) {
		size_t size = 1 + (size_t)(r >> 40) % (sizeof text - 1), at = 0;
		struct ids ids = { 0 };

		for (size_t k = 0; k < size; k++) {
			r = r * 6364136223846793005u + 1442695040888963407u;
			text[k] =
				i % 2 ? (char)(r >> 56) : "the page of a token\xc3\xa9\xf0\x9f"[(r >> 40) % 23];
		}
		ids_add(&ids, t, text, size, false);
		for (size_t k = 0; k < ids.n; k++) {
			struct gguf_text b =
				k ? tokenizer_bytes(t, ids.id[k]) : tokenizer_first_bytes(t, ids.id[k]);

			if (!k)
				assert_int_equal(b.size + 1, tokenizer_bytes(t, ids.id[k]).size);
			assert_true(at + b.size <= size);
			assert_memory_equal(b.data, text + at, b.size);
			at += b.size;
		}
		assert_int_equal(at, size);
		free(ids.id);
	}
	tokenizer_close(t);
}

static const struct piece small[] = {
	P("<unk>", 0, UNKNOWN),
	P("<s>", 0, CONTROL),
	P("</s>", 0, CONTROL),
	P("<0x0A>", 0, BYTE),
	P("<0xc3>", 0, BYTE),
	P("<0xA9>", 0, BYTE),
	P(MARK, -5, NORMAL),
	P("a", -5, NORMAL),
	P(MARK "a", -1, NORMAL),
	P("<x>", 0, USER),
	P("<0xZZ>", 0, BYTE),
	P("aa", -9, UNUSED),
};
#define N_SMALL (sizeof small / sizeof *small)
static void test_spaces(void **state)
{
	struct tokenizer *t =
		open_good(&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL });

	(void)state;
	expect_ids(t, "", 0, true, NULL, 0);
	EXPECT(t, "a", false, 8);
	EXPECT(t, " a", false, 6, 8);
	EXPECT(t, MARK "a", false, 6, 8);
	EXPECT(t, "\n\xc3\xa9", false, 6, 3, 4, 5); /* byte by byte */
	EXPECT(t, "aa", false, 8, 7);               /* unused tokens are never made */
	EXPECT(t, "zz\xc3z", false, 6, 0, 4, 0);    /* no byte tokens: a run of them is one unknown */
	EXPECT(t, "a</s>a<s>", true, 8, 2, 8, 1);
	EXPECT(t, "<x>a", false, 9, 8);
	assert_int_equal(tokenizer_first_bytes(t, 7).size, 1); /* has no space to lose */
	assert_int_equal(tokenizer_bytes(t, 10).size, 6);      /* not a byte: its text is kept */
	assert_true(tokenizer_adds_bos(t));
	assert_true(tokenizer_is_special(t, 0) && !tokenizer_is_special(t, 9));
	tokenizer_close(t);

	t = open_good(
		&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL, .bare = true });
	EXPECT(t, "a", false, 7);
	EXPECT(t, "a</s>a a", true, 7, 2, 7, 8);
	assert_int_equal(tokenizer_first_bytes(t, 8).size, 2);
	tokenizer_close(t);
}

/* Text that goes on gets no space; text after a special token does. */
static void test_seams(void **state)
{
	struct tokenizer *t =
		open_good(&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL });
	struct ids ids = { 0 };

	(void)state;
	ids_add(&ids, t, "a", 1, false);
	ids_add(&ids, t, "a", 1, false);
	ids_add(&ids, t, "</s>", 4, true);
	ids_add(&ids, t, "a", 1, false);
	assert_int_equal(ids.n, 4);
	assert_memory_equal(ids.id, ((int32_t[]){ 8, 7, 2, 8 }), 4 * sizeof *ids.id);
	free(ids.id);
	tokenizer_close(t);
}

static void test_long_text(void **state)
{
	struct tokenizer *t =
		open_good(&(struct file){ .piece = golden, .n = N_GOLDEN, .n_scores = N_GOLDEN });
	size_t size = 1 << 20, n = 0;
	char *text = malloc(size);
	struct ids ids = { 0 };

	(void)state;
	assert_non_null(text);
	for (size_t i = 0; i < size; i++)
		text[i] = "struct the"[i % 10];
	ids_add(&ids, t, text, size, true);
	for (size_t i = 0; i < ids.n; i++)
		n += tokenizer_bytes(t, ids.id[i]).size;
	assert_int_equal(n, size + 1);
	free(ids.id);
	free(text);
	tokenizer_close(t);
}

static void test_lies(void **state)
{
	static const struct piece empty[] = { P("", 0, NORMAL), P("", 0, CONTROL), P("", 0, BYTE),
		P("", 0, USER), P("", 0, UNKNOWN) };
	struct tokenizer *t;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(
		open_file(&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL - 1 }, &t, &e),
		-1);
	assert_int_equal(e.code, ERR_INPUT);
	assert_non_null(strstr(e.text, "tokenizer.ggml.scores"));
	e = (struct err){ 0 };
	assert_int_equal(
		open_file(
			&(struct file){ .piece = small, .n = N_SMALL, .n_scores = N_SMALL, .prefix = "no" }, &t,
			&e),
		-1);
	assert_int_equal(e.code, ERR_INPUT);
	assert_non_null(strstr(e.text, "add_space_prefix"));
	/* nothing to make text of: it is unknown */
	t = open_good(&(struct file){ .piece = empty, .n = 5, .n_scores = 5 });
	EXPECT(t, "abc", true, 4);
	tokenizer_close(t);
}

/* --- the tiny model's vocabulary, which other suites run with --- */

static void test_tiny(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct tokenizer *t;
	struct err e = { 0 };
	struct gguf *g;
	uint8_t *data;
	size_t size;
	struct ids ids = { 0 };
	int known;

	(void)state;
	o.tokenizer = "spm";
	o.chat = "zephyr";
	assert_int_equal(tiny_make(&o, &data, &size, &e), 0);
	assert_int_equal(gguf_open_memory(&g, data, size, &e), 0);
	assert_int_equal(tokenizer_open(&t, g, &e), 0);
	assert_string_equal(template_of(g, &known)->name, "jinja");
	assert_int_equal(tokenizer_n_vocab(t), o.vocab);
	ids_add(&ids, t, "The cache holds the keys\n\xff", 26, false);
	assert_in_range(ids.n, 8, 20); /* merges are at work */
	assert_int_equal(ids.id[ids.n - 2], 3 + '\n');
	assert_int_equal(ids.id[ids.n - 1], 3 + 0xff);
	/* a text that spells bos itself has one */
	for (int spelled = 0; spelled < 2; spelled++) {
		const char *text = spelled ? "<s>The cache" : "The cache";
		bool added;

		ids.n = 0;
		assert_int_equal(
			tokenizer_encode_prompt(t, text, strlen(text), &added, &ids.id, &ids.n, &ids.cap, &e),
			0);
		assert_int_equal(added, !spelled);
		assert_true(ids.id[0] == tokenizer_bos(t) && ids.id[1] != tokenizer_bos(t));
	}
	free(ids.id);
	tokenizer_close(t);
	gguf_close(g);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden_ids),
		cmocka_unit_test(test_chats),
		cmocka_unit_test(test_eaten_space),
		cmocka_unit_test(test_eaten_after_user),
		cmocka_unit_test(test_heap_equals_definition),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_spaces),
		cmocka_unit_test(test_seams),
		cmocka_unit_test(test_long_text),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_tiny),
	};

	return cmocka_run_group_tests(tests, read_golden, free_golden);
}
