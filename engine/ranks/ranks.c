/* What a rank has of a model: memory groups, weights, room for steps. See ranks.h. */
#include "engine/ranks/ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static bool add_matrices(struct ranks_list *l, const struct k_matrix *m, int32_t n)
{
	for (int32_t i = 0; i < n; i++) {
		if (!ARRAY_ROOM(l->m, l->cap, l->n + 1))
			return false;
		l->m[l->n++] = m + i;
	}
	return true;
}

static int by_address(const void *a, const void *b)
{
	const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return x < y ? -1 : x > y;
}

static bool has_matrix(const struct ranks_list *l, const struct k_matrix *m)
{
	return l->n && bsearch(&m, l->m, (size_t)l->n, sizeof *l->m, by_address);
}

/* The matrices of a program's products, by address; own: of those alone that this rank runs. */
static int list_matrices(
	struct ranks *k, struct ranks_list *l, const struct k_program *p, bool own, struct err *e)
{
	bool ok = true;

	for (int32_t i = 0; i < p->n_ops; i++) {
		const struct k_op *op = &p->op[i];

		if (own && !ranks_has_op(k, i))
			continue;
		for (int32_t m = 0; op->kind == K_OP_matmul && m < op->u.matmul.n_parts; m++)
			ok = ok && add_matrices(l, op->u.matmul.part[m].w, 1);
		if (op->kind == K_OP_experts)
			ok = ok && add_matrices(l, op->u.experts.w, op->u.experts.n_experts);
	}
	if (l->n)
		qsort(l->m, (size_t)l->n, sizeof *l->m, by_address);
	return ok ? 0 : err_no_memory(e, "the plan of the ranks");
}

/* Groups whose layers' attention can all be split, with a head for each rank. */
static void find_groups(
	struct ranks *k, struct model *m, const struct k_program *p, const struct memory_store *store)
{
	const int32_t unit = k_pack_unit(k->kernels);

	for (int32_t g = 0; g < m->memory.n; g++) {
		const struct memory_spec *spec = &m->memory.group[g];

		if (k->n > 1 && !spec->kind->is_state && spec->kv.n_kv_heads >= k->n && !m->n_encoder)
			k->whole_kv[g] = spec->kv.n_kv_heads;
	}
	for (int32_t i = 0; i < p->n_ops; i++)
		for (int32_t g = 0; p->op[i].kind == K_OP_attention && g < m->memory.n; g++)
			if (p->op[i].u.attention.kv == &store[g].kv && !ranks_can_split(p, i, unit))
				k->whole_kv[g] = 0;
}

static void share_groups(struct ranks *k, struct model *m, struct memory_store *store)
{
	for (int32_t g = 0; g < m->memory.n; g++) {
		const struct ranks_span own = ranks_span(k->whole_kv[g], k->rank, k->n);

		if (!k->whole_kv[g])
			continue;
		m->memory.group[g].kv.n_kv_heads = own.end - own.first;
		store[g].kv.n_kv_heads = own.end - own.first;
	}
}

static int take_exchanges(struct ranks *k, const struct forward *f, struct err *e)
{
	free(k->exchange);
	k->cap_exchanges = 4 * f->needs.ops;
	k->exchange = calloc((size_t)k->cap_exchanges, sizeof *k->exchange);
	free(k->heads);
	k->cap_heads = f->needs.ops;
	k->heads = calloc((size_t)k->cap_heads, sizeof *k->heads);
	return k->exchange && k->heads ? 0 : err_no_memory(e, "the exchanges of the ranks");
}

static int plan_with(
	struct ranks *k, struct model *m, struct forward *f, struct memory_store *store, struct err *e)
{
	const struct k_program *p = forward_program_of_one(f);

