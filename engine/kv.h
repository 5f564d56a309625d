/* KV pages: who reads which page. Paged attention's block manager (Kwon et al. 2023, section 4).
 *
 * Invariants (kv_check): (1) a page is free, or it has readers (refs > 0), or the prefix cache keeps it,
 * or both; (2) a free page is on the free list exactly once; (3) a page with more than one reader, or kept
 * by the cache, is never written: kv_writable() copies it first; (4) counts agree with the pages.
 * Every change is told through `on_change`. Thread: the engine's. After open nothing is allocated. */
#ifndef CUTAWAY_ENGINE_KV_H
#define CUTAWAY_ENGINE_KV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "kernels/kernels.h"

struct kv_page {
	int32_t refs;   /* block tables that hold it */
	int32_t next;   /* free list */
	bool cached;    /* kept by the prefix cache */
	bool is_free;
};

struct kv_change {
	int32_t page, block, refs;
	enum ev_code_page_action action;
	int64_t request, other;
	bool cached;
};

struct kv {
	struct k_kv store;
	size_t bytes; /* of all pages */
	struct k_ctx *kernels; /* whose memory they are in */
	struct kv_page *page; /* [n_pages] */
	int32_t n_pages, n_free, free_head;
	int32_t n_used;   /* pages with readers */
	int32_t n_shared; /* pages with more than one */
	int32_t n_spare;  /* pages n_pages … behind the pool, for the tails of draft trees: they outlive no step, have no
					   * readers and are never told */
	void (*on_change)(void *arg, const struct kv_change *c);
	void *arg;
};

/* Of shape: page size, layers, heads. The context must outlive the pages.
 * kernels NULL: pages are only counted, there is nothing in them (sessions/whatif.h). */
int kv_open(struct kv *kv, struct k_ctx *kernels, const struct k_kv *shape, int32_t n_pages,
			int32_t n_spare, struct err *e);
void kv_close(struct kv *kv);

/* A free page with one reader, or -1 if there is none (the caller evicts or preempts). */
int32_t kv_alloc(struct kv *kv, int64_t request, int32_t block);
void kv_share(struct kv *kv, int32_t page, int64_t request, int32_t block);
/* One reader less; a page without readers that the cache does not keep becomes free. */
void kv_release(struct kv *kv, int32_t page, int64_t request, int32_t block);
/* Makes *page fit for writing: copies it if others read it or the cache keeps it. -1 if a copy is needed
 * and no page is free. */
int kv_writable(struct kv *kv, int32_t *page, int64_t request, int32_t block);
bool kv_needs_copy(const struct kv *kv, int32_t page);
/* The prefix cache takes or drops a page. other: what the event says (idle steps of an evicted page). */
void kv_cache(struct kv *kv, int32_t page, int64_t request, int32_t block);
void kv_evict(struct kv *kv, int32_t page, int64_t other);

/* The contents of one page to another. */
void kv_copy(struct kv *kv, int32_t to, int32_t from);

void kv_check(const struct kv *kv);

#endif
