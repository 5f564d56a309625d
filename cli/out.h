/* Standard output that is checked: a full disk or a closed pipe ends a verb, and is never missed.
 * And that is clean: whatever a verb prints on a terminal passes base/text.h, whether it is ours or
 * out of a file; into a pipe or a file its bytes go as they are. Thread: main's. */
#ifndef CUTAWAY_CLI_OUT_H
#define CUTAWAY_CLI_OUT_H

#include <stddef.h>

#include "base/err.h"

/* Before anything is printed: makes stdout that stream. */
int out_begin(struct err *e);

/* Writes out what printf() and fwrite() left in stdout. -1 if anything since the start of the
 * program could not be written; the error's text is empty for a closed pipe, where nobody is left
 * to tell. */
int out_flush(struct err *e);

/* The last words, on standard error. A terminal that takes nothing (nobody reads it, or it is held)
 * gets a few seconds, and then the program ends without them. */
void out_last(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* So, a line that begins with the program's name; what is in it may come from anywhere. */
void out_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Standard input or a file to its end. malloc'd, with a NUL after it. */
int in_read(const char *path /* NULL: standard input */, char **data, size_t *size, struct err *e);

#endif
