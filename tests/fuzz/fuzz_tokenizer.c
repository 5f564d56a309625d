/* Any text through each pre-tokenizer and each kind of vocabulary: words cover it, and decoding the
 * ids gives it back. */
#include <stdbool.h>
#include <string.h>

#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_pre.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/tiny.h"

enum { N_BPE = 4, SPM = N_BPE, SPM_BARE, GEMMA4, N };

#define MOST_RULES 64
static struct pre *pre[MOST_RULES]; /* all rules that stand, and lines */

static struct tokenizer *tokenizers[N];

static void open_all(void)
{
	static const char *const names[N_BPE] = { "gpt-2", "smollm", "llama-bpe", "qwen2" };

	for (int i = 0; i < N; i++) {
		struct tiny_options o = TINY_DEFAULTS;
		struct err e = { 0 };
		struct gguf *g;
		uint8_t *data;
		size_t size;

		if (i < N_BPE)
			o.pre = names[i];
		else
			o.tokenizer = i == GEMMA4 ? "gemma4" : "spm";
		o.space_prefix = i == SPM;
		o.layers = 1;
		FUZZ_CHECK(!tiny_make(&o, &data, &size, &e) && !gguf_open_memory(&g, data, size, &e) &&
				   !tokenizer_open(&tokenizers[i], g, &e));
		gguf_close(g);
		free(data);
	}
}

static void open_rules(void)
{
	FUZZ_CHECK(n_pre_rules < MOST_RULES);
	for (size_t i = 0; i <= n_pre_rules; i++)
		FUZZ_CHECK(pre[i] = pre_compile(i < n_pre_rules ? &pre_rules[i] : &pre_lines));
}

static void check_words(const char *text, size_t size)
{
	for (size_t i = 0; i <= n_pre_rules; i++) {
		struct pre_words w = { .pre = pre[i], .text = text, .size = size };
		size_t at = 0;

		for (size_t n; (n = pre_next(&w)); at += n)
			FUZZ_CHECK(w.at == at + n && w.at <= size);
		FUZZ_CHECK(at == size);
	}
}

/* The text as SentencePiece has it, where U+2581 is a space; malloc'd. */
static char *unmark(const char *text, size_t *size)
{
	char *out = malloc(*size + 1);
	size_t n = 0;

	FUZZ_CHECK(out);
	for (size_t i = 0; i < *size; i++) {
		bool mark = *size - i >= 3 && !memcmp(text + i, "\xe2\x96\x81", 3);

		out[n++] = mark ? ' ' : text[i];
		i += mark ? 2 : 0;
	}
	*size = n;
	return out;
}

static void check_shown(struct utf8_stream *s, struct gguf_text b)
{
	char out[256];

	FUZZ_CHECK(3 * b.size + 4 <= sizeof out);
	FUZZ_CHECK(utf8_stream_feed(s, b.data, b.size, out, sizeof out) <= 3 * b.size + 3);
}

/* With spaced, a space more than the text has stands at the beginning and after special tokens. */
static void check_ids(
	const struct tokenizer *t, const char *text, size_t size, bool special, bool spaced)
{
	int32_t *ids = NULL;
	size_t n = 0, cap = 0, at = 0;
	struct utf8_stream s = { 0 };
	struct err e = { 0 };
	bool seam = true;
	char out[8];

	FUZZ_CHECK(!tokenizer_encode(t, text, size, special, &ids, &n, &cap, &e));
	for (size_t i = 0; i < n; i++) {
		bool is_special = tokenizer_is_special(t, ids[i]);
		struct gguf_text b = tokenizer_bytes(t, ids[i]);

		FUZZ_CHECK(special || !is_special);
		check_shown(&s, b);
		if (seam && spaced && !is_special) {
			FUZZ_CHECK(b.size && *b.data == ' ');
			FUZZ_CHECK(tokenizer_first_bytes(t, ids[i]).size == b.size - 1);
			b = tokenizer_first_bytes(t, ids[i]);
		}
		FUZZ_CHECK(b.size <= size - at && !memcmp(b.data, text + at, b.size));
		at += b.size;
		seam = is_special;
	}
	FUZZ_CHECK(at == size);
	FUZZ_CHECK(utf8_stream_flush(&s, out, sizeof out) <= 3);
	free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	char *bare;

	if (!tokenizers[0]) {
		open_all();
		open_rules();
	}
	check_words(text, size);
	for (int i = 0; i < N_BPE; i++) {
		check_ids(tokenizers[i], text, size, false, false);
		check_ids(tokenizers[i], text, size, true, false);
	}
	bare = unmark(text, &size);
	for (int i = SPM; i < N; i++) {
		check_ids(tokenizers[i], bare, size, false, i == SPM);
		check_ids(tokenizers[i], bare, size, true, i == SPM);
	}
	free(bare);
	return 0;
}
