/* The back ends: chooses kernels for this processor, or a device, and runs programs on the pool.
 * "ref" is the reference on any processor; "cpu" takes the best instruction set, whose bits are the
 * same. Thread: the engine's; the pool's threads run the ops that walk.c deals out. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/context.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/image.h"
#include "kernels/format/columns.h"
#include "kernels/format/formats.h"
#include "kernels/measure.h"
#include "kernels/pool.h"
#include "kernels/selfcheck.h"
#include "kernels/cpu/tiles.h"
#include "kernels/cpu/walk.h"

const struct k_isa k_isa_scalar = {
	.name = "scalar",
	.fn =
		{
#define X(name, ...) [K_OP_##name] = k_ref_##name,
			K_KINDS(X)
#undef X
		},
	.packed_bytes = k_ref_packed_bytes,
	.pack_unit = 1,
	.pack = k_ref_pack,
	.multiply = k_scalar_multiply,
	.fma = k_scalar_fma,
};

/* Best first. */
static const struct k_isa *const all_isas[] = {
#ifdef __x86_64__
	&k_isa_avx512,
	&k_isa_avxvnni,
	&k_isa_avx2,
#elif defined(__aarch64__)
	&k_isa_i8mm,
	&k_isa_neon,
#endif
	&k_isa_scalar,
};
enum { N_ISAS = sizeof all_isas / sizeof *all_isas };

static const struct k_isa *usable[N_ISAS];
static const char *usable_names[N_ISAS + 1];
static const char *unknown_limit; /* the value of CUTAWAY_ISA, if it names no kernels; or NULL */

/* The best instruction set that the environment allows: CUTAWAY_ISA can restrict it. */
static int first_allowed(void)
{
	const char *limit = getenv("CUTAWAY_ISA");

	if (!limit || !*limit)
		return 0;
	for (int i = 0; i < N_ISAS; i++)
		if (!strcmp(all_isas[i]->name, limit))
			return i;
	unknown_limit = limit;
	return 0;
}

static void find_usable(void)
{
	int n = 0;

	for (int i = first_allowed(); i < N_ISAS; i++) {
		if (!all_isas[i]->runs_here || all_isas[i]->runs_here()) {
			usable[n] = all_isas[i];
			usable_names[n++] = all_isas[i]->name;
		}
	}
}

const char *const *k_isas(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, find_usable);
	return usable_names;
}

static const struct k_isa *choose(const char *backend, const char *name, struct err *e)
{
	const char *const *names = k_isas();
	const bool ref = strcmp(backend, "ref") == 0;

	if (strchr(backend, ':')) {
		err_set(e, ERR_USAGE,
			"back end \"%s\": the number of a device is a GPU's; take it away, or choose \"cuda\"",
			backend);
		return NULL;
	}
	if (!ref && strcmp(backend, "cpu") != 0) {
		err_set(e, ERR_USAGE,
			"no back end \"%s\": there are \"cpu\", \"ref\", \"cuda\" and \"auto\"", backend);
		return NULL;
	}
	if (unknown_limit) {
		err_set(e, ERR_USAGE,
			"CUTAWAY_ISA=%s: there are no such kernels; \"%s\" are the best here, \"%s\" the "
			"plainest",
			unknown_limit, names[0], k_isa_scalar.name);
		return NULL;
	}
	if (ref)
		name = name ? name : k_isa_scalar.name;
	for (int i = 0; names[i]; i++)
		if ((!name || strcmp(name, names[i]) == 0) && (!ref || usable[i] == &k_isa_scalar))
			return usable[i];
	err_set(e, ERR_USAGE,
		"the back end \"%s\" has no kernels \"%s\" on this processor; its best are \"%s\"", backend,
		name, ref ? k_isa_scalar.name : names[0]);
	return NULL;
}

/* The number after the colon, 0 without; -1: not a number. */
static int device_number(const char *backend)
{
	const char *colon = strchr(backend, ':');
	char *end;
	long n;

	if (!colon)
		return 0;
	n = strtol(colon + 1, &end, 10);
	return colon[1] >= '0' && colon[1] <= '9' && !*end && n <= INT_MAX ? (int)n : -1;
}

