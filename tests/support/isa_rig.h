/* What the tests of the CPUs' kernels share: the reference and every instruction set of this
 * machine, with 1, 2, 3 and 7 threads; random numbers; activations; a cache of shuffled pages.
 * Thread: the caller's. */
#pragma once

#include "kernels/kernels.h"

/* A processor that is emulated is slow, and so are sanitizers: they get a part of the turns of
 * random cases, and of the cases of a list each other one. */
#if defined EMULATED || defined __SANITIZE_ADDRESS__
enum { N_THREADS = 2, EACH = 2 };
#define TURNS(n) ((n) / 8)
#else
enum { N_THREADS = 4, EACH = 1 };
#define TURNS(n) (n)
#endif
extern struct k_ctx *ref, **fast; /* also the emulated ones */
extern int n_fast;

int rig_setup(void **state);
int rig_teardown(void **state);

/* From here on the numbers of this seed. A test whose verdict depends on the numbers begins so:
 * otherwise they depend on how many instruction sets drew before it. */
void rig_seed(uint64_t seed);
uint32_t rig_next(void);
float rig_number(float size);
void rig_fill(float *x, size_t n, float size);
/* Filled with 0x55; fails the test if there is none. */
void *rig_get(size_t bytes);
void rig_free_all(void **p); /* ends with NULL */
void rig_run(struct k_ctx *ctx, struct k_op *op);

/* Activations of n rows, made to be compared. */
struct k_acts acts_new(int32_t n, int32_t dim, bool x, bool q);
void acts_free(struct k_acts *a);
void acts_same(const struct k_acts *a, const struct k_acts *b, int32_t n);

/* Sequences in a cache of shuffled pages, full of random numbers. */
struct cache {
	struct k_kv kv;
	size_t bytes;
	int32_t n_seqs, n_blocks;
	int32_t *table; /* [n_seqs, n_blocks] */
	const int32_t **pages;
};
enum k_cache rig_format(void); /* a random one: f16 for every other case */
void cache_open(struct cache *c, enum k_cache format, int32_t page_size, int32_t n_layers,
	int32_t n_kv_heads, int32_t head_dim, int32_t n_seqs, int32_t longest);
void cache_close(struct cache *c);
