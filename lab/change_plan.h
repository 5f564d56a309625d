/* What becomes of each tensor of a model file that is written again with changes, and the head of
 * the result. Thread: any one; constant once made. */
#ifndef CUTAWAY_LAB_CHANGE_PLAN_H
#define CUTAWAY_LAB_CHANGE_PLAN_H

#include "engine/model/gguf_write.h"
#include "engine/model/form.h"

struct change_tensor {
	const struct gguf_tensor *from;
	struct gguf_tensor to;  /* name, type, shape and bytes in the result; no data */
	char name[64];          /* to.name, where it is another one than from->name */
	bool changed;           /* else its bytes are copied */
	struct quant_form form; /* of a rounded one: what it is rounded to */
	int32_t layer;          /* of the source; -1: of none */
	uint64_t offset;        /* in the section of tensors */
};

struct change_plan {
	struct change_tensor *tensor; /* [n] those of no layer, then by layer */
	int32_t n;
	struct gguf_head head;
};

/* Every tensor as it is in the source, in the order of the result. */
int change_plan_open(struct change_plan *p, const struct gguf *g, struct err *e);
/* Begins the head with the source's pairs, but for those whose key begins with `own` and the
 * `replaced` ones (ends with NULL); the caller adds its pairs, then ends it. */
int change_plan_head(struct change_plan *p, const struct gguf *g, const char *own,
	const char *const *replaced, struct err *e);
/* Sets the tensors' offsets and bytes, and ends the head. Returns the bytes of the
 * whole result; 0 after an error. */
int64_t change_plan_end(struct change_plan *p, struct err *e);
void change_plan_free(struct change_plan *p);

/* How many tensors from the i-th on are of the same layer (or of none) as it. */
int32_t change_plan_layer(const struct change_plan *p, int32_t i);

/* blk.N.…: N; -1: of no layer. */
int32_t change_layer_of(const char *name);
/* The matrix of a product; not a small one that decides much or must be floats: a router's, those
 * of a recurrence. */
bool change_is_matrix(const struct gguf_tensor *t);
/* general.file_type as llama.cpp numbers it. */
uint32_t change_file_type(enum k_type type);
#define CHANGE_FILE_TYPE_KEY "general.file_type"

#endif
