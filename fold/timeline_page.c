/* Part of the timeline: KV pages, block tables, and where attention looked. */
#include "fold/timeline_fold.h"

/* All groups' pages; of a log that does not tell groups, the session's. */
static int32_t count_pages(const struct timeline *t)
{
	int64_t n = 0;

	for (int32_t g = 0; g < t->n_memory; g++)
		n += t->memory[g].pages;
	return t->n_memory ? tl_int32(n) : tl_int32(t->session.pages);
}

bool tl_fold_memory(struct timeline *t, const struct event *ev)
{
	const struct ev_memory *e = &ev->u.memory;

	if (e->memory < 0 || e->memory > t->n_memory || e->memory >= TL_MEMORY || e->pages < 1 ||
		e->pages > TL_PAGES_MAX || !is_index(e->kind, EV_N_memory_kind))
		return false;
	t->memory[e->memory] = *e;
	t->n_memory = (int32_t)e->memory + 1; /* they come in order, all of them if one changed */
	tl_pages_reset(t);
	return true;
}

int32_t timeline_group(const struct timeline *t, int32_t page)
{
	int32_t g = 0;

	for (; g < t->n_memory - 1 && page >= t->memory[g].pages; g++)
		page -= (int32_t)t->memory[g].pages;
	return g;
}

void tl_pages_reset(struct timeline *t)
{
	int32_t n = count_pages(t);

	free(t->page);
	t->page = NULL;
	t->n_pages = 0;
	for (int32_t i = 0; i < t->n_requests; i++)
		t->request[i].n_pages = 0;
	if (n < 1)
		return;
	t->page = calloc((size_t)n, sizeof *t->page);
	t->full |= !t->page;
	t->n_pages = t->page ? n : 0;
}

/* Views show the block table of the first group that keeps all positions, else of the first. */
static int64_t table_group(const struct timeline *t)
{
	for (int32_t g = 0; g < t->n_memory; g++)
		if (t->memory[g].kind == EV_MEMORY_KIND_paged)
			return g;
	return 0;
}

/* Where pages out of sight go back, a request may begin with a later block than its first, or leave
 * some out. */
static bool table_set(struct timeline *t, struct tl_request *r, int64_t block, int32_t page)
{
	const char *visible = timeline_setting(t, "visible");
	const bool paged = !t->n_memory || t->memory[table_group(t)].kind == EV_MEMORY_KIND_paged;
	const bool whole = paged && (!visible || !strcmp(visible, "full"));
	int32_t *added;

	if (!is_index(block, TL_PAGES_MAX) || (whole && block > r->n_pages))
		return false;
	while (r->n_pages <= block) {
		added = tl_add(t, &r->pages, &r->n_pages, &r->cap_pages, sizeof *r->pages);
		if (!added)
			return true;
		*added = -1;
	}
	r->pages[block] = page;
	return true;
}

/* After a copy the old page is released at the same block, where the new one stands already. */
static void table_clear(struct tl_request *r, int64_t block, int32_t page)
{
	if (!is_index(block, r->n_pages) || r->pages[block] != page)
		return;
	r->pages[block] = -1;
	while (r->n_pages && r->pages[r->n_pages - 1] < 0)
		r->n_pages--;
}

static bool page_act(struct timeline *t, struct tl_page *p, const struct ev_page *e)
{
	struct tl_request *r = tl_request_find(t, e->request);
	int32_t page = (int32_t)e->page;

	bool table = e->memory == EV_NULL_I || e->memory == table_group(t);

	switch ((enum ev_code_page_action)e->action) {
	case EV_PAGE_alloc:
	case EV_PAGE_copy:
		if (!r || (table && !table_set(t, r, e->block, page)))
			return false;
		p->owner = r->id;
		p->block = tl_int32(e->block);
		break;
	case EV_PAGE_share:
		if (!r || (table && !table_set(t, r, e->block, page)))
			return false;
		break;
	case EV_PAGE_release:
	case EV_PAGE_unseen:
		if (!r)
			return false;
		if (table)
			table_clear(r, e->block, page);
		break;
	case EV_PAGE_evict:
		t->n_evicted++;
		if (e->other == EV_NULL_I && t->n_requests) /* no idle steps: not for room */
			t->cleared = t->request[t->n_requests - 1].id;
		break;
	case EV_PAGE_free: p->owner = 0; break;
	case EV_PAGE_pin:
	case EV_PAGE_unpin: p->pinned = e->action == EV_PAGE_pin; break;
	case EV_PAGE_cache:
	case EV_N_page_action: break;
	}
	return true;
}

bool tl_fold_page(struct timeline *t, const struct event *ev)
{
	const struct ev_page *e = &ev->u.page;
	struct tl_page *p;

	if (!is_index(e->page, t->n_pages) || !is_index(e->action, EV_N_page_action))
		return false;
	p = &t->page[e->page];
	if (!page_act(t, p, e))
		return false;
	p->refs = e->refs > 0 ? tl_int32(e->refs) : 0;
	p->cached = e->cached == 1;
	if (!p->refs)
		p->heat = p->skipped = p->selected = 0; /* nobody looks at it */
	p->history[p->n_history % TL_PAGE_HISTORY] = (struct tl_page_event){ .step = t->last_step + 1,
		.t_ns = ev->t_ns,
		.request = at_least(e->request, 0),
		.other = e->other,
		.action = (enum ev_code_page_action)e->action,
		.block = tl_int32(e->block),
		.refs = p->refs };
	/* as a ring it only has to keep its place when the count saturates */
	p->n_history = p->n_history < INT32_MAX - TL_PAGE_HISTORY ? p->n_history + 1
															  : p->n_history - TL_PAGE_HISTORY + 1;
	return true;
}

