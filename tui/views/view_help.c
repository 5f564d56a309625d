/* The texts of F1. See views.h. */
#include <stdio.h>

#include "base/embed.h"
#include "base/range.h"
#include "tui/views/views.h"

#define X(NAME, name) EMBED(view_help_##name, "tui/views/help/" #name ".txt");
VIEWS(X)
#undef X

/* "One sentence. More." */
void view_summary(int view, char *out, size_t cap)
{
	const char *text = views[view]->help, *end = strstr(text, ". ");
	size_t n = end ? (size_t)(end - text) : strcspn(text, "\n");

	n = at_most(n, strcspn(text, "\n"));
	snprintf(out, cap, "%.*s", (int)(n < cap ? n : cap - 1), text);
}
