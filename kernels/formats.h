/* Quantised formats as files hold them; inside kernels/ only. To add one: a line in K_TYPES, an
 * entry here, its layout in tiles.h and tiles.c, and a line in matmul_body.h.
 *
 * All are read in blocks of 32 weights, whatever the file's own blocks (which are 32 or 256 long):
 * weight k is dw * (scale[k / 16] * value(code[k])) + mw (docs/arithmetic.md, rule 5), where dw and
 * mw are exact products of what the file has. Layouts: the descriptions of the blocks in ggml's
 * ggml-common.h; a test holds them against the gguf package's own reading.
 * Thread: any; no state. */
#ifndef CUTAWAY_KERNELS_FORMATS_H
#define CUTAWAY_KERNELS_FORMATS_H

#include "kernels/kernels.h"

struct k_scales {
	float dw, mw;
	int32_t sub[2]; /* of weights 0 to 15 and 16 to 31; 1 where a format has none */
};

/* `block` is a block of the file, i the 32 weights in it that are meant. */
struct k_format {
	bool has_min;
	uint8_t half[2];	  /* where a block of the file has its f16, and that of the minimum */
	int32_t bias;		  /* value = code - bias … */
	const int8_t *values; /* … or values[code] */
	void (*read_scales)(const uint8_t *block, int32_t i, struct k_scales *s);
	void (*read_codes)(const uint8_t *block, int32_t i, uint8_t code[K_QBLOCK]);
};

extern const struct k_format k_formats[K_N_TYPES]; /* of quantised types */
extern const int8_t k_iq4_nl[16];

static inline bool k_is_quantised(enum k_type type)
{
	return k_types[type].block > 1;
}

static inline int32_t k_value(const struct k_format *f, uint8_t code)
{
	return f->values ? f->values[code] : code - f->bias;
}

#endif
