/* What files of engine_ranks.h share: messages, and what each rank says. */
#pragma once

#include <pthread.h>

#include "engine/core/engine_impl.h"
#include "engine/ranks/ranks.h"

/* From rank 0: a head, then its bytes. */
enum message_kind { MESSAGE_OPEN, MESSAGE_STEP, MESSAGE_SET, MESSAGE_PROMPT, MESSAGE_QUIT };

struct head {
	uint32_t kind, copies;
	uint64_t bytes;
	uint32_t replicas, goes_on; /* with MESSAGE_OPEN: options that are no settings */
};

/* What a rank has. */
struct rank_info {
	struct ev_rank has; /* without its texts */
	char isa[16], host[64];
};

/* What a follower says after it opened, and after each step. */
struct reply {
	int32_t code; /* of its error; 0: none */
	int32_t nan_row;
	int32_t n_pages[MEMORY_GROUPS]; /* after opening */
	uint64_t model;                 /* likewise: a hash that tells models apart */
	char text[256];
	struct rank_info info;    /* after opening */
	struct ranks_count count; /* the last: without a lane it is not sent whole */
};

struct engine_ranks {
	struct rank_info info; /* of this rank */
	struct ranks k;
	struct forward_remote remote;
	struct wire wire;                           /* of the newest message */
	struct reply reply[TRANSPORT_RANKS];        /* the newest; of rank 0 its own */
	struct ranks_count before[TRANSPORT_RANKS]; /* the step */
	pthread_t thread[TRANSPORT_RANKS];
	int32_t n_threads;
	bool opened, lost;
	char link[64]; /* the setting */
};

/* engine_ranks.c: the next message from rank 0, to r->wire and r->k.copy; the answer to it. */
int engine_ranks_hear(struct engine_ranks *r, struct head *head, struct err *err);
int engine_ranks_answer(struct engine_ranks *r, struct reply *reply, bool lane, struct err *err);
/* Rank 0's side: a message begins, whose bytes go to what is returned; is sent; the settings that a
 * follower needs, whether one is among them, and what they answered; lane: with the times of an
 * observed step. */
struct wire *engine_ranks_begin(struct engine_ranks *r);
int engine_ranks_tell(struct engine_ranks *r, struct head head, struct err *err);
int engine_ranks_tell_options(
	struct engine_ranks *r, const struct engine_options *o, struct err *err);
bool engine_ranks_share(const struct setting *s);
int engine_ranks_replies(struct engine_ranks *r, bool lane, struct err *err);
/* engine_follow.c: starts the others as threads, and sets the transport. */
int engine_ranks_start_threads(struct engine_ranks *r, int32_t n, struct err *err);
/* Ranks compute on CPUs, and share this machine's: `what` says how many there are, for the error.
 */
int engine_ranks_share_cpus(struct engine_options *o, int32_t n, const char *what, struct err *err);
/* engine_ranks_events.c: what this rank has, when its engine is open; that, and what it did. */
void engine_ranks_look(struct engine *e);
struct reply engine_ranks_reply(const struct engine *e);
