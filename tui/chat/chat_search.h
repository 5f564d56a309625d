/* /search: the answer to a turn is the best of several, found by a search (engine/search/search.h).
 * Internal to tui/.
 *
 * The method is a setting like /temp: it holds for the turns that follow and for /retry; so is the
 * command that scores (/score), which runs asynchronously: neither engine nor screen waits for it.
 * The answer is an ordinary request of the conversation, whose events the engine emits when the
 * search ends. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_SEARCH_H
#define CUTAWAY_TUI_CHAT_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sessions/score/score_command.h"

enum { CHAT_SEARCH_METHOD = 64, CHAT_SEARCH_SCORE = 256 };

struct app;
struct conversation_prompt;

struct chat_search {
	/* "beam:4", as engine/search/search.h has it; "": plain answers */
	char method[CHAT_SEARCH_METHOD];
	char score[CHAT_SEARCH_SCORE];     /* the command that scores; "": score by log-probability */
	char judged_by[CHAT_SEARCH_SCORE]; /* the same, as of the start of the running search */
	struct score_command scorer;
	int64_t running; /* a search of the engine, 0: none */
	int64_t looked_ns;
	bool asked;                            /* a check of its end is queued on the engine's thread */
	bool quietly;                          /* its end is not reported */
	int32_t trimmed_tokens, trimmed_turns; /* noted when the answer becomes a request */
};

/* What was typed ("beam 4 0.6", "best:8", "off") in the engine's form. -1: too long to be one. */
int chat_search_form(const char *typed, char out[CHAT_SEARCH_METHOD]);
/* "off" or a method that the engine can begin. */
int chat_search_set(struct app *a, const char *typed, struct err *e);
/* "off" or a command for the shell. */
int chat_search_score(struct app *a, const char *typed, struct err *e);
/* Begins a search; the conversation then expects one answer. */
int chat_search_begin(struct app *a, const struct conversation_prompt *p, struct err *e);
/* Ends it: frees all its pages and takes its best answer so far for the turn. False: none runs. */
bool chat_search_stop(struct app *a);
/* The same without waiting: the end is handled later. quietly: then only an error is reported. */
bool chat_search_cancel(struct app *a, bool quietly);
void chat_search_work(struct app *a); /* after every wait */

#endif
