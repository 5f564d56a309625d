/* Chat templates: the file's own Jinja text, rendered over a conversation's messages.
 *
 * The whole list is rendered for each prompt, as the template's maker meant it: what it does with
 * system texts, thoughts of earlier answers, or turns that do not alternate is its own affair.
 * Control tokens that the rendered text spells out become ids; what messages, tools and variables
 * spell out stays text. Thread: any; all data is constant. */
#pragma once

#include "engine/text/tokenizer.h"

struct chat_template {
	const char *name;           /* "jinja": the file's own; "chatml", "plain": in its place */
	const char *jinja;          /* the Jinja text */
	const char *default_system; /* the file's system text when none is given, or NULL */
	const char *note;           /* why it is not the file's own, clean for a terminal; or NULL */
	const struct parts_thought *thought; /* marks of thoughts; NULL: none that are known */
	const struct parts_calls *calls;     /* how it has calls of tools; NULL: not known */
	bool tells; /* it knows of no tools: a text of ours tells the model, in the form `calls` */
};

/* Never fails: without a template that can be rendered returns "chatml" if the file's is of that
 * kind, else the "plain" one and *known = 0, which is shown on the screen, as a note is. What it
 * returns lives as long as the program. */
const struct chat_template *template_of(const struct gguf *g, int *known);

struct chat_message {
	const char *role; /* "system", "user", "assistant" or what else the template knows */
	const char *text; /* [size] bytes; what is no UTF-8 is replaced */
	size_t size;
	const int32_t *ids; /* [n_ids], in place of text: an answer as it was drawn, without its end */
	size_t n_ids;
	bool after_text; /* ids: no control token stood before them, so that a first space is one */
	/* Of an answer with calls, its tool_calls as JSON, with their arguments as objects and as
	 * texts, since templates take the one or the other; of what a tool said, the call's id and the
	 * tool's name; of an answer, its thought. NULL: none. */
	const char *calls, *calls_text, *call_id, *name, *thought;
};

/* A variable of the template: JSON. */
struct chat_variable {
	const char *name, *value;
};

/* A conversation to be rendered. */
struct chat_input {
	const struct chat_template *c;
	const struct tokenizer *t;
	int64_t now; /* seconds since 1970, of strftime_now */
	const struct chat_message *message;
	size_t n;
	bool open;                            /* add_generation_prompt: the answer is opened */
	const struct chat_variable *variable; /* [n_variables], `tools` among them */
	size_t n_variables;
};

/* Whether a template can be told if the model is to think. */
bool template_can_think(const struct chat_template *c);
/* Tells the template whether the model is to think: "on", "off", or, with any other word, nothing.
 */
void template_think(struct chat_input *of, const char *word);

/* Appends its ids. kept [n_kept]: ids that were computed before (the last prompt and its answer,
 * as drawn); of these all stay that say what the template says, so that their keys and values are
 * found, and the rest is encoded. NULL with 0: all is. */
int template_ids(const struct chat_input *of, const int32_t *kept, size_t n_kept, int32_t **ids,
	size_t *n, size_t *cap, struct err *e);

/* Whether a conversation with this system text has a message of it: NULL has none, "" only in place
 * of a text of the file's own. */
bool template_takes(const struct chat_template *c, const char *system);
/* The ids of a first turn: of a system's text, as template_takes() has it, and a user's. */
int template_first(const struct chat_input *of, const char *system, const char *text, size_t size,
	int32_t **ids, size_t *n, size_t *cap, struct err *e);
