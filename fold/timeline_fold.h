/* Inside of the timeline: what its files share. Each timeline_x.c folds the events of one
 * subject. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/range.h"
#include "fold/timeline.h"

/* One for each kind of event. They return false for one that makes no sense; nothing is changed
 * then. */
#define EVENT(name, doc) bool tl_fold_##name(struct timeline *t, const struct event *ev);
#include "event/events.def"

/* Whether its time, and what is a number in it, has the bounds of timeline.h. */
bool tl_time_in_bounds(const struct event *ev);
bool tl_ints_in_bounds(const struct event *ev);

/* timeline_search.c reads five kinds, and needs nothing of what the others fold: false for one that
 * makes no sense. */
#define TL_SEARCH_KINDS                                                                            \
	(EV_BIT(search) | EV_BIT(sharing) | EV_BIT(request) | EV_BIT(token) | EV_BIT(finish))
bool tl_fold_searches(struct timeline *t, const struct event *ev);
/* The same for an event that lies before what was folded last. */
void tl_fold_search_again(struct timeline *t, const struct event *ev);

/* The tokens of r from pos on leave it as a future; their children become its children. seq: of the
 * rewind. */
void tl_abandon(struct timeline *t, struct tl_request *r, int32_t pos, int64_t seq);
/* Which branch a request's prompt goes on from. parent: only from this request, or 0. */
void tl_find_origin(struct timeline *t, struct tl_request *r, int64_t parent);

/* What a request takes from its events, and from their rows when it is restored. */
void tl_take_request(struct timeline *t, struct tl_request *r, const struct event *ev);
void tl_take_finish(struct timeline *t, struct tl_request *r, const struct event *ev);
/* timeline_pin.c: a prompt was looked up for the first time. */
void tl_pin_gives(struct timeline *t, const struct ev_lookup *e);
void tl_take_lookup(struct tl_request *r, const struct event *ev);
bool tl_lookup_is_sound(const struct ev_lookup *e);

/* Fills in a token but for its draft. */
void tl_unpack_token(struct tl_token *k, const struct ev_token *e, int64_t seq);
/* Whether a token may follow the last of r (any may be the first). */
bool tl_token_fits(const struct timeline *t, const struct tl_token *last, const struct tl_token *k);
/* The tokens that r has are not those that it had. */
void tl_find_cycle(struct tl_request *r);

/* timeline_queue.c: a request has come, it was admitted for the first time; what a keyframe leaves
 * to the row that it names. */
void tl_note_arrived(struct timeline *t, const struct tl_request *r, const struct event *ev);
void tl_note_wait(struct timeline *t, const struct tl_request *r);
bool tl_take_queue(struct timeline *t, const struct event *ev);
void tl_name_group(struct timeline *t, struct tl_group *g, const struct ev_request *e);
/* Whether its latencies count: given tokens (score, verify) come as they are computed. */
bool tl_waits_count(const struct tl_request *r);
/* timeline_slo.c: a request has ended by itself; a target was set. */
void tl_note_served(struct timeline *t, const struct tl_request *r);
void tl_slo_set(struct timeline *t, const struct tl_setting *s);

/* timeline_latency.c: what an event adds to the latencies of the session. */
void tl_note_admitted(struct timeline *t, const struct tl_request *r);
/* k: the newest of its tokens, whose ns is that of the event; settles what that is. */
void tl_note_token(struct timeline *t, struct tl_request *r, struct tl_token *k, int64_t t_ns);
void tl_note_finished(struct timeline *t, const struct tl_request *r);

/* timeline_ranks.c: a step has ended; lets go of what is of steps up to this one. */
void tl_ranks_step(struct timeline *t, struct tl_step *s);
void tl_drop_lanes(struct timeline *t, int64_t before);

void tl_drop_shadows(struct timeline *t, int64_t before);

/* Room for the texts of n token ids. */
void tl_vocab_room(struct timeline *t, int32_t n);

/* All pages free (a new session, or a pool made anew). */
void tl_pages_reset(struct timeline *t);

/* Whether an event that names this step may belong to the step that is open. */
bool tl_step_is_open(struct timeline *t, int64_t step);
/* … or to the one before it. */
bool tl_step_is_now(struct timeline *t, int64_t step);
/* Forgets what was watched at that step or before it. */
void tl_drop_watched(struct tl_request *r, int64_t before);

/* Lets go of requests that have ended: also where requests come and no step does. */
void tl_drop_requests(struct timeline *t);
/* A step has ended: lets go of what is old. */
void tl_slide(struct timeline *t, int64_t step);

/* timeline_run.c: the busy periods and who had which slot. */
void tl_run_arrived(struct timeline *t);
void tl_run_admitted(struct timeline *t, const struct tl_request *r);
void tl_run_preempted(struct timeline *t, const struct tl_request *r);
void tl_run_finished(struct timeline *t, const struct tl_request *r);
void tl_run_step(struct timeline *t, const struct tl_step *s);

struct tl_request *tl_request_find(struct timeline *t, int64_t id);

/* One more item of `size` bytes, of zeros, at the end of an array that `array` points to; NULL with
 * t->full set. */
void *tl_add(struct timeline *t, void *array, int32_t *n, int32_t *cap, size_t size);
/* Room at the end of a list that has at most so many: where it is full, the first one goes. */
void *tl_push(void *items, int32_t *n, int32_t most, size_t size);
/* Room for n floats; false, with t->full set: there is none, and what is there stays. */
bool tl_room(struct timeline *t, float **of, size_t n);
/* Copy of a span as a string; NULL if it is absent or memory ran out. */
char *tl_text(struct timeline *t, struct ev_span s);
/* Its integers below 0 become `absent`, and its spans are gone; event: a struct ev_x. */
void tl_settle(void *event, enum ev_kind kind, int64_t absent);
int32_t tl_int32(int64_t v); /* absent or negative: -1; large ones saturate */
/* What a row may leave out, or a file lie about. */
static inline int64_t tl_or_0(int64_t v)
{
	return v > 0 ? v : 0;
}
float tl_part(double p);                    /* outside of 0 … 1: NaN */
float tl_share(struct ev_span s, size_t i); /* of 16 bits; NaN: it is not there */
