/* See tiles.h. The walk over tiles and rows of a matrix product; a tile's product itself is in
 * matmul_*.c. Thread: called by all threads of a pool; no state. */
#include "kernels/arith.h"
#include "kernels/format/formats.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/tiles.h"

struct range {
	int32_t lo, hi;
};

enum { FLAT_GROUPS = 6 };        /* of max_rows, from which on unpacking a tile once pays */
enum { ROWS_BYTES = 384 << 10 }; /* activations of one strip: they stay in a core's L2 cache */

/* Points the call at results from `row` of activations from r. */
static void place(
	struct k_tile_call *call, const struct k_matmul *a, int32_t part, int32_t row, int32_t r)
{
	const int32_t dim = a->part[part].w->n_rows;
	const size_t at = k_index(r, dim, row);
	const float *bias = a->part[part].bias, *residual = a->part[part].residual;

	call->bias = bias ? bias + row : NULL;
	call->residual = residual ? residual + at : NULL;
	call->y = a->part[part].out + at;
	call->y_dim = dim;
}

/* What prepare() made: of rows [from, to) for a format, max_rows at a time. It begins the thread's
 * scratch, so that of an op's parts those that one thread does, one after the other, share it. */
struct prepared {
	const struct k_op *op;
	uint64_t walk;
	enum k_type type;
	int32_t from, to, end; /* end: of the rows that are multiplied */
	int32_t *words;
	size_t row;           /* words */
	size_t flat;          /* bytes of a tile that is unpacked; 0: none is */
	struct range checked; /* rows that are finite, or not */
	bool finite;
	/* Of a product of the values beyond k_matmul.above: rows of a strip without the others, and the
	 * columns that are left, behind the words. */
	float *x;
	uint64_t *columns;
};
enum {
	PREPARED_HEAD = 128,
	PREPARED_BYTES = K_SCRATCH_BYTES / 4 - PREPARED_HEAD,
	FLAT_BYTES = K_SCRATCH_BYTES / 16,
	BEYOND_BYTES = 2 * PREPARED_BYTES /* of prepared.x: a row at least */
};

/* Words of row r, where a call's rows begin. If they are not there yet they are made, with as many
 * more rows as there is room for: they serve all parts and pieces of an op. */
static const int32_t *prepared_of(const struct k_tiling *t, const struct k_matmul *a,
	enum k_type type, int32_t r, int32_t n, struct prepared *made)
{
	if (made->type != type || r < made->from || r + n > made->to) {
		const size_t row = (size_t)a->in.dim / K_QBLOCK * (size_t)t->words(type);
		const int32_t fit = (int32_t)((PREPARED_BYTES - FLAT_BYTES) / (row * sizeof *made->words)) /
							t->max_rows * t->max_rows;

		made->type = type;
		made->row = row;
		made->from = r;
		made->to = made->end - r > fit ? r + (fit > n ? fit : n) : made->end;
		for (int32_t i = r; i < made->to; i += t->max_rows)
			t->prepare[type](
				&a->in, i, k_min(made->to - i, t->max_rows), made->words + (size_t)(i - r) * row);
	}
	return made->words + (size_t)(r - made->from) * made->row;
}

/* Points the call at rows [r, r + call->n). */
static void take_rows(const struct k_tiling *t, const struct k_matmul *a, enum k_type type,
	int32_t r, struct k_tile_call *call, struct prepared *made)
{
	if (k_is_quantised(type))
		call->acts = prepared_of(t, a, type, r, call->n, made);
	else
		call->x = a->in.x + (size_t)r * (size_t)a->in.dim;
}

/* Rows whose activations stay cached while all tiles are multiplied by them. */
static int32_t strip_rows(const struct k_tiling *t, const struct k_matmul *a, enum k_type type)
{
	const size_t dim = (size_t)a->in.dim;
	const size_t row = k_is_quantised(type)
						   ? dim / K_QBLOCK * (size_t)t->words(type) * sizeof(int32_t)
						   : dim * sizeof(float);
	const int32_t fit = (int32_t)(ROWS_BYTES / row) / t->max_rows * t->max_rows;

	return k_max(fit, t->max_rows);
}

/* Whether the product may leave out the zeros among the weights: 0 times infinity is no zero. */
static bool all_finite(
	const struct k_matmul *a, int32_t n_cols, struct range rows, struct prepared *made)
{
	uint32_t no = 0;

	if (made->checked.lo == rows.lo && made->checked.hi == rows.hi)
		return made->finite;
	made->checked = rows;

	for (int32_t r = rows.lo; r < rows.hi; r++)
		for (int32_t k = 0; k < n_cols; k++)
			no |= (k_bits(a->in.x[k_index(r, a->in.dim, k)]) & 0x7f800000) == 0x7f800000;
	return made->finite = !no;
}

