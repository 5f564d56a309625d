/* A server without an engine, for the fuzz targets of requests: a tiny vocabulary, a template of
 * chats, and the settings of `cutaway serve`. */
#pragma once

#include "engine/settings/settings.h"
#include "serve/serve_impl.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/tiny.h"

static inline struct serve *fuzz_serve(const char *api_key)
{
	static const char *const adapters[] = { "tuned", NULL };
	static struct engine_info info = {
		.name = "tiny", .ctx = 256, .slots = 4, .adapters = adapters
	};
	const struct serve_options o = { .host = "127.0.0.1",
		.socket = -1,
		.api_key = api_key,
		.name = "tiny",
		.replicas = 1,
		.queue = 8,
		.connections = 16,
		.idle_s = 5,
		.body_kib = 4,
		.answer = &answer_defaults };
	struct tiny_options tiny = TINY_DEFAULTS;
	struct tokenizer *t;
	struct serve *s;
	struct err e = { 0 };
	struct gguf *g;
	uint8_t *data;
	size_t size;
	int known;

	tiny.layers = 1;
	FUZZ_CHECK(!tiny_make(&tiny, &data, &size, &e) && !gguf_open_memory(&g, data, size, &e) &&
			   !tokenizer_open(&t, g, &e) && !serve_open(&s, &o, &e));
	info.chat = template_of(g, &known);
	info.vocab = tokenizer_n_vocab(t);
	s->info = &info;
	s->tokenizer = t;
	gguf_close(g);
	free(data);
	return s;
}
