/* What an assistant's turn is made of: a thought, text, and calls of tools, each in the marks that
 * the model's template puts around it. A table of call formats; the reader of turns as they grow;
 * and the grammar of a turn that is to have calls or a bounded thought.
 *
 * The formats are those that templates render earlier calls in: Hermes 2 Pro and Qwen 2.5
 * (<tool_call>), Qwen3-Coder, Llama 3, Mistral (three of its tokenizers), DeepSeek V3, R1 and V3.1,
 * Gemma 4 and FunctionGemma. Thread: any; the tables are constant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign_json.h"

#include "base/err.h"

struct tokenizer;

enum parts_args {
	PARTS_JSON,
	PARTS_XML, /* <parameter=NAME>\nVALUE\n</parameter>\n, texts as they are */
	PARTS_BARE /* {NAME:VALUE,…}, texts in `quote` */
};

/* A turn with calls: text, open, then of each call: call, its name, args, its arguments, done;
 * between two `between`; close. */
struct parts_calls {
	const char *name;
	const char *with[3], *without[4]; /* texts that templates of the format have and have not */
	bool first;                       /* a turn has calls or a text */
	const char *mark;                 /* what no text before calls has */
	char open[40], close[40];
	const char *call, *args, *done;
	const char *between; /* NULL: one call a turn */
	enum parts_args kind;
	const char *quote;
	const char *token[6]; /* of these texts, those that are control tokens where a vocabulary has
							 them */
};
/* In parts_calls.args and done: nine letters or digits, the call's id. */
#define PARTS_ID "\1"

struct parts_thought {
	const char *open, *close;
	const char *head; /* what a thought begins with behind `open`, and is none of it */
};

/* Of a Jinja text; NULL: it has none that is known. */
const struct parts_thought *parts_thought_of(const char *jinja);
/* Where it knows of no calls at all: that of Hermes, of which the model is then told. */
const struct parts_calls *parts_calls_of(const char *jinja);
/* Jinja that tells the model of tools, before a template that does not: malloc'd; NULL: it does, or
 * there is no memory. */
char *parts_tell(const char *jinja);

/* ---- reading ---- */

struct parts_text {
	char *text; /* [n], malloc'd */
	size_t n, cap;
};
struct parts_call {
	struct parts_text name, args; /* args: JSON */
};

struct parts {
	/* as the caller sets them; NULL: none is looked for */
	const struct parts_thought *thought;
	const struct parts_calls *calls;
	const cJSON *tools; /* of PARTS_XML: which parameters are texts */
	bool begun;         /* the prompt ends within a thought */
	bool together;      /* thoughts stay in the text, with their marks */
	/* what was read; whole only once `last` was */
	struct parts_text thoughts, text;
	struct parts_call *call;
	size_t n_calls, cap_calls, n_whole; /* n_whole: calls whose arguments have ended */
	bool failed;                        /* no memory */
	/* of the reader */
	int phase, depth;
	bool quoted, escaped, key;
	uint64_t lists; /* bit d: what is open at depth d is a list */
	size_t at;      /* read of the raw text */
	size_t looked;  /* for the end of a value, in vain */
};

/* Reads on in raw [n], which has grown since the last call (control tokens by their names). last:
 * it ends there. */
void parts_read(struct parts *t, const char *raw, size_t n, bool last);
void parts_free(struct parts *t);
/* Whether the bytes are one of the turn's marks, so that a reader wants the control token's name.
 */
bool parts_has_token(const struct parts *t, const char *name, size_t size);
/* Whether what was read ends within a thought. */
bool parts_in_thought(const struct parts *t);
/* Whether a prompt ends within a thought; h may be NULL. */
bool parts_is_begun(
	const struct parts_thought *h, const struct tokenizer *t, const int32_t *ids, size_t n);
/* The marks of a thought that an answer begins with, or that the prompt before it has begun; NULL:
 * it has none. */
const struct parts_thought *parts_thought_in(
	const char *prompt, size_t n_prompt, const char *answer, size_t n_answer);
enum { PARTS_TAIL = 256 }; /* bytes of a prompt that tell */

/* ---- the grammar ---- */

struct parts_rules {
	const struct parts_thought *thought; /* NULL: none is allowed */
	bool begun;
	int32_t budget; /* tokens after which a thought must end; 0: none */
	const struct parts_calls *calls;
	const cJSON *tools; /* functions: name, parameters */
	bool must, one;     /* a call is needed; no more than one */
	const char *name;   /* of the function to call, or NULL */
	const char *spec;   /* what binds the text in place of calls, or NULL */
};
/* A spec of engine/grammar/constraint.h, malloc'd; NULL with the error (ERR_USAGE: parameters that
 * the format has no form for). */
char *parts_grammar(const struct parts_rules *r, struct err *e);
