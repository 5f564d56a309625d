/* Two blocks as one. See layer.h. Each normalises the stream for itself. */

#include "engine/run/forward.h"
#include "engine/model/model_tensors.h"

static void pair_load(struct model_loader *l, void *params)
{
	struct pair *a = params;

	a->first.kind->load(l, a->first.params);
	if (!l->e->code)
		a->second.kind->load(l, a->second.params);
}

static int block_memory(struct block *b, struct memory_specs *m, struct err *e)
{
	return b->kind->memory ? b->kind->memory(b->params, m, e) : 0;
}

static int pair_memory(void *params, struct memory_specs *m, struct err *e)
{
	struct pair *a = params;

	return block_memory(&a->first, m, e) || block_memory(&a->second, m, e) ? -1 : 0;
}

static void pair_need(const void *params, struct forward_needs *n)
{
	const struct pair *a = params;

	a->first.kind->need(a->first.params, n);
	a->second.kind->need(a->second.params, n);
}

static void pair_write(struct forward *f, const void *params)
{
	const struct pair *a = params;

	a->first.kind->write(f, a->first.params);
	a->second.kind->write(f, a->second.params);
}

static void pair_close(void *params)
{
	struct pair *a = params;

	block_free(&a->first);
	block_free(&a->second);
}

const struct block_kind layer_pair =
	BLOCK(pair, "pair", .memory = pair_memory, .close = pair_close);