/* Whether backend is `name`, with or without a device's number. */
static bool is_backend(const char *backend, const char *name)
{
	const size_t n = strlen(name);

	return !strncmp(backend, name, n) && (!backend[n] || backend[n] == ':');
}

static int open_device(struct k_ctx *ctx, const char *backend, const char *isa, struct err *e)
{
	const int n = device_number(backend);

	if (isa)
		return err_set(
			e, ERR_USAGE, "an instruction set (%s) is chosen for a CPU, not for a device", isa);
	if (n < 0)
		return err_set(e, ERR_USAGE,
			"back end \"%s\": a device is chosen by number, as in \"cuda:1\"", backend);
	ctx->backend = "cuda";
	ctx->isa = &cu_packing;
	ctx->device = cu_open(n, e);
	return ctx->device ? 0 : -1;
}

static int open_cpu(struct k_ctx *ctx, const char *backend, const char *isa, struct err *e)
{
	ctx->isa = choose(backend, isa, e);
	ctx->backend = strcmp(backend, "ref") == 0 ? "ref" : "cpu";
	return ctx->isa ? 0 : -1;
}

/* Opens kernels and checks their known answers. */
static int open_kernels(
	struct k_ctx *ctx, bool device, const char *backend, const char *isa, struct err *e)
{
	if (device ? open_device(ctx, backend, isa, e) : open_cpu(ctx, backend, isa, e))
		return -1;
	return k_selfcheck(ctx, e) || k_selfcheck_layout(ctx, ctx->layout, e) ? -1 : 0;
}

static void close_kernels(struct k_ctx *ctx)
{
	k_free_all(ctx);
	if (ctx->device)
		ctx->device->close(ctx->device);
	ctx->device = NULL;
}

/* Opens the device, or else the CPU, and records why. */
static int open_either(struct k_ctx *ctx, const char *backend, const char *isa, struct err *e)
{
	struct err why = { 0 };

	if (isa)
		snprintf(ctx->fallback, sizeof ctx->fallback,
			"an instruction set was chosen, which is the CPU's");
	else if (!open_kernels(ctx, true, backend, NULL, &why))
		return 0;
	else if (why.code == ERR_USAGE) /* a device that does not exist was requested */
		return err_set(e, why.code, "%s", why.text);
	else
		snprintf(ctx->fallback, sizeof ctx->fallback, "%s", why.text);
	close_kernels(ctx);
	return open_kernels(ctx, false, "cpu", isa, e);
}

int k_open(struct k_ctx **out, const char *backend, const char *isa, int n_threads, struct err *e)
{
	struct k_ctx *ctx = calloc(1, sizeof *ctx);
	int failed;

	*out = NULL;
	if (!ctx)
		return err_no_memory(e, "the back end");
	failed = k_pool_open(&ctx->pool, n_threads, e);
	if (!failed)
		failed = is_backend(backend, "auto")
					 ? open_either(ctx, backend, isa, e)
					 : open_kernels(ctx, is_backend(backend, "cuda"), backend, isa, e);
	if (failed) {
		k_close(ctx);
		return -1;
	}
	*out = ctx;
	return 0;
}

void k_close(struct k_ctx *ctx)
{
	if (!ctx)
		return;
	close_kernels(ctx);
	k_pool_close(ctx->pool);
	free(ctx);
}

const char *k_backend_name(const struct k_ctx *ctx)
{
	return ctx->backend;
}

const char *k_isa_name(const struct k_ctx *ctx)
{
	return ctx->device ? ctx->device->isa : ctx->isa->name;
}

const char *k_device_name(const struct k_ctx *ctx)
{
	return ctx->device ? ctx->device->name : "";
}

const char *k_fallback(const struct k_ctx *ctx)
{
	return ctx->fallback;
}

int k_set_mode(struct k_ctx *ctx, const char *mode, struct err *e)
{
	if (!ctx->device)
		return err_set(e, ERR_USAGE,
			"the back end \"%s\" has no cuda-mode: its threads walk the program", ctx->backend);
	return ctx->device->set_mode(ctx->device, mode, e);
}

