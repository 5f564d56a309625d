/* Which masks a step of a canvas makes tokens (canvas.h): those whose drawn tokens are the most
 * probable (low-confidence remasking: LLaDA, Nie et al. 2025, section 2.4; MaskGIT, Chang et al.
 * 2022), those whose rows have the least entropy (Dream, Ye et al. 2025), or all whose probability
 * reaches a threshold, and the best in any case (Fast-dLLM, Wu et al. 2025, section 3.3). Equal
 * ones: the first position. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_DIFFUSE_SCHEDULE_H
#define CUTAWAY_ENGINE_DIFFUSE_SCHEDULE_H

#include "engine/core/engine.h"

struct canvas;

enum { SCHEDULE_TEXT = 64 };

/* The settings denoise … of a request. */
struct schedule {
	enum ev_code_schedule by;
	int32_t steps; /* 0: one token a step */
	int32_t block; /* 0: the whole canvas */
	float above;
};

struct schedule schedule_of(const struct engine_options *o);
/* As in an event request, and back; ERR_USAGE. */
void schedule_print(const struct schedule *s, char text[SCHEDULE_TEXT]);
int schedule_parse(struct schedule *s, const char *text, struct err *e);
/* Sets the block under work: the leftmost with masks, from its first mask on. */
void schedule_block(struct canvas *c);
/* Marks the cells of the block that the step makes tokens, of those that were drawn. */
void schedule_choose(struct canvas *c);

#endif
