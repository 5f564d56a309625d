/* Growing bytes and the parts of a GGUF file. See tiny.h. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/tiny.h"

void bytes_put(struct bytes *b, const void *data, size_t size)
{
	if (b->cap - b->size < size) {
		b->cap = 2 * b->cap + size + 256;
		b->data = realloc(b->data, b->cap);
		if (!b->data)
			abort();
	}
	if (size)
		memcpy(b->data + b->size, data, size);
	b->size += size;
}

void bytes_u32(struct bytes *b, uint32_t v)
{
	bytes_put(b, &v, sizeof v);
}

void bytes_u64(struct bytes *b, uint64_t v)
{
	bytes_put(b, &v, sizeof v);
}

void bytes_pad(struct bytes *b, size_t align)
{
	while (b->size % align)
		bytes_put(b, "", 1);
}

void bytes_free(struct bytes *b)
{
	free(b->data);
	*b = (struct bytes){ 0 };
}

/* --- parts of the format --- */

void gguf_put_header(struct bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv)
{
	bytes_put(b, "GGUF", 4);
	bytes_u32(b, version);
	bytes_u64(b, n_tensors);
	bytes_u64(b, n_kv);
}

void gguf_put_string(struct bytes *b, const char *s, size_t size)
{
	bytes_u64(b, size);
	bytes_put(b, s, size);
}

void gguf_put_kv(struct bytes *b, const char *key, uint32_t type, const void *value, size_t size)
{
	gguf_put_string(b, key, strlen(key));
	bytes_u32(b, type);
	bytes_put(b, value, size);
}

void gguf_put_kv_u32(struct bytes *b, const char *key, uint32_t v)
{
	gguf_put_kv(b, key, 4, &v, sizeof v);
}

void gguf_put_kv_f32(struct bytes *b, const char *key, float v)
{
	gguf_put_kv(b, key, 6, &v, sizeof v);
}

void gguf_put_kv_bool(struct bytes *b, const char *key, bool v)
{
	gguf_put_kv(b, key, 7, v ? "\1" : "\0", 1);
}

void gguf_put_kv_text(struct bytes *b, const char *key, const char *v)
{
	gguf_put_kv(b, key, 8, NULL, 0);
	gguf_put_string(b, v, strlen(v));
}

void gguf_put_kv_array(struct bytes *b, const char *key, uint32_t item, uint64_t n)
{
	gguf_put_kv(b, key, 9, NULL, 0);
	bytes_u32(b, item);
	bytes_u64(b, n);
}

void gguf_put_tensor(struct bytes *b, const char *name, uint32_t n_dims, const uint64_t *dim,
	uint32_t type, uint64_t offset)
{
	gguf_put_string(b, name, strlen(name));
	bytes_u32(b, n_dims);
	for (uint32_t i = 0; i < n_dims; i++)
		bytes_u64(b, dim[i]);
	bytes_u32(b, type);
	bytes_u64(b, offset);
}
