/* Observation: chooses the rows whose attention is observed, and emits the events attention, head
 * and time. It is the first hook of the step; turned off, nothing is computed for it. Thread: the
 * engine's. */
#include "engine/core/engine_impl.h"
#include "engine/observe/waits.h"

struct observed_room {
	uint8_t *packed; /* shares of attention, packed for the event */
	/* [pages of the longest sequence, of 16] */
	float *page_share, *page_read;
	uint16_t *reads; /* positions of each group */
	struct waits waits;
};

static int observe_open(struct engine *e, void **state, struct err *err)
{
	struct observed_room *o = *state;
	size_t blocks = (size_t)(e->info.ctx + K_GROUP - 1) / K_GROUP + 1;

	e->observe.room = o;
	e->observe.on = true;
	o->page_share = calloc(blocks, sizeof *o->page_share);
	o->page_read = calloc(blocks, sizeof *o->page_read);
	o->reads = calloc(blocks, sizeof *o->reads);
	o->packed = malloc((size_t)e->info.n_layers * (blocks + sizeof(uint16_t)) + blocks);
	return o->page_share && o->page_read && o->reads && o->packed ? 0
																  : err_no_memory(err, "attention");
}

static void observe_close(struct engine *e, void *state)
{
	struct observed_room *o = state;

	(void)e;
	waits_close(&o->waits);
	free(o->page_share);
	free(o->page_read);
	free(o->reads);
	free(o->packed);
}

void engine_observe(struct engine *e, bool on)
{
	e->observe.on = on;
}

void engine_look_closely(struct engine *e)
{
	e->observe.once = true;
}

/* ---- attention ---- */

/* Observing every row costs 1 to 2 % of a step (docs/performance.md), so one in attention-every
 * tokens of a request is observed; all are while a head is selected or the user single-steps. It
 * counts tokens of the request, so that the choice depends on nothing else. */
static bool is_watched(const struct engine *e, const struct plan_item *item)
{
	const struct request *r = item->r;

	if (!e->observe.on || !r->how->next || !e->info.n_heads || !item->n_out)
		return false;
	return !r->observed || r->n_ids - r->observed >= e->set.attention_every || e->observe.once ||
		   (e->set.observe_layer >= 0 && e->set.observe_head >= 0);
}

/* The newest row that is certain to stay: of a draft only the first. */
static int32_t observed_row(const struct plan_item *item)
{
	return item->work == EV_WORK_prefill ? item->row + item->n_rows - 1 : item->row;
}

static void observe_row(struct engine *e, void *state, struct plan_item *item)
{
	struct forward *f = &e->forward;

	(void)state;
	item->observed = is_watched(e, item) ? f->n_observed++ : -1;
	f->rows[observed_row(item)].observe = item->observed;
	if (item->observed >= 0)
		item->r->observed = item->r->n_ids;
}

/* Shares are stored as their square roots, so that small ones remain visible. */
static uint8_t pack_share(float share)
{
	float v = 255 * sqrtf(share) + 0.5f;

	return v >= 255 ? 255 : v > 0 ? (uint8_t)v : 0; /* 0 for NaN, too */
}

/* Adds the groups (of 16 positions) of one head to pages of per_page groups. */
static void add_pages(const float *groups, int32_t n_groups, int32_t per_page, float *pages)
{
	if (per_page == 1) { /* the usual page size, and a loop that compilers vectorise */
		for (int32_t g = 0; g < n_groups; g++)
			pages[g] += groups[g];
		return;
	}
	for (int32_t g = 0; g < n_groups; g++)
		pages[g / per_page] += groups[g];
}

/* An observed row, and the pages up to it. */
struct observed {
	int64_t request;
	int32_t at, row, pos, n_pages;
};

