/* Speed of everything but the matrix products, on the shapes of SmolLM2-135M: `make
 * build/tests/bench_ops`, then build/tests/bench_ops [isa [threads [rows [position [observed
 * [cache-format]]]]]].
 * Prints microseconds a step for each kind of op, and of a draw, the best of some runs for each op.
 * Not a test: machines differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "engine/sample/sampler.h"
#include "kernels/arith.h"
#include "kernels/kernels.h"

enum { LAYERS = 30, HEADS = 9, KV = 3, HD = 64, DIM = HEADS * HD, FFN = 1536, VOCAB = 49152 };
enum { PAGE = 16, MAX_POS = 8192, STRIDE = MAX_POS / K_GROUP };

static float noise(void)
{
	return (float)(rand() % 2001 - 1000) * 1e-3f;
}

static float *floats(size_t n, float size)
{
	float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);

	for (size_t i = 0; i < n; i++)
		x[i] = noise() * size;
	return x;
}

static struct k_acts acts(int32_t n, int32_t dim)
{
	size_t all = (size_t)n * (size_t)dim;

	return (struct k_acts){ .x = floats(all, 1),
		.q = malloc(all),
		.d = floats(all / 32, 1),
		.sx = floats(all / 32, 1),
		.dim = dim };
}

static enum k_cache format; /* of the keys and values */