	if (k->n_sequence > 1 && memory_has_states(&m->memory))
		return err_set(e, ERR_USAGE,
			"sequence-parallel %d: this model's layers keep states, which go from row to row",
			k->n_sequence);
	if (k->n_sequence > 1 && m->n_encoder)
		return err_set(e, ERR_USAGE, "sequence-parallel %d: an encoder reads its input as a whole",
			k->n_sequence);
	if (list_matrices(k, &k->all, p, false, e) || take_exchanges(k, f, e) ||
		ranks_plan_stages(k, f, e))
		return -1;
	find_groups(k, m, p, store);
	share_groups(k, m, store);
	m->parted = k->n > 1 || k->n_stages > 1;
	k->local_bytes = SIZE_MAX;
	k->local = (uint8_t *)k; /* places are only counted: this program is not run */
	ranks_split(k, f);
	k->local = NULL;
	return list_matrices(k, &k->used, &f->program, true, e);
}

int ranks_plan(struct ranks *k, struct model *m, struct err *e)
{
	const struct memory_specs specs = m->memory;
	struct memory_store store[MEMORY_GROUPS] = { 0 };
	struct forward f = { 0 };
	int failed;

	k->kernels = m->kernels;
	failed =
		memory_stores_open(store, &specs, m->kernels, K_GROUP, 1, "a plan", e) ||
		forward_open(&f, m, store,
			(struct forward_sizes){ .rows = 1, .out = 1, .observed = 1, .also = 1, .ctx = K_SPAN },
			e) ||
		plan_with(k, m, &f, store, e);
	forward_close(&f);
	memory_stores_close(store, &specs, m->kernels);
	return failed ? -1 : 0;
}

/* A matrix that no product has, as the embedding's or an encoder's, is wanted. */
bool ranks_wants(const void *ranks, const struct k_matrix *m, int32_t first, int32_t n)
{
	const struct ranks *k = ranks;

	for (int32_t i = 0; i < k->n_parts; i++) {
		const struct ranks_part *p = &k->part[i];

		if (m >= p->of && m < p->of + p->n && first < p->rows.end && p->rows.first < first + n &&
			p->is[m - p->of].data && has_matrix(&k->used, p->is + (m - p->of)))
			return true;
	}
	return !has_matrix(&k->all, m) || has_matrix(&k->used, m);
}

int64_t ranks_weight_bytes(const struct ranks *k)
{
	size_t n = 0;

	for (int32_t i = 0; i < k->used.n; i++)
		n += k->used.m[i]->data ? k_matrix_bytes(k->kernels, k->used.m[i]) : 0;
	return (int64_t)n;
}

/* The most that exchanges before one op have: three products' outputs, or activations. */
static size_t local_bytes(const struct ranks *k, const struct forward *f)
{
	const struct model_config *c = &f->model->config;
	int32_t widest = forward_widest(f);
	size_t rows, out;

	forward_widen(&widest, f->needs.wide);
	forward_widen(&widest, f->needs.q);
	forward_widen(&widest, c->dim);
	rows = (size_t)f->max_rows * (size_t)((k->by_expert ? widest : widest / k->n) + 512) * 6;
	out = (size_t)f->max_out * (size_t)(c->vocab / k->n + 512) * 4;
	return (2 * (3 * rows + out) + 65536) & ~(size_t)4095;
}

int ranks_attach(struct ranks *k, struct forward *f, struct err *e)
{
	k->local_bytes = local_bytes(k, f);
	k->local = k_alloc(k->kernels, k->local_bytes * (size_t)(k->n + 2), K_WORK,
		"what ranks exchange; try a smaller --slots", e);
	k->received = k->local ? k->local + k->local_bytes : NULL;
	k->cut = calloc((size_t)k->cap_exchanges, sizeof *k->cut);
	k->also = calloc((size_t)f->max_also + 1, sizeof *k->also);
	if (!k->cut || !k->also)
		return err_no_memory(e, "the steps of the ranks");
	return k->local ? take_exchanges(k, f, e) : -1;
}

void ranks_free(struct ranks *k)
{
	for (int32_t i = 0; i < k->n_parts; i++)
		free(k->part[i].is);
	free(k->part);
	free(k->all.m);
	free(k->used.m);
	free(k->cut);
	free(k->also);
	free(k->exchange);
	free(k->copy);
	free(k->heads);
	free(k->observed);
	free(k->passed);
	k_free(k->kernels, k->local);
	if (k->transport)
		k->transport->ops->close(k->transport);
	memset(k, 0, sizeof *k);
}
