/* The ops sparse and columns (kernels/op), vectors of 8. The work of a decode step is that of the
 * columns that are read: two at a time, interleaved, so that one instruction adds both products.
 * Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/vec8.h"
#include "kernels/kernels.h"
#include "kernels/cpu/isa.h"

enum { LINE = 64, AHEAD = 3, PAIRS = 8 }; /* that 16 bits hold: 16 * 15 * 127 < 2^15 */

struct strips {
	int32_t lo, hi;
};

/* The columns of a block whose activation is not 0, two by two; an odd one is paired with itself
 * times 0. */
struct pairs {
	int n;
	int32_t sum;               /* of the activations */
	uint32_t at[K_QBLOCK + 1]; /* offsets of the columns */
	int32_t q[K_QBLOCK / 2];   /* of a pair: two of 8 bits for codes of 4 bits, else two of 16 */
};

static int32_t pair_of(int bits, int a, int b)
{
	return bits == 4 ? (uint8_t)a | (uint8_t)b << 8 : (int32_t)((uint16_t)a | (uint32_t)b << 16);
}

static void find_pairs(const struct k_columns *a, const int8_t *q, struct pairs *p)
{
	const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)q);
	const uint32_t column = (uint32_t)k_column_bytes(a);
	uint32_t left = ~(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(v, _mm256_setzero_si256()));

	p->n = p->sum = 0;
	while (left) {
		const int i = __builtin_ctz(left), rest = (int)(left &= left - 1);
		const int k = rest ? __builtin_ctz(left) : i, second = rest ? q[k] : 0;

		p->at[2 * p->n] = (uint32_t)i * column;
		p->at[2 * p->n + 1] = (uint32_t)k * column;
		p->q[p->n++] = pair_of(a->bits, q[i], second);
		p->sum += q[i] + second;
		left &= left - (left != 0);
	}
}

static inline void widen(__m256i *sum, __m256i s)
{
	sum[0] = _mm256_add_epi32(sum[0], _mm256_cvtepi16_epi32(_mm256_castsi256_si128(s)));
	sum[1] = _mm256_add_epi32(sum[1], _mm256_cvtepi16_epi32(_mm256_extracti128_si256(s, 1)));
}

