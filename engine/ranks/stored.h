/* What an op stored in the pages of a cache, as bytes: for ranks that pass keys and values on. Ops
 * that store are rope (keys and values of its rows), encode (codes of the groups of 16 positions
 * that its rows end) and key_range (extents of those). Thread: any; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* Of positions first … end - 1 of one sequence, in layer `layer` of a memory group. */
struct stored {
	int32_t op, layer; /* op: K_OP_rope, K_OP_encode or K_OP_key_range */
	int32_t first, end;
};

/* Whether the op stores anything; then what of these positions, and where. */
bool stored_by(const struct k_op *op, int32_t first, int32_t end, struct stored *s,
	const struct k_kv **kv, const int32_t **pages);
/* Copies it from the pages to data (pack), or back; data NULL: counts alone. Returns the bytes. */
size_t stored_copy(
	const struct k_kv *kv, const int32_t *pages, const struct stored *s, uint8_t *data, bool pack);
/* The same of the keys and values of one group of 16 positions in a page. */
size_t stored_copy_group(
	const struct k_kv *kv, int32_t layer, int32_t page, int32_t group, uint8_t *data, bool pack);
