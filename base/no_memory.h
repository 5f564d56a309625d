/* The error that memory ran out. Part of base/: may be included from everywhere. Thread: any; no
 * state. */
#pragma once

#include "base/err.h"

/* "no memory for …". Returns -1 always, as err_set() does. */
int no_memory(struct err *e, const char *what, ...) __attribute__((format(printf, 2, 3)));
