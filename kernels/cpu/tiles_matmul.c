/* See tiles.h. The walk over tiles and rows of a matrix product; a tile's product itself is in
 * matmul_*.c. Thread: called by all threads of a pool; no state. */
#include "kernels/format/formats.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tiles.h"

enum { ROWS_BYTES = 192 << 10 }; /* activations of one strip: they stay in a core's L2 cache */

/* Points the call at results from `row` of activations from r. */
static void place(
	struct k_tile_call *call, const struct k_matmul *a, int32_t part, int32_t row, int32_t r)
{
	const int32_t dim = a->part[part].w->n_rows;
	const size_t at = (size_t)r * (size_t)dim + (size_t)row;
	const float *bias = a->part[part].bias, *residual = a->part[part].residual;

	call->bias = bias ? bias + row : NULL;
	call->residual = residual ? residual + at : NULL;
	call->y = a->part[part].out + at;
	call->y_dim = dim;
}

/* Multiplies with tiles of `lanes` rows in all, of which the matrix has only `count`. */
static void multiply_last(
	k_tile_fn *fn, const struct k_tile_call *call, int32_t lanes, int32_t count)
{
	_Alignas(64) float y[K_TILE_MAX_ROWS * K_TILE_GROUP * K_TILE_MAX_LANES];
	struct k_tile_call all = *call;

	all.bias = all.residual = NULL;
	all.y = y;
	all.y_dim = lanes;
	fn(&all);
	for (int32_t r = 0; r < call->n; r++)
		for (int32_t i = 0; i < count; i++) {
			const size_t at = (size_t)r * (size_t)call->y_dim + (size_t)i;
			float sum = y[r * lanes + i];

			if (call->bias)
				sum += call->bias[i];
			if (call->residual)
				sum += call->residual[at];
			call->y[at] = sum;
		}
}

/* What prepare() made, in scratch: of rows [from, to) for a format. */
struct prepared {
	enum k_type type;
	int32_t from, to, end; /* end: of the rows that are multiplied */
	int16_t *words;
};
enum { PREPARED_BYTES = K_SCRATCH_BYTES / 4 };

/* `words` a block of row r, and if they are not there yet of as many more rows as there is room
 * for, and of `least` at least: they serve all parts and pieces of an op. */
static const int16_t *prepared_of(const struct k_tiling *t, const struct k_matmul *a,
	enum k_type type, int32_t words, int32_t r, int32_t least, struct prepared *made)
{
	const size_t blocks = (size_t)a->in.dim / K_QBLOCK;
	const size_t row = blocks * (size_t)words;

	if (made->type != type || r < made->from || r + least > made->to) {
		const int32_t fit = (int32_t)(PREPARED_BYTES / (row * sizeof(int16_t)));
		const int32_t n = fit > least ? fit : least;

		made->type = type;
		made->from = r;
		made->to = n < made->end - r ? r + n : made->end;
		t->prepare(type, a->in.q + (size_t)r * (size_t)a->in.dim, (size_t)(made->to - r) * blocks,
			made->words);
	}
	return made->words + (size_t)(r - made->from) * row;
}

/* Points the call at rows [r, r + call->n). */
static void take_rows(const struct k_tiling *t, const struct k_matmul *a, enum k_type type,
	int32_t words, int32_t r, struct k_tile_call *call, struct prepared *made)
{
	const size_t at = (size_t)r * (size_t)a->in.dim, block = at / K_QBLOCK;

	if (!k_is_quantised(type)) {
		call->x = a->in.x + at;
		return;
	}
	call->q = a->in.q + at;
	call->d = a->in.d + block;
	call->sx = a->in.sx + block;
	if (words)
		call->prepared = prepared_of(t, a, type, words, r, call->n, made);
}

/* Rows whose activations stay cached while all tiles are multiplied by them. */
static int32_t strip_rows(
	const struct k_tiling *t, const struct k_matmul *a, enum k_type type, int32_t words)
{
	const size_t dim = (size_t)a->in.dim, prepared = dim / K_QBLOCK * (size_t)words;
	const size_t row =
		k_is_quantised(type) ? dim + prepared * sizeof(int16_t) : dim * sizeof(float);
	const int32_t fit = (int32_t)(ROWS_BYTES / row) / t->max_rows * t->max_rows;

	return fit > t->max_rows ? fit : t->max_rows;
}