static void cache_open(struct k_kv *kv, enum k_cache of, int32_t **table)
{
	int32_t n = MAX_POS / PAGE;

	*kv = (struct k_kv){ .page_size = PAGE,
		.n_layers = LAYERS,
		.n_kv_heads = KV,
		.head_dim = HD,
		.format = of,
		.residual = K_RECENT };
	kv->page_bytes = k_kv_page_bytes(kv);
	kv->base = mmap(NULL, kv->page_bytes * (size_t)n, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(kv->base, kv->page_bytes * (size_t)n, MADV_HUGEPAGE);
	for (size_t i = 0; i < kv->page_bytes * (size_t)n / 2; i++)
		((uint16_t *)(void *)kv->base)[i] = (uint16_t)(0x2800 + rand() % 0x1000);
	*table = malloc((size_t)n * sizeof **table);
	for (int32_t i = 0; i < n; i++)
		(*table)[i] = i;
}

static struct k_op *write_program(int32_t n, struct k_row *rows, int32_t n_observed)
{
	struct k_op *op = calloc(5 * LAYERS + 1, sizeof *op), *at = op;
	struct k_acts x = acts(n, DIM), ffn = acts(n, FFN);
	float *q = floats((size_t)n * DIM, 1), *k = floats((size_t)n * KV * HD, 1);
	float *table = floats((size_t)(MAX_POS + 1) * HD / 2, 1), *w = floats(DIM, 1);
	float *gate = floats((size_t)n * FFN, 4), *up = floats((size_t)n * FFN, 4);
	float *share = floats((size_t)LAYERS * (size_t)(n_observed + 1) * HEADS * STRIDE, 0);
	int32_t *near_zero = calloc((size_t)LAYERS * (size_t)(n_observed + 1) * HEADS, 4), *pages;
	const bool coded = k_cache_by_channel((int32_t)format);
	static atomic_int nan_row;
	static struct k_kv kv, recent;
	const int32_t **tables = malloc(sizeof *tables);
	struct k_range *ranges = malloc((size_t)n * sizeof *ranges);

	cache_open(&kv, format, &pages);
	cache_open(&recent, K_CACHE_f16, &pages);
	tables[0] = pages;
	k_see_all(rows, n, ranges);
	for (int32_t l = 0; l < LAYERS; l++) {
		size_t seen = (size_t)l * (size_t)n_observed * HEADS;
		struct k_norm norm = { .x = x.x, .w = w, .eps = 1e-5f, .out = acts(n, DIM), .n = n };

		*at++ = (struct k_op){ .kind = K_OP_norm, .u.norm = norm };
		*at++ = (struct k_op){ .kind = K_OP_rope,
			.u.rope = { .q = q,
				.k = k,
				.v = k,
				.cos = table,
				.sin = table,
				.rope_dim = HD,
				.scale = 0.125f,
				.n_heads = HEADS,
				.layer = l,
				.n = n,
				.rows = rows,
				.pages = tables,
				.kv = coded ? &recent : &kv,
				.nan_row = &nan_row } };
		*at++ = (struct k_op){ .kind = K_OP_attention,
			.u.attention = { .q = q,
				.out = x,
				.n_heads = HEADS,
				.layer = l,
				.n = n,
				.rows = rows,
				.ranges = ranges,
				.n_ranges = 1,
				.pages = tables,
				.kv = &kv,
				.recent = coded ? &recent : NULL,
				.recent_pages = tables,
				.share_stride = STRIDE,
				.threshold = 1e-4f,
				.share = n_observed ? share + seen * STRIDE : NULL,
				.near_zero = n_observed ? near_zero + seen : NULL } };
		*at++ = (struct k_op){ .kind = K_OP_norm, .u.norm = norm };
		*at++ = (struct k_op){ .kind = K_OP_glu,
			.u.glu = { .gate = gate, .up = up, .out = ffn, .n = n } };
	}
	*at = (struct k_op){ .kind = K_OP_stats,
		.u.stats = { .logits = floats((size_t)VOCAB, 8),
			.vocab = VOCAB,
			.n = 1,
			.out = calloc(1, sizeof(struct k_logit_stats)) } };
	return op;
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void bench_draw(struct k_op *stats)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct sample_result out;
	struct sampler *s;
	struct err e = { 0 };
	double best = 1e9;

	if (sampler_open(&s, VOCAB, &e))
		return;
	for (int64_t i = 0; i < 200; i++) {
		double t = now_us();

		sampler_pick(s, stats->u.stats.logits, stats->u.stats.out, &p, NULL, 0,
			(struct sample_key){ .pos = i }, &out);
		t = now_us() - t;
		best = t < best ? t : best;
	}
	printf("draw       %9.1f us, %d survivors\n", best, out.survivors);
	sampler_close(s);
}

int main(int argc, char **argv)
{
	static const char *const name[K_N_KINDS] = {
#define X(kind, ...) #kind,
		K_KINDS(X)
#undef X
	};
	const char *isa = argc > 1 ? argv[1] : NULL;
	int threads = argc > 2 ? atoi(argv[2]) : 2, n = argc > 3 ? atoi(argv[3]) : 1;
	int pos = argc > 4 ? atoi(argv[4]) : 1023, observed = argc > 5 ? atoi(argv[5]) : 0;
	const char *cache = argc > 6 ? argv[6] : "f16";
	struct k_row *rows = calloc((size_t)n, sizeof *rows);
	double best[K_N_KINDS] = { 0 };
	uint64_t *least;
	struct k_program p = { .n_ops = 5 * LAYERS + 1, .timed = true };
	struct k_ctx *ctx;
	struct err e = { 0 };

	if (pos + n > MAX_POS || k_open(&ctx, "cpu", isa, threads, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	while (format < K_N_CACHES && strcmp(cache, k_cache_name((int)format)))
		format++;
	if (format == K_N_CACHES) {
		fprintf(stderr, "no format %s\n", cache);
		return 1;
	}
	for (int i = 0; i < n; i++)
		rows[i] = (struct k_row){ .pos = pos + i, .observe = i < observed ? i : -1 };
	p.op = write_program(n, rows, observed);
	least = malloc((size_t)p.n_ops * sizeof *least);
	for (int32_t i = 0; i < p.n_ops; i++)
		least[i] = UINT64_MAX;
	for (int run = 0; run < 100; run++) {
		k_run(ctx, &p, NULL);
		for (int32_t i = 0; i < p.n_ops; i++)
			least[i] = p.op[i].ns < least[i] ? p.op[i].ns : least[i];
	}
	for (int32_t i = 0; i < p.n_ops; i++)
		best[p.op[i].kind] += (double)least[i] * 1e-3;
	printf("%s, %d threads, %d rows from position %d, %d observed, %s\n", k_isa_name(ctx), threads,
		n, pos, observed, cache);
	for (int k = 0; k < K_N_KINDS; k++)
		if (best[k] > 0)
			printf("%-10s %9.1f us\n", name[k], best[k]);
	bench_draw(&p.op[p.n_ops - 1]);
	k_close(ctx);
	return 0;
}
