/* A pool of pages: who reads which page. Paged attention's block manager (Kwon et al. 2023, section
 * 4). What a page holds is its memory group's (memory.h).
 *
 * Invariants (tests check them: pages_check): (1) a page is free, or it has readers (refs > 0), or
 * the prefix cache keeps it, or both; (2) a free page is on the free list exactly once; (3) a page
 * with more than one reader, or kept by the cache, is never written: pages_writable() copies it
 * first; (4) counts agree with the pages; (5) what a pin keeps the cache keeps. Every change is
 * told through `on_change`. Thread: the engine's. After open nothing is allocated. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "kernels/kernels.h"

struct page {
	int32_t refs; /* block tables that hold it */
	int32_t next; /* free list */
	int32_t pins; /* pins that keep it (pin.h); then the prefix cache does, too */
	bool cached;  /* kept by the prefix cache */
	bool is_free;
};

struct page_change {
	int32_t group, page, block, refs;
	enum ev_code_page_action action;
	int64_t request, other;
	bool cached;
};

struct pages {
	int32_t group; /* of the memory */
	uint8_t *base;
	size_t page_bytes, bytes; /* bytes: of all pages */
	struct k_ctx *kernels;    /* whose memory they are in */
	struct page *page;        /* [n_pages] */
	int32_t n_pages, n_free, free_head;
	int32_t n_used;    /* pages with readers */
	int32_t n_shared;  /* pages with more than one */
	int32_t n_pinned;  /* pages with pins */
	int32_t n_scratch; /* pages from n_pages on, beyond the pool, for the tails of draft trees: they
						* outlive no step, have no  readers and are never told */
	void (*on_change)(void *arg, const struct page_change *c);
	void *arg;
	/* a page's contents go to another one; NULL: nobody follows */
	void (*on_copy)(void *arg, int32_t group, int32_t to, int32_t from);
	void *copy_arg;
};

/* The context must outlive the pages. kernels NULL: pages are only counted, there is nothing in
 * them. */
int pages_open(struct pages *p, int32_t group, struct k_ctx *kernels, size_t page_bytes,
	int32_t n_pages, int32_t n_scratch, struct err *e);
void pages_close(struct pages *p);

/* A free page with one reader, or -1 if there is none (the caller evicts or preempts). */
int32_t pages_alloc(struct pages *p, int64_t request, int32_t block);
void pages_share(struct pages *p, int32_t page, int64_t request, int32_t block);
/* One reader less; a page without readers that the cache does not keep becomes free. action:
 * release, or unseen: no row of this reader will read it again. */
void pages_release(
	struct pages *p, int32_t page, int64_t request, int32_t block, enum ev_code_page_action action);
/* Makes *page fit for writing: copies it if others read it or the cache keeps it. -1 if a copy is
 * needed and no page is free. */
int pages_writable(struct pages *p, int32_t *page, int64_t request, int32_t block);
/* The prefix cache takes or drops a page. other: what the event says (idle steps of an evicted
 * page). */
void pages_cache(struct pages *p, int32_t page, int64_t request, int32_t block);
void pages_evict(struct pages *p, int32_t page, int64_t other);
/* One pin more, or one less, keeps a page that the cache has; told at the first and the last. */
void pages_pin(struct pages *p, int32_t page, int64_t pin, int32_t block);
void pages_unpin(struct pages *p, int32_t page, int64_t pin, int32_t block);

/* The contents of one page to another. */
void pages_copy(struct pages *p, int32_t to, int32_t from);
