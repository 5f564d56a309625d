/* The CUDA Driver API for kernels/cuda, on the shim: what a GPU's driver would do, in the strictest
 * reading of its manual, so that the host's mistakes show.
 *
 * - A stream is a queue that runs when somebody waits for it, and not before: who reads a result
 * too early reads what was there. Host memory that is not pinned is read at the call (the manual:
 *   staged before the call returns), pinned memory when the copy runs.
 * - A kernel that fails (the checker's report goes to stderr) makes every later call fail, as a
 * fault does on a GPU. Calls without a current context, ranges outside an allocation,
 * launches that do not fit, waiting inside a capture: errors, by the manual's numbers.
 *
 * The environment: CUTAWAY_SHIM_MULTIPROCESSORS (4), CUTAWAY_SHIM_MEMORY (bytes, 4 GiB),
 * CUTAWAY_SHIM_CAPABILITY (90), CUTAWAY_SHIM_VERSION (13000), CUTAWAY_SHIM_DEVICES (1),
 * CUTAWAY_SHIM_SEED (0: in order), CUTAWAY_SHIM_FAIL: calls that fail, like
 * `cuMemAlloc_v2:3=2,cuStreamSynchronize:7=719!`: the third and the seventh call of these names
 * give these results; after `!` every later call of any does. CUTAWAY_SHIM_CALLS: a file that gets
 * a line for each function with the number of its calls, when the library goes.
 * CUTAWAY_SHIM_FREEZE: freeze.c. Thread: any; one lock for all. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/cuda/driver.h"
#include "tests/cuda/shim/check.h"
#include "tests/cuda/shim/device.h"
#include "tests/cuda/shim/freeze.h"

#pragma GCC visibility push(default)
#define X(name, symbol, parameters) CUresult symbol parameters;
CU_FUNCTIONS(X)
#undef X
#pragma GCC visibility pop

enum { /* CUresult, those that driver.h need not tell apart */
	INVALID_VALUE = 1,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	INVALID_HANDLE = 400,
	NOT_FOUND = 500,
	CAPTURE_UNSUPPORTED = 900,
	CAPTURE_INVALIDATED = 901,
	CAPTURE_UNMATCHED = 903,
};
enum {
	SHARED_WITHOUT_ASKING = 48 << 10,
	SHARED_OPTIN = 227 << 10,
	THREADS_A_MULTIPROCESSOR = 2048
};

enum kind { KERNEL, COPY, FILL, EVENT };

struct command {
	struct command *next;
	enum kind kind;
	/* KERNEL */
	const struct shim_kernel *kernel;
	int n_blocks, n_threads;
	size_t shared;
	bool early;
	void *args[8];
	_Alignas(16) unsigned char values[1536];
	/* COPY, FILL */
	void *to;
	const void *from;
	void *staged; /* owned: what a pageable source held */
	size_t bytes;
	unsigned char byte;
	/* EVENT */
	struct cu_event *event;
};

struct queue {
	struct command *first, **last;
};

