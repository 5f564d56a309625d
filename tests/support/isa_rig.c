/* See isa_rig.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format/cache.h"
#include "tests/support/contexts.h"
#include "tests/support/isa_rig.h"

static const int thread_counts[] = { 1, 3, 2, 7 };
static struct contexts opened;
struct k_ctx *ref, **fast;
int n_fast;

static uint64_t random_state = 0x9E3779B97F4A7C15u;

void rig_seed(uint64_t seed)
{
	random_state = 0x9E3779B97F4A7C15u + seed;
}

uint32_t rig_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

float rig_number(float size)
{
	float s = 0;

	for (int i = 0; i < 4; i++)
		s += (float)(rig_next() >> 8) * 0x1p-24f - 0.5f;
	return s * size;
}

void rig_fill(float *x, size_t n, float size)
{
	for (size_t i = 0; i < n; i++)
		x[i] = rig_number(size);
}

void *rig_get(size_t bytes)
{
	void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);

	assert_non_null(p);
	memset(p, 0x55, bytes);
	return p;
}

void rig_free_all(void **p)
{
	for (; *p; p++)
		free(*p);
}

int rig_setup(void **state)
{
	struct err e = { 0 };

	(void)state;
	if (k_open(&ref, "ref", NULL, 1, &e)) {
		print_error("%s\n", e.text);
		return -1;
	}
	if (contexts_open(&opened, thread_counts, N_THREADS, false, &e)) {
		print_error("%s\n", e.text);
		return -1;
	}
	fast = opened.ctx;
	n_fast = opened.n;
	return 0;
}

int rig_teardown(void **state)
{
	(void)state;
	k_close(ref);
	contexts_close(&opened);
	return 0;
}

void rig_run(struct k_ctx *ctx, struct k_op *op)
{
	struct k_program p = { .op = op, .n_ops = 1 };

	k_run(ctx, &p, NULL);
}

struct k_acts acts_new(int32_t n, int32_t dim, bool x, bool q)
{
	size_t all = (size_t)n * (size_t)dim;
	struct k_acts a = { .dim = dim };

	a.x = x ? rig_get(all * sizeof *a.x) : NULL;
	if (q) {
		a.q = rig_get(all);
		a.d = rig_get(all / K_QBLOCK * sizeof *a.d);
		a.sx = rig_get(all / K_QBLOCK * sizeof *a.sx);
	}
	return a;
}

void acts_free(struct k_acts *a)
{
	free(a->x);
	free(a->q);
	free(a->d);
	free(a->sx);
}

void acts_same(const struct k_acts *a, const struct k_acts *b, int32_t n)
{
	size_t all = (size_t)n * (size_t)a->dim;

	if (a->x)
		assert_memory_equal(a->x, b->x, all * sizeof *a->x);
	if (a->q) {
		assert_memory_equal(a->q, b->q, all);
		assert_memory_equal(a->d, b->d, all / K_QBLOCK * sizeof *a->d);
		assert_memory_equal(a->sx, b->sx, all / K_QBLOCK * sizeof *a->sx);
	}
}

enum k_cache rig_format(void)
{
	return rig_next() % 2 ? K_CACHE_f16 : (enum k_cache)(rig_next() % K_N_UNCODED);
}

/* Any bytes are codes; as scales they are finite: small ones, and any for every fourth. */
static void fill_codes(struct cache *c)
{
	uint16_t *at = (uint16_t *)(void *)c->kv.base;

	for (size_t i = 0; i < c->bytes / 2; i++) {
		const uint32_t bits = rig_next();

		at[i] = (uint16_t)(bits >> 16 &
						   (bits & 3 || (bits >> 16 & 0x7c00) == 0x7c00 ? 0xafff : 0xffff));
	}
}

void cache_open(struct cache *c, enum k_cache format, int32_t page_size, int32_t n_layers,
	int32_t n_kv_heads, int32_t head_dim, int32_t n_seqs, int32_t longest)
{
	int32_t n_pages;

	c->kv = (struct k_kv){ .format = format,
		.page_size = page_size,
		.n_layers = n_layers,
		.n_kv_heads = n_kv_heads,
		.head_dim = head_dim };
	c->kv.page_bytes = (k_kv_page_bytes(&c->kv) + 63) / 64 * 64 + 64;
	c->n_seqs = n_seqs;
	c->n_blocks = (longest + page_size - 1) / page_size;
	n_pages = n_seqs * c->n_blocks;
	c->bytes = (size_t)n_pages * c->kv.page_bytes;
	c->kv.base = rig_get(c->bytes);
	c->table = rig_get((size_t)n_pages * 4);
	c->pages = rig_get((size_t)n_seqs * sizeof *c->pages);
	for (int32_t i = 0; i < n_pages; i++) {
		int32_t j = (int32_t)(rig_next() % (uint32_t)(i + 1));

		c->table[i] = c->table[j];
		c->table[j] = i;
	}
	for (int32_t s = 0; s < n_seqs; s++)
		c->pages[s] = c->table + s * c->n_blocks;
	if (k_cache_bits((int32_t)format))
		fill_codes(c);
	for (size_t i = 0;
		 !k_cache_bits((int32_t)format) && i < c->bytes / (size_t)k_cache_bytes(format); i++)
		k_cache_put(format, c->kv.base, i, k_cache_code(format, rig_number(3)));
}

void cache_close(struct cache *c)
{
	free(c->kv.base);
	free(c->table);
	free(c->pages);
}
