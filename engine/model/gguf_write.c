/* See gguf_write.h. */
#include "engine/model/gguf_write.h"

#include "base/array.h"
#include "engine/model/gguf_private.h"

enum { AT_TENSORS = 8, AT_PAIRS = 16 }; /* the counts, which are known at the end */

static void put(struct gguf_head *h, const void *data, size_t size)
{
	if (h->failed || !ARRAY_ROOM(h->data, h->cap, h->size + size)) {
		h->failed = true;
		return;
	}
	memcpy(h->data + h->size, data, size);
	h->size += size;
}

static void put_u32(struct gguf_head *h, uint32_t v)
{
	put(h, &v, sizeof v);
}

static void put_u64(struct gguf_head *h, uint64_t v)
{
	put(h, &v, sizeof v);
}

static void put_text(struct gguf_head *h, const char *text)
{
	put_u64(h, strlen(text));
	put(h, text, strlen(text));
}

static void begin_pair(struct gguf_head *h, const char *key, enum gguf_value type)
{
	put_text(h, key);
	put_u32(h, (uint32_t)type);
	h->n_pairs++;
}

void gguf_head_begin(struct gguf_head *h, size_t align)
{
	*h = (struct gguf_head){ .align = align };
	put(h, "GGUF\3\0\0\0", 8);
	put_u64(h, 0);
	put_u64(h, 0);
}

void gguf_head_copy(struct gguf_head *h, const struct gguf_pair *pair)
{
	put(h, pair->bytes, pair->size);
	h->n_pairs++;
}

void gguf_head_text(struct gguf_head *h, const char *key, const char *value)
{
	begin_pair(h, key, GGUF_STRING);
	put_text(h, value);
}

void gguf_head_u32(struct gguf_head *h, const char *key, uint32_t value)
{
	begin_pair(h, key, GGUF_U32);
	put_u32(h, value);
}

void gguf_head_f32(struct gguf_head *h, const char *key, float value)
{
	begin_pair(h, key, GGUF_F32);
	put(h, &value, sizeof value);
}

void gguf_head_bool(struct gguf_head *h, const char *key, bool value)
{
	const uint8_t byte = value;

	begin_pair(h, key, GGUF_BOOL);
	put(h, &byte, sizeof byte);
}

size_t gguf_tensor_bytes(const struct gguf_tensor *t, enum k_type type)
{
	size_t blocks = (size_t)(t->dim[0] / k_types[type].block);

	for (int32_t i = 1; i < t->n_dims; i++)
		blocks *= (size_t)t->dim[i];
	return blocks * (size_t)k_types[type].block_bytes;
}

uint64_t gguf_head_tensor(struct gguf_head *h, const struct gguf_tensor *like, enum k_type type)
{
	const uint64_t at = h->offset;

	put_text(h, like->name);
	put_u32(h, (uint32_t)like->n_dims);
	for (int32_t i = 0; i < like->n_dims; i++)
		put_u64(h, (uint64_t)like->dim[i]);
	put_u32(h, (uint32_t)k_types[type].gguf_id);
	put_u64(h, at);
	h->n_tensors++;
	h->offset = gguf_aligned(at + gguf_tensor_bytes(like, type), h->align);
	return at;
}

int gguf_head_end(struct gguf_head *h, struct err *e)
{
	static const uint8_t zeros[64];

	while (!h->failed && h->size % h->align) {
		const size_t left = h->align - h->size % h->align;

		put(h, zeros, left < sizeof zeros ? left : sizeof zeros);
	}
	if (h->failed)
		return err_no_memory(e, "the head of a file");
	memcpy(h->data + AT_TENSORS, &h->n_tensors, sizeof h->n_tensors);
	memcpy(h->data + AT_PAIRS, &h->n_pairs, sizeof h->n_pairs);
	return 0;
}

void gguf_head_free(struct gguf_head *h)
{
	free(h->data);
	h->data = NULL;
}
