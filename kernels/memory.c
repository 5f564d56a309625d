/* Memory of the back ends: on a CPU all of it is mapped from the system and untouched until it is
 * used, so that large budgets cost nothing before. Thread: the engine's. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "kernels/context.h"

struct k_block {
	struct k_block *next;
	void *data;
	size_t bytes;
	enum k_memory where;
};

static void *map(size_t bytes, enum k_memory where, const char *what, struct err *e)
{
	/* weights are all used: better to fail at once if there is no room */
	const int lazy = where == K_WEIGHTS ? 0 : MAP_NORESERVE;
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | lazy, -1, 0);

	if (p == MAP_FAILED) {
		err_no_memory(e, "%zu MB of %s", bytes >> 20, what);
		return NULL;
	}
	/* large pages save about a tenth of a memory-bound step; without them it is only slower. What
	 * is used in part, here and there, would take more memory. */
	if (where == K_WEIGHTS || where == K_PAGES)
		madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

void *k_alloc(struct k_ctx *ctx, size_t bytes, enum k_memory where, const char *what, struct err *e)
{
	struct k_block *b = malloc(sizeof *b);

	if (!b) {
		err_no_memory(e, "%s", what);
		return NULL;
	}
	bytes += !bytes; /* so that 0 bytes have an address too */
	*b = (struct k_block){ .next = ctx->blocks, .bytes = bytes, .where = where };
	b->data = ctx->device ? ctx->device->alloc(ctx->device, bytes, where, what, e)
						  : map(bytes, where, what, e);
	if (!b->data) {
		free(b);
		return NULL;
	}
	ctx->blocks = b;
	return b->data;
}

void k_free(struct k_ctx *ctx, void *p)
{
	struct k_block **at = ctx ? &ctx->blocks : NULL, *b;

	if (!p || !at)
		return;
	while (*at && (*at)->data != p)
		at = &(*at)->next;
	b = *at;
	if (!b)
		return;
	*at = b->next;
	if (ctx->device)
		ctx->device->free(ctx->device, p, b->where);
	else
		munmap(p, b->bytes);
	free(b);
}

void k_free_all(struct k_ctx *ctx)
{
	while (ctx->blocks)
		k_free(ctx, ctx->blocks->data);
}

bool k_is_host(const struct k_ctx *ctx)
{
	return !ctx->device;
}

int k_upload(struct k_ctx *ctx, void *to, const void *from, size_t bytes, struct err *e)
{
	if (ctx->device)
		return ctx->device->upload(ctx->device, to, from, bytes, e);
	memcpy(to, from, bytes);
	return 0;
}

int k_fetch(struct k_ctx *ctx, void *to, const void *from, size_t bytes, struct err *e)
{
	if (ctx->device)
		return ctx->device->fetch(ctx->device, to, from, bytes, e);
	memcpy(to, from, bytes);
	return 0;
}

void k_copy(struct k_ctx *ctx, void *to, const void *from, size_t bytes)
{
	if (ctx->device)
		ctx->device->copy(ctx->device, to, from, bytes);
	else
		memcpy(to, from, bytes);
}
