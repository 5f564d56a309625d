/* Attention (attend.cuh): a kernel for tiles of few queries, and one for the others. */
#pragma once

#include "kernels/cuda/attention_few.cuh"
#include "kernels/cuda/attention_merge.cuh"
#include "kernels/cuda/attention_prefill.cuh"
#include "kernels/attend.h"

/* Called after a unit's records, or its tile's results, are written: merges or quantises them. */
CU_FN void attend_finish(struct attend *c)
{
	const int32_t columns = c->a->n_rep * c->a->head_dim;

	if (c->unit->split) {
		if (!attend_is_last(c, c->unit->row * c->a->n_kv_heads + c->kv_head, c->unit->n_spans))
			return;
		attend_merge_records(c);
		if (c->a->all_heads &&
			attend_is_last(c, c->a->n * c->a->n_kv_heads + c->unit->row, c->a->n_kv_heads))
			attend_quantise_rows(c, 0, c->a->out.dim);
		return;
	}
	CU_SYNC();
	if (c->a->all_heads)
		attend_quantise_rows(c, 0, c->a->out.dim);
	else if (c->a->out.q)
		attend_quantise_rows(c, c->kv_head * columns, columns);
}

CU_FN struct attend attend_open(const struct cu_attention *a)
{
	struct attend c;

	c.a = a;
	c.shared = (struct attend_shared *)(void *)cu_shared_memory();
	c.memory = cu_shared_memory() + ATTEND_SHARED;
	c.row = c.shared->row;
	c.mask = &c.shared->mask[0];
	return c;
}

CU_FN void attend_follow(const struct cu_attention *a)
{
	cu_follow();
	cu_note(a->clock);
}

CU_FN const struct cu_tile *attend_tile(const struct cu_attention *a, int32_t tile)
{
	return tile < CU_FIRST_TILES ? &a->tiles->first[tile] : &a->tiles->tile[tile];
}

/* A block without a unit asks for weights of products to come, once the one before has its own. */
CU_FN void attend_prefetch(const struct cu_attention *a)
{
	const int32_t busy = a->tiles->n * a->n_kv_heads;

	cu_follow();
	if (cu_block() >= busy)
		cu_prefetch(a->ahead, CU_AHEAD, cu_block() - busy, cu_n_blocks() - busy);
}

/* The units that attention_few.cuh takes; the others have a kernel of their own, since registers
 * and code of both together would slow down this one. Unit i is tile i / n under one kv head of
 * n. The tile is asked for before it is known how many there are: the first are there, and zeros
 * after the last. With a fold the kernel before is no RoPE, so all keys that are read here are of
 * steps before, and those of the first unit are fetched while it runs. */
CU_KERNEL cutaway_attention(const __grid_constant__ struct cu_attention a)
{
	struct attend c = attend_open(&a);
	struct cu_tile_head unit;
	struct few_held held;
	bool idle = true;

	c.unit = &unit;
	if (!a.folds)
		attend_follow(&a);
	for (int32_t i = cu_block();;) {
		const int32_t tile = cu_over(i, a.over_kv_heads);
		bool few;

		if (tile >= CU_FIRST_TILES && tile >= a.tiles->n)
			break;
		c.tile = attend_tile(&a, tile);
		unit = c.tile->head;
		c.kv_head = i - tile * a.n_kv_heads;
		few_begin(&c, &held);
		few = c.unit->few & (held.pos >= 0); /* always: loads it in front of the branch */
		if (few)
			few_fetch(&c, &held);
		if (a.folds && i == cu_block())
			attend_follow(&a);
		if (few) {
			idle = false;
			few_unit(&c, &held);
			if (!c.unit->direct || a.head_dim % K_QBLOCK)
				attend_finish(&c);
		}
		i += cu_n_blocks();
		if (i >= c.unit->n_tiles * a.n_kv_heads)
			break;
		CU_SYNC(); /* the shared memory is free */
	}
	if (idle)
		attend_prefetch(&a);
}

/* Unit i is tile i / n under one kv head of n; or tile i under all. */
CU_KERNEL cutaway_attention_many(const __grid_constant__ struct cu_attention a)
{
	struct attend c = attend_open(&a);

	attend_follow(&a);
	if (!(a.tiles->kernels & CU_ATTEND_MANY))
		return;
	for (int32_t i = cu_block();; i += cu_n_blocks()) {
		const bool each = a.tiles->split || !a.all_heads;
		const int32_t tile = each ? cu_over(i, a.over_kv_heads) : i;

		if (tile >= a.tiles->n)
			return;
		c.tile = attend_tile(&a, tile);
		c.unit = &c.tile->head;
		c.kv_head = each ? i - tile * a.n_kv_heads : 0;
		if (c.unit->few)
			continue;
		many_unit(&c, each ? c.kv_head + 1 : a.n_kv_heads);
		attend_finish(&c);
	}
}

/* What has no kernel above (cu_attends_fast): the definition, a block for a unit. */
CU_KERNEL cutaway_attend(const __grid_constant__ struct cu_stage stage)
{
	const struct cu_part p = cu_open_part(&stage);
	const struct k_attention *a = &stage.op.u.attention;

	for (int64_t unit = p.block; unit < k_attend_units(a); unit += p.n_blocks)
		k_attend_unit(a, unit, k_attend_passes(a) > 1 ? stage.phase : -1);
}
