/* See change_plan.h. */
#include "lab/change_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

bool change_is_matrix(const struct gguf_tensor *t)
{
	static const char *const not [] = { "ffn_gate_inp.weight", "ssm_conv1d.weight", "ssm_dt.weight",
		"ssm_norm.weight", "shortconv.conv.weight", "position_embd.weight",
		"time_mix_lerp_fused.weight", "time_mix_r_k.weight", "channel_mix_lerp_k.weight" };

	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		if (text_ends(t->name, not [i]))
			return false;
	return t->n_dims > 1 && text_ends(t->name, ".weight");
}

int32_t change_layer_of(const char *name)
{
	int layer = -1;

	return sscanf(name, "blk.%6d.", &layer) == 1 ? layer : -1;
}

uint32_t change_file_type(enum k_type type)
{
	static const uint32_t number[K_N_TYPES] = { [K_F16] = 1,
		[K_Q4_0] = 2,
		[K_Q4_1] = 3,
		[K_Q8_0] = 7,
		[K_Q5_0] = 8,
		[K_Q5_1] = 9,
		[K_Q2_K] = 10,
		[K_Q3_K] = 11,
		[K_Q4_K] = 14,
		[K_Q5_K] = 16,
		[K_Q6_K] = 18,
		[K_IQ4_NL] = 25,
		[K_IQ4_XS] = 30,
		[K_BF16] = 32,
		[K_MXFP4] = 38 };

	return number[type];
}

static int by_layer(const void *a, const void *b)
{
	const struct change_tensor *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

int change_plan_open(struct change_plan *p, const struct gguf *g, struct err *e)
{
	const int32_t n = gguf_n_tensors(g);

	*p = (struct change_plan){ .tensor = calloc((size_t)n + 1, sizeof *p->tensor), .n = n };
	if (!p->tensor)
		return err_set(e, ERR_MEMORY, "no memory for %d tensors", n);
	for (int32_t i = 0; i < n; i++) {
		const struct gguf_tensor *from = gguf_tensor_at(g, i);

		p->tensor[i] = (struct change_tensor){
			.from = from, .to = *from, .layer = change_layer_of(from->name)
		};
	}
	qsort(p->tensor, (size_t)n, sizeof *p->tensor, by_layer);
	return 0;
}

int32_t change_plan_layer(const struct change_plan *p, int32_t i)
{
	int32_t end = i;

	while (end < p->n && p->tensor[end].layer == p->tensor[i].layer)
		end++;
	return end - i;
}

static bool is_key(const struct gguf_pair *p, const char *key)
{
	return p->key_size == strlen(key) && !memcmp(p->key, key, p->key_size);
}

static bool is_copied(const struct gguf_pair *p, const char *own, const char *const *replaced)
{
	for (; *replaced; replaced++)
		if (is_key(p, *replaced))
			return false;
	return p->key_size <= strlen(own) || memcmp(p->key, own, strlen(own)) != 0;
}

int change_plan_head(struct change_plan *p, const struct gguf *g, const char *own,
	const char *const *replaced, struct err *e)
{
	int64_t align = GGUF_ALIGN;
	struct gguf_pair pair;

	gguf_opt_i64(g, "general.alignment", &align, e);
	gguf_head_begin(&p->head, (size_t)align);
	for (size_t i = 0; (pair = gguf_pair_at(g, i)).key; i++)
		if (is_copied(&pair, own, replaced))
			gguf_head_copy(&p->head, &pair);
	return e->code ? -1 : 0;
}

int64_t change_plan_end(struct change_plan *p, struct err *e)
{
	for (int32_t i = 0; i < p->n; i++) {
		struct change_tensor *t = &p->tensor[i];

		if (t->name[0])
			t->to.name = t->name;
		t->to.data = NULL;
		t->offset = gguf_head_tensor(&p->head, &t->to, t->to.type);
		t->to.bytes = gguf_tensor_bytes(&t->to, t->to.type);
	}
	return gguf_head_end(&p->head, e) ? 0 : (int64_t)(p->head.size + p->head.offset);
}

void change_plan_free(struct change_plan *p)
{
	gguf_head_free(&p->head);
	free(p->tensor);
}
