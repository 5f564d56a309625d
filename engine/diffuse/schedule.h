/* Which masked positions a step of a canvas fixes (canvas.h), by the settings denoise …: the most
 * confident by the probability of the drawn token (LLaDA's low-confidence remasking; MaskGIT), or
 * by the entropy of the row (Dream), or all whose probability is above a threshold and at least the
 * best (Fast-dLLM, Wu et al. 2025). Equal ones: the first position. Thread: the engine's. */
#pragma once

#include "engine/settings/options.h"

struct request;

enum ev_code_schedule schedule_code(const struct engine_options *o);
/* Sets the block: the leftmost with masks, from its first mask on. */
void schedule_block(struct request *r);
/* Marks the cells of the block that the step fixes, of those that were drawn. */
void schedule_choose(struct request *r);
