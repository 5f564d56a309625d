/* The tests' side of shim.h: finds the library beside the program, lays steps out. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/attend.h"
#include "kernels/cuda/tiles.h"
#include "tests/cuda/shim/shim.h"

enum { THREADS = 256 }; /* CU_THREADS of device.cuh */

static char path[4096]; /* of the library opened last */

const struct shim *shim_open(bool checked, const char **why)
{
	static char reason[512];
	const struct shim *(*offer)(void);
	const struct shim *s;
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
	const char *only = getenv("CUTAWAY_SHIM_ONLY"); /* "checked": the fast one is left aside */
	void *library;

	*why = "CUTAWAY_SHIM_ONLY asks for another build";
	if (only && strcmp(only, checked ? "checked" : "fast"))
		return NULL;
	path[n > 0 ? n : 0] = '\0';
	if (strrchr(path, '/'))
		strrchr(path, '/')[1] = '\0';
	strcat(path, checked ? "libcuda_shim_checked.so" : "libcuda_shim.so");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		snprintf(reason, sizeof reason, "%s", dlerror());
		*why = reason;
		return NULL;
	}
	*(void **)&offer = dlsym(library, "shim_offer");
	s = offer ? offer() : NULL;
	if (!s)
		*why = "this processor has not what the fast build of the shim needs";
	return s;
}

int shim_open_both(const struct shim *both[2])
{
	const char *why;
	int n = 0;

	for (int checked = 0; checked < 2; checked++) {
		both[n] = shim_open(checked, &why);
		if (both[n])
			n++;
		else
			printf("# the %s shim is not run here: %s\n", checked ? "checked" : "fast", why);
	}
	return n;
}

const struct shim *shim_use(const char **why)
{
	const struct shim *s = shim_open(false, why);

	if (s)
		setenv("CUTAWAY_CUDA_DRIVER", path, 1);
	return s;
}

void shim_step_open(const struct shim *s, struct shim_step *p, const struct shim_op *op, int n)
{
	uint32_t *zero = calloc(SHIM_TICKETS, sizeof *zero);

	if (!zero)
		abort();
	*p = (struct shim_step){ .op = op, .n = n };
	p->work.n_tickets = SHIM_TICKETS;
	p->work.ticket = s->alloc(SHIM_TICKETS * sizeof *zero);
	s->put(p->work.ticket, zero, SHIM_TICKETS * sizeof *zero);
	p->work.scratch_bytes = SHIM_SCRATCH_BYTES;
	p->work.scratch = s->alloc(SHIM_SCRATCH_BYTES);
	p->clock = s->alloc(((size_t)n + 1) * sizeof *p->clock);
	free(zero);
}

void shim_step_close(const struct shim *s, struct shim_step *p)
{
	s->free(p->work.ticket);
	s->free(p->work.scratch);
	s->free(p->clock);
}

static bool tickets_are_zero(const struct shim_step *p)
{
	for (int i = 0; i < SHIM_TICKETS; i++)
		if (p->work.ticket[i]) {
			fprintf(stderr, "# ticket %d is %u after the op\n", i, p->work.ticket[i]);
			return false;
		}
	return true;
}

static bool launch_product(const struct shim *s, struct cu_product *a, enum k_type type,
	int32_t plan, int n_blocks, const struct shim_options *o)
{
	static const char *const types[] = {
#define X(name, ...) #name,
		K_TYPES(X)
#undef X
	};
	static const char *const ways[] = {
#define X(name) #name,
		CU_WAYS(X)
#undef X
	};
	const bool floats = cu_is_float((int32_t)type), one = a->n == 1 && !a->w;
	const enum cu_way way = plan >> 4 == 0              ? one ? CU_one : CU_few
							: plan >> 4 == 2 && !floats ? CU_wide2
														: CU_wide8;
	void *args[] = { a };
	char name[64];

	cu_plan_as(a, type, way, plan & 15);
	snprintf(name, sizeof name, "cutaway_%s_%s", ways[way], types[type]);
	return s->launch(name, n_blocks, THREADS, (size_t)a->shared_bytes, false, args, o);
}

static bool launch_matmul(const struct shim *s, const struct shim_op *p, uint64_t *clock,
	int n_blocks, const struct shim_options *o)
{
	const struct k_matmul *a = &p->op.u.matmul;
	struct cu_product product;

	for (int32_t part = 0; part < a->n_parts;) {
		const enum k_type type = a->part[part].w->type;

		part = cu_product_run(a, part, p->folds ? &p->before.u.norm : NULL,
			p->joins ? &p->after.u.glu : NULL, &product);
		product.clock = clock;
		if (!launch_product(s, &product, type, p->plan, n_blocks, o))
			return false;
	}
	return true;
}

