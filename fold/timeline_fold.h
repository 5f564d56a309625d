/* Inside of the timeline: what its files share. Each timeline_x.c folds the events of one subject. */
#ifndef CUTAWAY_FOLD_TIMELINE_FOLD_H
#define CUTAWAY_FOLD_TIMELINE_FOLD_H

#include <stddef.h>

#include "fold/timeline.h"

/* Folds return false for an event that makes no sense; nothing is changed then. */
bool tl_fold_session(struct timeline *t, const struct ev_session *e);
bool tl_fold_setting(struct timeline *t, const struct ev_setting *e, int64_t seq);
bool tl_fold_vocab(struct timeline *t, const struct ev_vocab *e);

bool tl_fold_request(struct timeline *t, const struct ev_request *e, int64_t t_ns);
bool tl_fold_admit(struct timeline *t, const struct ev_admit *e, int64_t t_ns);
bool tl_fold_lookup(struct timeline *t, const struct ev_lookup *e);
bool tl_fold_preempt(struct timeline *t, const struct ev_preempt *e);
bool tl_fold_rewind(struct timeline *t, const struct ev_rewind *e);
bool tl_fold_fork(struct timeline *t, const struct ev_fork *e);
/* The tokens of r from pos on leave it as a future; who hung on them hangs on that. */
void tl_leave_future(struct timeline *t, struct tl_request *r, int32_t pos);
/* Which branch a request's prompt goes on from. parent: only from this request, or 0. */
void tl_find_stem(struct timeline *t, struct tl_request *r, int64_t parent);
bool tl_fold_trim(struct timeline *t, const struct ev_trim *e);
bool tl_fold_finish(struct timeline *t, const struct ev_finish *e, int64_t t_ns);

bool tl_fold_token(struct timeline *t, const struct ev_token *e, int64_t seq, int64_t t_ns);
/* Fills in a token but for its draft. */
void tl_unpack_token(struct tl_token *k, const struct ev_token *e, int64_t seq);
bool tl_fold_draft(struct timeline *t, const struct ev_draft *e);
bool tl_fold_window(struct timeline *t, const struct ev_window *e);

bool tl_fold_cost(struct timeline *t, const struct ev_cost *e);
bool tl_fold_shadow(struct timeline *t, const struct ev_shadow *e);
bool tl_fold_choice(struct timeline *t, const struct ev_choice *e);
void tl_drop_shadows(struct timeline *t, int64_t before);

/* timeline_search.c reads five kinds, and needs nothing of what the others fold: false for one that makes no sense. */
#define TL_SEARCH_KINDS                                                                            \
	(UINT64_C(1) << EV_search | UINT64_C(1) << EV_sharing | UINT64_C(1) << EV_request |                \
	 UINT64_C(1) << EV_token | UINT64_C(1) << EV_finish)
bool tl_fold_searches(struct timeline *t, const struct event *ev);
/* For a player: an event that lies before what was folded last. */
void tl_fold_search_again(struct timeline *t, const struct event *ev);
void tl_searches_free(struct timeline *t);

bool tl_fold_page(struct timeline *t, const struct ev_page *e, int64_t t_ns);
bool tl_fold_attention(struct timeline *t, const struct ev_attention *e);
bool tl_fold_head(struct timeline *t, const struct ev_head *e);
/* All pages free, n of them (a new session, or a pool made anew). */
void tl_pages_reset(struct timeline *t);
bool tl_fold_memory(struct timeline *t, const struct ev_memory *e);

bool tl_fold_batch(struct timeline *t, const struct ev_batch *e);
bool tl_fold_time(struct timeline *t, const struct ev_time *e);
bool tl_fold_step(struct timeline *t, const struct ev_step *e, int64_t seq, int64_t t_ns);
/* Whether an event that names this step may belong to the step that is open. */
bool tl_step_is_open(struct timeline *t, int64_t step);

void tl_request_free(struct tl_request *r);
/* A step has ended: lets go of what is old. */
void tl_slide(struct timeline *t, int64_t step);

struct tl_request *tl_request_find(struct timeline *t, int64_t id);

/* Room for one more item of `size` bytes: the array, perhaps moved, or NULL with t->full set. */
void *tl_grow(struct timeline *t, void *array, int32_t n, int32_t *cap, size_t size);
/* Copy of a span as a string; NULL if it is absent or memory ran out. */
char *tl_text(struct timeline *t, struct ev_span s);
int32_t tl_int32(int64_t v); /* absent or negative: -1; large ones saturate */
float tl_part(double p);     /* outside of 0 … 1: NaN */
uint32_t tl_get32(const unsigned char *p);
float tl_get_float(const unsigned char *p);

#endif
