/* See plan.h. */
#include "engine/quant/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model/model.h"

#define OWN_KEYS "cutaway.quantize."

const char *quant_method_name(enum quant_method m)
{
#define X(method, name, ...) m == QUANT_##method ? name:
	return QUANT_METHODS(X) "";
#undef X
}

bool quant_method_reads(enum quant_method m)
{
#define X(method, name, reads, ...) m == QUANT_##method ? reads:
	return QUANT_METHODS(X) false;
#undef X
}

/* ---- which tensors ---- */

static bool ends_with(const char *name, const char *end)
{
	const size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcmp(name + n - m, end);
}

/* The matrices of products; not small ones that decide much or must be floats: a router's, those of
 * a recurrence. */
static bool is_matrix(const struct gguf_tensor *t)
{
	static const char *const not [] = { "ffn_gate_inp.weight", "ssm_conv1d.weight",
		"ssm_dt.weight" };

	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		if (ends_with(t->name, not [i]))
			return false;
	return t->n_dims > 1 && ends_with(t->name, ".weight");
}

/* Whether one of the words, with commas between them, is in the name. */
static bool is_kept(const char *name, const char *words)
{
	while (words && *words) {
		const size_t n = strcspn(words, ",");

		if (n && memmem(name, strlen(name), words, n))
			return true;
		words += n + (words[n] == ',');
	}
	return false;
}

static int32_t layer_of(const char *name)
{
	int layer = -1;

	return sscanf(name, "blk.%6d.", &layer) == 1 ? layer : -1;
}

/* Columns that `form` takes together divide the rows, or `otherwise` does. */
static int choose_form(
	struct quant_tensor *t, const struct quant_options *o, struct quant_result *r, struct err *e)
{
	const struct gguf_tensor *from = t->from;

	t->form = o->to;
	if (from->dim[0] % k_types[t->form.type].block && o->otherwise < K_N_TYPES) {
		t->form = (struct quant_form){ .type = o->otherwise };
		r->n_otherwise++;
	}
	t->type = t->form.type;
	if (!(from->dim[0] % k_types[t->type].block))
		return 0;
	return err_set(e, ERR_USAGE,
		"tensor %s has rows of %lld weights, and %s has blocks of %d: give such tensors another "
		"format with --else, or leave them as they are with --keep",
		from->name, (long long)from->dim[0], k_types[t->type].name, k_types[t->type].block);
}

static int plan_tensor(struct quant_tensor *t, const struct gguf_tensor *from,
	const struct quant_options *o, struct quant_result *r, struct err *e)
{
	const int64_t n = quant_count(from);

	*t = (struct quant_tensor){ .from = from, .type = from->type, .layer = layer_of(from->name) };
	if (!is_matrix(from))
		return 0;
	t->rounded = !is_kept(from->name, o->keep) && (!o->to.bits || t->layer >= 0);
	r->from_quantised |= k_types[from->type].block > 1;
	if (!t->rounded) {
		r->n_kept++;
		return 0;
	}
	if (choose_form(t, o, r, e))
		return -1;
	r->n_tensors++;
	r->n_weights += n;
	r->bits += (double)n * form_bits(&t->form, n / from->dim[0], from->dim[0]);
	return 0;
}

static int by_layer(const void *a, const void *b)
{
	const struct quant_tensor *x = a, *y = b;

	if (x->layer != y->layer)
		return x->layer < y->layer ? -1 : 1;
	return x->from < y->from ? -1 : x->from > y->from;
}

/* ---- the head ---- */

/* general.file_type as llama.cpp numbers it. */
static uint32_t file_type_of(enum k_type type)
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

static bool is_key(const struct gguf_pair *p, const char *key)
{
	return p->key_size == strlen(key) && !memcmp(p->key, key, p->key_size);
}

static void put_pairs(struct quant_plan *p, const struct gguf *g)
{
	struct gguf_pair pair;

	for (size_t i = 0; (pair = gguf_pair_at(g, i)).key; i++)
		if (!is_key(&pair, "general.file_type") &&
			!(pair.key_size > strlen(OWN_KEYS) && !memcmp(pair.key, OWN_KEYS, strlen(OWN_KEYS))))
			gguf_head_copy(&p->head, &pair);
}

