/* See plan.h. */
#include "lab/plan.h"

#include <stdio.h>
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

bool quant_method_sets_apart(enum quant_method m)
{
	return m == QUANT_LLM_INT8 || m == QUANT_SALIENT;
}

/* ---- which tensors ---- */

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

/* Columns that `form` takes together divide the rows, or `otherwise` does. */
static int choose_form(
	struct change_tensor *t, const struct quant_options *o, struct quant_result *r, struct err *e)
{
	const struct gguf_tensor *from = t->from;

	t->form = o->to;
	if (from->dim[0] % k_types[t->form.type].block && o->otherwise < K_N_TYPES) {
		t->form = (struct quant_form){ .type = o->otherwise };
		r->n_otherwise++;
	}
	t->to.type = t->form.type;
	if (!(from->dim[0] % k_types[t->to.type].block))
		return 0;
	return err_set(e, ERR_USAGE,
		"tensor %s has rows of %lld weights, and %s has blocks of %d: give such tensors another "
		"format with --else, or leave them as they are with --keep",
		from->name, (long long)from->dim[0], k_types[t->to.type].name, k_types[t->to.type].block);
}

static int plan_tensor(
	struct change_tensor *t, const struct quant_options *o, struct quant_result *r, struct err *e)
{
	const int64_t n = gguf_tensor_weights(t->from);

	if (!change_is_matrix(t->from))
		return 0;
	t->changed = !is_kept(t->from->name, o->keep) && (!o->to.bits || t->layer >= 0);
	r->from_quantised |= k_types[t->from->type].block > 1;
	if (!t->changed) {
		r->n_kept++;
		return 0;
	}
	if (choose_form(t, o, r, e))
		return -1;
	r->n_tensors++;
	r->n_weights += n;
	r->bits += (double)n * form_bits(&t->form, n / t->from->dim[0], t->from->dim[0]);
	return 0;
}

/* ---- the head ---- */

/* "3-bit/128 gptq from Q4_1"; what goes without saying is left out. */
static void summarise(const struct quant_options *o, const struct quant_result *r, char buf[96])
{
	char name[32];
	const bool plain = o->method == QUANT_RTN && !o->to.bits;

	snprintf(buf, 96, "%s%s%s%s%s", form_name(&o->to, name), plain ? "" : " ",
		plain ? "" : quant_method_name(o->method), r->from_quantised ? " from " : "",
		r->from_quantised ? r->source : "");
}

static void put_own(struct gguf_head *h, const struct quant_options *o, const char *sha256,
	const char *text, const struct quant_result *r, size_t *at_bits)
{
	char summary[96], name[32];

	summarise(o, r, summary);
	gguf_head_u32(h, CHANGE_FILE_TYPE_KEY, change_file_type(o->to.type));
	gguf_head_text(h, OWN_KEYS "method", quant_method_name(o->method));
	gguf_head_text(h, OWN_KEYS "to", form_name(&o->to, name));
	gguf_head_f32(h, OWN_KEYS "bits", (float)r->bits);
	*at_bits = h->size - sizeof(float);
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

void quant_plan_set_bits(struct change_plan *p, size_t at_bits, double bits)
{
	const float value = (float)bits;

	memcpy(p->head.data + at_bits, &value, sizeof value);
}

bool quant_source_name(const struct gguf *g, char name[32])
{
	struct gguf_text stated = { 0 };
	enum k_type type = model_weight_type(g);

	snprintf(name, 32, "%s", k_types[type].name);
	if (!gguf_opt_text(g, QUANT_SUMMARY_KEY, &stated, NULL) || !stated.size)
		return k_types[type].block > 1;
	snprintf(name, 32, "%.*s", (int)(stated.size < 31 ? stated.size : 31), stated.data);
	return !form_type(name, &type) || k_types[type].block > 1; /* 16 bits are no quantisation */
}

int quant_plan_make(struct change_plan *p, const struct gguf *g, const struct quant_options *o,
	const char *sha256, const char *text, struct quant_result *r, size_t *at_bits, struct err *e)
{
	static const char *const replaced[] = { CHANGE_FILE_TYPE_KEY, NULL };

	if (change_plan_open(p, g, e))
		return -1;
	r->from_quantised = quant_source_name(g, r->source);
	for (int32_t i = 0; i < p->n; i++)
		if (plan_tensor(&p->tensor[i], o, r, e))
			return -1;
	if (!r->n_tensors)
		return err_set(e, ERR_USAGE, "%s has no matrix to round%s", gguf_path(g),
			r->n_kept ? ": --keep leaves all as they are" : "");
	r->bits /= (double)r->n_weights;
	if (change_plan_head(p, g, OWN_KEYS, replaced, e))
		return -1;
	put_own(&p->head, o, sha256, text, r, at_bits);
	r->bytes = change_plan_end(p, e);
	return e->code ? -1 : 0;
}