static inline __m256i load32(const uint8_t *p)
{
	return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Codes of 4 bits: unsigned, so a pair is one maddubs. */
static void sums_of_4(const uint8_t *column, const struct pairs *p, __m256i *out)
{
	const __m256i low = _mm256_set1_epi8(15);

	for (int from = 0; from < p->n; from += PAIRS) {
		const int to = k_min(from + PAIRS, p->n);
		__m256i sum[4] = { 0 };

		for (int i = from; i < to; i++) {
			const __m256i a = load32(column + p->at[2 * i]), b = load32(column + p->at[2 * i + 1]);
			const __m256i q = _mm256_set1_epi16((short)p->q[i]);
			const __m256i al = _mm256_and_si256(a, low), bl = _mm256_and_si256(b, low);
			const __m256i ah = _mm256_and_si256(_mm256_srli_epi16(a, 4), low);
			const __m256i bh = _mm256_and_si256(_mm256_srli_epi16(b, 4), low);
			const __m256i code[4] = { _mm256_unpacklo_epi8(al, bl), _mm256_unpackhi_epi8(al, bl),
				_mm256_unpacklo_epi8(ah, bh), _mm256_unpackhi_epi8(ah, bh) };

			for (int k = 0; k < 4; k++)
				sum[k] = _mm256_add_epi16(sum[k], _mm256_maddubs_epi16(code[k], q));
		}
		for (int k = 0; k < 4; k++)
			widen(out + 2 * k, sum[k]);
	}
}

static void sums_of_8(const uint8_t *column, const struct pairs *p, __m256i *out)
{
	for (int i = 0; i < p->n; i++) {
		const uint8_t *a = column + p->at[2 * i], *b = column + p->at[2 * i + 1];
		const __m256i q = _mm256_set1_epi32(p->q[i]);

		for (int k = 0; k < 4; k++) {
			const __m128i va = _mm_loadu_si128((const __m128i *)(const void *)(a + 16 * k));
			const __m128i vb = _mm_loadu_si128((const __m128i *)(const void *)(b + 16 * k));
			const __m128i half[2] = { _mm_unpacklo_epi8(va, vb), _mm_unpackhi_epi8(va, vb) };

			for (int h = 0; h < 2; h++)
				out[2 * k + h] = _mm256_add_epi32(
					out[2 * k + h], _mm256_madd_epi16(_mm256_cvtepi8_epi16(half[h]), q));
		}
	}
}

/* A block of 32 columns for the strip whose scales begin at dw. */
static void add_block(const struct k_columns *a, const uint16_t *dw, const uint8_t *column,
	const struct pairs *p, float d, float sx, float *acc)
{
	const __m256 scale = _mm256_set1_ps(d), minima = _mm256_set1_ps(sx);
	const int32_t pad = k_columns_pad(a->n_rows);
	__m256i sum[8];

	for (int k = 0; k < 8; k++)
		sum[k] = _mm256_set1_epi32(-a->bias * p->sum);
	if (a->bits == 8)
		sums_of_8(column, p, sum);
	else
		sums_of_4(column, p, sum);
	for (int k = 0; k < 8; k++) {
		const __m256 t = _mm256_mul_ps(v_halves(dw + 8 * k), _mm256_cvtepi32_ps(sum[k]));
		__m256 y = _mm256_fmadd_ps(scale, t, _mm256_loadu_ps(acc + 8 * k));

		if (a->has_min)
			y = _mm256_fmadd_ps(v_halves(dw + pad + 8 * k), minima, y);
		_mm256_storeu_ps(acc + 8 * k, y);
	}
}

static void fetch(const uint8_t *p, size_t bytes)
{
	for (size_t at = 0; at < bytes + LINE - 1; at += LINE)
		_mm_prefetch((const char *)p + at, _MM_HINT_T0);
}

/* The next block from b on that is not left out, with its columns, whose way into the cache begins:
 * few of many columns are no pattern that a processor would guess. */
static int32_t next_block(
	const struct k_columns *a, const int8_t *q, int32_t b, struct strips s, struct pairs *p)
{
	const size_t from = (size_t)(s.lo * K_STRIP * a->bits / 8);
	const size_t bytes = (size_t)((s.hi - s.lo) * K_STRIP * a->bits / 8);

	b = k_min(b, a->n_cols / K_QBLOCK);
	while (b < a->n_cols / K_QBLOCK && a->skip && k_is_zero_block(q + b * K_QBLOCK))
		b++;
	if (b == a->n_cols / K_QBLOCK)
		return b;
	find_pairs(a, q + b * K_QBLOCK, p);
	const uint8_t *block = k_columns_block(a, b), *column = block + k_columns_entries(a) + from;
	for (int kind = 0; kind <= a->has_min; kind++)
		fetch(block + (size_t)(kind * k_columns_pad(a->n_rows) + s.lo * K_STRIP) * 2,
			(size_t)((s.hi - s.lo) * K_STRIP) * 2);
	for (int i = 0; i < 2 * p->n; i++)
		fetch(column + p->at[i], bytes);
	return b;
}

/* Block by block for all strips: their parts of a column are neighbours in memory. */
static void columns_row(const struct k_columns *a, int32_t r, struct strips s, float *acc)
{
	const struct k_acts in = k_acts_row(&a->in, r);
	const int32_t n = a->n_cols / K_QBLOCK;
	struct pairs pairs[AHEAD];
	int32_t block_at[AHEAD], next = 0;

	memset(acc, 0, (size_t)(s.hi - s.lo) * K_STRIP * sizeof *acc);
	for (int k = 0; k < AHEAD; k++)
		next = (block_at[k] = next_block(a, in.q, next, s, &pairs[k])) + 1;
	for (int k = 0; block_at[k] < n; k = (k + 1) % AHEAD) {
		const int32_t b = block_at[k];
		const uint8_t *block = k_columns_block(a, b), *column = block + k_columns_entries(a);

		for (int32_t i = s.lo; i < s.hi; i++)
			add_block(a, (const uint16_t *)(const void *)block + i * K_STRIP,
				column + (size_t)(i * K_STRIP * a->bits / 8), &pairs[k], in.d[b], in.sx[b],
				acc + (i - s.lo) * K_STRIP);
		next = (block_at[k] = next_block(a, in.q, next, s, &pairs[k])) + 1;
	}
	for (int32_t i = s.lo; i < s.hi; i++)
		k_columns_end(a, r, i * K_STRIP, acc + (i - s.lo) * K_STRIP);
}

void k_vec8_columns(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_columns *a = &op->u.columns;
	int64_t lo, hi;

	k_split(k_columns_pad(a->n_rows) / K_STRIP, tid, n_threads, &lo, &hi);
	for (int32_t r = 0; lo < hi && r < a->n; r++)
		columns_row(a, r, (struct strips){ (int32_t)lo, (int32_t)hi }, scratch);
}

/* ---- sparse ---- */

static inline __m256 v_abs(__m256 x)
{
	return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

static float largest_of(const float *x, int32_t n)
{
	__m256i most = _mm256_setzero_si256();

	for (int32_t i = 0; i < n; i += 8)
		most = _mm256_max_epi32(most, _mm256_castps_si256(v_abs(_mm256_loadu_ps(x + i))));
	return k_float((uint32_t)v_max_epi32(most));
}

/* The values below each share of the largest (op/sparse.h), all thresholds at once. */
static void count_near_zero(const float *x, int32_t n, float largest, int32_t count[K_NEAR])
{
	__m256i below[K_NEAR] = { 0 };
	__m256 least[K_NEAR];

	for (int k = 0; k < K_NEAR; k++)
		least[k] = _mm256_set1_ps(k_near_share(k) * largest);
	for (int32_t i = 0; i < n; i += 8) {
		const __m256 size = v_abs(_mm256_loadu_ps(x + i));

		for (int k = 0; k < K_NEAR; k++)
			below[k] = _mm256_sub_epi32(
				below[k], _mm256_castps_si256(_mm256_cmp_ps(size, least[k], _CMP_LT_OQ)));
	}
	for (int k = 0; k < K_NEAR; k++)
		count[k] = v_sum_epi32(below[k]);
}

/* Marks values, and writes the row again where small ones become 0. */
static void sparse_row(const struct k_sparse *a, int32_t r, float largest)
{
	const int32_t dim = a->a.dim;
	const size_t at = (size_t)r * (size_t)dim;
	const __m256 least = _mm256_set1_ps(a->least * largest),
				 mark = _mm256_set1_ps(a->mark * largest);

	for (size_t i = at; i < at + (size_t)dim; i += 32) {
		uint32_t bits = 0;
		__m256 y[4];

		for (int k = 0; k < 4; k++) {
			const __m256 x = _mm256_loadu_ps(a->a.x + i + 8 * (size_t)k), size = v_abs(x);
			const __m256 small = a->mark > 0 ? _mm256_cmp_ps(size, mark, _CMP_LT_OQ)
											 : _mm256_cmp_ps(size, _mm256_setzero_ps(), _CMP_EQ_OQ);

			bits |= (uint32_t)(~_mm256_movemask_ps(small) & 255) << 8 * k;
			if (a->least > 0)
				y[k] = _mm256_andnot_ps(_mm256_cmp_ps(size, least, _CMP_LT_OQ), x);
		}
		if (a->mask)
			a->mask[i / 32] = bits;
		if (a->least > 0)
			v_put_block(&a->a, i, y);
	}
}

void k_vec8_sparse(struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_sparse *all = &op->u.sparse;
	const int32_t dim = all->a.dim;
	int64_t lo, hi;

	(void)scratch;
	k_split(k_sparse_units(all), tid, n_threads, &lo, &hi);
	for (int64_t unit = lo; unit < hi; unit++) {
		const struct k_sparse a = k_sparse_layer(all, (int32_t)(unit / all->n));
		const int32_t r = (int32_t)(unit % all->n), observe = a.rows[r].observe;
		const float *x = a.a.x + (size_t)r * (size_t)dim;
		float largest;

		if (k_sparse_rests(&a, observe))
			continue;
		largest = largest_of(x, dim);
		if (observe >= 0)
			count_near_zero(x, dim, largest, a.near_zero + (size_t)observe * K_NEAR);
		sparse_row(&a, r, largest);
	}
}
