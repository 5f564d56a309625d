/* cutaway why: an answer from a recording. Thread: main's. */
#include <stdio.h>
#include <stdlib.h>

#include "base/paths.h"
#include "cli/cli.h"
#include "cli/out.h"
#include "sessions/why.h"

int verb_why(const struct cli *c, struct err *e)
{
	struct why *w = NULL;
	char *newest = NULL;

	if ((c->file || !paths_last_recording(&newest, e)) && !why_open(&w, c->file ? c->file : newest, e)) {
		if (newest)
			fprintf(stderr, "%s\n", newest);
		if (!why_ask(w, c->operand[0], c->n_operands > 1 ? c->operand[1] : NULL, NULL, stdout, e))
			out_flush(e);
	}
	why_close(w);
	free(newest);
	return e->code ? -1 : 0;
}
