/* The scheduler: which request gets which rows in the coming step. It touches no tensors.
 *
 * Continuous batching by iteration (Yu et al. 2022) with chunked prefill (Agrawal et al. 2024). In
 * order:
 *   1. waiting requests take free slots, in the policy's order and when it opens (policy.h);
 * preempted ones go to the head of the queue;
 *   2. every running request that only lacks its newest token gets one row, and rows to verify its
 * draft, the one admitted first before the others;
 *   3. what is left of the budget goes to prompts, in the policy's order, at most `chunk` rows
 * each. A policy may let newest tokens pause for prompts, or prompts for newest tokens (its turn).
 * Pages come from the free list, then from the prefix cache, then from a running request that
 * was admitted later, which is preempted and recomputed.
 *
 * Invariants (tests check them: sched_check): (1) a request is in a slot or in the queue, never
 * both; (2) the pages of a running request cover its computed positions; (3) readers counted over
 * block tables equal the pools'. */
#pragma once

#include "engine/memory/pin.h"
#include "engine/sched/request.h"
#include "engine/sched/policy.h"
#include "event/stream.h"

/* A policy that lets later requests go first ends that for a request that was overtaken so often.
 */
enum { SCHED_PATIENCE = 8, SCHED_WHY = 160 };

struct plan_item {
	struct request *r;
	enum ev_code_work work;
	int32_t pos;      /* first row */
	int32_t n_rows;   /* with drafts */
	int32_t n_drafts; /* the last rows are drafted tokens */
	int32_t n_out;    /* the last n_out rows need logits */
	int32_t row, out; /* first row and first output of the step */
	int32_t branch;   /* first of its branches in the step; the step fills it in */
	int32_t observed; /* index of its observed row in the step, or -1; the step fills it in */
};

struct plan {
	struct plan_item *item; /* [slots] */
	int32_t n_items, n_rows, n_out;
};

/* What a user was served: tokens of prompts, and twice those drawn (users.c). */
struct sched_user {
	char *name; /* "": of requests that are nobody's */
	int64_t served;
	int32_t n_live; /* its requests that wait or run */
};

struct sched {
	const struct sched_policy *policy;
	struct memory *memory;
	struct prefix *prefix;
	struct stream *stream;
	struct request **slot; /* [n_slots] */
	int32_t n_slots, n_running;
	struct request **queue; /* [cap_queue], the head at 0 */
	int32_t n_queue, cap_queue;
	int64_t n_admitted, step;
	int32_t budget, chunk; /* rows; chunk 0: whole prompts */
	int32_t max_out;       /* outputs a step can have */
	/* Plans what needs a step of its own, which it is if anything is planned. NULL: nothing does.
	 */
	void (*plan_first)(struct sched *s, struct plan *p);
	int32_t n_preempted; /* ever */
	bool open;           /* whether the step may admit requests that never ran */
	int32_t n_decodes;   /* steps with newest tokens since a request was last admitted */
	/* why the newest plan left requests waiting (enum ev_code_hold), and the one that was first in
	 * order; EV_NULL_I: none was left; nobody was asked for */
	int64_t hold, hold_first;
	/* since the event `queue` was emitted last a request came or left; that event told of one */
	bool queue_changed, queue_emitted;
	struct sched_user **user;
	int32_t n_users, cap_users;
	struct sched_user *last; /* whose request left the queue last */
	float pin_limit;         /* share of each group's pages that pins may keep */
	float served_ratio;      /* of the policy tgi, as settings.h says */
	int32_t waiting_tokens;  /* the same */
	/* Proposes drafts of at most `nodes` tokens into r[i]->draft, for requests that lack only their
	 * newest token, oldest first. NULL: no speculation. */
	void (*propose)(void *arg, struct request **r, int32_t n, int32_t nodes);
	void *arg;
	/* Somebody else computes r's next n rows, for which it has pages; false: nobody does. NULL:
	 * there is nobody. And what calls r back, before its pages go: from then on nothing is written
	 * to them. */
	bool (*hand_over)(void *arg, struct request *r, int32_t n);
	void (*recall)(void *arg, struct request *r);
	void *hand_arg;
	int32_t hand_least;     /* rows that are worth it */
	bool draft_pages;       /* the drafter needs pages for drafted tokens before it proposes */
	struct request **ready; /* [n_slots] scratch */
};