/* The mean of n heads' shares from `head` on, by page, into packed [n_pages]. */
static void pack_heads(struct engine *e, const struct observed *o, const struct k_attention *a,
	int32_t head, int32_t n, uint8_t *packed)
{
	const float *groups = a->share + (size_t)(o->at * a->n_heads + head) * (size_t)a->share_stride;

	float *share = e->observe.room->page_share;

	memset(share, 0, (size_t)o->n_pages * sizeof *share);
	for (int32_t h = 0; h < n; h++, groups += a->share_stride)
		add_pages(groups, o->pos / K_GROUP + 1, e->memory.page_size / K_GROUP, share);
	for (int32_t p = 0; p < o->n_pages; p++)
		packed[p] = pack_share(share[p] / (float)n);
}

/* Nothing is packed or read yet. Returns how many layers have attention. */
static int32_t begin_reads(struct engine *e, const struct observed *o)
{
	const size_t layers = (size_t)e->info.n_layers, pages = (size_t)o->n_pages;
	int32_t n = 0;

	memset(e->observe.room->packed, 0, layers * (pages + sizeof(uint16_t)));
	memset(e->observe.room->page_read, 0, (size_t)o->n_pages * sizeof *e->observe.room->page_read);
	for (int32_t i = 0; i < e->forward.program.n_ops; i++)
		n += e->forward.program.op[i].kind == K_OP_attention &&
			 !e->forward.program.op[i].u.attention.adds;
	return n;
}

static int32_t count_bits(uint16_t x)
{
	return x == 0xffff ? 16 : __builtin_popcount(x); /* which most processors are not asked for */
}

/* Adds what a kv head reads of each page to e->observe.room->page_read, as a share of n_heads;
 * returns how many positions that are. */
static int64_t add_head_reads(struct engine *e, const struct observed *o,
	const struct k_attention *a, int32_t kv_head, int32_t n_heads)
{
	const int32_t n_groups = o->pos / K_GROUP + 1, per_page = e->memory.page_size / K_GROUP;
	int64_t n = 0;

	memset(e->observe.room->reads, 0, (size_t)n_groups * sizeof *e->observe.room->reads);
	k_attention_reads(a, o->row, kv_head, e->observe.room->reads);
	for (int32_t g = 0; g < n_groups; g++) {
		const int32_t bits = count_bits(e->observe.room->reads[g]);

		e->observe.room->page_read[g / per_page] += (float)bits / (float)n_heads;
		n += bits;
	}
	return n;
}

/* Adds what a layer's heads read of each page to e->observe.room->page_read, as a share of
 * n_layers. Returns the share of all those positions and the *read ones of the layer's op before,
 * of all heads, whose attention is near zero, in 1/65535.
 */
static uint16_t add_reads(struct engine *e, const struct observed *o, const struct k_attention *a,
	int32_t n_layers, int64_t *read)
{
	const int32_t n_kv = a->kv->n_kv_heads;
	int64_t near = 0;

	for (int32_t h = 0; h < n_kv; h++)
		*read += add_head_reads(e, o, a, h, n_layers * n_kv);
	for (int32_t h = 0; h < a->n_heads; h++)
		near += a->near_zero[o->at * a->n_heads + h];
	/* of ranks that chose for themselves, rank 0 knows its own choices alone */
	return *read ? (uint16_t)(near * 65535 / (a->n_heads / n_kv * *read)) : 0;
}

/* Of each page, the share of its positions that were read, into packed [n_pages]; returns whether
 * some were not. */
static bool pack_reads(const struct engine *e, const struct observed *o, uint8_t *packed)
{
	bool some = false;

	for (int32_t p = 0; p < o->n_pages; p++) {
		const int32_t left = o->pos + 1 - p * e->memory.page_size;
		const int32_t held = left < e->memory.page_size ? left : e->memory.page_size;

		packed[p] = (uint8_t)(255 * e->observe.room->page_read[p] / (float)held + 0.5f);
		some |= packed[p] < 255;
	}
	return some;
}

static void emit_head(struct engine *e, const struct observed *o, const struct k_attention *a)
{
	pack_heads(e, o, a, e->set.observe_head, 1, e->observe.room->packed);
	STREAM_EMIT(&e->stream, head, .step = e->n_steps, .request = o->request,
		.layer = e->set.observe_layer, .head = e->set.observe_head,
		.share = { e->observe.room->packed, (size_t)o->n_pages });
}

