/* Chat templates of the known families, recognised from the file's own Jinja text.
 *
 * A conversation is a list of ids that only grows (retokenising would miss the cache), so a
 * template is given as pieces: the text before and after each role's text. Thread: any; all data is
 * constant. Not supported: dates that some llama3 templates put into the system text, and tools. */
#ifndef CUTAWAY_ENGINE_TEMPLATE_H
#define CUTAWAY_ENGINE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/model/gguf.h"
#include "engine/text/tokenizer.h"

/* Control tokens in a piece stand for themselves; "{bos}" is the file's own. A piece that is no
 * token of the file's vocabulary is text. */
struct chat_template {
	/* "chatml", "llama3", "llama2", "zephyr", … or "plain" if the file's is unknown */
	const char *name;
	const char *doc;
	const char *default_system; /* the file's system text when none is given, or NULL */
	const char *bos;            /* opens a conversation, or "" */
	const char *system_before, *system_after;
	const char *user_before, *user_after;
	const char *answer_before, *answer_after; /* answer_after follows the end-of-turn token */
	const char *end;     /* name of the end-of-turn token; the file's eos if it has no such token */
	bool system_in_user; /* the system text is inside the first user turn, after its opening */
	bool trim;           /* white space around texts is removed */
};

/* Never fails: without a known template returns the "plain" one and *known = 0, which is shown on
 * the screen. default_system is taken from the file's own template text where it has one (see
 * template_system). What it returns lives as long as the program. */
const struct chat_template *template_of(const struct gguf *g, int *known);
/* The default system text of this file's own template, malloc'd, or NULL if it has none. */
char *template_system(const struct gguf *g);

/* Append ids (see tokenizer_encode). Text of users and systems is tokenised as text: a control
 * token spelled out in it stays text. system NULL: the file's default; "": none. */
int template_begin(const struct chat_template *c, const struct tokenizer *t, const char *system,
	int32_t **ids, size_t *n, size_t *cap, struct err *e);
/* Appends one user turn and the opening of the answer. */
int template_user(const struct chat_template *c, const struct tokenizer *t, const char *text,
	size_t size, int32_t **ids, size_t *n, size_t *cap, struct err *e);
/* Closes an answer: appends the end-of-turn token if the last id is not one, and what follows
 * it. */
int template_close(const struct chat_template *c, const struct tokenizer *t, int32_t **ids,
	size_t *n, size_t *cap, struct err *e);

#endif
