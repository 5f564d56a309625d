/* The inside of the scheduler: for the files of engine/sched alone. */
#ifndef CUTAWAY_ENGINE_SCHED_IMPL_H
#define CUTAWAY_ENGINE_SCHED_IMPL_H

#include "engine/sched/sched.h"

/* sched.c */
int sched_queue_insert(struct sched *s, int32_t at, struct request *r);
void sched_queue_remove(struct sched *s, int32_t at);
void sched_leave_slot(struct sched *s, struct request *r);

/* admit.c: the index in the queue of the request that the policy has next, or -1; one admission, if
 * it can be. */
int32_t sched_next_waiting(const struct sched *s);
bool sched_admit(struct sched *s);
/* r has no pages: it gets those of a match, as far as who goes on at pos reads them. */
void sched_take_blocks(
	struct sched *s, struct request *r, const struct prefix_match *m, int32_t pos);

/* pages.c: pages for positions up to `end`, those from `pos` on fit for writing. False: none can be
 * had without preempting who was admitted before, or is planned. */
bool sched_ensure_pages(
	struct sched *s, const struct plan *p, struct request *r, int32_t pos, int32_t end);
/* r was just refused pages: it waits, or ends if nobody else could ever free one. */
void sched_denied(struct sched *s, const struct plan *p, struct request *r);

#endif
