/* What went wrong, where, and what to do about it. Part of base/: may be included from everywhere.
 *
 * Functions that can fail for outside reasons (files, input, device, disk) return 0 or -1 and fill
 * a struct err; the first error wins, so a caller may go on to its single exit and report once.
 * Bugs are asserts. Any thread; a struct err belongs to one thread. */
#pragma once

/* The value is the program's exit status for an error that ends it. */
enum err_code {
	ERR_NONE = 0,
	ERR_DIFFERS = 1, /* a check ran and found a difference (certify, verify, diff) */
	ERR_USAGE = 2,   /* the command line or a setting is wrong */
	ERR_INPUT = 3,   /* a file is damaged, inconsistent or unsupported */
	ERR_IO = 4,      /* the system refused: missing file, full disk, permissions */
	ERR_MEMORY = 5,
	ERR_DEVICE = 6,
	ERR_INTERRUPTED = 130, /* stopped by Ctrl-C: not an error, but the result is incomplete */
};

struct err {
	enum err_code code;
	char text[480]; /* one line, no newline: what, where, and what to do */
};

/* Keeps the first error. Returns -1 always, so that `return err_set(...)` reads well. e may be
 * NULL. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The error of a call that gets no memory: what it is for goes into the text, as printf's. */
#define err_no_memory(e, ...) err_set(e, ERR_MEMORY, "no memory for " __VA_ARGS__)
