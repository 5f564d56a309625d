/* See columns.h. */
#include "kernels/format/columns.h"

#include <string.h>

#include "kernels/format/formats.h"

bool k_columns_fit(enum k_type type)
{
	const struct k_facts f = k_facts_of(type);

	return f.block == K_QBLOCK && f.number == K_NUM_F16 && f.subs == K_SUBS_NONE;
}

struct k_columns k_columns_of(const struct k_matrix *m)
{
	const struct k_facts f = k_facts_of(m->type);
	const bool short_codes = f.bits == 4 && f.book == K_BOOK_NONE;

	return (struct k_columns){ .w = m->data,
		.type = m->type,
		.n_rows = m->n_rows,
		.n_cols = m->n_cols,
		.bits = short_codes ? 4 : 8,
		.bias = short_codes ? f.bias : 0,
		.has_min = f.min_at >= 0 };
}

size_t k_columns_bytes(enum k_type type, int32_t n_rows, int32_t n_cols)
{
	const struct k_matrix m = { .type = type, .n_rows = n_rows, .n_cols = n_cols };
	const struct k_columns a = k_columns_of(&m);

	return (size_t)(n_cols / K_QBLOCK) * (k_columns_entries(&a) + K_QBLOCK * k_column_bytes(&a));
}

/* Block b of a row of the file becomes one output of 32 columns. */
static void put_block(
	const struct k_columns *a, enum k_type type, const uint8_t *from, int32_t row, uint8_t *to)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t i = row % K_STRIP;
	uint8_t code[K_QBLOCK], *column = to + k_columns_entries(a);
	int8_t value[K_QBLOCK];

	memcpy(to + (size_t)row * 2, from + f.at, 2);
	if (a->has_min)
		memcpy(to + (size_t)(k_columns_pad(a->n_rows) + row) * 2, from + f.min_at, 2);
	k_read_codes(type, from, 0, code);
	k_values(type, code, value);
	column += (row - i) * a->bits / 8 + k_column_at(a->bits, a->bits == 8 ? i : i % 32);
	for (int32_t k = 0; k < K_QBLOCK; k++, column += k_column_bytes(a))
		*column = a->bits == 8 ? (uint8_t)value[k] : (uint8_t)(*column | code[k] << i / 32 * 4);
}

/* The codes of 4 bits of a strip share bytes: these are cleared first. */
static void clear_strips(const struct k_columns *a, uint8_t *block, int32_t first, int32_t n)
{
	for (int32_t k = 0; k < K_QBLOCK; k++)
		memset(block + k_columns_entries(a) + (size_t)k * k_column_bytes(a) + first * a->bits / 8,
			0, (size_t)(k_columns_pad(n) * a->bits / 8));
}

void k_columns_pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	const struct k_columns a = k_columns_of(m);
	const size_t file_block = (size_t)k_types[m->type].block_bytes;
	const int32_t n_blocks = m->n_cols / K_QBLOCK, pad = k_columns_pad(n);

	for (int32_t b = 0; b < n_blocks; b++) {
		uint8_t *block = (uint8_t *)m->data + (k_columns_block(&a, b) - a.w);
		uint16_t *entry = (uint16_t *)(void *)block + first;

		clear_strips(&a, block, first, n);
		for (int32_t kind = 0; kind <= a.has_min; kind++, entry += k_columns_pad(m->n_rows))
			memset(entry + n, 0, (size_t)(pad - n) * sizeof *entry);
		for (int32_t row = 0; row < n; row++)
			put_block(&a, m->type, (const uint8_t *)raw + (size_t)(row * n_blocks + b) * file_block,
				first + row, block);
	}
}
