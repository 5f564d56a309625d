/* Routers: which replica gets a request, in a server and in a simulation. One row each in the table
 * of router.c.
 *
 * A router knows what it sent where and what has ended, as one in front of servers does; it does
 * not look into them. Choices depend on that and on the seed alone. Who opens closes. Thread: one
 * at a time, the caller's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct router_request {
	const int32_t *ids; /* of the prompt */
	int32_t n_ids;
	int64_t number;  /* of the request, from 0 */
	int32_t answers; /* that are computed of it; 0: one */
};

/* Why a replica was chosen. */
struct router_why {
	const char *reason; /* in words, a constant */
	int32_t matched;    /* tokens of the longest beginning that is remembered; -1: not looked up */
	int32_t last;       /* the replica that it went to last; -1: none */
};

struct router;
struct router_kind {
	const char *name;
	int32_t (*pick)(struct router *r, const struct router_request *q, struct router_why *why);
};
extern const struct router_kind router_kinds[]; /* ends with name NULL; the first is the default */
const char *router_name(int i);                 /* NULL: there are no more */

struct router_block;
struct router {
	const struct router_kind *kind;
	int32_t n;     /* replicas */
	int32_t *live; /* [n_live] those that take requests, in order */
	int32_t n_live;
	int32_t *requests; /* [n] that it sent there and that have not ended */
	int64_t *tokens;   /* [n] of their prompts */
	int32_t next;      /* of the round */
	int32_t slots;     /* of a replica: by so many requests one may have more than another */
	uint64_t seed;
	struct router_block *block; /* where prompts with this beginning went last */
};

int router_open(
	struct router *r, const char *name, int32_t n, int32_t slots, uint64_t seed, struct err *e);
void router_close(struct router *r);
/* The replica that gets it, or -1: none is left. why (or NULL) says why. */
int32_t router_send(struct router *r, const struct router_request *q, struct router_why *why);
/* One of its answers has ended. */
void router_ended(struct router *r, int32_t replica, int32_t n_prompt);
/* The replica gets no more. */
void router_leave_out(struct router *r, int32_t replica);
