/* cutaway count: how many bytes a file has, or lines of at least so many: the example of a verb,
 * with options of its own. Thread: main's. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/out.h"

static struct count_opts {
	bool lines;
	int32_t least;
} opts;

static const struct setting count_own[] = {
	OWN(FLAG, count_opts, lines, "lines", "Output", "count lines instead"),
	OWN(INT, count_opts, least, "least", "Output", "only lines of at least N bytes", .arg = "N",
		.high = 1000, .unit = "bytes"),
	{ 0 },
};

static int count_verb(const struct cli *c, struct err *e)
{
	long n = 0, line = 0;
	char *text = NULL;
	size_t size = 0;

	if (in_read(c->operand[0], &text, &size, e))
		return -1;
	for (size_t i = 0; i < size; i++, line++)
		if (text[i] == '\n') {
			n += line >= opts.least;
			line = -1;
		}
	printf(c->json ? "{\"count\":%ld}\n" : "%ld\n", opts.lines ? n : (long)size);
	free(text);
	return 0;
}

static const char verb_help_count[] = "how long a file is\n\n"
									  "Counts the bytes of FILE, or its lines.\n\n"
									  "cutaway count --lines text.txt\n";

const struct verb verb_count = {
	VERB(count, "FILE", "json"), /* options of others, by group or by name */
	OPERANDS(1, 1, "FILE"),
};
