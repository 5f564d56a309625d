/* The prompts of demos/kinds.txt, which is compiled in: of several kinds of text, for measuring drafters.
 * Thread: any; constant. */
#ifndef CUTAWAY_SESSIONS_BENCH_PROMPTS_H
#define CUTAWAY_SESSIONS_BENCH_PROMPTS_H

#include <stddef.h>

#include "base/err.h"
#include "engine/engine.h"

enum { BENCH_PROMPTS = 64, BENCH_KINDS = 6 };

struct bench_prompt {
	const char *text; /* not terminated */
	size_t size;
	int kind;
};

struct bench_prompts {
	int n, n_kinds;
	struct bench_prompt prompt[BENCH_PROMPTS]; /* kind by kind */
	char kind[BENCH_KINDS][16];
};

void bench_prompts_read(struct bench_prompts *p);
/* Kinds by turns: the first of each, then the second of each … */
void bench_prompts_mix(struct bench_prompts *p);
/* As a chat of this engine's model begins; *ids is malloc'd. */
int bench_prompt_encode(const struct bench_prompt *p, const struct engine *engine, int32_t **ids, size_t *n,
						struct err *e);

#endif