/* Columns [from, to) of n tiles as floats, in scratch: products by floats then have one form of
 * weights. */
static const uint8_t *decoded(const struct k_tiling *t, const struct k_matrix *w, int32_t tile,
	int32_t n, int32_t from, int32_t to, struct prepared *made)
{
	const size_t bytes = k_tile_bytes_of(t, w);
	float *out = (float *)(void *)made->words;

	for (int32_t i = 0; i < n; i++, out += (to - from) * t->lanes) {
		uint8_t *p = (uint8_t *)w->data + (size_t)(tile + i) * bytes;

		for (int32_t l = 0; w->pairs && l < t->lanes; l++)
			k_pairs_read(w, t->lanes, p, l, (struct k_pairs_part){ from, to, t->lanes }, out + l);
		if (!w->pairs)
			t->decode[w->type](p, from, to, made->columns, out);
	}
	return (const uint8_t *)made->words;
}

enum { PIECE = 64 }; /* columns: a segment of rule 6 */

/* Few rows read tiles only once: they are decoded piece by piece, which a core's L1 cache holds,
 * and the sums in call->y go on from piece to piece. */
static void multiply_pieces(const struct k_tiling *t, const struct k_matrix *w, int32_t tile,
	const struct k_tile_call *call, struct prepared *made)
{
	struct k_tile_call piece = *call;

	memset(call->y, 0, (size_t)(call->n * call->y_dim) * sizeof *call->y);
	piece.residual = piece.y;
	piece.pairs = false;
	for (int32_t from = 0; from < w->n_cols; from += PIECE) {
		if (call->columns && !call->columns[from / PIECE])
			continue;
		piece.n_cols = k_min(w->n_cols - from, PIECE);
		piece.tile_bytes = k_tile_bytes(K_F32, t->lanes, piece.n_cols);
		piece.tile = decoded(t, w, tile, call->n_tiles, from, from + piece.n_cols, made);
		piece.x = call->x + from;
		piece.columns = call->columns ? call->columns + from / PIECE : NULL;
		t->fn[K_F32](&piece);
	}
}

/* Copies rows [from, to) without the values that are not beyond a->above. */
static void keep_beyond(
	const struct k_matmul *a, int32_t n_cols, int32_t from, int32_t to, struct prepared *made)
{
	const int32_t dim = a->in.dim;
	float *x = made->x = (float *)(void *)(made->words + PREPARED_BYTES / sizeof *made->words);

	made->columns = (uint64_t *)(void *)(x + BEYOND_BYTES / sizeof(float));
	memset(made->columns, 0, ((size_t)dim + 63) / 64 * sizeof *made->columns);
	for (int32_t r = from; r < to; r++, x += dim) {
		const float *in = a->in.x + (size_t)r * (size_t)dim;

		for (int32_t k = 0; k < n_cols; k++) {
			const bool kept = k_beyond(in[k], a->above);

			x[k] = kept ? in[k] : 0;
			made->columns[k / 64] |= (uint64_t)kept << k % 64;
		}
	}
}

/* Multiplies with tiles of `lanes` rows in all, of which the matrix has only `count`. pieces: of w,
 * which are not decoded yet. */
static void multiply_apart(const struct k_tiling *t, enum k_type type,
	const struct k_matrix *pieces, int32_t tile, const struct k_tile_call *call, int32_t lanes,
	int32_t count, struct prepared *made)
{
	_Alignas(64) float y[K_TILE_MAX_ROWS * K_TILE_GROUP * K_TILE_MAX_LANES];
	struct k_tile_call all = *call;

	all.bias = all.residual = NULL;
	all.y = y;
	all.y_dim = lanes;
	if (pieces)
		multiply_pieces(t, pieces, tile, &all, made);
	else
		t->fn[type](&all);
	for (int32_t r = 0; r < call->n; r++)
		for (int32_t i = 0; i < count; i++) {
			const size_t at = k_index(r, call->y_dim, i);
			float sum = y[r * lanes + i];

			if (call->bias)
				sum += call->bias[i];
			if (call->residual)
				sum += call->residual[at];
			call->y[at] = sum;
		}
}

