/* The shipped prompts for /load (base/prompts.h). Thread: any; no state. */
#ifndef CUTAWAY_TUI_LOAD_H
#define CUTAWAY_TUI_LOAD_H

int load_n_prompts(void);
/* Prompt i modulo their number, with its passage before it; malloc'd, NULL if memory ran out.
 * *label: where the prompt's own words begin in it. */
char *load_prompt(int i, const char **label);

#endif
