/* Prompts as token ids, and answers as text, for the verbs without a screen. Thread: main's. */
#pragma once

#include "cli/cli.h"

/* Ids of a text without a template: control tokens in it are parsed, and the BOS token comes first
 * where the model requires it. *ids is malloc'd, also where it fails. */
int prompt_encode(const struct tokenizer *t, const char *text, size_t size, int32_t **ids,
	size_t *n, struct err *e);

/* Warns on standard error if prompts will be put into another template than the file's own. */
void prompt_note_template(const struct cli *c, const struct engine *engine);
/* Ids of a prompt as the command line specifies: in the chat template with --system, or with --raw
 * as above, where an empty text is an error. *ids is malloc'd, also where it fails. */
int prompt_ids(const struct cli *c, const struct engine *engine, const char *text, size_t size,
	int32_t **ids, size_t *n, struct err *e);

/* The text of an answer's tokens: without control tokens, and cut at the first stop string.
 * malloc'd; NULL without memory. */
char *prompt_answer(
	const struct cli *c, const struct tokenizer *t, const int32_t *ids, size_t n, size_t *size);