struct cu_context {
	int users;
};
struct cu_function {
	const struct shim_kernel *kernel;
	struct cu_function *next;
	int max_dynamic;
};
struct cu_module {
	struct cu_function *functions;
	struct cu_module *next;
};
struct cu_stream {
	struct queue queue;
	struct cu_graph *capture; /* commands go there */
	bool spoilt;              /* something was done that a capture must not see */
	struct cu_stream *next;
};
struct cu_event {
	bool done;
	uint64_t ns;
	int waiting; /* commands that will note it */
};
struct cu_graph {
	struct queue queue;
};
struct cu_graph_exec {
	struct queue queue;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool started;
static struct cu_context primary;
static __thread struct cu_context *current;
static struct cu_stream *streams;
static CUresult sticky;
static int n_open; /* objects that somebody must close */
static uint64_t n_launches;
static size_t device_bytes; /* that the device has given out; pinned memory is the host's */

/* ---- what fails on purpose ---- */

static struct failure {
	char name[48];
	int countdown;
	CUresult result;
	bool for_ever;
} failures[8];
static bool failures_read;
static bool failed_on_purpose; /* the call that is being made */

/* How often each function was called since a plan was last made. */
static struct {
	char name[48];
	int n;
} calls[64];

static void count_call(const char *name)
{
	for (int i = 0; i < 64; i++) {
		if (!*calls[i].name)
			snprintf(calls[i].name, sizeof calls[i].name, "%s", name);
		if (strcmp(calls[i].name, name))
			continue;
		calls[i].n++;
		return;
	}
}

int shim_calls(const char *name)
{
	for (int i = 0; i < 64; i++)
		if (!strcmp(calls[i].name, name))
			return calls[i].n;
	return 0;
}

__attribute__((destructor)) static void tell_calls(void)
{
	const char *path = getenv("CUTAWAY_SHIM_CALLS");
	FILE *f = path ? fopen(path, "w") : NULL;

	for (int i = 0; f && i < 64 && *calls[i].name; i++)
		fprintf(f, "%s %d\n", calls[i].name, calls[i].n);
	if (f)
		fclose(f);
}

static bool plan_failures(const char *plan)
{
	memset(failures, 0, sizeof failures);
	memset(calls, 0, sizeof calls);
	failures_read = true;
	for (int i = 0; plan && *plan; i++) {
		struct failure *f = &failures[i];
		int n = 0;

		if (i == 8 || sscanf(plan, "%47[^:]:%d=%d%n", f->name, &f->countdown, &f->result, &n) != 3)
			return false;
		plan += n;
		if (*plan == '!') {
			f->for_ever = true;
			plan++;
		}
		plan += *plan == ',';
	}
	return true;
}

bool shim_fail(const char *plan)
{
	bool good;

	pthread_mutex_lock(&lock);
	good = plan_failures(plan);
	sticky = CU_OK;
	pthread_mutex_unlock(&lock);
	return good;
}

int shim_n_open(void)
{
	return n_open;
}

static CUresult enter(const char *name, bool in_context)
{
	pthread_mutex_lock(&lock);
	if (!failures_read && !plan_failures(getenv("CUTAWAY_SHIM_FAIL"))) {
		fprintf(stderr, "CUTAWAY_SHIM_FAIL is not understood\n");
		abort();
	}
	count_call(name);
	failed_on_purpose = false;
	if (sticky)
		return sticky;
	for (int i = 0; i < 8; i++) {
		struct failure *f = &failures[i];

		if (f->countdown && !strcmp(f->name, name) && !--f->countdown) {
			if (f->for_ever)
				sticky = f->result;
			failed_on_purpose = true;
			return f->result;
		}
	}
	if (!started && strcmp(name, "cuInit"))
		return NOT_INITIALIZED;
	return in_context && !current ? INVALID_CONTEXT : CU_OK;
}

static CUresult leave(CUresult r)
{
	pthread_mutex_unlock(&lock);
	return r;
}

/* Every call begins so; NEEDS: a context must be current. */
#define ENTER(name)                                                                                \
	CUresult r = enter(#name, false);                                                              \
	if (r)                                                                                         \
	return leave(r)
#define NEEDS(name)                                                                                \
	CUresult r = enter(#name, true);                                                               \
	if (r)                                                                                         \
	return leave(r)
/* What closes closes also where it fails, so that a test can see whether everything was closed that
 * the device lost took along. */
#define CLOSES(name)                                                                               \
	const CUresult why = enter(#name, true);                                                       \
	CUresult r = why;                                                                              \
	if (why && why != sticky && !failed_on_purpose)                                                \
	return leave(why)

static long long number(const char *name, long long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? atoll(text) : otherwise;
}
static int n_multiprocessors(void)
{
	return (int)number("CUTAWAY_SHIM_MULTIPROCESSORS", 4);
}
static size_t total_memory(void)
{
	return (size_t)number("CUTAWAY_SHIM_MEMORY", 4ll << 30);
}
static int blocks_that_fit(int threads, size_t shared)
{
	const int by_threads = THREADS_A_MULTIPROCESSOR / threads;
	const int by_shared = (int)((SHIM_MAX_SHARED) / (shared + 1024));

	return by_threads < by_shared ? by_threads : by_shared;
}

/* ---- queues ---- */

static void put(struct queue *q, struct command *c)
{
	if (!q->first)
		q->last = &q->first;
	c->next = NULL;
	*q->last = c;
	q->last = &c->next;
}

static void drop_command(struct command *c)
{
	if (c->kind == EVENT && c->event)
		c->event->waiting--;
	free(c->staged);
	free(c);
}

static void empty(struct queue *q)
{
	for (struct command *c = q->first, *next; c; c = next) {
		next = c->next;
		drop_command(c);
	}
	q->first = NULL;
}

static struct command *copy_command(const struct command *from)
{
	struct command *c = malloc(sizeof *c);

	if (!c)
		abort();
	*c = *from;
	for (int i = 0; c->kind == KERNEL && i < c->kernel->n_args; i++)
		c->args[i] = c->values + ((unsigned char *)from->args[i] - from->values);
	if (c->kind == EVENT)
		c->event->waiting++;
	return c;
}

static CUresult run_kernel(struct command *c)
{
	const uint64_t seed = (uint64_t)number("CUTAWAY_SHIM_SEED", 0);
	const struct shim_options o = {
		.seed = seed ? seed + 0x9e3779b97f4a7c15u * n_launches++ : 0,
		.resident = n_multiprocessors() * blocks_that_fit(c->n_threads, c->shared),
		.early = c->early,
	};

	if (shim_run(c->kernel, c->n_blocks, c->n_threads, c->shared, false, c->args, &o))
		return CU_OK;
	fprintf(stderr, "%s", shim_report());
	sticky = strstr(shim_report(), "nobody can go on") ? CU_ERROR_LAUNCH_TIMEOUT
													   : CU_ERROR_LAUNCH_FAILED;
	return sticky;
}

/* Zeros of whole pages come from the system when somebody looks. */
static void fill(unsigned char *p, int byte, size_t bytes)
{
	const size_t before = -(uintptr_t)p & 4095,
				 whole = bytes > before ? (bytes - before) & ~(size_t)4095 : 0;

	if (byte || whole < 1 << 20 || madvise(p + before, whole, MADV_DONTNEED)) {
		memset(p, byte, bytes);
		return;
	}
	memset(p, 0, before);
	memset(p + before + whole, 0, bytes - before - whole);
}

static CUresult run_command(struct command *c)
{
	switch (c->kind) {
	case KERNEL: return freeze_on() ? CU_OK : run_kernel(c);
	case COPY:
		memmove(c->to, c->staged ? c->staged : c->from, c->bytes);
		check_host_wrote(c->to, c->bytes);
		return CU_OK;
	case FILL:
		fill(c->to, c->byte, c->bytes);
		check_host_wrote(c->to, c->bytes);
		return CU_OK;
	case EVENT:
		c->event->ns = shim_now();
		c->event->done = true;
		return CU_OK;
	}
	abort();
}

static CUresult run_stream(struct cu_stream *s)
{
	CUresult r = CU_OK;

	while (s->queue.first) {
		struct command *c = s->queue.first;

		s->queue.first = c->next;
		r = r ? r : run_command(c);
		drop_command(c);
	}
	return r;
}

/* What the device must have done before memory goes, say. Not allowed while a capture is on. */
static CUresult run_all(void)
{
	CUresult r = CU_OK;

	for (struct cu_stream *s = streams; s; s = s->next) {
		if (s->capture) {
			s->spoilt = true;
			return CAPTURE_UNSUPPORTED;
		}
		r = r ? r : run_stream(s);
	}
	return r;
}

static bool capturing(void)
{
	for (struct cu_stream *s = streams; s; s = s->next)
		if (s->capture)
			return s->spoilt = true;
	return false;
}

static bool known_stream(const struct cu_stream *stream)
{
	for (const struct cu_stream *s = streams; s; s = s->next)
		if (s == stream)
			return true;
	return false;
}

/* To the stream's queue, or to the graph that it is being captured to. */
static CUresult ask(struct cu_stream *s, const struct command *c)
{
	if (!known_stream(s))
		return INVALID_HANDLE;
	put(s->capture ? &s->capture->queue : &s->queue, copy_command(c));
	return CU_OK;
}

static bool in_arena(const void *p)
{
	return shim_arena && (const unsigned char *)p >= shim_arena &&
		   (const unsigned char *)p < shim_arena + SHIM_ARENA_BYTES;
}

/* Is it one range of one allocation? */
static bool is_device(const void *p, size_t bytes)
{
	size_t held;
	ptrdiff_t at;

	return in_arena(p) && shim_find(p, &held, &at) && at >= 0 && (size_t)at <= held &&
		   bytes <= held - (size_t)at;
}

/* ---- the driver and its device ---- */

CUresult cuInit(unsigned flags)
{
	ENTER(cuInit);
	(void)flags;
	if (number("CUTAWAY_SHIM_DEVICES", 1) < 1)
		return leave(CU_ERROR_NO_DEVICE);
	started = true;
	return leave(CU_OK);
}

CUresult cuDriverGetVersion(int *version)
{
	*version = (int)number("CUTAWAY_SHIM_VERSION", 13000);
	return CU_OK;
}

static const struct {
	CUresult r;
	const char *name, *text;
} results[] = {
	{ CU_OK, "CUDA_SUCCESS", "no error" },
	{ INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CU_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CU_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ CU_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
		"no kernel image is available for execution on the device" },
	{ INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ CU_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ CU_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
		"an illegal memory access was encountered" },
	{ CU_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT",
		"the launch timed out and was terminated" },
	{ CU_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ CU_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
		"CUDA-capable device(s) is/are busy or unavailable" },
	{ CU_ERROR_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized" },
	{ 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
	{ CU_ERROR_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
		"system has unsupported display driver / cuda driver combination" },
	{ CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
		"operation not permitted when stream is capturing" },
	{ CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
		"operation failed due to a previous error during capture" },
	{ CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
		"the stream is not part of a capture sequence" },
};

CUresult cuGetErrorName(CUresult r, const char **name)
{
	for (size_t i = 0; i < sizeof results / sizeof *results; i++)
		if (results[i].r == r) {
			*name = results[i].name;
			return CU_OK;
		}
	*name = NULL;
	return INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult r, const char **text)
{
	for (size_t i = 0; i < sizeof results / sizeof *results; i++)
		if (results[i].r == r) {
			*text = results[i].text;
			return CU_OK;
		}
	*text = NULL;
	return INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *n)
{
	ENTER(cuDeviceGetCount);
	*n = (int)number("CUTAWAY_SHIM_DEVICES", 1);
	return leave(CU_OK);
}

CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
	ENTER(cuDeviceGet);
	if (ordinal < 0 || ordinal >= number("CUTAWAY_SHIM_DEVICES", 1))
		return leave(INVALID_DEVICE);
	*d = ordinal;
	return leave(CU_OK);
}

CUresult cuDeviceGetName(char *name, int cap, CUdevice d)
{
	ENTER(cuDeviceGetName);
	(void)d;
	snprintf(name, (size_t)cap, "shim on the CPU, for tests (no GPU)");
	return leave(CU_OK);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
	ENTER(cuDeviceTotalMem_v2);
	(void)d;
	*bytes = total_memory();
	return leave(CU_OK);
}

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice d)
{
	ENTER(cuDeviceGetAttribute);
	(void)d;
	switch (attribute) {
	case CU_ATTRIBUTE_MULTIPROCESSORS: *value = n_multiprocessors(); break;
	case CU_ATTRIBUTE_INTEGRATED: *value = 0; break;
	case CU_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; break;
	case CU_ATTRIBUTE_CAPABILITY_MAJOR:
		*value = (int)number("CUTAWAY_SHIM_CAPABILITY", 90) / 10;
		break;
	case CU_ATTRIBUTE_CAPABILITY_MINOR:
		*value = (int)number("CUTAWAY_SHIM_CAPABILITY", 90) % 10;
		break;
	case CU_ATTRIBUTE_MAX_SHARED_OPTIN: *value = SHARED_OPTIN; break;
	default: return leave(INVALID_VALUE);
	}
	return leave(CU_OK);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d)
{
	ENTER(cuDevicePrimaryCtxRetain);
	(void)d;
	primary.users++;
	*c = &primary;
	return leave(CU_OK);
}

static struct cu_module *modules; /* that are loaded */

static void free_module(struct cu_module *m)
{
	struct cu_module **at = &modules;

	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	for (struct cu_function *f = m->functions, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	free(m);
	n_open--;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice d)
{
	CLOSES(cuDevicePrimaryCtxRelease_v2);
	(void)d;
	if (!primary.users)
		return leave(INVALID_CONTEXT);
	if (!--primary.users && !why)
		r = run_all();
	while (!primary.users && modules) /* a context takes its modules with it */
		free_module(modules);
	return leave(r);
}

CUresult cuCtxSetCurrent(CUcontext c)
{
	ENTER(cuCtxSetCurrent);
	if (c && (c != &primary || !primary.users))
		return leave(INVALID_CONTEXT);
	current = c;
	return leave(CU_OK);
}

/* ---- modules ---- */

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
	NEEDS(cuModuleLoadData);
	if (!image) /* any will do: the kernels are here */
		return leave(INVALID_VALUE);
	*m = calloc(1, sizeof **m);
	n_open += *m != NULL;
	if (*m) {
		(*m)->next = modules;
		modules = *m;
	}
	return leave(*m ? CU_OK : CU_ERROR_OUT_OF_MEMORY);
}

CUresult cuModuleUnload(CUmodule m)
{
	CLOSES(cuModuleUnload);
	r = why ? why : run_all();
	if (r == CAPTURE_UNSUPPORTED)
		return leave(r);
	free_module(m);
	return leave(r);
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
	const struct shim_kernel *k = shim_kernel(name);

	NEEDS(cuModuleGetFunction);
	if (!k)
		return leave(NOT_FOUND);
	*f = calloc(1, sizeof **f);
	if (!*f)
		return leave(CU_ERROR_OUT_OF_MEMORY);
	(*f)->kernel = k;
	(*f)->next = m->functions;
	m->functions = *f;
	return leave(CU_OK);
}

CUresult cuFuncSetAttribute(CUfunction f, int attribute, int value)
{
	NEEDS(cuFuncSetAttribute);
	if (attribute == CU_FUNC_CARVEOUT && value >= 0 && value <= 100)
		return leave(CU_OK);
	if (attribute != CU_FUNC_MAX_DYNAMIC_SHARED || value < 0 || value > SHARED_OPTIN)
		return leave(INVALID_VALUE);
	f->max_dynamic = value;
	return leave(CU_OK);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(
	int *blocks, CUfunction f, int threads, size_t shared)
{
	NEEDS(cuOccupancyMaxActiveBlocksPerMultiprocessor);
	(void)f;
	if (threads < 1 || threads > SHIM_MAX_THREADS)
		return leave(INVALID_VALUE);
	*blocks = shared > SHARED_OPTIN ? 0 : blocks_that_fit(threads, shared);
	return leave(CU_OK);
}

static CUresult ask_kernel(CUfunction f, const struct cu_launch *how, void **args)
{
	const unsigned *grid = how->grid, *block = how->block, shared = how->shared;
	struct command c = { .kind = KERNEL,
		.kernel = f->kernel,
		.n_blocks = (int)grid[0],
		.n_threads = (int)block[0],
		.shared = shared,
		.early = how->n_attributes && how->attribute->value.on };
	const unsigned allowed =
		f->max_dynamic > SHARED_WITHOUT_ASKING ? (unsigned)f->max_dynamic : SHARED_WITHOUT_ASKING;
	size_t at = 0;

	if (!grid[0] || grid[0] > 1 << 16 || grid[1] != 1 || grid[2] != 1 || !block[0] ||
		block[0] > SHIM_MAX_THREADS || block[1] != 1 || block[2] != 1 || shared > allowed ||
		(f->kernel->n_args && !args))
		return INVALID_VALUE;
	for (int i = 0; i < f->kernel->n_args; i++) {
		const size_t bytes = f->kernel->arg_bytes[i];

		at = (at + 15) & ~(size_t)15;
		if (at + bytes > sizeof c.values)
			abort();
		c.args[i] = memcpy(c.values + at, args[i], bytes);
		at += bytes;
	}
	return ask(how->stream, &c);
}

/* A kernel that begins early begins here when the one before has ended, too: check.c. */
CUresult cuLaunchKernelEx(const struct cu_launch *how, CUfunction f, void **args, void **extra)
{
	NEEDS(cuLaunchKernelEx);
	if (extra || how->n_attributes > 1 ||
		(how->n_attributes && how->attribute->id != CU_LAUNCH_PROGRAMMATIC))
		return leave(INVALID_VALUE);
	return leave(ask_kernel(f, how, args));
}

/* ---- memory ---- */

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	NEEDS(cuMemGetInfo_v2);
	*total = total_memory();
	*free_bytes = device_bytes < *total ? *total - device_bytes : 0;
	return leave(CU_OK);
}

static CUresult allocate(void **p, size_t bytes)
{
	if (capturing())
		return CAPTURE_UNSUPPORTED;
	if (!bytes)
		return INVALID_VALUE;
	*p = shim_alloc(bytes);
	if (!*p)
		return CU_ERROR_OUT_OF_MEMORY;
	memset(*p, 0xcd, bytes < 1 << 20 ? bytes : 1 << 20); /* not zero, which would hide mistakes */
	n_open++;
	return CU_OK;
}

static CUresult release(void *p)
{
	CUresult r;

	if (!p)
		return CU_OK;
	r = sticky ? sticky : run_all(); /* freeing waits for the device */
	if (r == CAPTURE_UNSUPPORTED)
		return r;
	if (!in_arena(p) || !shim_free(p))
		return INVALID_VALUE;
	n_open--;
	return r;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes)
{
	void *q = NULL;

	NEEDS(cuMemAlloc_v2);
	r = device_bytes + bytes > total_memory() ? CU_ERROR_OUT_OF_MEMORY : allocate(&q, bytes);
	device_bytes += r ? 0 : bytes;
	*p = (CUdeviceptr)(uintptr_t)q;
	return leave(r);
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
	ptrdiff_t at = -1;
	size_t bytes = 0;

	CLOSES(cuMemFree_v2);
	if (is_device((void *)(uintptr_t)p, 0) && shim_find((void *)(uintptr_t)p, &bytes, &at) && !at)
		device_bytes -= bytes;
	r = release((void *)(uintptr_t)p);
	return leave(why ? why : r);
}

CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
	NEEDS(cuMemHostAlloc);
	if (flags & ~(unsigned)(CU_HOST_PORTABLE | CU_HOST_MAPPED))
		return leave(INVALID_VALUE);
	r = allocate(p, bytes);
	if (!r)
		check_host_wrote(*p, bytes); /* the host writes there as it likes */
	return leave(r);
}

CUresult cuMemFreeHost(void *p)
{
	CLOSES(cuMemFreeHost);
	r = release(p);
	return leave(why ? why : r);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *d, void *p, unsigned flags)
{
	NEEDS(cuMemHostGetDevicePointer_v2);
	if (flags || !is_device(p, 1))
		return leave(INVALID_VALUE);
	*d = (CUdeviceptr)(uintptr_t)p;
	return leave(CU_OK);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t n, CUstream s)
{
	struct command c = { .kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = n };

	NEEDS(cuMemcpyHtoDAsync_v2);
	if (!is_device(c.to, n) || (in_arena(from) && !is_device(from, n)))
		return leave(INVALID_VALUE);
	if (!in_arena(from) && known_stream(s) && !s->capture) {
		c.staged = malloc(n ? n : 1);
		if (!c.staged)
			return leave(CU_ERROR_OUT_OF_MEMORY);
		memcpy(c.staged, from, n);
	}
	return leave(ask(s, &c));
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t n, CUstream s)
{
	const struct command c = {
		.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = n
	};

	NEEDS(cuMemcpyDtoHAsync_v2);
	if (!is_device(c.from, n) || (in_arena(to) && !is_device(to, n)))
		return leave(INVALID_VALUE);
	return leave(ask(s, &c));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)
{
	const struct command c = {
		.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .bytes = n
	};

	NEEDS(cuMemcpyDtoDAsync_v2);
	if (!is_device(c.to, n) || !is_device(c.from, n))
		return leave(INVALID_VALUE);
	return leave(ask(s, &c));
}

CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char byte, size_t n, CUstream s)
{
	const struct command c = { .kind = FILL, .to = (void *)(uintptr_t)p, .byte = byte, .bytes = n };

	NEEDS(cuMemsetD8Async);
	if (!is_device(c.to, n))
		return leave(INVALID_VALUE);
	return leave(ask(s, &c));
}

/* ---- streams, graphs, events ---- */

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
	NEEDS(cuStreamCreate);
	(void)flags;
	*s = calloc(1, sizeof **s);
	if (!*s)
		return leave(CU_ERROR_OUT_OF_MEMORY);
	(*s)->next = streams;
	streams = *s;
	n_open++;
	return leave(CU_OK);
}

CUresult cuStreamDestroy_v2(CUstream s)
{
	CLOSES(cuStreamDestroy_v2);
	if (!known_stream(s))
		return leave(INVALID_HANDLE);
	if (why)
		empty(&s->queue);
	else
		r = run_stream(s);
	for (struct cu_stream **p = &streams; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	free(s);
	n_open--;
	return leave(r);
}

CUresult cuStreamSynchronize(CUstream s)
{
	NEEDS(cuStreamSynchronize);
	if (!known_stream(s))
		return leave(INVALID_HANDLE);
	if (s->capture) {
		s->spoilt = true;
		return leave(CAPTURE_UNSUPPORTED);
	}
	r = run_stream(s);
	return leave(r);
}

CUresult cuStreamBeginCapture_v2(CUstream s, int mode)
{
	NEEDS(cuStreamBeginCapture_v2);
	if (!known_stream(s) || s->capture || mode < 0 || mode > 2)
		return leave(INVALID_VALUE);
	s->capture = calloc(1, sizeof *s->capture);
	s->spoilt = false;
	n_open += s->capture != NULL;
	return leave(s->capture ? CU_OK : CU_ERROR_OUT_OF_MEMORY);
}

static void close_graph(struct cu_graph *g)
{
	empty(&g->queue);
	free(g);
	n_open--;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *g)
{
	CLOSES(cuStreamEndCapture);
	*g = NULL;
	if (!known_stream(s) || !s->capture)
		return leave(CAPTURE_UNMATCHED);
	if (!r && s->spoilt)
		r = CAPTURE_INVALIDATED;
	if (r)
		close_graph(s->capture);
	else
		*g = s->capture;
	s->capture = NULL;
	return leave(r);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *x, CUgraph g, unsigned long long flags)
{
	NEEDS(cuGraphInstantiateWithFlags);
	(void)flags;
	*x = calloc(1, sizeof **x);
	if (!*x)
		return leave(CU_ERROR_OUT_OF_MEMORY);
	for (const struct command *c = g->queue.first; c; c = c->next)
		put(&(*x)->queue, copy_command(c));
	n_open++;
	return leave(CU_OK);
}

CUresult cuGraphLaunch(CUgraphExec x, CUstream s)
{
	NEEDS(cuGraphLaunch);
	freeze_launches();
	for (const struct command *c = x->queue.first; c && !r; c = c->next)
		r = ask(s, c);
	return leave(r);
}

CUresult cuGraphExecDestroy(CUgraphExec x)
{
	CLOSES(cuGraphExecDestroy);
	empty(&x->queue);
	free(x);
	n_open--;
	return leave(r);
}

CUresult cuGraphDestroy(CUgraph g)
{
	CLOSES(cuGraphDestroy);
	close_graph(g);
	return leave(r);
}

CUresult cuEventCreate(CUevent *e, unsigned flags)
{
	NEEDS(cuEventCreate);
	(void)flags;
	*e = calloc(1, sizeof **e);
	n_open += *e != NULL;
	return leave(*e ? CU_OK : CU_ERROR_OUT_OF_MEMORY);
}

CUresult cuEventDestroy_v2(CUevent e)
{
	CLOSES(cuEventDestroy_v2);
	r = why ? why : run_all();
	if (e->waiting && !why) /* a graph still notes it */
		return leave(INVALID_HANDLE);
	free(e);
	n_open--;
	return leave(r);
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
	const struct command c = { .kind = EVENT, .event = e };

	NEEDS(cuEventRecord);
	e->done = false;
	return leave(ask(s, &c));
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
	NEEDS(cuEventElapsedTime);
	if (!start->done || !end->done)
		return leave(CU_ERROR_NOT_READY);
	*ms = (float)((double)(int64_t)(end->ns - start->ns) * 1e-6);
	return leave(CU_OK);
}
