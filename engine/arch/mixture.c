/* What files say of a mixture of experts. See arch.h. */
#include "engine/arch/arch.h"

#include <stdio.h>

int32_t arch_opt_int(struct arch_file *f, const char *key, int32_t fallback, int32_t max)
{
	char name[96];
	int64_t v = fallback;

	snprintf(name, sizeof name, "%s.%s", f->arch->name, key);
	gguf_opt_i64(f->g, name, &v, f->e);
	if (v >= 0 && v <= max)
		return (int32_t)v;
	err_set(f->e, ERR_INPUT, "%s: %s is %lld; 0 to %d is possible", gguf_path(f->g), name,
		(long long)v, max);
	return 0;
}

/* Of the expert that all rows use: the file says it, or counts such experts, which are one. */
static int32_t shared_width(struct arch_file *f, int32_t i, int32_t width)
{
	char name[64];
	int32_t n;

	snprintf(name, sizeof name, "blk.%d.ffn_gate_shexp.weight", i);
	if (!gguf_find(f->g, name))
		return 0;
	n = arch_opt_int(f, "expert_shared_count", 1, 1024);
	if (n > (1 << 20) / width)
		err_set(f->e, ERR_INPUT, "%s: %d shared experts of width %d are too wide", gguf_path(f->g),
			n, width);
	return arch_int(
		f, "expert_shared_feed_forward_length", f->e->code || !n ? 1 : n * width, 1 << 20);
}

int32_t arch_n_experts(struct arch_file *f)
{
	return arch_opt_int(f, "expert_count", 0, K_ROUTE_EXPERTS);
}

struct experts *arch_add_experts(struct arch_file *f, struct model *m, int32_t i)
{
	struct experts *x = arch_add_block(f, &m->layer[i].ffn, &layer_experts);

	if (!x)
		return NULL;
	x->on.pre = "ffn_norm.weight";
	x->n = arch_int(f, "expert_count", -1, K_ROUTE_EXPERTS);
	x->used = arch_int(f, "expert_used_count", -1, x->n);
	x->width = arch_int(f, "expert_feed_forward_length", m->config.ffn, 1 << 20);
	x->shared_width = shared_width(f, i, x->width);
	return x;
}

struct experts *arch_experts(struct arch_file *f, struct model *m, int32_t i)
{
	if (m->layer[i].ffn.kind == &layer_experts)
		return m->layer[i].ffn.params;
	err_set(f->e, ERR_INPUT, "%s: a model of the family %s without experts is not supported",
		gguf_path(f->g), f->arch->name);
	return NULL;
}

static void read_groups(struct arch_file *f, struct experts *x)
{
	int32_t n = arch_opt_int(f, "expert_group_count", 0, K_ROUTE_GROUPS);
	int32_t used = arch_opt_int(f, "expert_group_used_count", n, K_ROUTE_GROUPS);

	if (n < 2 || used == n || f->e->code)
		return;
	if (x->n % n || used < 1 || used > n || x->used > used * (x->n / n))
		err_set(f->e, ERR_INPUT,
			"%s: of %d experts in %d groups, %d of them used, no %d can be chosen", gguf_path(f->g),
			x->n, n, used, x->used);
	x->n_groups = n;
	x->used_groups = used;
}

void arch_read_router(
	struct arch_file *f, struct experts *x, enum k_route_kind kind, bool norm_weights)
{
	static const enum k_route_kind of[] = { K_ROUTE_all, K_ROUTE_all, K_ROUTE_sigmoid,
		K_ROUTE_chosen };
	const int32_t func = arch_opt_int(f, "expert_gating_func", 0, 3);
	char key[96];

	x->route = func ? of[func] : kind;
	x->norm_weights = norm_weights;
	snprintf(key, sizeof key, "%s.expert_weights_norm", f->arch->name);
	gguf_opt_bool(f->g, key, &x->norm_weights, f->e);
	x->scale = (float)arch_real(f, "expert_weights_scale", 0);
	if (x->scale == 1)
		x->scale = 0; /* none */
	read_groups(f, x);
}
