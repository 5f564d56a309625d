/* Which model file, and its hash. Thread: main's. */
#ifndef CUTAWAY_CLI_MODEL_H
#define CUTAWAY_CLI_MODEL_H

#include "base/err.h"
#include "cli/cli.h"

/* The path that --model gave, or of the fetched model: beside the program, where `make install`
 * would look, in the current directory, under XDG data. malloc'd. -1: there is none, and the error
 * says how to get it. */
int model_find(const struct cli *c, char **path, struct err *e);

/* SHA-256 of the file as hex. Remembered under XDG cache by path, size and time, so that only the
 * first call reads the file. -1 if it cannot be read; that the memory cannot be written is no
 * error. */
int model_sha256(const char *path, char out[65], struct err *e);

#endif
