/* The kernels of kernels/cuda compiled for the shim, and a table of them by name. A kernel is
 * called with its arguments taken from the array of pointers that a launch is
 * given. */
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "kernels/cuda/kernels.cu"
#include "tests/cuda/shim/samples.cuh"

typedef void shim_entry(void **args);
struct shim_kernel {
	const char *name;
	shim_entry *entry;
	int n_args;
	size_t arg_bytes[8];
};

/* The arguments lie with the host, of which the checker knows nothing. */
#define UNSEEN __attribute__((no_sanitize("thread"), noinline))

template <auto kernel> struct call;
template <class... A, void (*kernel)(A...)> struct call<kernel> {
	template <size_t... I> UNSEEN static void take(void **args, std::index_sequence<I...>)
	{
		kernel(*(typename std::remove_cv<A>::type *)args[I]...);
	}
	UNSEEN static void entry(void **args)
	{
		take(args, std::index_sequence_for<A...>());
	}
	static constexpr shim_kernel as(const char *name)
	{
		return { name, entry, (int)sizeof...(A), { sizeof(A)... } };
	}
};
#define KERNEL(name) call<name>::as(#name),

static const struct shim_kernel kernels[] = {
#define X(name, ...) KERNEL(cutaway_##name)
	K_NO_PRODUCTS(X)
#undef X
#define X(name, ...)                                                                               \
	KERNEL(cutaway_one_##name)                                                                     \
	KERNEL(cutaway_few_##name) KERNEL(cutaway_wide2_##name) KERNEL(cutaway_wide8_##name)
		K_TYPES(X)
#undef X
			KERNEL(cutaway_attention_many) KERNEL(cutaway_attend) KERNEL(cutaway_clock)
				KERNEL(cutaway_copy) KERNEL(cutaway_multiply) SAMPLE_KERNELS(KERNEL)
};

extern "C" const struct shim_kernel *shim_kernel(const char *name)
{
	for (const struct shim_kernel &k : kernels)
		if (!strcmp(k.name, name))
			return &k;
	return nullptr;
}