struct range {
	int32_t lo, hi;
};

/* Multiplies tiles of a part by rows: rows in strips that stay cached, and all tiles by a strip
 * before the next one. */
static void multiply(const struct k_tiling *t, const struct k_matmul *a, int32_t part,
	struct range tiles, struct range rows, struct prepared *made)
{
	const struct k_matrix *w = a->part[part].w;
	const int32_t words = t->prepared_words(w->type);
	const int32_t strip = strip_rows(t, a, w->type, words);
	struct k_tile_call call = {
		.tile_bytes = k_tile_bytes(w->type, t->lanes, w->n_cols),
		.n_cols = w->n_cols,
		.dim = a->in.dim,
	};

	made->end = rows.hi;
	for (int32_t from = rows.lo; from < rows.hi; from += strip) {
		int32_t to = rows.hi - from < strip ? rows.hi : from + strip;

		for (int32_t i = tiles.lo; i < tiles.hi; i += call.n_tiles) {
			const int32_t left = w->n_rows - i * t->lanes;
			int32_t lanes;

			call.tile = (const uint8_t *)w->data + (size_t)i * call.tile_bytes;
			call.n_tiles = tiles.hi - i < K_TILE_GROUP ? tiles.hi - i : K_TILE_GROUP;
			lanes = call.n_tiles * t->lanes;
			for (int32_t r = from; r < to; r += call.n) {
				call.n = to - r < t->max_rows ? to - r : t->max_rows;
				call.again = r > from;
				take_rows(t, a, w->type, words, r, &call, made);
				place(&call, a, part, i * t->lanes, r);
				if (lanes <= left)
					t->fn[w->type](&call);
				else
					multiply_last(t->fn[w->type], &call, lanes, left);
			}
		}
	}
}

static int32_t tiles_in(const struct k_tiling *t, const struct k_matmul *a, int32_t part)
{
	return (a->part[part].w->n_rows + t->lanes - 1) / t->lanes;
}

/* All tiles by the rows of one slice, in whole calls. */
static void multiply_rows(const struct k_tiling *t, const struct k_matmul *a, int slice,
	int n_slices, struct prepared *made)
{
	int64_t lo, hi;

	k_split((a->n + K_TILE_MAX_ROWS - 1) / K_TILE_MAX_ROWS, slice, n_slices, &lo, &hi);
	lo *= K_TILE_MAX_ROWS;
	hi *= K_TILE_MAX_ROWS;
	for (int32_t p = 0; p < a->n_parts; p++)
		multiply(t, a, p, (struct range){ 0, tiles_in(t, a, p) },
			(struct range){ (int32_t)lo, hi < a->n ? (int32_t)hi : a->n }, made);
}

/* All rows by the tiles of one slice, in whole groups. */
static void multiply_tiles(const struct k_tiling *t, const struct k_matmul *a, int slice,
	int n_slices, struct prepared *made)
{
	int32_t n_tiles = 0, from = 0;
	int64_t lo, hi;

	for (int32_t p = 0; p < a->n_parts; p++)
		n_tiles += tiles_in(t, a, p);
	k_split((n_tiles + K_TILE_GROUP - 1) / K_TILE_GROUP, slice, n_slices, &lo, &hi);
	lo *= K_TILE_GROUP;
	hi *= K_TILE_GROUP;
	for (int32_t p = 0; p < a->n_parts; p++) {
		const int32_t here = tiles_in(t, a, p);
		const int32_t first = lo > from ? (int32_t)lo - from : 0;
		const int32_t end = hi < from + here ? (int32_t)hi - from : here;

		if (first < end)
			multiply(t, a, p, (struct range){ first, end }, (struct range){ 0, a->n }, made);
		from += here;
	}
}

void k_tiles_matmul(
	const struct k_tiling *t, struct k_op *op, int tid, int n_threads, void *scratch)
{
	struct prepared made = { .words = scratch };

	if (op->by_rows)
		multiply_rows(t, &op->u.matmul, tid, n_threads, &made);
	else
		multiply_tiles(t, &op->u.matmul, tid, n_threads, &made);
}
