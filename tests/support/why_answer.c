/* See why_answer.h. */
#include "tests/support/why_answer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const char *why_answer(
	const char *file, const char *what, const char *where, const struct why_here *here)
{
	static char *text;
	struct err e = { 0 };
	struct why *w;
	size_t size;
	FILE *out;

	free(text);
	out = open_memstream(&text, &size);
	assert_non_null(out);
	if (why_open(&w, file, &e))
		fail_msg("%s", e.text);
	if (why_find(w, what, where, here, out, &e))
		fprintf(out, "error: %s", e.text);
	why_close(w);
	fclose(out);
	return text;
}

void why_says(const char *answer, bool does, const char *fmt, ...)
{
	char want[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(want, sizeof want, fmt, ap);
	va_end(ap);
	if ((strstr(answer, want) != NULL) != does)
		fail_msg("\"%s\" is %sin:\n%s", want, does ? "not " : "", answer);
}
