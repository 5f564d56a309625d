/* See pages.h. */
#include "engine/memory/pages.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int pages_open(struct pages *p, int32_t group, struct k_ctx *kernels, size_t page_bytes,
	int32_t n_pages, int32_t n_scratch, struct err *e)
{
	char what[96];

	memset(p, 0, sizeof *p);
	p->group = group;
	p->kernels = kernels;
	p->page_bytes = page_bytes;
	p->n_pages = n_pages;
	p->n_scratch = n_scratch;
	if (__builtin_mul_overflow(page_bytes, (size_t)n_pages + (size_t)n_scratch, &p->bytes))
		return err_set(e, ERR_USAGE, "%d KV pages are more than memory can have", n_pages);
	snprintf(what, sizeof what, "%d KV pages of %zu KB; try fewer with --pages, or a shorter --ctx",
		n_pages, page_bytes >> 10);
	p->page = calloc((size_t)n_pages, sizeof *p->page);
	if (!p->page)
		return err_no_memory(e, "%s", what);
	if (kernels)
		p->base = k_alloc(kernels, p->bytes, K_PAGES, what, e);
	if (kernels && !p->base) {
		pages_close(p);
		return -1;
	}
	p->free_head = -1;
	for (int32_t i = n_pages - 1; i >= 0; i--) {
		p->page[i] = (struct page){ .next = p->free_head, .is_free = true };
		p->free_head = i;
	}
	p->n_free = n_pages;
	return 0;
}

void pages_close(struct pages *pool)
{
	k_free(pool->kernels, pool->base);
	free(pool->page);
	memset(pool, 0, sizeof *pool);
}

static void emit_change(struct pages *pool, enum ev_code_page_action action, int32_t page,
	int64_t request, int32_t block, int64_t other)
{
	const struct page *p = &pool->page[page];
	struct page_change c = { .group = pool->group,
		.page = page,
		.block = block,
		.refs = p->refs,
		.action = action,
		.request = request,
		.other = other,
		.cached = p->cached };

	if (pool->on_change)
		pool->on_change(pool->arg, &c);
}

static void put_free(struct pages *pool, int32_t page)
{
	struct page *p = &pool->page[page];

	assert(!p->is_free && !p->refs && !p->cached);
	p->is_free = true;
	p->next = pool->free_head;
	pool->free_head = page;
	pool->n_free++;
	emit_change(pool, EV_PAGE_free, page, EV_NULL_I, -1, EV_NULL_I);
}

static int32_t take_free(struct pages *pool)
{
	int32_t page = pool->free_head;

	if (page < 0)
		return -1;
	pool->free_head = pool->page[page].next;
	pool->page[page].is_free = false;
	pool->page[page].refs = 1;
	pool->n_free--;
	pool->n_used++;
	return page;
}

int32_t pages_alloc(struct pages *pool, int64_t request, int32_t block)
{
	int32_t page = take_free(pool);

	if (page >= 0)
		emit_change(pool, EV_PAGE_alloc, page, request, block, EV_NULL_I);
	return page;
}

void pages_share(struct pages *pool, int32_t page, int64_t request, int32_t block)
{
	struct page *p = &pool->page[page];

	assert(!p->is_free);
	p->refs++;
	pool->n_used += p->refs == 1;
	pool->n_shared += p->refs == 2;
	emit_change(pool, EV_PAGE_share, page, request, block, EV_NULL_I);
}

void pages_release(struct pages *pool, int32_t page, int64_t request, int32_t block,
	enum ev_code_page_action action)
{
	struct page *p = &pool->page[page];

	assert(p->refs > 0);
	p->refs--;
	pool->n_shared -= p->refs == 1;
	pool->n_used -= p->refs == 0;
	emit_change(pool, action, page, request, block, EV_NULL_I);
	if (!p->refs && !p->cached)
		put_free(pool, page);
}

static bool pages_needs_copy(const struct pages *pool, int32_t page)
{
	return pool->page[page].refs > 1 || pool->page[page].cached;
}

void pages_copy(struct pages *pool, int32_t to, int32_t from)
{
	if (pool->on_copy)
		pool->on_copy(pool->copy_arg, pool->group, to, from);
	if (pool->kernels)
		k_copy(pool->kernels, pool->base + (size_t)to * pool->page_bytes,
			pool->base + (size_t)from * pool->page_bytes, pool->page_bytes);
}

int pages_writable(struct pages *pool, int32_t *page, int64_t request, int32_t block)
{
	int32_t from = *page, to;

	if (!pages_needs_copy(pool, from))
		return 0;
	to = take_free(pool);
	if (to < 0)
		return -1;
	pages_copy(pool, to, from);
	emit_change(pool, EV_PAGE_copy, to, request, block, from);
	pages_release(pool, from, request, block, EV_PAGE_release);
	*page = to;
	return 0;
}

void pages_cache(struct pages *pool, int32_t page, int64_t request, int32_t block)
{
	assert(!pool->page[page].is_free && !pool->page[page].cached);
	pool->page[page].cached = true;
	emit_change(pool, EV_PAGE_cache, page, request, block, EV_NULL_I);
}

void pages_evict(struct pages *pool, int32_t page, int64_t other)
{
	struct page *p = &pool->page[page];

	assert(p->cached && !p->pins);
	p->cached = false;
	emit_change(pool, EV_PAGE_evict, page, EV_NULL_I, -1, other);
	if (!p->refs)
		put_free(pool, page);
}

void pages_pin(struct pages *pool, int32_t page, int64_t pin, int32_t block)
{
	assert(pool->page[page].cached);
	if (pool->page[page].pins++)
		return;
	pool->n_pinned++;
	emit_change(pool, EV_PAGE_pin, page, EV_NULL_I, block, pin);
}

void pages_unpin(struct pages *pool, int32_t page, int64_t pin, int32_t block)
{
	assert(pool->page[page].pins > 0);
	if (--pool->page[page].pins)
		return;
	pool->n_pinned--;
	emit_change(pool, EV_PAGE_unpin, page, EV_NULL_I, block, pin);
}