/* The requests that run, in the order of their slots; that wait, in the order of the queue:
 * for_running(s, r) count(r); */
#define for_requests(list, n, r)                                                                   \
	for (struct request *const *at_ = (list), *r; at_ < (list) + (n); at_++)                       \
		if ((r = *at_))
#define for_running(s, r) for_requests((s)->slot, (s)->n_slots, r)
#define for_waiting(s, r) for_requests((s)->queue, (s)->n_queue, r)

int sched_open(struct sched *s, struct memory *memory, struct prefix *prefix, struct stream *stream,
	int32_t n_slots, struct err *e);
void sched_close(struct sched *s); /* frees the requests that are left */
/* Takes the settings that are no more than numbers to it. */
void sched_set(struct sched *s, const struct engine_options *o);

/* Appends to the queue. */
int sched_add(struct sched *s, struct request *r, struct err *e);
/* Takes a request out of slot or queue and releases its pages; the caller owns it then. */
void sched_remove(struct sched *s, struct request *r);
struct request *sched_find(const struct sched *s, int64_t id);

/* Plans the next step (s->step). Emits admissions, lookups, page changes and preemptions. */
void sched_plan(struct sched *s, struct plan *p);

/* Requests in the queue that could be admitted: not those that rest. */
int32_t sched_n_waiting(const struct sched *s);

/* Tokens that r, which waits or runs, has to compute before it can draw; for one that waits, those
 * that the prefix cache lacks. */
int32_t sched_uncomputed(const struct sched *s, const struct request *r);

/* After the step: offers blocks that are now full to the prefix cache, and releases pages that no
 * row sees any more. */
void sched_register(struct sched *s, struct request *r);

/* Where a rewound request resumes if `valid` of its tokens may stay computed: that position, unless
 * memory that later rows read is gone (of a window, or a state within a block); then the nearest
 * one before it. */
int32_t sched_resume(struct sched *s, const struct request *r, int32_t valid);
/* Resumes there: pages after that position are released. */
void sched_rewind(struct sched *s, struct request *r, int32_t valid);

/* A running request gives up its pages and its slot, and rests until the caller clears
 * r->backed_off. */
void sched_rest(struct sched *s, struct request *r);

/* Starts r, which waits, with all that `parent`, which runs, has computed: r enters a slot at once
 * and shares its pages. Returns the number of tokens shared; 0: no slot is free, or parent waits
 * itself. */
int32_t sched_fork(struct sched *s, const struct request *parent, struct request *r);

/* ---- pins (pins.c) ---- */

/* r, which waits, declares the first `tokens` of its prompt stable: whole blocks of them are kept
 * for so long, once they are computed; ttl_ns 0: until they are given up. One that is there already
 * is renewed. Refused (r->pin is 0) with its numbers in `why`, beyond pin_limit, or where a request
 * that waits or runs would no longer fit. */
void sched_pin(
	struct sched *s, struct request *r, int32_t tokens, int64_t ttl_ns, char why[SCHED_WHY]);
/* The pin ends; the pointers to others move. */
void sched_unpin(struct sched *s, struct pin *p, enum ev_code_pin_action action);
void sched_pins_end(struct sched *s, enum ev_code_pin_action action); /* all */
void sched_pins_expire(struct sched *s);                              /* those whose time is over */
/* Whether r could not run even alone in the pages there are, beside what is pinned; says why. */
bool sched_never_fits(const struct sched *s, const struct request *r, char why[SCHED_WHY]);

/* ---- for requests that plan their rows themselves (struct request_kind) ---- */

void plan_add(struct plan *p, struct request *r, enum ev_code_work work, int32_t n_rows,
	int32_t n_drafts, int32_t n_out);
/* The running request that was admitted first among those after `after`. */
struct request *sched_next_oldest(const struct sched *s, int64_t after);
/* pages.c: takes pages for positions up to `end`, writable from `pos` on. False: that would preempt
 * a request admitted before r, or a planned one. */
bool sched_ensure_pages(
	struct sched *s, const struct plan *p, struct request *r, int32_t pos, int32_t end);
/* r was just refused pages: it waits, or ends if no other request could ever free one. */
void sched_denied(struct sched *s, const struct plan *p, struct request *r);
