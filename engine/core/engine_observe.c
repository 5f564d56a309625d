/* Watching: which rows' attention is observed, and what is told of it and of times (events attention, head, time). It is the
 * first hook of the step; turned off, nothing is computed for it. Thread: the engine's. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/core/engine_impl.h"

static int observe_open(struct engine *e, void **state, struct err *err)
{
	struct engine_observing *o = &e->observe;
	size_t blocks = (size_t)(e->info.ctx + K_GROUP - 1) / K_GROUP + 1;

	*state = NULL;
	o->on = true;
	o->page_share = calloc(blocks, sizeof *o->page_share);
	o->packed = malloc((size_t)e->info.n_layers * (blocks + sizeof(uint16_t)));
	return o->page_share && o->packed ? 0 : err_set(err, ERR_MEMORY, "no memory for attention");
}

static void observe_close(struct engine *e, void *state)
{
	(void)state;
	waits_close(&e->observe.waits);
	free(e->observe.page_share);
	free(e->observe.packed);
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

/* Watching every row costs 1 to 2 % of a step (docs/performance.md), so one in attention-every tokens of a request
 * is watched; all are while a head is chosen or steps are taken one by one. Counted in tokens of the request, so
 * that it depends on nothing else. */
static bool is_watched(const struct engine *e, const struct plan_item *item)
{
	const struct request *r = item->r;

	if (!e->observe.on || !e->info.n_heads || !item->n_out || request_is_given(r))
		return false;
	return !r->observed || r->n_ids - r->observed >= e->set.attention_every || e->observe.once ||
		   (e->set.observe_layer >= 0 && e->set.observe_head >= 0);
}

static void observe_row(struct engine *e, void *state, struct plan_item *item)
{
	struct forward *f = &e->forward;
	/* the newest row that is certain to stay: of a draft only the first */
	int32_t row = item->work == EV_WORK_prefill ? item->row + item->n_rows - 1 : item->row;

	(void)state;
	item->observed = is_watched(e, item) ? f->n_observed++ : -1;
	f->rows[row].observe = item->observed;
	if (item->observed >= 0)
		item->r->observed = item->r->n_ids;
}

/* Shares are stored as their root, so that small ones are seen too. */
static uint8_t pack_share(float share)
{
	float v = 255 * sqrtf(share) + 0.5f;

	return v >= 255 ? 255 : (uint8_t)v;
}

/* Adds the groups (of 16 positions) of one head to pages of per_page groups. */
static void add_pages(const float *groups, int32_t n_groups, int32_t per_page, float *pages)
{
	if (per_page == 1) { /* the usual page, and a loop that compilers make vectors of */
		for (int32_t g = 0; g < n_groups; g++)
			pages[g] += groups[g];
		return;
	}
	for (int32_t g = 0; g < n_groups; g++)
		pages[g / per_page] += groups[g];
}

static void tell_head(struct engine *e, const struct plan_item *item, const float *groups,
					  int32_t n_groups, int32_t n_pages)
{
	struct event ev;

	memset(e->observe.page_share, 0, (size_t)n_pages * sizeof *e->observe.page_share);
	add_pages(groups, n_groups, e->memory.page_size / K_GROUP, e->observe.page_share);
	for (int32_t p = 0; p < n_pages; p++)
		e->observe.packed[p] = pack_share(e->observe.page_share[p]);
	ev_init(&ev, EV_head);
	ev.u.head = (struct ev_head){ .step = e->n_steps, .request = item->r->id,
								  .layer = e->set.observe_layer, .head = e->set.observe_head,
								  .share = { e->observe.packed, (size_t)n_pages } };
	stream_emit(&e->stream, &ev);
}

