/* Keys and values of a span from the cache to shared memory, as floats in the order in which the
 * chains of few queries read them (attention_few.cuh): rule 11, part of attend.cuh.
 *
 * A key's dimensions and a dimension's tokens are neighbours then; in the cache a dimension's 16
 * tokens and a token's dimensions are. A thread turns 4 x 8 values of f16 in registers. */
#pragma once

#include "kernels/cuda/attend.cuh"

enum { FEW_QUERIES = ATTEND_FEW * (CU_FEW_DIMS + 4) };

/* Shared memory: queries, scores, the step's own keys and values, and the span's keys or values. */
struct few_memory {
	int32_t stride;     /* of queries and keys: elements of one dimension are in different banks */
	float *q;           /* [ATTEND_FEW][stride] */
	float *p;           /* [ATTEND_FEW][ATTEND_P] */
	float *own_k;       /* [CU_FOLD_ROWS][stride] */
	unsigned char *own; /* [CU_FOLD_ROWS][head_dim] values, as they are cached */
	float *k;           /* [K_SPAN][stride] */
	float *v;           /* [head_dim][ATTEND_P], where few_turned() says */
};

CU_FN struct few_memory few_layout(const struct attend *c)
{
	struct few_memory f;

	f.stride = c->a->head_dim + 4;
	f.q = (float *)(void *)c->memory;
	f.p = f.q + FEW_QUERIES;
	f.own_k = f.p + ATTEND_FEW * ATTEND_P;
	f.own = (unsigned char *)(f.own_k + CU_FOLD_ROWS * (CU_FEW_DIMS + 4));
	f.k = f.v = (float *)(void *)(f.own + CU_FOLD_ROWS * CU_FEW_BYTES);
	return f;
}

/* Where keys (v = 0) or values of a group of 16 tokens are, which is in one piece; `group` is the
 * tile's. */
CU_FN unsigned char *few_place(const struct attend *c, const uint8_t *group, int32_t v)
{
	const int32_t part = (c->a->layer * c->a->n_kv_heads + c->kv_head) * 2 + v;

	return (unsigned char *)group + (int64_t)part * c->unit->head_bytes;
}

/* Pairs of a head are dealt to warps, 32 to each: `turn` counts the heads' shares. */
struct few_share {
	int32_t head, pair;
};
CU_FN struct few_share few_share_at(const struct attend *c, int32_t turn)
{
	const int32_t log = c->a->head_dim > 2 * CU_WARP;
	const struct few_share at = { turn >> log, (turn & log) * CU_WARP + cu_thread() % CU_WARP };

	return at;
}
/* The row of the tile that the warp's first share of queries is of, if there are so many. */
CU_FN int32_t few_first_row(const struct attend *c)
{
	return cu_over(few_share_at(c, cu_thread() / CU_WARP).head, c->a->over_rep);
}

/* Four rows of 16 bytes: of keys four dimensions of some neighbouring tokens; of values four tokens
 * of some neighbouring dimensions. */
struct few_piece {
	uint4 row[4];
};

/* Zeros where there is no group: of tokens that are not seen, and for ptxas, which keeps room for a
 * register from the kernel's beginning if a path to its use does not set it. */
CU_FN void few_prefetch(const struct attend *c, const uint8_t *group, int32_t v, int32_t at,
	int32_t step, struct few_piece *x)
{
	if (group) {
		const unsigned char *from = few_place(c, group, v) + at;

		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			x->row[j] = *(const uint4 *)(const void *)(from + j * step);
	} else {
		CU_UNROLL
		for (int32_t j = 0; j < 4; j++)
			x->row[j] = make_uint4(0, 0, 0, 0);
	}
}

/* Piece i of keys: its four dimensions, its group, and which 16 bytes of the group's rows. Without
 * signs, here and below: then divisions by powers of two are one instruction. */
struct few_keys {
	uint32_t quad, g, part;
	bool there;
};
CU_FN struct few_keys few_keys_at(const struct attend *c, int32_t i, const int32_t bytes)
{
	const uint32_t rest = (uint32_t)i >> c->a->log_quads;
	struct few_keys at;

	at.quad = (uint32_t)i & ((1u << c->a->log_quads) - 1);
	at.g = rest / (uint32_t)bytes;
	at.part = rest % (uint32_t)bytes;
	at.there = 4 * at.quad < (uint32_t)c->a->head_dim && at.g < K_SPAN_GROUPS;
	return at;
}
CU_FN const uint8_t *few_keys_group(const struct attend *c, int32_t i, const int32_t format)
{
	const struct few_keys at = few_keys_at(c, i, k_cache_bytes(format));

	return at.there ? c->tile->group[at.g] : (const uint8_t *)0;
}
CU_FN void few_prefetch_keys(const struct attend *c, const uint8_t *group, int32_t i,
	struct few_piece *x, const int32_t format)
{
	const struct few_keys at = few_keys_at(c, i, k_cache_bytes(format));
	const int32_t step = K_GROUP * k_cache_bytes(format);

