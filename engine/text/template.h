/* Chat templates: the file's own Jinja text, or a known family's.
 *
 * A conversation is a list of ids that only grows (retokenising would miss the cache), so a
 * template is given as pieces: the text before and after each role's text. They are cut out of
 * conversations that the file's template renders (template_probe.h), unless it writes what the
 * family that it looks like writes. What cannot be cut falls back to that family. Thread: any; all
 * data is constant. Not supported: tools. */
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
	/* "jinja": the file's own pieces; "chatml", "llama3", …; "plain" if the file's is unknown */
	const char *name;
	const char *doc;
	const char *default_system; /* the file's system text when none is given, or NULL */
	const char *bos;            /* opens a conversation, or "" */
	const char *system_before, *system_after;
	const char *user_before, *user_after;
	const char *answer_before, *answer_after; /* answer_after follows the end-of-turn token */
	const char *end;     /* name of the end-of-turn token; the file's eos if it has no such token */
	bool system_in_user; /* the system text is inside the first user turn, after its opening */
	bool system_opens;   /* system_before stands in place of bos */
	bool trim;           /* white space around texts is removed */
	const char *note;    /* where a conversation differs from the file's template, or NULL */
	/* what a model writes before that token, and an answer that was cut off lacks; NULL: nothing */
	const char *end_before;
};

/* Never fails: without a template that can be followed or is known returns the "plain" one and
 * *known = 0, which is shown on the screen, as a note is. default_system is taken from the file's
 * own template text where it has one in ChatML. What it returns lives as long as the program. */
const struct chat_template *template_of(const struct gguf *g, int *known);

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
