/* Jinja templates as model files carry them: the text of a conversation from its messages.
 *
 * The language is Jinja 3.1 as Hugging Face's transformers sets it up: trim_blocks, lstrip_blocks,
 * break and continue, raise_exception, tojson without escapes for HTML, and nothing that could
 * change a list or a dict. Templates come from strangers, so each opening and each rendering is
 * bounded in steps, depth, memory and output; what exceeds a limit, is not known or not allowed is
 * an error that names the line. Not supported, and said: include, import, extends, block, integers
 * beyond 64 bits, and what needs random numbers or HTML.
 *
 * Thread: one at a time for a struct jinja. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct jinja;

/* Zero: the default. */
struct jinja_options {
	uint64_t steps; /* nodes evaluated and values visited, for each call */
	size_t bytes;   /* of memory, in all */
	size_t output;  /* bytes of text, of a rendering and of what it keeps for a while */
	int depth;      /* of nesting, in the template's text and while it runs */
	/* seconds since 1970 that strftime_now shows, in UTC; 0: strftime_now is undefined, and
	 * templates that ask for it in vain fail */
	int64_t now;
};

/* Reads a template. ERR_INPUT if it is none; o may be NULL. */
int jinja_open(
	struct jinja **j, const char *text, size_t size, const struct jinja_options *o, struct err *e);
void jinja_close(struct jinja *j);

/* Sets a variable to the value of an expression as templates have them; JSON is one. */
int jinja_set(
	struct jinja *j, const char *name, const char *expression, size_t size, struct err *e);

/* Renders into *out, malloc'd, with a NUL after its *size bytes. What a template raises itself
 * (raise_exception) is the error's text after "the template refuses: ". */
int jinja_render(struct jinja *j, char **out, size_t *size, struct err *e);
