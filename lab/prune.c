/* See prune.h: the file, layer by layer. */
#include "lab/prune.h"

#include <math.h>

#include "engine/model/model.h"
#include "lab/prune_impl.h"
#include "kernels/format/encode.h"
#include "kernels/format/formats.h"

#define OWN_KEYS "cutaway.prune."

/* ---- the head ---- */

/* "wanda 50% from Q4_1"; what was done before comes first. */
static void summarise(const struct prune *p, char buf[192])
{
	struct gguf_text before = { "", 0 };

	gguf_opt_text(p->c->g, PRUNE_SUMMARY_KEY, &before, NULL);
	snprintf(buf, 192, "%.*s%s%s%s%s", (int)(before.size < 40 ? before.size : 40), before.data,
		before.size ? ", " : "", p->r->what, p->r->n_converted ? " from " : "",
		p->r->n_converted ? p->r->common.source : "");
}

static void put_own(struct prune *p)
{
	struct gguf_head *h = &p->c->plan.head;
	char summary[192];

	summarise(p, summary);
	for (int32_t i = 0; i < p->n_numbers; i++)
		gguf_head_u32(h, p->number[i].key, p->number[i].value);
	if (p->r->n_converted)
		gguf_head_u32(
			h, CHANGE_FILE_TYPE_KEY, change_file_type(p->o->to < K_N_TYPES ? p->o->to : K_F16));
	gguf_head_text(h, OWN_KEYS "method", p->o->method->name);
	gguf_head_text(h, OWN_KEYS "what", p->r->what);
	if (*p->c->text_summary)
		gguf_head_text(h, OWN_KEYS "calibration", p->c->text_summary);
	gguf_head_text(h, OWN_KEYS "source_sha256", p->c->sha256);
	gguf_head_text(h, OWN_KEYS "source_type", p->r->common.source);
	gguf_head_bool(h, OWN_KEYS "from_quantised", p->r->common.from_quantised);
	gguf_head_text(h, PRUNE_SUMMARY_KEY, summary);
}

static int plan(void *self, struct err *e)
{
	struct prune *p = self;
	const char *replaced[ARRAY_N(p->number) + 2];
	int n = 0;

	if (p->o->method->plan(p, e))
		return -1;
	for (int32_t i = 0; i < p->n_numbers; i++)
		replaced[n++] = p->number[i].key;
	if (p->r->n_converted)
		replaced[n++] = CHANGE_FILE_TYPE_KEY;
	replaced[n] = NULL;
	if (change_head(p->c, OWN_KEYS, replaced, e))
		return -1;
	put_own(p);
	return 0;
}

/* ---- zeros ---- */

/* Bytes of row r of a part whose zeros are set: of the same type, all others keep their codes. */
static void write_row(void *arg, int64_t r, void *scratch)
{
	const struct layer_part *p = arg;
	const struct k_type_info *type = &k_types[p->t->to.type];
	const size_t bytes = p->t->to.bytes / (size_t)p->rows;
	const float *w = p->w + r * p->cols;
	uint8_t *out = p->out + (size_t)r * bytes;

	(void)scratch;
	if (p->t->to.type != p->t->from->type || type->block == 1) {
		k_encode(p->t->to.type, w, p->cols, out);
		return;
	}
	memcpy(out, p->raw + (size_t)r * bytes, bytes);
	for (int32_t i = 0; i < p->cols; i++)
		if (!(fabsf(w[i]) > 0))
			k_round_to(p->t->to.type, out + (size_t)(i / type->block) * (size_t)type->block_bytes,
				i % type->block, 0);
}

/* What a matrix with so many zeros takes in formats that leave them out: codes of the others, all
 * scales, and where they are. */
