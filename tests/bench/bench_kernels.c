/* Speed of the matrix products on the shapes of SmolLM2-135M: `make build/tests/bench_kernels`,
 * then build/tests/bench_kernels [isa [threads [type [2:4]]]]. Not a test: machines differ. Best of
 * many short runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/arith.h"
#include "kernels/format/formats.h"
#include "kernels/kernels.h"

enum { LAYERS = 30, KV = 192, FFN = 1536, VOCAB = 49152, MAX_N = 256, OPS = 4 * LAYERS + 1 };

#define ARENA ((size_t)1 << 30)

static bool pairs;           /* of each four weights two are kept */
static int32_t dim = 576;    /* of K-quants 512: theirs is a multiple of 256 */
static unsigned char *arena; /* large pages, as the engine's weights have */

struct layer {
	struct k_matrix q, k, v, o, gate, up, down;
};

static struct k_matrix make(struct k_ctx *ctx, enum k_type type, int32_t rows, int32_t cols)
{
	const struct k_type_info *t = &k_types[type];
	const size_t n_blocks = (size_t)rows * (size_t)(cols / t->block);
	struct k_matrix m = {
		.type = type, .n_rows = rows, .n_cols = cols, .data = arena, .pairs = pairs && t->block == 1
	};
	const size_t bytes = (k_matrix_bytes(ctx, &m) + 63) / 64 * 64;
	uint8_t *raw = malloc(n_blocks * (size_t)t->block_bytes);

	for (size_t i = 0; i < n_blocks * (size_t)t->block_bytes; i++)
		raw[i] = (uint8_t)(i * 2654435761u >> 13) & (type == K_F32 ? 0x3f : 0xff);
	for (size_t i = 0; i < n_blocks && t->block > 1; i++)
		for (int f = 0; f < (k_has_min(type) ? 2 : 1) && k_facts_of(type).number == K_NUM_F16; f++)
			memcpy(raw + i * (size_t)t->block_bytes +
					   (f ? k_facts_of(type).min_at : k_facts_of(type).at),
				"\x00\x20", 2);
	for (size_t i = 0; m.pairs && i < n_blocks; i++)
		memset(raw + i * (size_t)t->block_bytes, 0, i % 4 < 2 ? (size_t)t->block_bytes : 0);
	arena += bytes;
	k_pack(ctx, &m, raw);
	free(raw);
	return m;
}

static struct k_acts acts(int32_t width)
{
	size_t n = (size_t)MAX_N * (size_t)width;
	struct k_acts a = { .x = calloc(n, 4),
		.q = malloc(n),
		.d = calloc(n / 32, 4),
		.sx = calloc(n / 32, 4),
		.dim = width };

	for (size_t i = 0; i < n; i++)
		a.q[i] = (int8_t)(i * 37 % 255 - 127);
	return a;
}

/* Of the layers' products and the head's. */
static void best_seconds(struct k_ctx *ctx, struct k_program *p, int tries, double best[2])
{
	best[0] = best[1] = 1e9;
	for (int i = 0; i < tries; i++) {
		double s[2] = { 0, 0 };

		k_run(ctx, p, NULL);
		for (int32_t o = 0; o < p->n_ops; o++)
			s[o == p->n_ops - 1] += (double)p->op[o].ns * 1e-9;
		if (s[0] + s[1] < best[0] + best[1])
			memcpy(best, s, sizeof s);
	}
}

/* The products of one token, in order: four ops a layer, and the head. */
static double fill_program(struct k_ctx *ctx, enum k_type type, struct k_op *op, float *out)
{
	static struct layer layer[LAYERS];
	const struct k_acts narrow = acts(dim), wide = acts(FFN);
	double bytes = 0;

	for (int i = 0; i < LAYERS; i++) {
		struct layer *l = &layer[i];
		struct k_matmul a[4] = {
			{ .in = narrow,
				.n_parts = 3,
				.part = { { .w = &l->q }, { .w = &l->k }, { .w = &l->v } } },
			{ .in = narrow, .n_parts = 1, .part = { { .w = &l->o } } },
			{ .in = narrow, .n_parts = 2, .part = { { .w = &l->gate }, { .w = &l->up } } },
			{ .in = wide, .n_parts = 1, .part = { { .w = &l->down } } },
		};

		*l = (struct layer){ make(ctx, type, dim, dim), make(ctx, type, KV, dim),
			make(ctx, type, KV, dim), make(ctx, type, dim, dim), make(ctx, type, FFN, dim),
			make(ctx, type, FFN, dim), make(ctx, type, dim, FFN) };
		for (int j = 0; j < 4; j++) {
			op[4 * i + j].kind = K_OP_matmul;
			op[4 * i + j].u.matmul = a[j];
			for (int p = 0; p < a[j].n_parts; p++) {
				op[4 * i + j].u.matmul.part[p].out = out + (size_t)p * MAX_N * FFN;
				bytes += (double)k_matrix_bytes(ctx, a[j].part[p].w);
			}
		}
	}
	return bytes;
}

