/* What the library offers to shim_open(). */
#include <stdlib.h>

#include "tests/cuda/shim/check.h"
#include "tests/cuda/shim/device.h"

static void *alloc(size_t bytes)
{
	void *p = shim_alloc(bytes);

	if (!p)
		abort();
	return p;
}

static void release(void *p)
{
	if (p && !shim_free(p))
		abort();
}

static void written(void *p, size_t bytes)
{
	check_host_wrote(p, bytes);
}

static void unwritten(void *p, size_t bytes)
{
	check_alloc(p, bytes);
}

static bool launch(const char *kernel, int n_blocks, int n_threads, size_t shared, bool together,
	void **args, const struct shim_options *o)
{
	const struct shim_kernel *k = shim_kernel(kernel);

	if (k)
		return shim_run(k, n_blocks, n_threads, shared, together, args, o);
	shim_say_anew("there is no kernel %s\n", kernel);
	return false;
}

/* What dlopen() looks for. */
__attribute__((visibility("default"))) const struct shim *shim_offer(void);
const struct shim *shim_offer(void)
{
	static const struct shim offer = {
#ifdef SHIM_CHECKED
		.checked = true,
		.name = "checked",
#else
		.name = "fast",
#endif
		.alloc = alloc,
		.free = release,
		.put = shim_put,
		.written = written,
		.unwritten = unwritten,
		.launch = launch,
		.report = shim_report,
		.places = shim_places,
		.leave_out = shim_leave_out,
		.fail = shim_fail,
		.n_open = shim_n_open,
		.calls = shim_calls,
	};
#if defined(__x86_64__) && !defined(SHIM_CHECKED)
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return NULL;
#endif
	return &offer;
}
