/* The kernels of kernels/cuda compiled for the shim, and a table of them by name. A kernel is called
 * with its arguments taken from the array of pointers that a launch is given.
 *
 * Until kernels.cu is there, each body that is there has an entry point of its name. */
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#if __has_include("kernels/cuda/kernels.cu")
#include "kernels/cuda/kernels.cu"
#define HAS_KERNELS 1
#else
#define HAS_KERNELS 0
#pragma GCC diagnostic ignored "-Wunused-function"
#include "kernels/cuda/bodies.cuh"
#define BODY(name)                                                                                 \
	extern "C" void cutaway_##name(const struct cu_step *step, int32_t i)                          \
	{                                                                                              \
		const struct cu_part part = {step, &step->stage[i], cu_block(), cu_n_blocks(),             \
									 cu_shared_memory()};                                          \
                                                                                                   \
		cu_##name(&part);                                                                          \
	}
#if __has_include("kernels/cuda/embed.cuh")
#include "kernels/cuda/embed.cuh"
BODY(embed)
#define HAS_embed
#endif
#if __has_include("kernels/cuda/norm.cuh")
#include "kernels/cuda/norm.cuh"
BODY(norm)
#define HAS_norm
#endif
#if __has_include("kernels/cuda/matmul.cuh")
#include "kernels/cuda/matmul.cuh"
BODY(matmul)
#define HAS_matmul
#endif
#if __has_include("kernels/cuda/rope.cuh")
#include "kernels/cuda/rope.cuh"
BODY(rope)
#define HAS_rope
#endif
#if __has_include("kernels/cuda/attention.cuh")
#include "kernels/cuda/attention.cuh"
BODY(attention)
#define HAS_attention
#endif
#if __has_include("kernels/cuda/swiglu.cuh")
#include "kernels/cuda/swiglu.cuh"
BODY(swiglu)
#define HAS_swiglu
#endif
#if __has_include("kernels/cuda/stats.cuh")
#include "kernels/cuda/stats.cuh"
BODY(stats)
#define HAS_stats
#endif
#endif

#include "tests/cuda_shim/wrong.cuh"

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
		return {name, entry, (int)sizeof...(A), {sizeof(A)...}};
	}
};
#define KERNEL(name) call<name>::as(#name),

static const struct shim_kernel kernels[] = {
#if HAS_KERNELS
#define X(name) KERNEL(cutaway_##name)
	K_KINDS(X)
#undef X
	KERNEL(cutaway_walk)
#else
#ifdef HAS_embed
	KERNEL(cutaway_embed)
#endif
#ifdef HAS_norm
	KERNEL(cutaway_norm)
#endif
#ifdef HAS_matmul
	KERNEL(cutaway_matmul)
#endif
#ifdef HAS_rope
	KERNEL(cutaway_rope)
#endif
#ifdef HAS_attention
	KERNEL(cutaway_attention)
#endif
#ifdef HAS_swiglu
	KERNEL(cutaway_swiglu)
#endif
#ifdef HAS_stats
	KERNEL(cutaway_stats)
#endif
#endif
#define X(name) KERNEL(wrong_##name)
	WRONG_KERNELS(X)
#undef X
};

extern "C" const struct shim_kernel *shim_kernel(const char *name)
{
	for (const struct shim_kernel &k : kernels)
		if (!strcmp(k.name, name))
			return &k;
	return nullptr;
}
