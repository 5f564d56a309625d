/* Standard output, checked and cleaned. Checked: a full disk or a closed pipe ends a verb, and is
 * never missed. Cleaned: whatever a verb prints on a terminal passes base/text.h, wherever it is
 * from; bytes to a pipe or a file stay as they are. Thread: main's. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Replaces stdout by that stream; call it before anything is printed. */
int out_begin(struct err *e);

/* Writes out what printf() and fwrite() left in stdout. -1 if anything since the start of the
 * program could not be written; the error's text is empty for a closed pipe, whose reader has
 * gone. */
int out_flush(struct err *e);

/* Prints the final message on standard error. If the terminal accepts nothing (nobody reads it, or
 * output is stopped), the program waits a few seconds and ends without the message. */
void out_last(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* The same for a line that begins with the program's name; its text may be untrusted. */
void out_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A line of progress on standard error, in place of the one before; nothing where that is no
 * terminal. The end wipes what stands. */
void out_progress(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void out_progress_end(void);

/* Standard input or a file to its end. malloc'd, with a NUL after it. */
int in_read(const char *path /* NULL: standard input */, char **data, size_t *size, struct err *e);