	few_prefetch(c, group, 0, (int32_t)(4 * at.quad) * step + (int32_t)(16 * at.part), step, x);
}

/* Piece i of values: its 16 bytes of a token, its four tokens. */
struct few_values {
	uint32_t column, quad;
	bool there;
};
CU_FN struct few_values few_values_at(const struct attend *c, int32_t i, const int32_t bytes)
{
	struct few_values at;

	at.quad = (uint32_t)i >> c->a->log_columns;
	at.column = (uint32_t)i & ((1u << c->a->log_columns) - 1);
	at.there = 16 * at.column < (uint32_t)(c->a->head_dim * bytes) && at.quad < K_SPAN / 4;
	return at;
}
CU_FN void few_prefetch_values(
	const struct attend *c, int32_t i, struct few_piece *x, const int32_t format)
{
	const struct few_values at = few_values_at(c, i, k_cache_bytes(format));
	const int32_t step = c->a->head_dim * k_cache_bytes(format);

	few_prefetch(c, at.there ? c->tile->group[at.quad / 4] : (const uint8_t *)0, 1,
		(int32_t)(at.quad % 4 * 4) * step + (int32_t)(16 * at.column), step, x);
}

/* What the cache stores, and back; element i of an array in its format. */
CU_FN float few_decoded(int32_t format, uint32_t code)
{
	return format == K_CACHE_f16 ? cu_f16((uint16_t)code) : k_cache_value(format, code);
}
CU_FN uint32_t few_coded(int32_t format, float x)
{
	return format == K_CACHE_f16 ? cu_to_f16(x) : k_cache_code(format, x);
}
CU_FN uint32_t few_code(const unsigned char *at, int32_t format, int32_t i)
{
	const int32_t bytes = k_cache_bytes(format);

	return bytes == 1   ? at[i]
		   : bytes == 2 ? ((const uint16_t *)(const void *)at)[i]
						: ((const uint32_t *)(const void *)at)[i];
}

/* Element i of 16 bytes. i and the format are compile-time constants. */
CU_FN float few_cell(const uint4 *x, const int32_t i, const int32_t format)
{
	const int32_t per_word = 4 / k_cache_bytes(format), bits = 32 / per_word;
	const int32_t at = i / per_word;
	const uint32_t word = at == 0 ? x->x : at == 1 ? x->y : at == 2 ? x->z : x->w;
	const uint32_t code = bits == 32 ? word : word >> i % per_word * bits & ((1u << bits % 32) - 1);

	return few_decoded(format, code);
}

/* Element i of each row of a piece, in 16 bytes. */
CU_FN void few_put(float *to, const struct few_piece *x, const int32_t i, const int32_t format)
{
	*(uint4 *)(void *)to =
		make_uint4(k_bits(few_cell(&x->row[0], i, format)), k_bits(few_cell(&x->row[1], i, format)),
			k_bits(few_cell(&x->row[2], i, format)), k_bits(few_cell(&x->row[3], i, format)));
}

CU_FN void few_put_keys(const struct attend *c, const struct few_memory *f, int32_t i,
	const struct few_piece *x, const int32_t format)
{
	const int32_t n = 16 / k_cache_bytes(format);
	const struct few_keys at = few_keys_at(c, i, k_cache_bytes(format));
	float *to = f->k + (int32_t)(at.g * K_GROUP + at.part * (uint32_t)n) * f->stride + 4 * at.quad;

	if (!at.there || at.g * K_GROUP >= (uint32_t)c->unit->n_tokens)
		return;
	CU_UNROLL
	for (int32_t t = 0; t < n; t++)
		few_put(to + t * f->stride, x, t, format);
}

/* Where the values of dimension d for tokens 4 quad … are, so that neither threads of neighbouring
 * dimensions, which read, nor of neighbouring columns, which write, meet in a bank. */
CU_FN float *few_turned(const struct few_memory *f, uint32_t d, uint32_t quad)
{
	return f->v + (d * ATTEND_P + 4 * (quad ^ (d / 8 % 8)));
}

/* By words, so that both stay in registers. */
CU_FN uint4 few_choose(bool first, uint4 a, uint4 b)
{
	return make_uint4(first ? a.x : b.x, first ? a.y : b.y, first ? a.z : b.z, first ? a.w : b.w);
}

/* Tokens of the step itself were not there when x was read. Those that no row sees become zeros: a
 * query's p is +0 there, which changes at most the sign of a zero (rule 11). */
CU_FN void few_mend(const struct attend *c, const struct few_memory *f, const struct few_values *at,
	struct few_piece *x, const int32_t bytes)
{
	const uint32_t seen = c->mask->any.word[at->quad / 8] >> at->quad % 8 * 4 & 15;
	const int32_t step = c->a->head_dim * bytes;