static void tell_attention(struct engine *e, const struct plan_item *item)
{
	const struct forward *f = &e->forward;
	const int32_t observed = item->observed;
	int32_t heads = e->info.n_heads, layers = e->info.n_layers;
	int32_t pos = item->work == EV_WORK_prefill ? item->pos + item->n_rows - 1 : item->pos;
	int32_t n_groups = pos / K_GROUP + 1, n_pages = pos / e->memory.page_size + 1;
	uint8_t *near = e->observe.packed + (size_t)layers * (size_t)n_pages;
	struct event ev;

	for (int32_t l = 0; l < layers; l++) {
		size_t at = ((size_t)l * (size_t)f->n_observed + (size_t)observed) * (size_t)heads;
		int64_t n_near = 0;
		uint16_t share;

		memset(e->observe.page_share, 0, (size_t)n_pages * sizeof *e->observe.page_share);
		for (int32_t h = 0; h < heads; h++) {
			add_pages(f->share + (at + (size_t)h) * (size_t)f->share_stride, n_groups,
					  e->memory.page_size / K_GROUP, e->observe.page_share);
			n_near += f->near_zero[at + (size_t)h];
		}
		for (int32_t p = 0; p < n_pages; p++)
			e->observe.packed[(size_t)l * (size_t)n_pages + (size_t)p] =
				pack_share(e->observe.page_share[p] / (float)heads);
		share = (uint16_t)(n_near * 65535 / ((int64_t)heads * (pos + 1)));
		memcpy(near + 2 * (size_t)l, &share, 2);
	}
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){
		.step = e->n_steps, .request = item->r->id, .pos = pos, .pages = n_pages,
		.share = { e->observe.packed, (size_t)layers * (size_t)n_pages },
		.threshold = (double)f->threshold, .near_zero = { near, 2 * (size_t)layers } };
	stream_emit(&e->stream, &ev);
	if (e->set.observe_layer >= 0 && e->set.observe_head >= 0 && e->set.observe_layer < layers &&
		e->set.observe_head < heads) {
		size_t at = ((size_t)e->set.observe_layer * (size_t)f->n_observed + (size_t)observed) *
						(size_t)heads + (size_t)e->set.observe_head;
		tell_head(e, item, f->share + at * (size_t)f->share_stride, n_groups, n_pages);
	}
}

/* Before the draws: they may end the request. */
static void observe_computed(struct engine *e, void *state)
{
	(void)state;
	for (int32_t i = 0; i < e->plan.n_items; i++)
		if (e->plan.item[i].observed >= 0)
			tell_attention(e, &e->plan.item[i]);
	e->observe.once = false;
}

/* ---- times ---- */

static void observe_begin(struct engine *e, void *state)
{
	(void)state;
	if (e->observe.on)
		waits_begin(&e->observe.waits);
}

/* The codes of the recording are the stages of the kernels, in number and by name. */
#define X(name, label, doc)                                                                        \
	_Static_assert((int)EV_STAGE_##name == (int)K_STAGE_##name, "a stage's code is its number");
K_STAGES(X)
#undef X
_Static_assert((int)EV_N_stage == (int)K_N_STAGES, "a code for each stage");

static void tell_times(struct engine *e)
{
	struct ev_stage_time told[K_N_STAGES];
	struct event ev;
	size_t n = 0;

	for (int i = 0; i < K_N_STAGES; i++) {
		const struct forward_stage *s = &e->forward.stage[i];
		if (s->ops)
			told[n++] = (struct ev_stage_time){ (uint64_t)i, s->ns, s->bytes, s->ops };
	}
	if (!n)
		return;
	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ e->n_steps, { told, n * sizeof *told } };
	stream_emit(&e->stream, &ev);
}

static void observe_tell(struct engine *e, void *state, struct ev_step *s)
{
	(void)state;
	if (!e->observe.on)
		return;
	tell_times(e);
	s->run_delay_ns = waits_ask(&e->observe.waits, e->kernels);
}

const struct step_hooks observe_hooks = {
	.name = "observe",
	.open = observe_open,
	.close = observe_close,
	.begin = observe_begin,
	.row = observe_row,
	.computed = observe_computed,
	.tell = observe_tell,
};
