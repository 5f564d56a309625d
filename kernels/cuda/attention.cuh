/* Attention (attend.cuh): a kernel for tiles of few queries, and one for the others. */
#ifndef CUTAWAY_KERNELS_CUDA_ATTENTION_CUH
#define CUTAWAY_KERNELS_CUDA_ATTENTION_CUH

#include "kernels/cuda/attention_few.cuh"
#include "kernels/cuda/attention_merge.cuh"
#include "kernels/cuda/attention_prefill.cuh"
#include "kernels/attend.h"

/* Called after a unit's records, or its tile's results, are written: merges or quantises them. */
CU_FN void attend_finish(struct attend *c)
{
	const int32_t columns = c->n_rep * c->kv.head_dim;

	if (c->split) {
		if (!attend_is_last(c, c->unit.row * c->kv.n_kv_heads + c->kv_head, c->unit.n_spans))
			return;
		attend_merge_records(c);
		if (attend_is_observed(c))
			attend_observe_records(c);
		if (c->all_heads &&
			attend_is_last(c, c->a->n * c->kv.n_kv_heads + c->unit.row, c->kv.n_kv_heads))
			attend_quantise_rows(c, 0, c->a->out.dim);
		return;
	}
	CU_SYNC();
	if (c->all_heads)
		attend_quantise_rows(c, 0, c->a->out.dim);
	else if (c->a->out.q)
		attend_quantise_rows(c, c->kv_head * columns, columns);
}

CU_FN void attend_open(struct attend *c, const struct cu_part *p, const struct cu_tiles *tiles)
{
	const struct cu_stage *s = p->stage;

	c->a = &s->op.u.attention;
	c->rope = s->folds ? &s->before.u.rope : (const struct k_rope *)0;
	c->work = p->work;
	c->records = tiles->record;
	c->shared = (struct attend_shared *)p->shared;
	c->memory = p->shared + ATTEND_SHARED;
	c->kv = tiles->kv;
	c->n_rep = c->a->n_heads / tiles->kv.n_kv_heads;
	c->n_ranges = c->a->n_ranges;
	c->observed = c->a->share || c->a->near_zero;
	c->all_heads = c->a->out.q && tiles->kv.head_dim % K_QBLOCK;
	c->sight = &c->shared->sight[0];
}

/* Unit `index`: under one kv head of n, or (n is 1) under all. */
CU_FN void attend_open_unit(
	struct attend *c, const struct cu_tiles *tiles, int32_t index, int32_t n)
{
	const struct cu_tile *t = tiles->tile + index / n;

	c->tile = t;
	c->unit.row = t->row;
	c->unit.n_rows = t->n_rows;
	c->unit.n_spans = t->n_spans;
	c->unit.seen = t->seen;
	c->unit.lo = t->lo;
	c->unit.hi = t->hi;
	c->unit.kv_head = index % n;
	c->unit.kv_end = n == 1 ? c->kv.n_kv_heads : c->unit.kv_head + 1;
	c->direct = t->n_spans == 1 && !(c->all_heads && tiles->split);
	c->split = tiles->split && !c->direct;
}

/* The units that attention_few.cuh takes, or the others: a kernel for each, since registers and
 * code of both together would slow down the first. */
CU_FN void attend_all(const struct cu_part *p, const bool few)
{
	const struct cu_tiles tiles = *p->stage->tiles;
	struct attend c;
	int32_t n;

	if (!(tiles.kernels & (few ? CU_ATTEND_FEW : CU_ATTEND_MANY)))
		return;
	attend_open(&c, p, &tiles);
	n = tiles.split || !c.all_heads ? c.kv.n_kv_heads : 1;
	for (int32_t i = p->block; i < tiles.n * n; i += p->n_blocks) {
		if (tiles.tile[i / n].few != few)
			continue;
		attend_open_unit(&c, &tiles, i, n);
		CU_SYNC(); /* the shared memory is free */
		if (few)
			few_unit(&c);
		else
			many_unit(&c);
		if (!few || !c.direct || c.kv.head_dim % K_QBLOCK)
			attend_finish(&c);
	}
}

static __device__ void cu_attention(const struct cu_part *p)
{
	attend_all(p, true);
}

CU_KERNEL cutaway_attention_many(const __grid_constant__ struct cu_stage stage)
{
	const struct cu_part p = cu_open_part(&stage);

	attend_all(&p, false);
}

/* What has no kernel above (cu_attends_fast): the definition, a block for a unit. */
CU_KERNEL cutaway_attend(const __grid_constant__ struct cu_stage stage)
{
	const struct cu_part p = cu_open_part(&stage);
	const struct k_attention *a = &stage.op.u.attention;

	for (int64_t unit = p.block; unit < k_attend_units(a); unit += p.n_blocks)
		k_attend_unit(a, unit, k_attend_passes(a) > 1 ? stage.phase : -1);
}

#endif