const char *k_mode(const struct k_ctx *ctx)
{
	return ctx->device ? ctx->device->mode(ctx->device) : "";
}

int k_devices(struct k_device_info *out, int cap, struct err *e)
{
	return cu_devices(out, cap, e);
}

const char *k_cuda_build(void)
{
	return cu_image.archs;
}

int k_n_threads(const struct k_ctx *ctx)
{
	return k_pool_size(ctx->pool);
}

int k_thread_id(const struct k_ctx *ctx, int i)
{
	return k_pool_thread(ctx->pool, i);
}

uint64_t k_new_version(void)
{
	static atomic_ullong last;

	return atomic_fetch_add(&last, 1) + 1;
}

int k_run(struct k_ctx *ctx, struct k_program *p, struct err *e)
{
	if (ctx->device)
		return ctx->device->run(ctx->device, p, e);
	k_walk(ctx->pool, ctx->isa, p);
	return 0;
}

size_t k_packed_bytes(const struct k_ctx *ctx, enum k_type type, int32_t n_rows, int32_t n_cols)
{
	return ctx->isa->packed_bytes(type, n_rows, n_cols);
}

size_t k_matrix_bytes(const struct k_ctx *ctx, const struct k_matrix *m)
{
	const int32_t lanes = ctx->isa->pack_unit;

	return m->by_column ? k_columns_bytes(m->type, m->n_rows, m->n_cols)
		   : m->pairs   ? (size_t)k_pieces(m->n_rows, lanes) * k_pairs_tile_bytes(m, lanes)
						: k_packed_bytes(ctx, m->type, m->n_rows, m->n_cols);
}

/* ---- work of other kinds than a program's ---- */

struct dealing {
	k_task_fn *fn;
	void *arg;
	int64_t n;
	atomic_llong next;
};

static void take_tasks(void *arg, int tid, int n_threads, void *scratch)
{
	struct dealing *d = arg;
	int64_t i;

	(void)tid;
	(void)n_threads;
	while ((i = atomic_fetch_add_explicit(&d->next, 1, memory_order_relaxed)) < d->n)
		d->fn(d->arg, i, scratch);
}

void k_deal(struct k_ctx *ctx, int64_t n, k_task_fn *fn, void *arg)
{
	struct dealing d = { .fn = fn, .arg = arg, .n = n };

	k_pool_run(ctx->pool, take_tasks, &d);
}

int32_t k_pack_unit(const struct k_ctx *ctx)
{
	return ctx->isa->pack_unit;
}

void k_pack_rows(
	const struct k_ctx *ctx, struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	if (m->by_column)
		k_columns_pack(m, raw, first, n);
	else if (m->pairs)
		k_pairs_pack(m, ctx->isa->pack_unit, raw, first, n);
	else
		ctx->isa->pack(m, raw, first, n);
}

struct packing {
	const struct k_ctx *ctx;
	struct k_matrix *m;
	const uint8_t *raw;
	size_t row_bytes;
	int32_t unit;
};

static void pack(void *arg, int64_t i, void *scratch)
{
	const struct packing *p = arg;
	int32_t first = (int32_t)i * p->unit, left = p->m->n_rows - first;

	(void)scratch;
	k_pack_rows(p->ctx, p->m, p->raw + (size_t)first * p->row_bytes, first, k_min(left, p->unit));
}

void k_pack(struct k_ctx *ctx, struct k_matrix *m, const void *raw)
{
	struct packing p = { .ctx = ctx,
		.m = m,
		.raw = raw,
		.row_bytes = k_row_bytes((int32_t)m->type, m->n_cols),
		.unit = m->by_column ? K_STRIP : ctx->isa->pack_unit };

	k_deal(ctx, k_pieces(m->n_rows, p.unit), pack, &p);
}

bool k_keeps_pairs(const struct k_ctx *ctx, enum k_type type, int32_t n_cols)
{
	return ctx->isa->keeps_pairs && !k_is_quantised(type) && n_cols % K_QBLOCK == 0;
}

const char *k_layout_name(const struct k_ctx *ctx)
{
	return ctx->layout;
}
