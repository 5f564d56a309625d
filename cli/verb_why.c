/* cutaway why: an answer from a recording. Thread: main's. */
#include <limits.h>

#include "base/recordings.h"
#include "base/text.h"
#include "cli/cli.h"
#include "sessions/why/why.h"

static struct why_opts {
	const char *file; /* the recording */
} opts;

static const struct setting why_own[] = {
	OWN(FILE, why_opts, file, "file", "Recording",
		"the recording that is asked (without it: the newest under XDG data)", .arg = "FILE"),
	{ 0 },
};

static int why_verb(const struct cli *c, struct err *e)
{
	char *path = NULL, clean[PATH_MAX];
	struct why *w = NULL;

	if (!recordings_find(opts.file, &path, e) && !why_open(&w, path, e) &&
		!why_find(w, c->operand[0], c->n_operands > 1 ? c->operand[1] : NULL, NULL, stdout, e) &&
		!opts.file)
		fprintf(stderr, "%s\n", text_cleaned(clean, sizeof clean, path, strlen(path)));
	why_close(w);
	free(path);
	return e->code ? -1 : 0;
}

const struct verb verb_why = {
	VERB(why, "WHAT [WHERE]", ""),
	OPERANDS(1, 2, "miss evict preempt wait reject token slow price route"),
};