/* Tiles that one call multiplies: as many as are stored, or decoded, in a quarter of the scratch;
 * one that does not fit is decoded in pieces. */
static int32_t group_of(const struct k_tile_call *call, bool decode, int32_t left)
{
	const int32_t fit = decode ? (int32_t)(PREPARED_BYTES / call->tile_bytes) : K_TILE_GROUP;
	const int32_t n = k_min(fit, K_TILE_GROUP);

	return left < n ? left : n > 0 ? n : 1;
}

/* n tiles as unpack() leaves them, behind the words of rows. */
static const uint8_t *unpacked(const struct k_tiling *t, const struct k_matrix *w, int32_t tile,
	int32_t n, const struct prepared *made)
{
	const size_t packed = k_tile_bytes(w->type, t->lanes, w->n_cols);
	uint8_t *out = (uint8_t *)made->words + PREPARED_BYTES - FLAT_BYTES;

	for (int32_t i = 0; i < n; i++)
		t->unpack[w->type]((const uint8_t *)w->data + (size_t)(tile + i) * packed, w->n_cols,
			(size_t)n * packed, out + (size_t)i * made->flat);
	return out;
}

/* The call's tiles, from tile i of a part, by rows [from, to). */
static void multiply_strip(const struct k_tiling *t, const struct k_matmul *a, int32_t part,
	int32_t i, struct range rows, struct k_tile_call *call, struct prepared *made)
{
	const struct k_matrix *w = a->part[part].w;
	const bool decode = a->as_floats && k_is_quantised(w->type);
	const size_t bytes = call->tile_bytes;
	const bool few = decode ? rows.hi - rows.lo <= t->max_rows || bytes > PREPARED_BYTES
							: w->pairs && !call->pairs;
	const enum k_type type = decode ? K_F32 : w->type;
	const int32_t lanes = call->n_tiles * t->lanes, left = w->n_rows - i * t->lanes;
	const uint8_t *flat = NULL, *tile = (const uint8_t *)w->data + (size_t)i * bytes;

	if (decode && !few)
		tile = decoded(t, w, i, call->n_tiles, 0, w->n_cols, made);
	else if (made->flat && rows.hi - rows.lo >= FLAT_GROUPS * t->max_rows)
		flat = unpacked(t, w, i, call->n_tiles, made);
	for (int32_t r = rows.lo; r < rows.hi; r += call->n) {
		call->n = k_min(rows.hi - r, t->max_rows);
		call->again = r > rows.lo;
		call->flat = flat && call->n == t->max_rows;
		call->tile = call->flat ? flat : tile;
		call->tile_bytes = call->flat ? made->flat : bytes;
		take_rows(t, a, type, r, call, made);
		if (made->columns) {
			call->x = made->x + (size_t)(r - rows.lo) * (size_t)a->in.dim;
			call->columns = made->columns;
		}
		place(call, a, part, i * t->lanes, r);
		if (lanes <= left && !few)
			t->fn[type](call);
		else
			multiply_apart(t, type, few ? w : NULL, i, call, lanes, k_min(left, lanes), made);
	}
	call->tile_bytes = bytes;
}

/* Multiplies tiles of a part by rows: rows in strips that stay cached, and all tiles by a strip
 * before the next one. */
static void multiply(const struct k_tiling *t, const struct k_matmul *a, int32_t part,
	struct range tiles, struct range rows, struct prepared *made)
{
	const struct k_matrix *w = a->part[part].w;
	const bool decode = a->as_floats && k_is_quantised(w->type);
	const enum k_type type = decode ? K_F32 : w->type;
	int32_t strip = strip_rows(t, a, type);
	struct k_tile_call call = {
		.tile_bytes = decode ? k_tile_bytes(type, t->lanes, w->n_cols) : k_tile_bytes_of(t, w),
		.n_cols = w->n_cols,
		.dim = a->in.dim,
	};

