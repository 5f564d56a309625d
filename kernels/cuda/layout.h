/* The bytes of a matrix on the GPU, by format, for C and CUDA alike. Private to kernels/cuda/.
 *
 * Rows come in tiles of 16, the rows of one tensor-core instruction; rows beyond the last are
 * zeros. A row of a tile is called (g, half): row g + 8 * half, g = 0 … 7.
 *
 * Quantised formats: columns come in pairs of blocks of 32. A tile has, one after the other,
 * - the codes of all pairs. A lane of a warp, g * 4 + t, owns four words of a block, those that
 *   cu_mma_k32 takes from it: word `half + 2 * j` holds four columns of row (g, half). The choice
 * of four is free, since integer sums have no order: columns 8 t + 4 j …, so that what a lane needs
 * of the activations is eight bytes in one piece. (Where sub-scales are for 16 columns: 16 j
 * + 4 t.) Four bits a weight: one 16-byte load a lane is a pair, its first block in the low halves
 * of bytes, the second in the high ones. (With a book: in the low and the high half of a word, as
 * cu_permute takes them.) Eight bits: two such loads. Two bits: 8 bytes a lane, a word a block,
 * byte c of word i at bits 8 c + 2 i.
 * - the bits above those. One: a word a lane and pair, that of byte c of word i of block b at
 *   bit 8 c + 4 b + i. Two: as above.
 * - the scales. Entry (g * 2 + half) * 2 + b of a pair is dw, or dw and minimum, as the file has
 * them. Of blocks of 256, once in four pairs, for each row (g * 2 + half) the two halves and the
 * words of sub-scales (formats.h), 8 or 16 bytes; where the words alone are 16 bytes, the rows'
 * scales, or scales and minima, follow those of the 16 rows. So a warp's loads are whole lines, in
 * one stream for each tile, and the bytes read are those of the file (except the last pair of an
 * odd number of blocks, which no known model has, and a line's end a tile).
 *
 * Codes that exceed their weights are stored so that unpacking is a mask and no subtraction: the
 * sign bit flipped and the code in the top bits of its byte, it is a signed byte, 16 times the
 * weight for four bits; dw is multiplied by cu_gain() for that, a power of two and so exact.
 *
 * Float formats: columns come in segments of 64 (docs/arithmetic.md, rule 6), two at a time; a lane
 * is (segment, row), lane = 16 * (segment % 2) + row, and 16 bytes of each lane follow one another
 * until the 64 columns are done. A last single segment has the 16 lanes that it needs. */
#pragma once

#include "kernels/format/formats.h"

enum {
	CU_TILE_ROWS = 16,
	CU_PAIR = 64,       /* columns of a pair of blocks */
	CU_SUPER_PAIRS = 4, /* pairs in a block of a K-quant */
	CU_SEGMENT = 64,    /* columns of a chain, of float weights */
	CU_LINE = 128,
};

K_INLINE bool cu_is_float(int32_t type)
{
	return !k_is_quantised(type);
}

/* Of one row by 8 bits a product's sums and scales lie by output, not by block (matmul_sums.cuh).
 */
K_INLINE bool cu_is_turned(int32_t type, bool one)
{
	return one && !cu_is_float(type);
}

/* Bytes of a tile's pair. */
K_INLINE int32_t cu_code_bytes(int32_t type)
{
	return 128 * k_low_bits(type);
}
K_INLINE int32_t cu_high_bytes(int32_t type)
{
	return 128 * k_high_bits(type);
}
/* Sub-scales of a row: bytes in one piece, and those that follow the 16 rows. */
K_INLINE int32_t cu_row_bytes(int32_t type)
{
	return k_sub_words(type) == 4 ? 16 : 4 + 4 * k_sub_words(type);
}
K_INLINE int32_t cu_tail_bytes(int32_t type)
{
	return k_sub_words(type) == 4 ? k_entry_bytes(type) : 0;
}
K_INLINE int32_t cu_scale_bytes(int32_t type) /* of sub-scales, a quarter of those of four pairs */
{
	if (k_has_subs(type))
		return CU_TILE_ROWS / CU_SUPER_PAIRS * (cu_row_bytes(type) + cu_tail_bytes(type));
	return CU_TILE_ROWS * 2 * k_entry_bytes(type);
}
K_INLINE float cu_gain(int32_t type)
{
	const struct k_facts f = k_facts_of(type);

	return f.bias ? (float)(1 << f.bits) / 256.0f : 1.0f;
}

K_INLINE int32_t cu_pairs(int32_t n_cols)
{
	return k_pieces(n_cols, CU_PAIR);
}
/* Where a tile's high bits and scales begin. */
K_INLINE size_t cu_high_at(int32_t type, int32_t n_pairs)
{
	return (size_t)n_pairs * (size_t)cu_code_bytes(type);
}
K_INLINE size_t cu_scales_at(int32_t type, int32_t n_pairs)
{
	return (size_t)n_pairs * (size_t)(cu_code_bytes(type) + cu_high_bytes(type));
}

/* Float formats: bytes of a value; values in 16 bytes; bytes of a segment of 16 rows. */
K_INLINE int32_t cu_float_bytes(int32_t type)
{
	return k_facts_of(type).bytes;
}
K_INLINE int32_t cu_float_step(int32_t type)
{
	return 16 / cu_float_bytes(type);
}
K_INLINE int32_t cu_segment_bytes(int32_t type)
{
	return CU_SEGMENT * CU_TILE_ROWS * cu_float_bytes(type);
}
K_INLINE int32_t cu_segments(int32_t n_cols)
{
	return k_pieces(n_cols, CU_SEGMENT);
}
/* Offset in a tile of a lane's 16 bytes of step `step` of a segment. */
K_INLINE size_t cu_float_at(
	int32_t type, int32_t n_segments, int32_t segment, int32_t row, int32_t step)
{
	const int32_t alone = (segment | 1) == n_segments; /* even, and the last */
	const int32_t lanes = alone ? 16 : 32, lane = (alone ? 0 : segment % 2 * 16) + row;

	return (size_t)(segment & ~1) * (size_t)cu_segment_bytes(type) +
		   (size_t)(step * lanes + lane) * 16;
}

K_INLINE int32_t cu_tiles(int32_t n_rows)
{
	return k_pieces(n_rows, CU_TILE_ROWS);
}
/* A multiple of a line. */
K_INLINE size_t cu_tile_bytes(int32_t type, int32_t n_cols)
{
	const int32_t pairs = cu_pairs(n_cols);

	if (cu_is_float(type))
		return (size_t)cu_segments(n_cols) * (size_t)cu_segment_bytes(type);
	return (cu_scales_at(type, pairs) + (size_t)pairs * (size_t)cu_scale_bytes(type) + CU_LINE -
			   1) &
		   ~(size_t)(CU_LINE - 1);
}
K_INLINE size_t cu_matrix_bytes(int32_t type, int32_t n_rows, int32_t n_cols)
{
	return (size_t)cu_tiles(n_rows) * cu_tile_bytes(type, n_cols);
}

/* pack.c, on the host: rows [first, first + n) of the file's blocks, of which `raw` has only these,
 * into m->data, in host memory. first is a multiple of CU_TILE_ROWS, and so is n unless the matrix
 * ends there. Any thread; different rows may be packed at once. */
#ifdef __cplusplus
extern "C"
#endif
	void
	cu_pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n);
