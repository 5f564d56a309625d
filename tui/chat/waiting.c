/* See waiting.h. */
#include "tui/chat/waiting.h"

#include <stdlib.h>
#include <string.h>

#include "tui/term/prompt.h"

void waiting_push(struct app *a, struct view_waiting *w, const char *line)
{
	if (w->n == VIEW_WAITING || !(w->text[w->n] = strdup(line)))
		app_say(a, SAY_ERROR, "%d turns are waiting already: the up key has this one", w->n);
	else
		w->n++;
	a->dirty = true;
}

char *waiting_take(struct view_waiting *w)
{
	char *oldest = w->n ? w->text[0] : NULL;

	if (oldest)
		memmove(w->text, w->text + 1, (size_t)--w->n * sizeof *w->text);
	return oldest;
}

bool waiting_take_back(struct view_waiting *w)
{
	if (!w->n)
		return false;
	prompt_set(w->text[--w->n]);
	free(w->text[w->n]);
	return true;
}

int waiting_forget(struct view_waiting *w)
{
	const int n = w->n;

	while (w->n)
		free(w->text[--w->n]);
	return n;
}

void waiting_stop(struct app *a, struct view_waiting *w, bool stopped, bool recorded)
{
	if (waiting_forget(w))
		app_say(a, SAY_INFO, "%s (the up key has it); Ctrl-C again quits",
			stopped ? "stopped, and what waited with it" : "what waited is not sent");
	else if (stopped)
		app_say(a, SAY_INFO, "stopped; Ctrl-C again quits");
	else
		app_say(a, SAY_INFO, "Ctrl-C again quits; %s",
			recorded ? "the session is saved" : "nothing was recorded");
}
