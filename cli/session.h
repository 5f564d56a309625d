/* An engine with its recording, as the verbs without a screen use it. Thread: main's. */
#ifndef CUTAWAY_CLI_SESSION_H
#define CUTAWAY_CLI_SESSION_H

#include "base/err.h"
#include "cli/cli.h"
#include "engine/engine.h"

struct session {
	struct engine *engine;
	struct ring *ring; /* NULL: nothing is recorded */
	struct writer *writer;
	char *model; /* path */
	bool wanted; /* the recording was asked for by name: its failure is the session's failure */
};

/* Opens the engine, adds sink (or NULL) and the recording as the command line says, and begins.
 * Where the default recording cannot be made, says so on standard error and goes on. */
int session_open(struct session *s, const struct cli *c, ev_sink *sink, void *arg, struct err *e);
/* Closes engine and recording in order. -1 if a recording that was asked for by name failed. */
int session_close(struct session *s, struct err *e);

/* Ids of a text without a template: control tokens in it are parsed, and the token that opens a
 * text comes first where the model asks for it. *ids is malloc'd, also where it fails. */
int session_encode(const struct tokenizer *t, const char *text, size_t size, int32_t **ids,
				   size_t *n, struct err *e);

/* Says on standard error that prompts will go into a plain template, where that is so. */
void session_note_template(const struct cli *c, const struct engine *engine);
/* Ids of a prompt as the command line has it: in the chat template with --system, or with --raw as above,
 * where an empty text is an error. *ids is malloc'd, also where it fails. */
int session_prompt(const struct cli *c, const struct engine *engine, const char *text, size_t size,
				   int32_t **ids, size_t *n, struct err *e);

/* First place in text where one of the stop strings (NULL-terminated) begins, size if there is none. */
size_t session_find_stop(const char *const *stop, const char *text, size_t size);
/* The text of an answer's tokens: without control tokens and what a stop string ended. malloc'd; NULL without
 * memory. */
char *session_answer(const struct cli *c, const struct tokenizer *t, const int32_t *ids, size_t n, size_t *size);

#endif