	if (a->as_floats && a->above > 0 && !decode) /* floats are read whole, and once */
		return;
	if (decode && strip > BEYOND_BYTES / (a->in.dim * (int32_t)sizeof *made->x))
		strip = BEYOND_BYTES / (a->in.dim * (int32_t)sizeof *made->x);
	made->end = rows.hi;
	if (!k_is_quantised(type))
		made->to = 0; /* other things may take the words' place */
	made->flat = 0;
	if (!decode && rows.hi - rows.lo >= FLAT_GROUPS * t->max_rows)
		made->flat = t->flat_bytes(w->type, w->n_cols);
	if (made->flat > FLAT_BYTES / K_TILE_GROUP)
		made->flat = 0;
	for (int32_t from = rows.lo; from < rows.hi; from += strip) {
		const struct range here = { from, rows.hi - from < strip ? rows.hi : from + strip };

		if (decode && a->above > 0)
			keep_beyond(a, w->n_cols, here.lo, here.hi, made);
		call.pairs = w->pairs && all_finite(a, w->n_cols, here, made);
		for (int32_t i = tiles.lo; i < tiles.hi; i += call.n_tiles) {
			call.n_tiles = group_of(&call, decode, tiles.hi - i);
			multiply_strip(t, a, part, i, here, &call, made);
		}
	}
}

static int32_t tiles_in(const struct k_tiling *t, const struct k_matmul *a, int32_t part)
{
	return k_pieces(a->part[part].w->n_rows, t->lanes);
}

/* All tiles by the rows of one slice, in whole calls. */
static void multiply_rows(const struct k_tiling *t, const struct k_matmul *a, int slice,
	int n_slices, struct prepared *made)
{
	int64_t lo, hi;

	k_split(k_pieces(a->n, K_TILE_MAX_ROWS), slice, n_slices, &lo, &hi);
	lo *= K_TILE_MAX_ROWS;
	hi *= K_TILE_MAX_ROWS;
	for (int32_t p = 0; p < a->n_parts; p++)
		multiply(t, a, p, (struct range){ 0, tiles_in(t, a, p) },
			(struct range){ (int32_t)lo, hi < a->n ? (int32_t)hi : a->n }, made);
}

/* Tiles that are not parted: of quantised weights two cache lines of an output. */
static int32_t unit_of(const struct k_tiling *t, const struct k_matrix *w)
{
	return k_is_quantised(w->type) && 2 * t->lanes >= 32 ? 2 : K_TILE_GROUP;
}

/* All rows by the tiles of one slice, in whole units. */
static void multiply_tiles(const struct k_tiling *t, const struct k_matmul *a, int slice,
	int n_slices, struct prepared *made)
{
	const int32_t unit = unit_of(t, a->part[0].w);
	int32_t n_tiles = 0, from = 0;
	int64_t lo, hi;

	for (int32_t p = 0; p < a->n_parts; p++)
		n_tiles += tiles_in(t, a, p);
	k_split(k_pieces(n_tiles, unit), slice, n_slices, &lo, &hi);
	lo *= unit;
	hi *= unit;
	for (int32_t p = 0; p < a->n_parts; p++) {
		const int32_t here = tiles_in(t, a, p);
		const int32_t first = lo > from ? (int32_t)lo - from : 0;
		const int32_t end = hi < from + here ? (int32_t)hi - from : here;

		if (first < end)
			multiply(t, a, p, (struct range){ first, end }, (struct range){ 0, a->n }, made);
		from += here;
	}
}

static void multiply_all(const struct k_tiling *t, const struct k_matmul *a, bool by_rows, int tid,
	int n_threads, struct prepared *made)
{
	made->columns = NULL;
	if (by_rows)
		multiply_rows(t, a, tid, n_threads, made);
	else
		multiply_tiles(t, a, tid, n_threads, made);
}

/* What is added last, to the outputs that this thread has just made. */
static struct k_matmul of_beyond(const struct k_matmul *a)
{
	struct k_matmul b = *a;

	b.as_floats = true;
	for (int32_t p = 0; p < a->n_parts; p++) {
		b.part[p].bias = NULL;
		b.part[p].residual = a->part[p].out;
	}
	return b;
}

_Static_assert(sizeof(struct prepared) <= PREPARED_HEAD, "the words come after it");

static struct prepared *made_for(const struct k_op *op, void *scratch)
{
	struct prepared *made = scratch;

	if (made->op != op || made->walk != op->walk || !op->walk)
		*made = (struct prepared){ .op = op, .walk = op->walk };
	made->words = (int32_t *)(void *)((unsigned char *)scratch + PREPARED_HEAD);
	return made;
}

void k_tiles_matmul(
	const struct k_tiling *t, struct k_op *op, int tid, int n_threads, void *scratch)
{
	const struct k_matmul *a = &op->u.matmul;
	struct prepared *made = made_for(op, scratch);

	multiply_all(t, a, op->by_rows, tid, n_threads, made);
	if (a->above > 0) {
		const struct k_matmul beyond = of_beyond(a);

		multiply_all(t, &beyond, op->by_rows, tid, n_threads, made);
	}
}
