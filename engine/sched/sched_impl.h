/* Internals of the scheduler, for the files of engine/sched alone. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/sched/sched.h"

/* sched.c */
int sched_queue_insert(struct sched *s, int32_t at, struct request *r);
void sched_queue_remove(struct sched *s, int32_t at);
void sched_leave_slot(struct sched *s, struct request *r);

static inline int64_t sched_rank(int64_t (*rank)(const struct sched *s, const struct request *r),
	const struct sched *s, const struct request *r)
{
	return rank ? rank(s, r) : 0;
}

/* admit.c: the queue index of the next request by the policy, or -1; all admissions of a step. */
int32_t sched_next_waiting(const struct sched *s);
void sched_admit(struct sched *s);
/* r has no pages: it gets those of a match that rows from pos on read. */
void sched_take_blocks(
	struct sched *s, struct request *r, const struct prefix_match *m, int32_t pos);

/* plan.c: the first position whose logits are needed. */
int32_t sched_first_output(const struct request *r);
/* pages.c */
bool sched_is_planned(const struct plan *p, const struct request *r);
/* away.c: hands r's prompt over, if that is wanted; r loses its pages, or goes back in them. */
void sched_hand_over(struct sched *s, struct request *r);
void sched_recall(struct sched *s, struct request *r);

/* users.c: r, which is about to wait, gets its user's account; 0, or -1 if memory ran out. */
int sched_user_open(struct sched *s, struct request *r);
void sched_user_close(struct request *r);
void sched_users_free(struct sched *s);
/* The account pays for the prompt of r, which was just admitted from the queue; for what those that
 * run drew since the last call. */
void sched_user_admit(struct sched *s, struct request *r);
void sched_users_count(struct sched *s);

/* pins.c: r's pin keeps what was registered since; r goes, and its pin with it if it is not whole
 * and nobody else computes it; of so many blocks found those that r may use; a lookup says what
 * pins gave, for a prompt with a match of n_blocks. */
void sched_pin_extend(struct sched *s, const struct request *r);
void sched_pin_leave(struct sched *s, const struct request *r);
int32_t sched_pin_asks(const struct sched *s, const struct request *r, int32_t found);
void sched_pin_note(
	struct sched *s, const struct request *r, int32_t n_blocks, int32_t hit, struct ev_lookup *l);
