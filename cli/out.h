/* Standard output that is checked: a full disk or a closed pipe ends a verb, and is never missed.
 * Thread: main's. */
#ifndef CUTAWAY_CLI_OUT_H
#define CUTAWAY_CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Writes out what printf() and fwrite() left in stdout. -1 if anything since the start of the
 * program could not be written; the error's text is empty for a closed pipe, where nobody is left
 * to tell. */
int out_flush(struct err *e);

/* Text that is not ours: on a terminal it passes base/text.h, else its bytes go out as they are. */
void out_text(const char *text, size_t size);

/* Standard input or a file to its end. malloc'd, with a NUL behind. */
int in_read(const char *path /* NULL: standard input */, char **data, size_t *size, struct err *e);

#endif
