/* Running a program, and measuring what the device can do.
 * See cuda.h. Thread: the engine's. */
#include <string.h>

#include "kernels/cuda/cuda.h"
#include "kernels/cuda/device.h"

static bool begins_early(const struct cu_device *c)
{
	return c->early && c->mode == CU_MODE_graph;
}

/* early: it may begin while the kernel before still runs, and waits itself (cu_follow). */
static CUresult launch(struct cu_device *c, CUfunction f, unsigned blocks, unsigned threads,
	unsigned shared, void **args, bool early)
{
	struct cu_launch_attribute programmatic = { CU_LAUNCH_PROGRAMMATIC, { .on = 1 } };
	const struct cu_launch how = { { blocks, 1, 1 }, { threads, 1, 1 }, shared, c->stream,
		early ? &programmatic : NULL, early };

	return c->d->launch(&how, f, args, NULL);
}

static CUresult launch_call(struct cu_device *c, struct cu_call *call, uint64_t *clock)
{
	const bool product = call->kind == K_OP_matmul || call->kind == K_OP_experts;
	CUfunction f = product         ? c->product[call->way][call->type]
				   : call->defined ? c->attend
				   : call->many    ? c->attention_many
								   : c->kernel[call->kind];
	void *args[] = { &call->arg };

	call->arg.clock = clock;
	return launch(c, f, (unsigned)call->blocks, CU_BLOCK_THREADS, (unsigned)call->shared_bytes,
		args, begins_early(c));
}

static CUresult launch_all(struct cu_device *c, const struct cu_program *g, bool timed)
{
	uint64_t *clock = timed && c->clock ? (uint64_t *)(uintptr_t)c->clocks.at : NULL;
	int32_t n = g->n_calls;
	void *args[] = { &c->clocks.at, &c->clock_host, &n };
	CUresult r = CU_OK;

	for (int32_t i = 0; i < g->n_calls && !r; i++)
		r = launch_call(c, &g->call[i], clock ? clock + i : NULL);
	return !r && clock ? launch(c, c->clock, 1, CU_BLOCK_THREADS, 0, args, begins_early(c)) : r;
}

static CUresult record(struct cu_device *c, struct cu_program *g, bool timed)
{
	CUgraph graph = NULL;
	CUresult r = c->d->capture_begin(c->stream, CU_CAPTURE_THREAD_LOCAL), end;

	if (r)
		return r;
	r = launch_all(c, g, timed);
	end = c->d->capture_end(c->stream, &graph);
	r = r ? r : end;
	if (!r)
		r = c->d->graph_make(&g->graph[timed], graph, 0);
	if (graph)
		c->d->graph_close(graph);
	return r;
}

/* A program that runs once is not worth recording as a graph. */
static CUresult start(struct cu_device *c, struct cu_program *g, bool timed)
{
	CUresult r = CU_OK;

	if (c->mode == CU_MODE_launches || !g->version)
		return launch_all(c, g, timed);
	if (!g->graph[timed])
		r = record(c, g, timed);
	return r ? r : c->d->graph_run(g->graph[timed], c->stream);
}

/* The time of a call is from its kernel's beginning to the next one's. */
static void read_clock(const struct cu_device *c, const struct cu_program *g, struct k_program *p)
{
	for (int32_t i = 0; i < p->n_ops; i++)
		p->op[i].ns = 0;
	for (int32_t i = 0; i < g->n_calls; i++)
		if (c->clock_host[i] && c->clock_host[i + 1] > c->clock_host[i])
			p->op[g->op[i]].ns += c->clock_host[i + 1] - c->clock_host[i];
}

static struct cu_program *prepare(
	struct cu_device *c, const struct k_program *p, size_t *bytes, struct err *e)
{
	struct cu_program *g;
	int grown;

	do {
		g = cu_lower(c, p, e);
		grown = g ? cu_gather(c, g, bytes, e) : -1;
	} while (grown > 0);
	return grown ? NULL : g;
}

static int launch_run(struct cu_device *c, struct k_program *p, struct err *e)
{
	struct cu_program *g;
	size_t bytes = 0;
	CUresult r = CU_OK;

	if (cu_use(c, e))
		return -1;
	g = prepare(c, p, &bytes, e);
	if (!g)
		return -1;
	if (p->timed)
		memset(c->clock_host, 0, (size_t)(g->n_calls + 1) * sizeof *c->clock_host);
	if (bytes)
		r = c->d->copy_in(c->input.at, c->input_host, bytes, c->stream);
	if (!r)
		r = start(c, g, p->timed);
	if (r)
		return cu_lose(c, r, "starting a step", e);
	if (cu_finish(c, CU_OK, "computing a step", e))
		return -1;
	if (p->timed)
		read_clock(c, g, p);
	return 0;
}