/* A layer without attention reports zeros: its part of the buffers still holds another layer's
 * values from an earlier step. */
static void emit_attention(struct engine *e, const struct plan_item *item)
{
	const struct forward *f = &e->forward;
	const int32_t row = observed_row(item), pos = f->rows[row].pos;
	const struct observed o = { item->r->id, item->observed, row, pos,
		pos / e->memory.page_size + 1 };
	const size_t pages = (size_t)o.n_pages, layers = (size_t)e->info.n_layers;
	const struct k_attention *chosen = NULL;
	uint8_t *packed = e->observe.room->packed, *near = packed + layers * pages;
	uint8_t *read = near + layers * sizeof(uint16_t);
	const int32_t n_attention = begin_reads(e, &o);
	int64_t seen = 0; /* by a layer's ops of attention so far */
	struct ev_span reads;

	for (int32_t i = 0; i < f->program.n_ops; i++) {
		const struct k_attention *a = &f->program.op[i].u.attention;
		const int32_t layer = f->program.op[i].layer;

		if (f->program.op[i].kind != K_OP_attention)
			continue;
		seen = a->adds ? seen : 0;
		pack_heads(e, &o, a, 0, a->n_heads, packed + (size_t)layer * pages);
		memcpy(near + sizeof(uint16_t) * (size_t)layer,
			&(uint16_t){ add_reads(e, &o, a, n_attention, &seen) }, sizeof(uint16_t));
		if (layer == e->set.observe_layer && e->set.observe_head >= 0)
			chosen = a;
	}
	reads = pack_reads(e, &o, read) ? (struct ev_span){ read, pages } : (struct ev_span){ 0 };
	STREAM_EMIT(&e->stream, attention, .step = e->n_steps, .request = o.request, .pos = pos,
		.pages = o.n_pages, .share = { packed, layers * pages },
		.threshold = (double)f->observed.threshold,
		.near_zero = { near, layers * sizeof(uint16_t) }, .read = reads);
	if (chosen)
		emit_head(e, &o, chosen);
}

/* Before the draws: they may end the request. */
static void observe_computed(struct engine *e, void *state)
{
	(void)state;
	for (int32_t i = 0; i < e->plan.n_items; i++)
		if (e->plan.item[i].observed >= 0)
			emit_attention(e, &e->plan.item[i]);
	e->observe.once = false;
}

/* ---- times ---- */

static void observe_begin(struct engine *e, void *state)
{
	(void)state;
	if (e->observe.on)
		waits_begin(&e->observe.room->waits);
}

/* The codes of the recording are the stages of the kernels, in number and by name. */
#define X(name, label, doc)                                                                        \
	_Static_assert((int)EV_STAGE_##name == (int)K_STAGE_##name, "a stage's code is its number");
K_STAGES(X)
#undef X
_Static_assert((int)EV_N_stage == (int)K_N_STAGES, "a code for each stage");

static void emit_times(struct engine *e)
{
	struct ev_stage_time out[K_N_STAGES];
	size_t n = 0;

	for (int i = 0; i < K_N_STAGES; i++) {
		const struct forward_stage *s = &e->forward.cost.stage[i];
		if (s->ns || s->bytes || s->ops)
			out[n++] = (struct ev_stage_time){ (uint64_t)i, s->ns, s->bytes, s->ops };
	}
	if (n)
		STREAM_EMIT(&e->stream, time, .step = e->n_steps, .stages = { out, n * sizeof *out });
}

static void observe_fill(struct engine *e, void *state, struct ev_step *s)
{
	(void)state;
	if (!e->observe.on)
		return;
	emit_times(e);
	s->run_delay_ns = waits_ask(&e->observe.room->waits, e->kernels);
}

const struct step_hooks observe_hooks = {
	.name = "observe",
	.size = sizeof(struct observed_room),
	.open = observe_open,
	.close = observe_close,
	.begin = observe_begin,
	.row = observe_row,
	.computed = observe_computed,
	.fill = observe_fill,
};
