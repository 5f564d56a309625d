/* A text with the files that it names: what is typed as "@notes.txt what is missing?" is sent as
 * the file between backquotes, as Markdown has it, and then what was typed. The files come first,
 * so that two questions about one file begin alike, and the prefix cache has it. Thread: any. */
#pragma once

#include <stddef.h>

#include "base/err.h"

enum { WITH_FILES_BYTES = 1 << 20 /* most of one file */ };

/* A file of text, malloc'd, NUL-terminated; *size may be NULL. NULL with ERR_INPUT: it cannot be
 * read, is empty, too long or no UTF-8; `what` begins the message. */
char *with_files_read(const char *path, const char *what, size_t *size, struct err *e);

/* Puts the files that words of the form @NAME or @"NAME" name before the text, each once, in order;
 * a word that names no file stays as it is, and *unknown (of cap bytes, may be cut) is the first
 * such name, or "". Returns the text, malloc'd; NULL with the error for a file that cannot be sent.
 */
char *with_files(const char *typed, char *unknown, size_t cap, struct err *e);

struct with_file { /* points into the text */
	const char *name;
	size_t name_size, size; /* of the name; of the content */
	int lines;
};
/* The file that the text begins with: how many bytes it takes in all; 0: it begins with none, so
 * what was typed begins here. */
size_t with_files_next(const char *text, struct with_file *out);
/* What was typed. */
const char *with_files_typed(const char *text);
