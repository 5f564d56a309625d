/* Weights of several large pages: the same bytes whoever fills which page, and an error that names
 * the tensor if the file ends while it is read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <unistd.h>

#include "engine/arch/open.h"
#include "tests/support/tiny.h"

static const struct how {
	const char *backend;
	int threads;
} hows[] = { { "cpu", 1 }, { "cpu", 2 }, { "cpu", 3 }, { "ref", 1 }, { "ref", 2 } };
enum { N_HOWS = sizeof hows / sizeof *hows };

/* 5 MB or more. */
static char *write_model(bool mix)
{
	struct tiny_options t = TINY_DEFAULTS;

	t.dim = 512;
	t.ffn = 1024;
	t.layers = 4;
	t.mix = mix;
	if (mix)
		t.type = K_Q4_K;
	return tiny_temp(&t, NULL);
}

static int open_model(struct model **m, const struct gguf *g, struct k_ctx *kernels, struct err *e)
{
	const struct model_options o = { .cache = WEIGHTS_CACHE_OFF };
	int32_t ctx = 0;

	return model_open(m, g, kernels, &o, &ctx, e);
}

static void same_weights(const char *path, const struct how *a, const struct how *b)
{
	const struct how *how[2] = { a, b };
	struct model *model[2];
	struct k_ctx *kernels[2];
	struct err e = { 0 };
	struct gguf *g;

	assert_int_equal(gguf_open(&g, path, &e), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(k_open(&kernels[i], how[i]->backend, NULL, how[i]->threads, &e), 0);
		assert_int_equal(open_model(&model[i], g, kernels[i], &e), 0);
	}
	assert_true(model[0]->weights.used > 4 << 20);
	assert_int_equal(model[0]->weights.used, model[1]->weights.used);
	assert_memory_equal(model[0]->weights.arena, model[1]->weights.arena, model[0]->weights.used);
	for (int i = 0; i < 2; i++) {
		model_close(model[i]);
		k_close(kernels[i]);
	}
	gguf_close(g);
}

static void test_threads(void **state)
{
	(void)state;
	for (int mix = 0; mix < 2; mix++) {
		char *path = write_model(mix);

		for (int i = 1; i < N_HOWS; i++)
			if (!strcmp(hows[i].backend, hows[i - 1].backend))
				same_weights(path, &hows[i - 1], &hows[i]);
		unlink(path);
		free(path);
	}
}

/* left: bytes, of 1000, that the file still has when the weights are read. */
static void shrinks(const struct how *how, off_t left)
{
	char *path = write_model(false);
	struct err e = { 0 };
	struct k_ctx *kernels;
	struct model *model;
	struct gguf *g;

	assert_int_equal(gguf_open(&g, path, &e), 0);
	assert_int_equal(truncate(path, (off_t)gguf_file_bytes(g) * left / 1000), 0);
	assert_int_equal(k_open(&kernels, how->backend, NULL, how->threads, &e), 0);
	assert_int_equal(open_model(&model, g, kernels, &e), -1);
	assert_null(model);
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.text, "has shrunk while it was open: tensor "));
	k_close(kernels);
	gguf_close(g);
	unlink(path);
	free(path);
}

static void test_shrinks(void **state)
{
	static const off_t left[] = { 0, 1, 500, 999 };

	(void)state;
	for (int i = 0; i < N_HOWS; i++)
		for (size_t k = 0; k < sizeof left / sizeof *left; k++)
			shrinks(&hows[i], left[k]);
}

/* A matrix for each row of a tensor, each in tiles of its own: refused where the arena would end.
 */
static void test_pieces(void **state)
{
	char *path = write_model(false);
	struct weights w = { 0 };
	struct k_matrix piece[1024] = { 0 };
	const struct gguf_tensor *t;
	struct k_ctx *kernels;
	struct err e = { 0 };
	struct gguf *g;

	(void)state;
	assert_int_equal(gguf_open(&g, path, &e), 0);
	assert_int_equal(k_open(&kernels, "cpu", NULL, 1, &e), 0);
	assert_int_equal(weights_open(&w, g, kernels, &e), 0);
	for (int layer = 0; layer < 4 && !e.code; layer++) {
		char name[64];

		snprintf(name, sizeof name, "blk.%d.ffn_up.weight", layer);
		t = gguf_find(g, name);
		for (int32_t i = 0; i < 1024 && !e.code; i++) {
			piece[i] = (struct k_matrix){ .type = t->type, .n_rows = 1, .n_cols = 512 };
			weights_add_matrix(&w, t, i, &piece[i], &e);
			assert_true(w.used <= w.bytes);
		}
	}
	assert_true(k_pack_unit(kernels) == 1 || strstr(e.text, "are cut into more matrices"));
	weights_close(&w);
	k_close(kernels);
	gguf_close(g);
	unlink(path);
	free(path);
}

/* ---- shared ---- */

struct opened {
	struct gguf *g;
	struct k_ctx *kernels;
	struct model *m;
};

static struct opened open_shared(const char *path, const char *backend, int threads, bool share)
{
	const struct model_options o = { .cache = WEIGHTS_CACHE_OFF, .share = share };
	struct opened p;
	struct err e = { 0 };
	int32_t ctx = 0;

	if (gguf_open(&p.g, path, &e) || k_open(&p.kernels, backend, NULL, threads, &e) ||
		model_open(&p.m, p.g, p.kernels, &o, &ctx, &e))
		fail_msg("%s", e.text);
	return p;
}

static void close_shared(struct opened *p)
{
	model_close(p->m);
	k_close(p->kernels);
	gguf_close(p->g);
}

/* One arena, whoever opens and closes first; never with another layout, another version of the
 * file, or one that does not share. */
static void test_shared(void **state)
{
	char *path = write_model(false);
	struct opened first = open_shared(path, "cpu", 1, true),
				  alone = open_shared(path, "cpu", 1, false),
				  second = open_shared(path, "cpu", 2, true),
				  other = open_shared(path, "ref", 1, true), third, newer;
	FILE *f;

	(void)state;
	assert_ptr_equal(first.m->weights.arena, second.m->weights.arena);
	assert_ptr_equal(first.m->embed.data, second.m->embed.data);
	assert_ptr_not_equal(first.m->weights.arena, alone.m->weights.arena);
	if (strcmp(k_layout_name(first.kernels), k_layout_name(other.kernels)) != 0)
		assert_ptr_not_equal(first.m->weights.arena, other.m->weights.arena);
	close_shared(&first);
	third = open_shared(path, "cpu", 1, true);
	assert_ptr_equal(third.m->weights.arena, second.m->weights.arena);
	close_shared(&second);
	assert_memory_equal(third.m->weights.arena, alone.m->weights.arena, alone.m->weights.used);
	f = fopen(path, "a");
	assert_true(f && fputc(0, f) == 0 && !fclose(f));
	newer = open_shared(path, "cpu", 1, true);
	assert_ptr_not_equal(newer.m->weights.arena, third.m->weights.arena);
	close_shared(&newer);
	close_shared(&third);
	close_shared(&alone);
	close_shared(&other);
	unlink(path);
	free(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_shrinks),
		cmocka_unit_test(test_pieces),
		cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
