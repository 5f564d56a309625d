/* The shipped prompts, demos/prompts.txt: what /load asks, and the text that activations are
 * measured over. Thread: any; constant. */
#ifndef CUTAWAY_BASE_PROMPTS_H
#define CUTAWAY_BASE_PROMPTS_H

extern const char shipped_prompts[]; /* ends with a NUL */

#endif
