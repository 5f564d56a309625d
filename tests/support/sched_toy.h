/* The scheduler without a model, for tests: pages are only counted, and a token is drawn by adding
 * one: a replica of `cutaway simulate`. Every invariant is checked after every step, and time is
 * counted in steps. */
#pragma once

#include "simulate/replica.h"

enum { TOY_CTX = 512, TOY_MOST = 1024 };

struct toy_request { /* steps; 0: not yet */
	int64_t arrived, admitted, first, newest, done;
	int64_t gap; /* longest between two of its tokens */
};

struct toy {
	struct replica replica;
	int64_t n, step; /* requests submitted, numbered from 1; the newest step */
	int32_t preempted;
	int64_t admitted[TOY_MOST], n_admitted; /* requests, in order of admission */
	int64_t prompts[TOY_MOST], n_prompts;   /* of prefill items of the newest plan, in order */
	struct toy_request request[TOY_MOST];
	int64_t slot_steps, rows, ended; /* slots in use, summed over steps; rows; requests that ended
									  */
	int32_t most_overtaken;
	/* told of each plan before it is computed; or NULL */
	void (*planned)(void *arg, const struct plan *p);
	void *arg;
	bool joined; /* a request was admitted that never ran before, while others ran */
};

/* A prompt of n tokens that begin with `first`, and tokens to draw. Prompts of the same `first`
 * share. */
struct toy_submission {
	int32_t first, n, drawn;
	const char *user;
	int32_t priority, deadline;
};

/* 64 rows a step, chunks of 32, pages of 16. */
void toy_open(struct toy *w, const char *policy, int32_t slots, int32_t pages);
void toy_close(struct toy *w);
int64_t toy_submit(struct toy *w, struct toy_submission ask); /* its number */
void toy_step(struct toy *w);
/* From 1 to n. *seed: not 0. */
int32_t toy_random(uint32_t *seed, int32_t n);
