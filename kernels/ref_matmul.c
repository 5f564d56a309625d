/* The reference of everything that reads weights: matrix products (rules 5 and 6) and embedding
 * rows. The packed form is the file's own: rows of GGUF blocks. Thread: called by all threads of a
 * pool; no state. */
#include "kernels/arith.h"
#include "kernels/isa.h"

enum { SEGMENT = 64 }; /* rule 6 */

static size_t row_bytes(enum k_type type, int32_t n_cols)
{
	const struct k_type_info *t = &k_types[type];

	return (size_t)(n_cols / t->block) * (size_t)t->block_bytes;
}

size_t k_ref_packed_bytes(enum k_type type, int32_t n_rows, int32_t n_cols)
{
	return row_bytes(type, n_cols) * (size_t)n_rows;
}

void k_ref_pack(struct k_matrix *m, const void *raw, int tid, int n_threads)
{
	size_t bytes = row_bytes(m->type, m->n_cols);
	int64_t lo, hi;

	k_split(m->n_rows, tid, n_threads, &lo, &hi);
	memcpy((uint8_t *)m->data + (size_t)lo * bytes, (const uint8_t *)raw + (size_t)lo * bytes,
		   (size_t)(hi - lo) * bytes);
}

static const uint8_t *matrix_row(const struct k_matrix *w, int32_t row)
{
	return (const uint8_t *)w->data + (size_t)row * row_bytes(w->type, w->n_cols);
}

static float load_f16(const uint8_t *p)
{
	uint16_t h;
	memcpy(&h, p, sizeof h);
	return k_f16_to_f32(h);
}

/* Element k of a row of F32, F16 or BF16. */
static float load_float(enum k_type type, const uint8_t *row, int32_t k)
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

struct block {
	float dw, mw;
	int8_t w[K_QBLOCK];
};

/* A quantised block: value i is dw * w[i] + mw. GGUF: scale, minimum, then weights; of 4-bit
 * weights, byte i holds number i in its low and number i + 16 in its high half. */
static void load_block(enum k_type type, const uint8_t *p, struct block *b)
{
	const int bias = type == K_Q4_0 ? 8 : 0;

	b->dw = load_f16(p);
	b->mw = type == K_Q4_1 ? load_f16(p + 2) : 0.0f;
	p += type == K_Q4_1 ? 4 : 2;
	if (type == K_Q8_0) {
		memcpy(b->w, p, K_QBLOCK);
		return;
	}
	for (int i = 0; i < K_QBLOCK / 2; i++) {
		b->w[i] = (int8_t)((p[i] & 15) - bias);
		b->w[i + K_QBLOCK / 2] = (int8_t)((p[i] >> 4) - bias);
	}
}

static bool is_quantised(enum k_type type)
{
	return k_types[type].block == K_QBLOCK;
}

/* Rule 6. */
static float dot_float(const struct k_matrix *w, const uint8_t *row, const float *x)
{
	float sum = 0;

	for (int32_t from = 0; from < w->n_cols; from += SEGMENT) {
		int32_t to = w->n_cols - from < SEGMENT ? w->n_cols : from + SEGMENT;
		float segment = 0;

		for (int32_t k = from; k < to; k++)
			segment = k_fma(load_float(w->type, row, k), x[k], segment);
		sum += segment;
	}
	return sum;
}

/* Rule 5. */
static float dot_quantised(const struct k_matrix *w, const uint8_t *row, const int8_t *q,
						   const float *d, const float *sx)
{
	float sum = 0;

	for (int32_t i = 0; i < w->n_cols / K_QBLOCK; i++) {
		struct block b;
		int32_t dot = 0;

		load_block(w->type, row + (size_t)i * (size_t)k_types[w->type].block_bytes, &b);
		for (int k = 0; k < K_QBLOCK; k++)
			dot += b.w[k] * q[i * K_QBLOCK + k];
		sum = k_fma(d[i], b.dw * (float)dot, sum);
		if (w->type == K_Q4_1)
			sum = k_fma(b.mw, sx[i], sum);
	}
	return sum;
}

float k_ref_dot(const struct k_matrix *w, int32_t row, const struct k_acts *in, int32_t r)
{
	const size_t at = (size_t)r * (size_t)in->dim, block = at / K_QBLOCK;

	if (!is_quantised(w->type))
		return dot_float(w, matrix_row(w, row), in->x + at);
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
				size_t at = (size_t)r * (size_t)w->n_rows + (size_t)row;
				float y = k_ref_dot(w, row, &a->in, r);

				if (bias)
					y += bias[row];
				if (residual)
					y += residual[at];
				a->part[p].out[at] = y;
			}
		}
	}
}

void k_ref_embed(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_embed *a = &op->u.embed;
	const struct k_matrix *w = a->w;
	const int32_t dim = w->n_cols;
	int64_t lo, hi;

	(void)scratch;
	k_split(a->n, tid, n_threads, &lo, &hi);
	for (int64_t r = lo; r < hi; r++) {
		const uint8_t *row = matrix_row(w, a->ids[r]);
		float *x = a->x + (size_t)r * (size_t)dim;

		for (int32_t k = 0; !is_quantised(w->type) && k < dim; k++)
			x[k] = load_float(w->type, row, k);
		for (int32_t i = 0; is_quantised(w->type) && i < dim / K_QBLOCK; i++) {
			struct block b;

			load_block(w->type, row + (size_t)i * (size_t)k_types[w->type].block_bytes, &b);
			for (int k = 0; k < K_QBLOCK; k++)
				x[i * K_QBLOCK + k] = k_fma(b.dw, (float)b.w[k], b.mw);
		}
	}
}
