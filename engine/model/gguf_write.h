/* Writer of the head of a GGUF file (version 3): metadata and descriptions of tensors, in memory.
 * The tensors' bytes follow it in the file, in the order of their descriptions, each at its offset.
 *
 * Order of calls: begin, then pairs, then tensors, then end. A failure (no memory) stays in
 * `failed`, and all calls after it do nothing. Thread: any one. */
#pragma once

#include "engine/model/gguf.h"

struct gguf_head {
	uint8_t *data; /* [size] malloc'd; of a multiple of `align` bytes after the end */
	size_t size, cap;
	uint64_t n_pairs, n_tensors;
	size_t align;
	uint64_t offset; /* of the next tensor, in the section after the head; at last its size */
	bool failed;
};

/* align: a power of two, that of the source's general.alignment, or GGUF_ALIGN. */
enum { GGUF_ALIGN = 32 };
void gguf_head_begin(struct gguf_head *h, size_t align);
/* A pair of another file, as it is there. */
void gguf_head_copy(struct gguf_head *h, const struct gguf_pair *pair);
void gguf_head_text(struct gguf_head *h, const char *key, const char *value);
void gguf_head_u32(struct gguf_head *h, const char *key, uint32_t value);
void gguf_head_f32(struct gguf_head *h, const char *key, float value);
void gguf_head_bool(struct gguf_head *h, const char *key, bool value);
/* A tensor of this name and shape in another type; returns its offset in the section. */
uint64_t gguf_head_tensor(struct gguf_head *h, const struct gguf_tensor *like, enum k_type type);
int gguf_head_end(struct gguf_head *h, struct err *e);
void gguf_head_free(struct gguf_head *h);

/* Bytes of a tensor of this shape in that type, whose block divides its rows. */
size_t gguf_tensor_bytes(const struct gguf_tensor *t, enum k_type type);
/* n raised to a multiple of align. */
static inline uint64_t gguf_aligned(uint64_t n, size_t align)
{
	return (n + align - 1) / align * align;
}
