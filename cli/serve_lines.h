/* A server without screens: its sessions, one a replica, and those that follow them, after SIGHUP
 * and where recordings begin anew. Thread: main's. */
#pragma once

#include "cli/cli.h"
#include "serve/serve.h"

struct serve_lines {
	int32_t replicas, drain; /* drain: seconds */
	/* of a recording, from which another begins, where --record names a folder; 0: none does */
	int64_t record_bytes, record_ns;
	int32_t record_keep; /* so many sets of recordings stay, the newest; 0: all */
};

extern const char serve_open_words[]; /* a warning: see serve_is_open() */

/* A line with the time of day, on standard error. Thread: any. */
void serve_note(void *arg, const char *line);
/* Until SIGINT or SIGTERM. */
int serve_lines(const struct cli *c, struct serve *s, const struct serve_lines *o, struct err *e);
