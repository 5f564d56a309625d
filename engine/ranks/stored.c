/* See stored.h. */
#include "engine/ranks/stored.h"

#include "engine/ranks/pack.h"

size_t stored_copy_group(
	const struct k_kv *kv, int32_t layer, int32_t page, int32_t group, uint8_t *data, bool pack)
{
	size_t n = 0;

	for (int32_t i = 0; i < 2 * kv->n_kv_heads; i++)
		n += pack_bytes(k_kv_group(kv, page, layer, i % 2, i / 2, group), data ? data + n : NULL,
			k_kv_group_bytes(kv, i % 2), pack);
	return n;
}

static size_t copy_extents(
	const struct k_kv *kv, int32_t layer, int32_t page, int32_t group, uint8_t *data, bool pack)
{
	size_t n = 0;

	for (int32_t h = 0; h < kv->n_kv_heads; h++)
		n += pack_bytes(k_kv_key_range_at(kv, page, layer, h, group), data ? data + n : NULL,
			k_kv_key_range_bytes(kv), pack);
	return n;
}

size_t stored_copy(
	const struct k_kv *kv, const int32_t *pages, const struct stored *s, uint8_t *data, bool pack)
{
	const int32_t in_page = kv->page_size / K_GROUP;
	/* codes and extents are of whole groups */
	const int32_t end = (s->op == K_OP_rope ? s->end + K_GROUP - 1 : s->end) / K_GROUP;
	size_t n = 0;

	for (int32_t g = s->first / K_GROUP; g < end; g++) {
		uint8_t *to = data ? data + n : NULL;

		n += s->op == K_OP_key_range
				 ? copy_extents(kv, s->layer, pages[g / in_page], g % in_page, to, pack)
				 : stored_copy_group(kv, s->layer, pages[g / in_page], g % in_page, to, pack);
	}
	return n;
}

bool stored_by(const struct k_op *op, int32_t first, int32_t end, struct stored *s,
	const struct k_kv **kv, const int32_t **pages)
{
	*s = (struct stored){ .op = (int32_t)op->kind, .first = first, .end = end };
	switch (op->kind) {
#define X(name)                                                                                    \
	case K_OP_##name:                                                                              \
		s->layer = op->u.name.layer;                                                               \
		*kv = op->u.name.kv;                                                                       \
		*pages = op->u.name.pages[0];                                                              \
		return true;
		X(rope)
		X(encode)
		X(key_range)
#undef X
	default: return false;
	}
}
