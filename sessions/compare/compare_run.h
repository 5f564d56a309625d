/* Runs the same prompts under two configurations, by turns (A B, B A, A B …, so that what the
 * machine does meanwhile falls on both), and marks what it runs for the fold of compare.h. Before
 * each answer the prefix cache is emptied and the drafter opened anew, so that no answer is faster
 * for what an earlier one left. Thread: one, which steps both engines. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "engine/core/engine.h"
#include "sessions/compare/compare.h"
#include "sessions/session.h"

struct compare_prompt {
	const char *text;
	const int32_t *ids[2]; /* [n_ids] for each side, whose templates may differ */
	size_t n_ids[2];
};

struct compare_plan {
	struct session *session[2]; /* open and begun, without actors; each has compare_sink for one */
	const struct answer_settings *answer[2];
	const char *label[2]; /* settings as typed */
	const struct compare_prompt *prompt;
	int n_prompts, repeat;
	const atomic_bool *stop;
	/* Called before each answer; run -1: to warm up. */
	void (*report)(void *arg, int prompt, int run, int side);
	void *arg;
};

/* A sink that folds one side. With `lock`, under it: for a reader on another thread. */
struct compare_sink {
	struct compare *c;
	int side;
	pthread_mutex_t *lock; /* or NULL */
};
void compare_sink(void *arg, const struct event *ev);

/* Empties the prefix cache and opens the drafter anew; nothing may run or wait. */
int compare_fresh(struct engine *engine, struct err *e);
/* Emits the mark of what is submitted next; phase OTHER: of nothing. */
void compare_mark(
	struct engine *engine, int side, enum compare_phase phase, int64_t from, const char *label);

/* All prompts, `repeat` times under each, and A's answers scored under both if the vocabularies are
 * the same. ERR_INTERRUPTED: what ran until then is in the fold. */
int compare_run(const struct compare_plan *p, struct compare *c, struct err *e);
