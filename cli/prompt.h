/* Prompts as token ids, and answers as text, as the verbs without a screen have them. Thread:
 * main's. */
#ifndef CUTAWAY_CLI_PROMPT_H
#define CUTAWAY_CLI_PROMPT_H

#include "base/err.h"
#include "cli/cli.h"
#include "engine/core/engine.h"

/* Ids of a text without a template: control tokens in it are parsed, and the token that opens a
 * text comes first where the model asks for it. *ids is malloc'd, also where it fails. */
int prompt_encode(const struct tokenizer *t, const char *text, size_t size, int32_t **ids,
	size_t *n, struct err *e);

/* Says on standard error that prompts will go into a plain template, where that is so. */
void prompt_note_template(const struct cli *c, const struct engine *engine);
/* Ids of a prompt as the command line has it: in the chat template with --system, or with --raw as
 * above, where an empty text is an error. *ids is malloc'd, also where it fails. */
int prompt_ids(const struct cli *c, const struct engine *engine, const char *text, size_t size,
	int32_t **ids, size_t *n, struct err *e);

/* First offset in text where one of the stop strings (NULL-terminated) begins, size if there is
 * none. */
size_t prompt_find_stop(const char *const *stop, const char *text, size_t size);
/* The text of an answer's tokens: without control tokens and what a stop string ended. malloc'd;
 * NULL without memory. */
char *prompt_answer(
	const struct cli *c, const struct tokenizer *t, const int32_t *ids, size_t n, size_t *size);

#endif
