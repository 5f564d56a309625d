/* cutaway record: what a trainer tells, as a recording. Thread: main's. */
#include <signal.h>

#include "base/text.h"
#include "cli/cli.h"
#include "sessions/study/study.h"

static int record_verb(const struct cli *c, struct err *e)
{
	struct study *s;
	int64_t n = 0;
	int rc;

	signal(SIGINT, SIG_IGN); /* Ctrl-C ends the trainer, and its end is the end of the lines */
	if (study_open(&s, c->operand[0], "training", NULL, e))
		return -1;
	rc = study_lines(s, stdin, &n, e);
	if (study_close(s, rc ? NULL : e) || rc)
		return -1;
	printf("%lld step%s: cutaway replay %s\n", (long long)n, plural(n), c->operand[0]);
	return 0;
}

const struct verb verb_record = {
	VERB_BARE(record, "FILE", ""),
	OPERANDS(1, 1, "FILE"),
};
