/* See contexts.h. */
#include <stdlib.h>
#include <string.h>

#include "kernels/context.h"
#include "tests/support/contexts.h"

#ifdef __x86_64__
static const struct {
	const char *name;
	const struct k_isa *isa;
} emulated[] = { { "avx512 by SIMDe", &simde_isa }, { "avxvnni, emulated", &emulated_vnni_isa } };
enum { N_EMULATED = 2 };
#endif

static int add(struct contexts *all, const char *isa, int n_threads, struct err *e)
{
	struct k_ctx **more = realloc(all->ctx, (size_t)(all->n + 1) * sizeof *more);

	if (!more)
		return err_set(e, ERR_MEMORY, "no memory for a context");
	all->ctx = more;
	if (k_open(&all->ctx[all->n], "cpu", isa, n_threads, e))
		return -1;
	all->n++;
	return 0;
}

/* They need AVX2, whose context lends all but the products. */
static int add_emulated(struct contexts *all, const int *threads, int n, struct err *e)
{
#ifdef __x86_64__
	static struct k_isa named[N_EMULATED];

	for (int i = 0; i < N_EMULATED; i++) {
		named[i] = *emulated[i].isa;
		named[i].name = emulated[i].name;
		for (int t = 0; t < n; t++) {
			if (add(all, "avx2", threads[t], e))
				return -1;
			all->ctx[all->n - 1]->isa = &named[i];
		}
	}
#else
	(void)all, (void)threads, (void)n, (void)e;
#endif
	return 0;
}

int contexts_open(struct contexts *all, const int *threads, int n, bool scalar, struct err *e)
{
	bool avx2 = false;

	for (const char *const *isa = k_isas(); *isa; isa++) {
		avx2 = avx2 || !strncmp(*isa, "avx2", 4);
		for (int t = 0; t < n && (scalar || strcmp(*isa, "scalar")); t++)
			if (add(all, *isa, threads[t], e))
				return -1;
	}
	return avx2 ? add_emulated(all, threads, n, e) : 0;
}

void contexts_close(struct contexts *all)
{
	while (all->n > 0)
		k_close(all->ctx[--all->n]);
	free(all->ctx);
	all->ctx = NULL;
}