/* In device memory. */
static struct cu_tiles *tiles_open(
	const struct shim *s, const struct shim_step *p, const struct k_attention *a)
{
	const struct cu_masks masks = cu_masks_of(a);
	struct cu_tiles t = { 0 };
	struct cu_tile *tile;
	struct cu_tiles *to = s->alloc(sizeof t);
	int32_t *record = s->alloc((size_t)a->n * sizeof *record);

	t.split = cu_tiles_split(&masks, &p->work, &t.n);
	tile = s->alloc((size_t)t.n * sizeof *tile);
	t.tile = tile;
	t.record = record;
	cu_tiles_make(&masks, &t, tile, record);
	s->written(tile, (size_t)t.n * sizeof *tile);
	s->written(record, (size_t)a->n * sizeof *record);
	s->put(to, &t, sizeof t);
	return to;
}

static void tiles_close(const struct shim *s, struct cu_tiles *t)
{
	s->free((void *)t->tile);
	s->free((void *)t->record);
	s->free(t);
}

/* Attention by its definition. */
static bool launch_defined(const struct shim *s, struct shim_step *p, const struct shim_op *op,
	uint64_t *clock, int n_blocks, const struct shim_options *o)
{
	struct cu_stage stage = { .op = op->op, .work = p->work, .clock = clock };
	void *args[] = { &stage };
	bool good = true;

	for (; good && stage.phase < k_attend_passes(&op->op.u.attention); stage.phase++)
		good = s->launch("cutaway_attend", n_blocks, THREADS, K_ROOM_BYTES, false, args, o);
	return good;
}

static bool launch_stage(const struct shim *s, struct shim_step *p, const struct shim_op *op,
	uint64_t *clock, int n_blocks, const struct shim_options *o)
{
	static const char *const names[K_N_KINDS] = {
#define X(name, ...) [K_OP_##name] = "cutaway_" #name,
		K_SINGLES(X)
#undef X
	};
	struct cu_stage stage = { .op = op->op, .phase = op->phase, .work = p->work, .clock = clock };
	void *args[] = { &stage };

	return s->launch(
		names[op->op.kind], n_blocks, THREADS, (size_t)cu_op_shared(op->op.kind), false, args, o);
}

static bool launch_attention(const struct shim *s, struct shim_step *p, const struct shim_op *op,
	uint64_t *clock, int n_blocks, const struct shim_options *o)
{
	const struct k_attention *a = &op->op.u.attention;
	const struct cu_masks masks = cu_masks_of(a);
	struct cu_attention arg = cu_attention_of(&masks, a, op->folds ? &op->before.u.rope : NULL);
	struct cu_tiles *tiles = tiles_open(s, p, a);
	void *args[] = { &arg };
	bool good;

	arg.clock = clock;
	arg.tiles = tiles;
	arg.ticket = p->work.ticket;
	arg.scratch = p->work.scratch;
	good = s->launch("cutaway_attention", n_blocks, THREADS, CU_SHARED_BYTES, false, args, o) &&
		   s->launch("cutaway_attention_many", n_blocks, THREADS, CU_SHARED_BYTES, false, args, o);
	tiles_close(s, tiles);
	return good;
}

bool shim_step_one(
	const struct shim *s, struct shim_step *p, int i, int n_blocks, const struct shim_options *o)
{
	const struct shim_op *op = &p->op[i];
	uint64_t *clock = p->clock + i;
	struct cu_product product;
	bool good;

	if (op->op.kind == K_OP_matmul) {
		good = launch_matmul(s, op, clock, n_blocks, o);
	} else if (op->op.kind == K_OP_experts) {
		cu_product_experts(&op->op.u.experts, op->op.u.experts.w, &product);
		good = launch_product(s, &product, op->op.u.experts.w->type, 0, n_blocks, o);
	} else if (op->op.kind == K_OP_attention && !cu_attends_fast(&op->op.u.attention)) {
		good = launch_defined(s, p, op, clock, n_blocks, o);
	} else if (op->op.kind == K_OP_attention) {
		good = launch_attention(s, p, op, clock, n_blocks, o);
	} else {
		good = launch_stage(s, p, op, clock, n_blocks, o);
	}
	return good && tickets_are_zero(p);
}

bool shim_step_all(
	const struct shim *s, struct shim_step *p, int n_blocks, const struct shim_options *o)
{
	struct shim_options early = o ? *o : (struct shim_options){ 0 };

	early.early = true;
	for (int i = 0; i < p->n; i++)
		if (!shim_step_one(s, p, i, n_blocks, &early))
			return false;
	return true;
}
