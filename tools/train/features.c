/* features: the residual stream after each of these layers at every token, as the engine itself
 * computes it.
 *
 *     features MODEL LAYER... < sequences > features
 *
 * Both are binary, in this machine's byte order: a sequence is its number of tokens n, an i32, and
 * n ids, i32 each; out come for each token dim floats of each layer (they count from 0). It is a
 * forward pass without the output matrix, for tools/train/features.py, many times as fast as
 * torch's. Thread: main's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"

enum { CHUNK = 256, PAGE = 64 };

struct features {
	struct engine *engine;
	struct forward forward;
	struct memory_store store[MEMORY_GROUPS];
	int32_t *pages, *ids, layer[FORWARD_KEPT], n_layers;
};

static int keep_all(struct features *s, struct err *e)
{
	for (int32_t i = 0; i < s->n_layers; i++)
		if (forward_keep(&s->forward, s->layer[i], e))
			return -1;
	return 0;
}

static int open_all(struct features *s, const char *path, struct err *e)
{
	struct engine_options o = ENGINE_DEFAULTS;
	o.model = path;
	o.slots = 1;
	/* several processes share the work better than threads that wait for each other */
	o.threads = 1;
	if (engine_open(&s->engine, &o, e))
		return -1;
	int32_t ctx = s->engine->info.ctx, n_pages = (ctx + PAGE - 1) / PAGE;
	s->pages = malloc((size_t)n_pages * sizeof *s->pages);
	s->ids = malloc((size_t)ctx * sizeof *s->ids);
	if (!s->pages || !s->ids)
		return err_set(e, ERR_MEMORY, "out of memory");
	for (int32_t i = 0; i < n_pages; i++)
		s->pages[i] = i;
	struct forward_sizes most = { .rows = CHUNK, .out = 1, .observed = 1, .ctx = ctx };
	return memory_stores_open(s->store, &s->engine->model->memory, s->engine->kernels, PAGE,
			   n_pages, "the pages", e) ||
				   forward_open(&s->forward, s->engine->model, s->store, most, e) || keep_all(s, e)
			   ? -1
			   : 0;
}

static void close_all(struct features *s)
{
	forward_close(&s->forward);
	if (s->engine)
		memory_stores_close(s->store, &s->engine->model->memory, s->engine->kernels);
	free(s->pages);
	free(s->ids);
	if (s->engine)
		engine_close(s->engine);
}

static int run_chunk(struct features *s, int32_t pos, int32_t n, struct err *e)
{
	struct forward *f = &s->forward;
	const size_t dim = (size_t)s->engine->model->config.dim;
	const int32_t *table = s->pages;
	f->n_rows = n;
	f->n_out = f->n_observed = 0;
	forward_chain(f, table, pos, n);
	for (int32_t i = 0; i < n; i++)
		f->ids[i] = s->ids[pos + i];
	if (forward_run(f, false, e))
		return -1;
	for (int32_t i = 0; i < n * s->n_layers; i++) {
		const float *x = forward_stream(f, s->layer[i % s->n_layers]);
		if (fwrite(x + (size_t)(i / s->n_layers) * dim, sizeof *x, dim, stdout) != dim)
			return err_set(e, ERR_IO, "the features could not be written");
	}
	return 0;
}

static int run_all(struct features *s, struct err *e)
{
	int32_t n;
	while (fread(&n, sizeof n, 1, stdin) == 1) {
		if (n < 1 || n > s->engine->info.ctx ||
			fread(s->ids, sizeof *s->ids, (size_t)n, stdin) != (size_t)n)
			return err_set(e, ERR_INPUT,
				"a sequence of %d tokens: 1 to %d are possible, all of them given", n,
				s->engine->info.ctx);
		for (int32_t i = 0; i < n; i++)
			if (s->ids[i] < 0 || s->ids[i] >= s->engine->info.vocab)
				return err_set(e, ERR_INPUT, "token id %d is not in the vocabulary", s->ids[i]);
		for (int32_t pos = 0; pos < n; pos += CHUNK)
			if (run_chunk(s, pos, n - pos < CHUNK ? n - pos : CHUNK, e))
				return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct features s = { 0 };
	struct err e = { 0 };
	for (int i = 2; i < argc && s.n_layers < FORWARD_KEPT; i++)
		s.layer[s.n_layers++] = atoi(argv[i]);
	if (!s.n_layers || argc > 2 + FORWARD_KEPT)
		err_set(&e, ERR_USAGE, "usage: features MODEL LAYER... < sequences > features");
	else if (!open_all(&s, argv[1], &e))
		run_all(&s, &e);
	close_all(&s);
	if (e.code)
		fprintf(stderr, "features: %s\n", e.text);
	return e.code;
}