/* "3-bit/128 gptq from Q4_1"; what goes without saying is left out. */
static void summarise(const struct quant_options *o, const struct quant_result *r, char buf[96])
{
	char name[32];
	const bool plain = o->method == QUANT_RTN && !o->to.bits;

	snprintf(buf, 96, "%s%s%s%s%s", form_name(&o->to, name), plain ? "" : " ",
		plain ? "" : quant_method_name(o->method), r->from_quantised ? " from " : "",
		r->from_quantised ? r->source : "");
}

static void put_own(struct quant_plan *p, const struct quant_options *o, const char *sha256,
	const char *text, const struct quant_result *r)
{
	struct gguf_head *h = &p->head;
	char summary[96], name[32];

	summarise(o, r, summary);
	gguf_head_u32(h, "general.file_type", file_type_of(o->to.type));
	gguf_head_text(h, OWN_KEYS "method", quant_method_name(o->method));
	gguf_head_text(h, OWN_KEYS "to", form_name(&o->to, name));
	gguf_head_f32(h, OWN_KEYS "bits", (float)r->bits);
	p->at_bits = h->size - sizeof(float);
	if (*text)
		gguf_head_text(h, OWN_KEYS "calibration", text);
	if (o->method == QUANT_GPTQ) {
		gguf_head_f32(h, OWN_KEYS "damping", (float)o->damping);
		gguf_head_bool(h, OWN_KEYS "act_order", o->act_order);
	}
	if (o->method == QUANT_SMOOTHQUANT)
		gguf_head_f32(h, OWN_KEYS "alpha", (float)o->alpha);
	gguf_head_text(h, OWN_KEYS "source_sha256", sha256);
	gguf_head_text(h, OWN_KEYS "source_type", r->source);
	gguf_head_bool(h, OWN_KEYS "from_quantised", r->from_quantised);
	gguf_head_text(h, QUANT_SUMMARY_KEY, summary);
}

void quant_plan_set_bits(struct quant_plan *p, double bits)
{
	const float value = (float)bits;

	memcpy(p->head.data + p->at_bits, &value, sizeof value);
}

/* What the source says of itself, or the type of most of its weights. */
static void name_source(const struct gguf *g, struct quant_result *r)
{
	struct gguf_text said = { 0 };

	snprintf(r->source, sizeof r->source, "%s", k_types[model_weight_type(g)].name);
	if (gguf_opt_text(g, QUANT_SUMMARY_KEY, &said, NULL) && said.size) {
		snprintf(
			r->source, sizeof r->source, "%.*s", (int)(said.size < 31 ? said.size : 31), said.data);
		r->from_quantised = true;
	}
}

static int put_head(struct quant_plan *p, const struct gguf *g, const struct quant_options *o,
	const char *sha256, const char *text, struct quant_result *r, struct err *e)
{
	int64_t align = GGUF_ALIGN;

	gguf_opt_i64(g, "general.alignment", &align, e);
	gguf_head_begin(&p->head, (size_t)align);
	put_pairs(p, g);
	put_own(p, o, sha256, text, r);
	for (int32_t i = 0; i < p->n; i++) {
		struct quant_tensor *t = &p->tensor[i];

		t->offset = gguf_head_tensor(&p->head, t->from, t->type);
		t->bytes = gguf_tensor_bytes(t->from, t->type);
	}
	return gguf_head_end(&p->head, e);
}

int quant_plan_make(struct quant_plan *p, const struct gguf *g, const struct quant_options *o,
	const char *sha256, const char *text, struct quant_result *r, struct err *e)
{
	const int32_t n = gguf_n_tensors(g);

	*p = (struct quant_plan){ .tensor = calloc((size_t)n + 1, sizeof *p->tensor), .n = n };
	if (!p->tensor)
		return err_set(e, ERR_MEMORY, "no memory for %d tensors", n);
	name_source(g, r);
	for (int32_t i = 0; i < n; i++)
		if (plan_tensor(&p->tensor[i], gguf_tensor_at(g, i), o, r, e))
			return -1;
	if (!r->n_tensors)
		return err_set(e, ERR_USAGE, "%s has no matrix to round%s", gguf_path(g),
			r->n_kept ? ": --keep leaves all as they are" : "");
	r->bits /= (double)r->n_weights;
	qsort(p->tensor, (size_t)n, sizeof *p->tensor, by_layer);
	if (put_head(p, g, o, sha256, text, r, e))
		return -1;
	r->bytes = (int64_t)(p->head.size + p->head.offset);
	return 0;
}

void quant_plan_free(struct quant_plan *p)
{
	gguf_head_free(&p->head);
	free(p->tensor);
}
