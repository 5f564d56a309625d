/* Another program as a child process. Thread: any. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

/* Starts argv[0], searched in PATH if it has no slash; argv ends with NULL. `errors` -1: the
 * caller's standard error. Signals are as for any command, and the child has a process group of its
 * own from the start, so that all that it starts can be killed with it. Every descriptor but these
 * three must be close-on-exec. Returns 0, or errno. */
int spawn(const char *const argv[], int in, int out, int errors, pid_t *pid);
/* An unnamed file with this content, at its beginning; -1, and errno. */
int spawn_input(const char *text, size_t size);
