/* Any text through each pre-tokenizer: words cover it, and decoding the ids gives it back. */
#include <stdbool.h>
#include <string.h>

#include "engine/tokenizer.h"
#include "engine/tokenizer_pre.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tiny.h"

static struct tokenizer *tokenizers[4];

static void open_all(void)
{
	static const char *const pre[4] = {"gpt-2", "smollm", "llama-bpe", "qwen2"};

	for (int i = 0; i < 4; i++) {
		struct tiny_options o = TINY_DEFAULTS;
		struct err e = {0};
		struct gguf *g;
		uint8_t *data;
		size_t size;

		o.pre = pre[i];
		o.layers = 1;
		FUZZ_CHECK(!tiny_make(&o, &data, &size, &e) && !gguf_open_memory(&g, data, size, &e) &&
				   !tokenizer_open(&tokenizers[i], g, &e));
		gguf_close(g);
		free(data);
	}
}

static void check_words(const char *text, size_t size)
{
	for (int kind = PRE_GPT2; kind <= PRE_QWEN2; kind++)
		for (size_t at = 0, n; at < size; at += n) {
			n = pre_next((enum pre_kind)kind, text + at, size - at);
			FUZZ_CHECK(n >= 1 && n <= size - at);
		}
}

static void check_ids(const struct tokenizer *t, const char *text, size_t size, bool special)
{
	int32_t *ids = NULL;
	size_t n = 0, cap = 0, at = 0, shown = 0;
	struct utf8_stream s = {0};
	struct err e = {0};
	char out[256];

	FUZZ_CHECK(!tokenizer_encode(t, text, size, special, &ids, &n, &cap, &e));
	for (size_t i = 0; i < n; i++) {
		struct gguf_text b = tokenizer_bytes(t, ids[i]);

		FUZZ_CHECK(b.size <= size - at && !memcmp(b.data, text + at, b.size));
		FUZZ_CHECK(special || !tokenizer_is_special(t, ids[i]));
		FUZZ_CHECK(3 * b.size + 4 <= sizeof out);
		shown = utf8_stream_feed(&s, b.data, b.size, out, sizeof out);
		FUZZ_CHECK(shown <= 3 * b.size + 3);
		at += b.size;
	}
	FUZZ_CHECK(at == size);
	FUZZ_CHECK(utf8_stream_flush(&s, out, sizeof out) <= 3);
	free(ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;

	if (!tokenizers[0])
		open_all();
	check_words(text, size);
	for (int i = 0; i < 4; i++) {
		check_ids(tokenizers[i], text, size, false);
		check_ids(tokenizers[i], text, size, true);
	}
	return 0;
}
