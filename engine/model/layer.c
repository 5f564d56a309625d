/* See layer.h. */
#include "engine/model/layer.h"

#include <stdlib.h>
#include <string.h>

void *block_set(struct block *b, const struct block_kind *kind)
{
	b->kind = kind;
	b->params = calloc(1, kind->size);
	return b->params;
}

/* The pointer that its parameters own. */
static void **owned_by(const struct block *b)
{
	return (void **)(void *)((char *)b->params + b->kind->owns);
}

static int block_like(struct block *b, const struct block *model)
{
	if (!model->kind)
		return 0;
	if (!block_set(b, model->kind))
		return -1;
	memcpy(b->params, model->params, model->kind->size);
	if (b->kind->owns)
		*owned_by(b) = NULL; /* the model's */
	return 0;
}

int layer_like(struct layer *l, const struct layer *model)
{
	return block_like(&l->mixer, &model->mixer) || block_like(&l->ffn, &model->ffn) ? -1 : 0;
}

void block_free(struct block *b)
{
	if (b->params && b->kind->close)
		b->kind->close(b->params);
	if (b->params && b->kind->owns)
		free(*owned_by(b));
	free(b->params);
	memset(b, 0, sizeof *b);
}

void layer_free(struct layer *l)
{
	block_free(&l->mixer);
	block_free(&l->ffn);
}