/* share = (v / 255)^2: see event.h. */
static void unpack_shares(float *out, const unsigned char *in, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		float v = (float)in[i] / 255.0f;

		out[i] = v * v;
	}
}

static void heat_pages(struct timeline *t, const struct tl_request *r)
{
	const struct tl_attention *a = &r->attention;

	for (int32_t b = 0; b < a->n_pages && b < r->n_pages; b++) {
		float sum = 0;

		if (!is_index(r->pages[b], t->n_pages))
			continue;
		for (int32_t l = 0; l < a->n_layers; l++)
			sum += a->share[(size_t)l * (size_t)a->n_pages + (size_t)b];
		t->page[r->pages[b]].heat = sum / (float)a->n_layers;
		t->page[r->pages[b]].selected = a->n_read > 0;
		t->page[r->pages[b]].skipped = b < a->n_read ? 1 - a->read[b] : 0;
		t->page[r->pages[b]].heat_step = a->step;
	}
}

static bool take_reads(struct timeline *t, struct tl_attention *a, const struct ev_span *read)
{
	if (read->size && !tl_room(t, &a->read, read->size))
		return false;
	a->n_read = (int32_t)read->size;
	for (int32_t p = 0; p < a->n_read; p++)
		a->read[p] = (float)((const unsigned char *)read->data)[p] / 255.0f;
	return true;
}

bool tl_fold_attention(struct timeline *t, const struct event *ev)
{
	const struct ev_attention *e = &ev->u.attention;
	struct tl_request *r = tl_request_find(t, e->request);
	size_t n_pages = e->pages > 0 ? (size_t)e->pages : 0, n_layers;
	struct tl_attention *a;

	if (!r || !tl_step_is_now(t, e->step) || !e->share.data || !n_pages ||
		n_pages > e->share.size || e->share.size % n_pages)
		return false;
	n_layers = e->share.size / n_pages;
	if (n_layers > TL_MAX_LAYERS || n_pages > INT32_MAX ||
		(e->read.size && (e->read.size != n_pages || !e->read.data)))
		return false;
	a = &r->attention;
	if (!tl_room(t, &a->share, e->share.size) || !tl_room(t, &a->near_zero, n_layers) ||
		!take_reads(t, a, &e->read)) {
		a->n_layers = a->n_pages = a->n_read = 0;
		return true;
	}
	a->step = e->step;
	a->pos = e->pos;
	a->n_layers = (int32_t)n_layers;
	a->n_pages = (int32_t)n_pages;
	a->threshold = e->threshold;
	unpack_shares(a->share, e->share.data, e->share.size);
	for (size_t l = 0; l < n_layers; l++)
		a->near_zero[l] = tl_share(e->near_zero, l);
	heat_pages(t, r);
	return true;
}

bool tl_fold_sparsity(struct timeline *t, const struct event *ev)
{
	const struct ev_sparsity *e = &ev->u.sparsity;
	struct tl_request *r = tl_request_find(t, e->request);
	const size_t n = e->share.size / 2, layers = n / EV_N_sparse;
	const unsigned char *p = e->share.data;

	if (!r || !tl_step_is_now(t, e->step) || !p || !n || e->share.size % (2 * EV_N_sparse) ||
		layers > TL_MAX_LAYERS)
		return false;
	if (!tl_room(t, &r->sparsity.share, n))
		return true;
	for (size_t i = 0; i < n; i++) {
		const int v = p[2 * i] | p[2 * i + 1] << 8;

		r->sparsity.share[i] = v == 65535 ? NAN : (float)v / 65534.0f;
	}
	r->sparsity = (struct tl_sparsity){ e->step, e->pos, e->since, e->rows, e->mark,
		(int32_t)layers, r->sparsity.share };
	return true;
}

bool tl_fold_head(struct timeline *t, const struct event *ev)
{
	const struct ev_head *e = &ev->u.head;
	struct tl_request *r = tl_request_find(t, e->request);

	if (!r || !tl_step_is_now(t, e->step) || !e->share.data || !e->share.size ||
		e->share.size > INT32_MAX || !is_index(e->layer, TL_MAX_LAYERS) || e->head < 0 ||
		e->head > INT32_MAX)
		return false;
	if (!tl_room(t, &r->attention.head_share, e->share.size))
		return true;
	r->attention.head_pages = (int32_t)e->share.size;
	r->attention.head_layer = (int32_t)e->layer;
	r->attention.head = (int32_t)e->head;
	r->attention.head_step = e->step;
	unpack_shares(r->attention.head_share, e->share.data, e->share.size);
	return true;
}
