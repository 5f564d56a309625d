/* See kv.h. */
#include "engine/kv.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kv_open(struct kv *kv, struct k_ctx *kernels, const struct k_kv *shape, int32_t n_pages,
			int32_t n_spare, struct err *e)
{
	char what[96];

	memset(kv, 0, sizeof *kv);
	kv->kernels = kernels;
	kv->store = *shape;
	kv->store.page_bytes = k_kv_page_bytes(shape);
	kv->n_pages = n_pages;
	kv->n_spare = n_spare;
	if (__builtin_mul_overflow(kv->store.page_bytes, (size_t)n_pages + (size_t)n_spare, &kv->bytes))
		return err_set(e, ERR_USAGE, "%d KV pages are more than memory can have", n_pages);
	snprintf(what, sizeof what, "%d KV pages of %zu KB; try fewer with --pages, or a shorter --ctx",
			 n_pages, kv->store.page_bytes >> 10);
	kv->page = calloc((size_t)n_pages, sizeof *kv->page);
	if (!kv->page)
		return err_set(e, ERR_MEMORY, "no memory for %s", what);
	if (kernels)
		kv->store.base = k_alloc(kernels, kv->bytes, K_WORK, what, e);
	if (kernels && !kv->store.base) {
		kv_close(kv);
		return -1;
	}
	kv->free_head = -1;
	for (int32_t i = n_pages - 1; i >= 0; i--) {
		kv->page[i] = (struct kv_page){ .next = kv->free_head, .is_free = true };
		kv->free_head = i;
	}
	kv->n_free = n_pages;
	return 0;
}

void kv_close(struct kv *kv)
{
	if (kv->kernels)
		k_free(kv->kernels, kv->store.base);
	free(kv->page);
	memset(kv, 0, sizeof *kv);
}

static void tell(struct kv *kv, enum ev_code_page_action action, int32_t page, int64_t request,
				 int32_t block, int64_t other)
{
	const struct kv_page *p = &kv->page[page];
	struct kv_change c = { .page = page, .block = block, .refs = p->refs, .action = action,
						   .request = request, .other = other, .cached = p->cached };

	if (kv->on_change)
		kv->on_change(kv->arg, &c);
}

static void put_free(struct kv *kv, int32_t page)
{
	struct kv_page *p = &kv->page[page];

	assert(!p->is_free && !p->refs && !p->cached);
	p->is_free = true;
	p->next = kv->free_head;
	kv->free_head = page;
	kv->n_free++;
	tell(kv, EV_PAGE_free, page, EV_NULL_I, -1, EV_NULL_I);
}

static int32_t take_free(struct kv *kv)
{
	int32_t page = kv->free_head;

	if (page < 0)
		return -1;
	kv->free_head = kv->page[page].next;
	kv->page[page].is_free = false;
	kv->page[page].refs = 1;
	kv->n_free--;
	kv->n_used++;
	return page;
}

int32_t kv_alloc(struct kv *kv, int64_t request, int32_t block)
{
	int32_t page = take_free(kv);

	if (page >= 0)
		tell(kv, EV_PAGE_alloc, page, request, block, EV_NULL_I);
	return page;
}

void kv_share(struct kv *kv, int32_t page, int64_t request, int32_t block)
{
	struct kv_page *p = &kv->page[page];

	assert(!p->is_free);
	p->refs++;
	kv->n_used += p->refs == 1;
	kv->n_shared += p->refs == 2;
	tell(kv, EV_PAGE_share, page, request, block, EV_NULL_I);
}

void kv_release(struct kv *kv, int32_t page, int64_t request, int32_t block)
{
	struct kv_page *p = &kv->page[page];

	assert(p->refs > 0);
	p->refs--;
	kv->n_shared -= p->refs == 1;
	kv->n_used -= p->refs == 0;
	tell(kv, EV_PAGE_release, page, request, block, EV_NULL_I);
	if (!p->refs && !p->cached)
		put_free(kv, page);
}

bool kv_needs_copy(const struct kv *kv, int32_t page)
{
	return kv->page[page].refs > 1 || kv->page[page].cached;
}

void kv_copy(struct kv *kv, int32_t to, int32_t from)
{
	if (kv->kernels)
		k_copy(kv->kernels, kv->store.base + (size_t)to * kv->store.page_bytes,
			   kv->store.base + (size_t)from * kv->store.page_bytes, kv->store.page_bytes);
}

int kv_writable(struct kv *kv, int32_t *page, int64_t request, int32_t block)
{
	int32_t from = *page, to;

	if (!kv_needs_copy(kv, from))
		return 0;
	to = take_free(kv);
	if (to < 0)
		return -1;
	kv_copy(kv, to, from);
	tell(kv, EV_PAGE_copy, to, request, block, from);
	kv_release(kv, from, request, block);
	*page = to;
	return 0;
}

void kv_cache(struct kv *kv, int32_t page, int64_t request, int32_t block)
{
	assert(!kv->page[page].is_free && !kv->page[page].cached);
	kv->page[page].cached = true;
	tell(kv, EV_PAGE_cache, page, request, block, EV_NULL_I);
}

void kv_evict(struct kv *kv, int32_t page, int64_t other)
{
	struct kv_page *p = &kv->page[page];

	assert(p->cached);
	p->cached = false;
	tell(kv, EV_PAGE_evict, page, EV_NULL_I, -1, other);
	if (!p->refs)
		put_free(kv, page);
}

void kv_check(const struct kv *kv)
{
	int32_t n_free = 0, n_used = 0, n_shared = 0, on_list = 0;

	for (int32_t i = 0; i < kv->n_pages; i++) {
		const struct kv_page *p = &kv->page[i];
		assert(p->refs >= 0);
		assert(p->is_free == (p->refs == 0 && !p->cached));
		n_free += p->is_free;
		n_used += p->refs > 0;
		n_shared += p->refs > 1;
	}
	for (int32_t i = kv->free_head; i >= 0; i = kv->page[i].next) {
		assert(kv->page[i].is_free && on_list < kv->n_pages);
		on_list++;
	}
	assert(n_free == kv->n_free && on_list == n_free);
	assert(n_used == kv->n_used && n_shared == kv->n_shared);
	(void)n_free, (void)n_used, (void)n_shared, (void)on_list;
}
