/* Any bytes as a model file: opened, asked everything, its tokenizer and chat template used. */
#include <string.h>

#include "engine/model/gguf.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"
#include "tests/fuzz/fuzz.h"

static void ask(const struct gguf *g, const uint8_t *data, size_t size)
{
	static const char *const keys[] = { "a", "general.alignment", "general.architecture",
		"tokenizer.ggml.tokens", "tokenizer.ggml.token_type" };
	struct gguf_text text;
	int64_t i;
	double d;
	bool is;

	for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
		int64_t n = gguf_array_length(g, keys[k]), ints[4];
		struct gguf_text texts[4];
		float floats[4];

		gguf_get_i64(g, keys[k], &i, NULL);
		gguf_opt_f64(g, keys[k], &d, NULL);
		gguf_opt_bool(g, keys[k], &is, NULL);
		if (!gguf_get_text(g, keys[k], &text, NULL))
			FUZZ_CHECK((const uint8_t *)text.data + text.size <= data + size);
		gguf_array_i64(g, keys[k], ints, n < 4 ? n : 4, NULL);
		gguf_array_f32(g, keys[k], floats, n < 4 ? n : 4, NULL);
		gguf_array_text(g, keys[k], texts, n < 4 ? n : 4, NULL);
	}
}

static void read_tensors(const struct gguf *g, const uint8_t *data, size_t size)
{
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		uint8_t *out = malloc(t->bytes);

		FUZZ_CHECK(out && t->data >= data && t->data + t->bytes <= data + size);
		FUZZ_CHECK(gguf_find(g, t->name) == t);
		FUZZ_CHECK(!gguf_read_tensor(t, out, NULL));
		free(out);
	}
}

static void talk(const struct gguf *g)
{
	int known;
	const struct chat_template *c = template_of(g, &known);
	struct tokenizer *t;
	struct err e = { 0 };
	int32_t *ids = NULL;
	size_t n = 0, cap = 0;

	if (tokenizer_open(&t, g, &e)) {
		FUZZ_CHECK(e.code && !t);
		return;
	}
	const char *user = "Hello <|im_end|> abc ab";
	const struct chat_input chat = { .c = c, .t = t, .now = 1 };

	if (template_first(&chat, "Be kind.", user, strlen(user), &ids, &n, &cap, &e))
		FUZZ_CHECK(e.code == ERR_MEMORY || e.code == ERR_INPUT);
	for (size_t i = 0; i < n; i++)
		FUZZ_CHECK(ids[i] >= 0 && ids[i] < tokenizer_n_vocab(t));
	free(ids);
	tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gguf *g;
	struct err e = { 0 };

	if (gguf_open_memory(&g, data, size, &e)) {
		FUZZ_CHECK(e.code == ERR_INPUT && !g);
		for (const char *p = e.text; *p; p++)
			FUZZ_CHECK(*p >= 0x20 && *p < 0x7f);
		return 0;
	}
	ask(g, data, size);
	read_tensors(g, data, size);
	talk(g);
	gguf_close(g);
	return 0;
}