	CU_NO_UNROLL
	for (int32_t r = 0; c->a->folds && r < c->unit->n_rows; r++) {
		const int32_t token = c->row[r].pos - c->unit->span * K_SPAN - (int32_t)(4 * at->quad);

		if (0 <= token && token < 4) {
			const uint4 y =
				*(const uint4 *)(const void *)(f->own + r * step + (int32_t)(16 * at->column));

			CU_UNROLL
			for (int32_t j = 0; j < 4; j++)
				x->row[j] = few_choose(token == j, y, x->row[j]);
		}
	}
	if (seen == 15)
		return;
	CU_UNROLL
	for (int32_t j = 0; j < 4; j++)
		x->row[j] = few_choose(seen >> j & 1, x->row[j], make_uint4(0, 0, 0, 0));
}

CU_FN void few_put_values(const struct attend *c, const struct few_memory *f, int32_t i,
	struct few_piece *x, const int32_t format)
{
	const uint32_t n = 16 / (uint32_t)k_cache_bytes(format);
	const struct few_values at = few_values_at(c, i, k_cache_bytes(format));

	/* few_sums() reads whole 32s of tokens */
	if (!at.there || at.quad / 8 * CU_WARP >= (uint32_t)c->unit->n_tokens)
		return;
	few_mend(c, f, &at, x, k_cache_bytes(format));
	CU_UNROLL
	for (uint32_t d = 0; d < n; d++)
		few_put(few_turned(f, at.column * n + d, at.quad), x, (int32_t)d, format);
}

/* Of f16 what a thread has on its way: its keys up to 64 dimensions, while the step's own rows are
 * computed, and its first two pieces of values during the scores. The rest, and other formats, are
 * asked for when they are needed. Values are turned while the warps of queries have their softmax:
 * by the last four warps, if the first four have all queries. */
struct few_held {
	int32_t pos; /* of the thread's first query */
	struct few_piece k, v[2];
	/* the thread's first piece of values, less than 0: none; and how many pieces on its next is */
	int32_t value, step;
};

/* What can be asked for before it is known whether there is such a unit. */
CU_FN void few_begin(const struct attend *c, struct few_held *h)
{
	const uint8_t *group = few_keys_group(c, cu_thread(), K_CACHE_f16);

	h->pos = c->tile->row[few_first_row(c)].pos;
	few_prefetch_keys(c, c->a->format == K_CACHE_f16 ? group : (const uint8_t *)0, cu_thread(),
		&h->k, K_CACHE_f16);
}

CU_FN void few_hold_values(const struct attend *c, struct few_held *h)
{
	h->step = c->n_queries <= CU_WARPS / 2 ? CU_THREADS / 2 : CU_THREADS;
	h->value = cu_thread() - (CU_THREADS - h->step);
	if (c->a->format == K_CACHE_f16 && h->value >= 0) {
		few_prefetch_values(c, h->value, &h->v[0], K_CACHE_f16);
		few_prefetch_values(c, h->value + h->step, &h->v[1], K_CACHE_f16);
	} else {
		few_prefetch(c, (const uint8_t *)0, 1, 0, 0, &h->v[0]);
		few_prefetch(c, (const uint8_t *)0, 1, 0, 0, &h->v[1]);
	}
}

/* Turns keys into floats in shared memory. */
CU_FN void few_turn_keys(const struct attend *c, struct few_held *h)
{
	const struct few_memory f = few_layout(c);
	int32_t i = cu_thread();

	if (c->a->format == K_CACHE_f16) {
		few_put_keys(c, &f, i, &h->k, K_CACHE_f16);
		if (c->a->head_dim <= CU_FEW_DIMS / 2)
			return;
		i += CU_THREADS;
	}
	CU_NO_UNROLL
	for (; i < K_SPAN_GROUPS * k_cache_bytes(c->a->format) << c->a->log_quads; i += CU_THREADS) {
		struct few_piece x;

#define X(name, bytes, doc)                                                                        \
	if (c->a->format == K_CACHE_##name) {                                                          \
		few_prefetch_keys(c, few_keys_group(c, i, K_CACHE_##name), i, &x, K_CACHE_##name);         \
		few_put_keys(c, &f, i, &x, K_CACHE_##name);                                                \
	}
		K_CACHES(X)
#undef X
	}
}

/* And values. */
CU_FN void few_turn_values(const struct attend *c, const struct few_memory *f, struct few_held *h)
{
	int32_t i = h->value;

	if (i < 0)
		return;
	if (c->a->format == K_CACHE_f16) {
		few_put_values(c, f, i, &h->v[0], K_CACHE_f16);
		few_put_values(c, f, i + h->step, &h->v[1], K_CACHE_f16);
		i += 2 * h->step;
	}
	CU_NO_UNROLL
	for (; i < K_SPAN / 4 << c->a->log_columns; i += h->step) {
		struct few_piece x;

#define X(name, bytes, doc)                                                                        \
	if (c->a->format == K_CACHE_##name) {                                                          \
		few_prefetch_values(c, i, &x, K_CACHE_##name);                                             \
		few_put_values(c, f, i, &x, K_CACHE_##name);                                               \
	}
		K_CACHES(X)
#undef X
	}
}
