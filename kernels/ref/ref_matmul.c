/* The reference of the ops that read weights: matrix products (rules 5 and 6) and embedding rows.
 * The packed form is the file's own: rows of GGUF blocks. Thread: called by all threads of a pool;
 * no state. */
#include "kernels/arith.h"
#include "kernels/format/encode.h"
#include "kernels/format/formats.h"
#include "kernels/cpu/isa.h"

enum { SEGMENT = 64 }; /* rule 6 */

size_t k_ref_packed_bytes(enum k_type type, int32_t n_rows, int32_t n_cols)
{
	return k_row_bytes(type, n_cols) * (size_t)n_rows;
}

void k_ref_pack(struct k_matrix *m, const void *raw, int32_t first, int32_t n)
{
	size_t bytes = k_row_bytes(m->type, m->n_cols);

	memcpy((uint8_t *)m->data + (size_t)first * bytes, raw, (size_t)n * bytes);
}

static const uint8_t *matrix_row(const struct k_matrix *w, int32_t row)
{
	return (const uint8_t *)w->data + (size_t)row * k_row_bytes(w->type, w->n_cols);
}

/* Element k of a row of F32, F16 or BF16. */
static float load_float(enum k_type type, const uint8_t *row, int64_t k)
{
	uint16_t h;
	float x;

	if (type == K_F32) {
		memcpy(&x, row + (size_t)k * 4, sizeof x);
		return x;
	}
	memcpy(&h, row + (size_t)k * 2, sizeof h);
	return type == K_F16 ? k_f16_to_f32(h) : k_bf16_to_f32(h);
}

/* Block i of 32 weights in a row of a quantised format; *at is set to its index in the file's
 * block. */
static const uint8_t *block_at(enum k_type type, const uint8_t *row, int64_t i, int32_t *at)
{
	const int32_t in_block = k_types[type].block / K_QBLOCK;

	*at = (int32_t)(i % in_block);
	return row + (size_t)(i / in_block) * (size_t)k_types[type].block_bytes;
}

static void read_block(
	enum k_type type, const uint8_t *block, int32_t i, struct k_scales *s, int8_t *value)
{
	uint8_t code[K_QBLOCK];

	k_read_scales(type, block, i, s);
	k_read_codes(type, block, i, code);
	k_values(type, code, value);
}

void k_ref_floats(enum k_type type, const uint8_t *row, int64_t from, int64_t to, float *restrict x)
{
	if (!k_is_quantised(type)) {
		for (int64_t k = from; k < to; k++)
			x[k - from] = load_float(type, row, k);
		return;
	}
	for (int64_t i = from / K_QBLOCK; i < to / K_QBLOCK; i++, x += K_QBLOCK) {
		int32_t at;
		const uint8_t *block = block_at(type, row, i, &at);
		struct k_scales s;
		int8_t value[K_QBLOCK];

		read_block(type, block, at, &s, value);
		for (int k = 0; k < K_QBLOCK; k++)
			x[k] = k_weight(&s, k, value[k]);
	}
}

/* Rule 6, of the values beyond `above` in magnitude. */
static float dot_float(const struct k_matrix *w, const uint8_t *row, const float *x, float above)
{
	float sum = 0, v[SEGMENT];

	for (int32_t from = 0; from < w->n_cols; from += SEGMENT) {
		int32_t to = w->n_cols - from < SEGMENT ? w->n_cols : from + SEGMENT;
		float segment = 0;

		k_ref_floats(w->type, row, from, to, v);
		for (int32_t k = from; k < to; k++)
			if (k_beyond(x[k], above))
				segment = k_fma(v[k - from], x[k], segment);
		sum += segment;
	}
	return sum;
}

/* Rule 5. Sub-scales go into the integer, which stays below 2^24: 2 * 16 * 32 * 127 * 128.
 * Sub-minima likewise multiply the sum of the activations: another term. */
static float dot_quantised(
	const struct k_matrix *w, const uint8_t *row, const int8_t *q, const float *d, const float *sx)
{
	const bool has_min = k_has_min(w->type), two_terms = k_has_two_terms(w->type);
	float sum = 0;

	for (int32_t i = 0; i < w->n_cols / K_QBLOCK; i++, q += K_QBLOCK) {
		int32_t at, dot[2] = { 0, 0 }, sum_q[2] = { 0, 0 };
		const uint8_t *block = block_at(w->type, row, i, &at);
		struct k_scales s;
		int8_t value[K_QBLOCK];

		read_block(w->type, block, at, &s, value);
		for (int k = 0; k < K_QBLOCK; k++) {
			dot[k / 16] += value[k] * q[k];
			sum_q[k / 16] += q[k];
		}
		sum = k_fma(d[i], s.dw * (float)(s.sub[0] * dot[0] + s.sub[1] * dot[1]), sum);
		if (two_terms)
			sum = k_fma(d[i], s.mw * (float)(s.min[0] * sum_q[0] + s.min[1] * sum_q[1]), sum);
		else if (has_min)
			sum = k_fma(s.mw, sx[i], sum);
	}
	return sum;
}

static float dot(const struct k_matmul *a, const struct k_matrix *w, int32_t row, int32_t r)
{
	const struct k_acts *in = &a->in;
	const size_t at = (size_t)r * (size_t)in->dim, block = at / K_QBLOCK;

	if (a->as_floats || !k_is_quantised(w->type))
		return dot_float(w, matrix_row(w, row), in->x + at, -1);
	return dot_quantised(w, matrix_row(w, row), in->q + at, in->d + block, in->sx + block);
}

void k_ref_matmul(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_matmul *a = &op->u.matmul;

	(void)scratch;
	for (int32_t p = 0; p < a->n_parts; p++) {
		const struct k_matrix *w = a->part[p].w;
		const float *bias = a->part[p].bias, *residual = a->part[p].residual;
		int64_t lo, hi;

		k_split(w->n_rows, tid, n_threads, &lo, &hi);
		for (int32_t row = (int32_t)lo; row < (int32_t)hi; row++) {
			for (int32_t r = 0; r < a->n; r++) {
				size_t at = k_index(r, w->n_rows, row);
				float y = dot(a, w, row, r);

				if (bias)
					y += bias[row];
				if (residual)
					y += residual[at];
				if (a->above > 0 && k_is_quantised(w->type))
					y = dot_float(w, matrix_row(w, row), k_acts_row(&a->in, r).x, a->above) + y;
				a->part[p].out[at] = y;
			}
		}
	}
}

K_UNITS(embed, a->n)

static void k_embed_unit(const struct k_embed *a, int64_t r)
{
	float *x = a->x + r * a->w->n_cols;

	k_ref_floats(a->w->type, matrix_row(a->w, a->ids[r]), 0, a->w->n_cols, x);
	k_embed_scale(a, x);
}

K_BY_UNITS(k_ref_embed, embed)
