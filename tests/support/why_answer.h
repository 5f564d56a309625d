/* What `why` says of a recording, for tests. Thread: the test's. */
#pragma once

#include <stdbool.h>

#include "sessions/why/why.h"

/* The answer, or "error: " and why there is none. Valid until the next call. */
const char *why_answer(
	const char *file, const char *what, const char *where, const struct why_here *here);
/* Fails the test unless the answer says it, or, if !does, does not. */
void why_says(const char *answer, bool does, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