int cu_run(struct k_device *d, struct k_program *p, struct err *e)
{
	struct err own = { 0 };

	return launch_run((struct cu_device *)d, p, &own) ? err_set(e, own.code, "%s", own.text) : 0;
}

/* ---- the switch ---- */

static const char *const mode_names[] = {
#define X(name, doc) #name,
	CU_MODES(X)
#undef X
};

int cu_set_mode(struct k_device *d, const char *name, struct err *e)
{
	struct cu_device *c = (struct cu_device *)d;

	for (int i = 0; i < CU_N_MODES; i++)
		if (!strcmp(name, mode_names[i])) {
			if (c->mode != (enum cu_mode)i) /* graphs are recorded in one mode */
				cu_drop_programs(c);
			c->mode = (enum cu_mode)i;
			return 0;
		}
	return err_set(e, ERR_USAGE, "cuda-mode %s: launches or graph is needed", name);
}

const char *cu_get_mode(const struct k_device *d)
{
	return mode_names[((const struct cu_device *)d)->mode];
}

/* ---- measuring ---- */

/* Nanoseconds of a kernel over all processors, the best of some passes; 0: it could not be
 * timed. */
static double best_of(struct cu_device *c, CUfunction f, void **args)
{
	enum { PASSES = 6 };
	CUevent from = NULL, to = NULL;
	double best = 0;
	CUresult r = c->d->event_open(&from, 0);

	if (!r)
		r = c->d->event_open(&to, 0);
	for (int i = 0; i < PASSES && !r; i++) {
		float ms = 0;

		r = c->d->event_note(from, c->stream);
		if (!r)
			r = launch(c, f, (unsigned)(c->n_processors * 2), CU_BLOCK_THREADS, CU_SHARED_BYTES,
				args, false);
		if (!r)
			r = c->d->event_note(to, c->stream);
		if (!r)
			r = c->d->stream_wait(c->stream);
		if (!r)
			r = c->d->event_between(&ms, from, to);
		if (!r && ms > 0 && (!best || (double)ms * 1e6 < best))
			best = (double)ms * 1e6;
	}
	if (from)
		c->d->event_close(from);
	if (to)
		c->d->event_close(to);
	if (r)
		cu_lose(c, r, "measuring the device", NULL);
	return best;
}

/* The same of one whose operands are in `bytes` of room, at at[0] and, half way, at at[1]; 0 also
 * where there is no such kernel. */
static double best_in(
	struct cu_device *c, CUfunction f, size_t bytes, CUdeviceptr at[2], void **args)
{
	struct cu_room room = { 0 };
	double ns;

	if (!f || cu_use(c, NULL) || cu_grow_own(c, &room, bytes, "a measurement", NULL))
		return 0;
	at[0] = room.at;
	at[1] = room.at + bytes / 2;
	ns = best_of(c, f, args);
	if (!c->lost.code)
		c->d->memory_free(room.at);
	return ns;
}

/* Bandwidth counts bytes read and bytes written, of a copy that no cache can hold. */
double cu_measure_read(struct k_device *d, size_t bytes)
{
	struct cu_device *c = (struct cu_device *)d;
	CUdeviceptr at[2];
	uint64_t n = bytes & ~(uint64_t)4095;
	void *args[] = { &at[0], &at[1], &n };
	const double ns = best_in(c, c->copy, 2 * n, at, args);

	return ns > 0 ? 2 * (double)n * 1e9 / ns : 0;
}

double cu_measure_int(struct k_device *d)
{
	enum { ROUNDS = 4096, WARPS = CU_BLOCK_THREADS / 32, TILES = 8, EACH = 16 * 8 * 32 };
	struct cu_device *c = (struct cu_device *)d;
	CUdeviceptr at[2];
	int32_t rounds = ROUNDS;
	void *args[] = { &at[0], &rounds };
	const double ns = best_in(c, c->multiply, 4096, at, args);

	return ns > 0 ? (double)ROUNDS * WARPS * TILES * EACH * 2 * c->n_processors * 1e9 / ns : 0;
}
