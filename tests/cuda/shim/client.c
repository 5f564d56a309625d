/* The tests' side of shim.h: finds the library beside the program, lays steps out. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

void shim_step_open(const struct shim *s, struct shim_step *p, const struct cu_stage *stages, int n)
{
	struct cu_step step = {
		.n_stages = n, .n_tickets = SHIM_TICKETS, .scratch_bytes = SHIM_SCRATCH_BYTES
	};
	uint32_t *zero = calloc(SHIM_TICKETS, sizeof *zero);

	if (!zero)
		abort();
	p->n = n;
	p->stage = s->alloc((size_t)n * sizeof *p->stage);
	s->put(p->stage, stages, (size_t)n * sizeof *p->stage);
	step.stage = p->stage;
	step.barrier = s->alloc(2 * sizeof *step.barrier);
	s->put(step.barrier, zero, 2 * sizeof *step.barrier);
	step.ticket = s->alloc(SHIM_TICKETS * sizeof *step.ticket);
	s->put(step.ticket, zero, SHIM_TICKETS * sizeof *step.ticket);
	step.clock = s->alloc(((size_t)n + 1) * sizeof *step.clock);
	step.scratch = s->alloc(SHIM_SCRATCH_BYTES);
	p->step = s->alloc(sizeof *p->step);
	s->put(p->step, &step, sizeof step);
	free(zero);
}

void shim_step_close(const struct shim *s, struct shim_step *p)
{
	s->free(p->step->barrier);
	s->free(p->step->ticket);
	s->free(p->step->clock);
	s->free(p->step->scratch);
	s->free(p->stage);
	s->free(p->step);
}

static bool tickets_are_zero(const struct shim_step *p)
{
	for (int i = 0; i < SHIM_TICKETS; i++)
		if (p->step->ticket[i]) {
			fprintf(stderr, "# ticket %d is %u after the stage\n", i, p->step->ticket[i]);
			return false;
		}
	return true;
}

bool shim_step_stage(
	const struct shim *s, struct shim_step *p, int i, int n_blocks, const struct shim_options *o)
{
	static const char *const names[] = {
#define X(name, ...) "cutaway_" #name,
		K_KINDS(X)
#undef X
	};
	int32_t index = i;
	void *args[] = { &p->step, &index };

	return s->launch(
			   names[p->stage[i].op.kind], n_blocks, THREADS, CU_LAUNCH_BYTES, false, args, o) &&
		   tickets_are_zero(p);
}

bool shim_step_launches(
	const struct shim *s, struct shim_step *p, int n_blocks, const struct shim_options *o)
{
	for (int i = 0; i < p->n; i++)
		if (!shim_step_stage(s, p, i, n_blocks, o))
			return false;
	return true;
}

bool shim_step_walk(
	const struct shim *s, struct shim_step *p, int n_blocks, const struct shim_options *o)
{
	void *args[] = { &p->step };

	return s->launch("cutaway_walk", n_blocks, THREADS, CU_LAUNCH_BYTES, true, args, o) &&
		   tickets_are_zero(p);
}
