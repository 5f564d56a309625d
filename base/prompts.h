/* The shipped prompts, demos/prompts.txt: what /load asks, and the text that activations are
 * measured over. Thread: any; constant. */
#pragma once

extern const char shipped_prompts[]; /* ends with a NUL */