static void count_part(struct prune *p, const struct layer_part *part)
{
	const struct k_facts f = k_facts_of(part->t->to.type);
	const int64_t n = part->rows * part->cols, dense = (int64_t)part->t->to.bytes;
	const int32_t code = f.block > 1 ? f.bits : 8 * f.bytes;
	int64_t kept = 0;

	for (int64_t i = 0; i < n; i++)
		kept += fabsf(part->w[i]) > 0;
	p->r->n_gone += n - kept;
	p->r->dense_bytes += dense;
	p->r->mask_bytes += dense - ((n - kept) * code - n) / 8;
	if (p->o->of == 4 && p->o->keep == 2)
		p->r->pattern_bytes += dense - (n / 2 * code - n / 2 * 2) / 8;
}

static int zero_layer(
	struct prune *p, struct layer_parts *parts, const struct quant_input *in, struct err *e)
{
	for (int32_t i = 0; i < parts->n; i++) {
		struct layer_part *part = &parts->part[i];

		if (!part->t->changed)
			continue;
		if (p->o->method->zeros(p, part, in, e))
			return -1;
		k_deal(p->c->kernels, part->rows, write_row, part);
		if (layer_part_take(part, e))
			return -1;
		count_part(p, part);
	}
	return 0;
}

/* ---- a layer ---- */

static int change_layer(struct prune *p, struct layer_parts *parts, struct err *e)
{
	const struct prune_method *m = p->o->method;
	struct quant_input in[CALIBRATION_INPUTS] = { 0 };
	int rc = m->reads ? layer_pass(parts, in, m->hessians, e) : 0;

	if (!rc)
		rc = m->kind == PRUNE_ZEROS ? zero_layer(p, parts, in, e) : prune_cut(p, parts, in, e);
	calibration_free(in);
	return rc || !m->reads ? rc : layer_pass(parts, NULL, 0, e);
}

static int write_layer(void *self, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct prune *p = self;
	const struct prune_method *m = p->o->method;
	const int64_t gone = p->r->n_gone;
	struct told told = { .change = p->c };
	struct layer_parts parts;
	int rc;

	if (m->kind == PRUNE_LAYERS || t->layer < 0 || (m->reads && !change_reads(p->c, t->layer))) {
		for (int32_t i = 0; i < n; i++)
			if (change_copy(p->c, &t[i], e))
				return -1;
		return 0;
	}
	rc = layer_parts_read(&parts, p->c, t, n, false, e) || told_begin(&told, t->layer, &parts, e) ||
				 change_layer(p, &parts, e) || layer_parts_write(&parts, e)
			 ? -1
			 : 0;
	layer_parts_free(&parts);
	told.row.gone = p->r->n_gone - gone;
	if (!rc)
		told_end(&told, m->name, 0, 0);
	told_free(&told);
	return rc;
}

/* Of a layer of zeros that is there the zeros count, too. */
static int take_layer(void *self, const struct change_tensor *t, int32_t n, struct err *e)
{
	struct prune *p = self;
	struct layer_parts parts;
	int rc;

	for (int32_t i = 0; i < n; i++)
		p->r->common.n_resumed += change_is_matrix(t[i].from) && t[i].layer >= 0;
	if (p->o->method->kind == PRUNE_LAYERS || t->layer < 0)
		return 0;
	rc = layer_parts_read(&parts, p->c, t, n, true, e);
	for (int32_t i = 0; !rc && i < n; i++)
		if (t[i].changed)
			count_part(p, &parts.part[i]);
	if (!rc && change_reads(p->c, t->layer))
		rc = layer_pass(&parts, NULL, 0, e);
	layer_parts_free(&parts);
	return rc;
}

int prune_file(const char *in, const char *out, const struct prune_options *o,
	struct prune_result *r, struct err *e)
{
	static const struct change_ops ops = { "pruning", plan, write_layer, take_layer, NULL };
	struct prune p = { .o = o, .r = r };
	struct change c = { .ops = &ops,
		.self = &p,
		.o = &o->common,
		.r = &r->common,
		.reads = o->method->reads,
		/* the file does not say which parts went */
		.afresh = o->method->kind == PRUNE_PARTS };
	int rc;

	p.c = &c;
	*r = (struct prune_result){ 0 };
	rc = change_file(&c, in, out, e);
	r->lost = p.all > 0 ? p.lost / p.all : 0;
	return rc;
}