static double fill_head(struct k_ctx *ctx, struct k_op *op, float *out)
{
	static struct k_matrix head;

	head = make(ctx, K_Q8_0, VOCAB, dim);
	op->kind = K_OP_matmul;
	op->u.matmul =
		(struct k_matmul){ .in = acts(dim), .n_parts = 1, .part = { { .w = &head, .out = out } } };
	return (double)k_matrix_bytes(ctx, &head);
}

static int by_value(const void *a, const void *b)
{
	return (*(const uint64_t *)a > *(const uint64_t *)b) -
		   (*(const uint64_t *)a < *(const uint64_t *)b);
}

/* One thread's rate (the median of many runs) at 64 rows where a cache has the weights, beside
 * 8-bit multiply-adds between registers: what the instructions alone allow. */
static void print_cached(const char *isa, enum k_type type)
{
	enum { COLS = 512, MANY = 64, TIMES = 400 };
	const int32_t rows[] = { 64, 4096 }; /* of weights: 18 KB and 1.2 MB in 4 bits */
	static float y[MANY * 4096];
	struct k_matrix w;
	struct k_op op = { .kind = K_OP_matmul };
	struct k_program p = { .op = &op, .n_ops = 1, .timed = true };
	struct k_ctx *ctx;
	struct err e = { 0 };

	if (k_open(&ctx, "cpu", isa, 1, &e))
		return;
	for (int i = 0; i < 2; i++) {
		uint64_t ns[TIMES];

		w = make(ctx, type, rows[i], COLS);
		op.u.matmul = (struct k_matmul){
			.in = acts(COLS), .n = MANY, .n_parts = 1, .part = { { .w = &w, .out = y } }
		};
		for (int t = 0; t < TIMES; t++) {
			k_run(ctx, &p, NULL);
			ns[t] = (uint64_t)op.ns;
		}
		qsort(ns, TIMES, sizeof *ns, by_value);
		printf("%3d rows, one thread, %.0f KB of weights: %.1f GMAC/s, of %.1f between registers\n",
			MANY, (double)k_matrix_bytes(ctx, &w) / 1e3,
			(double)rows[i] * COLS * MANY / (double)ns[TIMES / 2],
			(double)k_measure_int(ctx) / 1e9);
	}
	k_close(ctx);
}

int main(int argc, char **argv)
{
	static struct k_op op[OPS];
	struct k_program program = { .op = op, .n_ops = OPS, .timed = true };
	struct err e = { 0 };
	struct k_ctx *ctx;
	enum k_type type = K_Q4_1;
	float *out = calloc((size_t)MAX_N * VOCAB, 4);
	double read, s[2], one[2] = { 0 }, bytes[2];
	double macs[2];

	if (k_open(&ctx, "cpu", argc > 1 ? argv[1] : NULL, argc > 2 ? atoi(argv[2]) : 2, &e)) {
		puts(e.text);
		return 1;
	}
	for (int t = 0; argc > 3 && t < K_N_TYPES; t++)
		type = strcmp(argv[3], k_types[t].name) == 0 ? (enum k_type)t : type;
	pairs = argc > 4;
	dim = k_types[type].block > 64 ? 512 : dim;
	macs[0] = (double)LAYERS * dim * (2 * dim + 2 * KV + 3 * FFN);
	macs[1] = (double)dim * VOCAB;
	arena = mmap(
		NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		return 1;
	madvise(arena, ARENA, MADV_HUGEPAGE);
	bytes[0] = fill_program(ctx, type, op, out);
	bytes[1] = fill_head(ctx, &op[OPS - 1], out);
	read = k_measure_read(ctx, 256u << 20, 16, NULL);
	printf("%s, %d threads, blocks in %s %.1f MB, head in Q8_0 %.1f MB, plain read %.1f GB/s\n",
		k_isa_name(ctx), k_n_threads(ctx), k_types[type].name, bytes[0] / 1e6, bytes[1] / 1e6,
		read / 1e9);
	for (int n = 1; n <= MAX_N; n *= n < 4 ? 2 : n < 16 ? 4 : 2) {
		for (int i = 0; i < OPS; i++)
			op[i].u.matmul.n = n;
		best_seconds(ctx, &program, n < 16 ? 40 : 6, s);
		for (int i = 0; i < 2; i++) {
			one[i] = n == 1 ? s[i] : one[i];
			printf("%3d rows: %s %8.3f ms = %5.2f x, %5.1f GB/s (%3.0f %% of read), %6.1f GMAC/s\n",
				n, i ? "head  " : "blocks", s[i] * 1e3, s[i] / one[i], bytes[i] / s[i] / 1e9,
				100 * bytes[i] / s[i] / read, macs[i] * n / s[i] / 1e9);
		}
	}
	k_close(ctx);
	print_cached(argc > 1 ? argv[1] : NULL, type);
	return 0;
}
