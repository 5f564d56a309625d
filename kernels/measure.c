/* The most that this machine can do with this pool and these instructions: plain reads, 8-bit and
 * f32 multiply-adds. These are the roofs that figures are compared with (Williams, Waterman and
 * Patterson 2009). Other programs can only make a reading too low, so the best counts. Thread: the
 * engine's, with the pool. */
#include "kernels/measure.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/clock.h"
#include "kernels/context.h"
#include "kernels/cpu/walk.h"

struct reading {
	const uint64_t *data;
	size_t n_lines; /* of 64 bytes */
	atomic_ullong sum;
};

static void read_lines(void *arg, int tid, int n_threads, void *scratch)
{
	struct reading *r = arg;
	uint64_t sum[8] = { 0 };
	int64_t lo, hi;

	(void)scratch;
	k_split((int64_t)r->n_lines, tid, n_threads, &lo, &hi);
	for (const uint64_t *p = r->data + lo * 8, *end = r->data + hi * 8; p < end; p += 8)
		for (int i = 0; i < 8; i++)
			sum[i] += p[i];
	for (int i = 1; i < 8; i++)
		sum[0] += sum[i];
	atomic_fetch_add(&r->sum, sum[0]); /* keeps the reads alive */
}

double k_read_rate(struct k_ctx *ctx, const void *data, size_t bytes)
{
	struct reading r = { .data = data, .n_lines = bytes / 64 };
	int64_t before = now_ns(), ns;

	if (ctx->device)
		return ctx->device->measure_read(ctx->device, bytes);
	k_pool_run(ctx->pool, read_lines, &r);
	ns = now_ns() - before;
	return (double)(r.n_lines * 64) * 1e9 / (double)(ns ? ns : 1);
}

struct touching {
	void *data;
	size_t bytes;
};

/* Writes every page: else all reads would be of one page of zeros. */
static void touch(void *arg, int tid, int n_threads, void *scratch)
{
	struct touching *s = arg;
	int64_t lo, hi;

	(void)scratch;
	k_split((int64_t)s->bytes, tid, n_threads, &lo, &hi);
	memset((char *)s->data + lo, 1, (size_t)(hi - lo));
}

double k_measure_read(struct k_ctx *ctx, size_t bytes, int32_t n_passes, double *least)
{
	double best = 0, worst = INFINITY;
	void *data;

	if (ctx->device) { /* the device's own memory counts */
		best = ctx->device->measure_read(ctx->device, bytes);
		if (least)
			*least = best;
		return best;
	}
	data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (data == MAP_FAILED)
		return 0;
	madvise(data, bytes, MADV_HUGEPAGE);
	k_pool_run(ctx->pool, touch, &(struct touching){ data, bytes });
	/* until the best has stood for three passes: it is quickly found on a quiet machine */
	for (int pass = 0, stood = 0; pass < n_passes && stood < 3; pass++) {
		double rate = k_read_rate(ctx, data, bytes);

		stood = rate > best * 1.02 ? 0 : stood + 1;
		best = rate > best ? rate : best;
		worst = rate < worst ? rate : worst;
	}
	munmap(data, bytes);
	if (least)
		*least = worst;
	return best;
}

/* A plain sum of products, as the compiler translates it. */
uint64_t k_scalar_multiply(int64_t n)
{
	enum { LENGTH = 256 };
	int8_t w[LENGTH], x[LENGTH];
	int32_t sum = 0;

	memset(w, 1, sizeof w);
	memset(x, -1, sizeof x);
	for (int64_t i = 0; i < n; i++) {
		__asm__ volatile("" ::"r"(w), "r"(x) : "memory"); /* w and x may have changed */
		for (int k = 0; k < LENGTH; k++)
			sum += w[k] * x[k];
	}
	__asm__ volatile("" ::"r"(sum)); /* keeps the sum alive */
	return (uint64_t)n * LENGTH;
}

uint64_t k_scalar_fma(int64_t n)
{
	enum { CHAINS = 16 };
	float sum[CHAINS] = { 0 };

	for (int64_t i = 0; i < n; i++) {
		__asm__ volatile("" ::"r"(sum) : "memory"); /* sum may have changed */
		for (int c = 0; c < CHAINS; c++)
			sum[c] = k_fma(sum[c], 0.5f, 1);
	}
	__asm__ volatile("" ::"r"(sum) : "memory"); /* keeps the sum alive */
	return (uint64_t)n * CHAINS;
}

struct multiplying {
	k_multiply_fn *multiply;
	int64_t rounds; /* of each thread */
	atomic_ullong done;
};

static void multiply(void *arg, int tid, int n_threads, void *scratch)
{
	struct multiplying *m = arg;

	(void)tid;
	(void)n_threads;
	(void)scratch;
	atomic_fetch_add(&m->done, m->multiply(m->rounds));
}

static double multiply_rate(struct k_ctx *ctx, k_multiply_fn *fn)
{
	enum { PASS_NS = 3000000, PASSES = 8 };
	struct multiplying m = { .multiply = fn, .rounds = 1 << 10 };
	double best = 0;

	for (int pass = 0; pass < PASSES;) {
		uint64_t before = (uint64_t)now_ns(), ns;

		atomic_store(&m.done, 0);
		k_pool_run(ctx->pool, multiply, &m);
		ns = (uint64_t)now_ns() - before;
		double rate = (double)atomic_load(&m.done) * 1e9 / (double)(ns ? ns : 1);
		best = rate > best ? rate : best;
		if (ns < PASS_NS && m.rounds < INT64_MAX / 4 / 4096) {
			m.rounds *= 2; /* until a pass is long enough to be timed */
			continue;
		}
		pass++;
	}
	return best;
}

double k_measure_int(struct k_ctx *ctx)
{
	return ctx->device ? ctx->device->measure_int(ctx->device)
					   : multiply_rate(ctx, ctx->isa->multiply);
}

double k_measure_float(struct k_ctx *ctx)
{
	return ctx->device ? 0 : multiply_rate(ctx, ctx->isa->fma);
}
