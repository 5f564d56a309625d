/* Options of a load that the verbs load and simulate share, and their words. Thread: main's. */
#pragma once

#include <stdint.h>

#include "cli/cli.h"
#include "load/load.h"

struct load_words {
	const char *arrivals, *kind, *slo, *table, *queue;
	int32_t requests, live, longest;
	float think, scale;
	bool quiet;
};
#define LOAD_WORDS .arrivals = "poisson", .kind = "chat", .live = 8, .scale = 1

/* Rows of the struct `home`, which has the words as its member `load`. */
#define LOAD_OPTIONS(home, group_)                                                                 \
	OWN(INT, home, load.requests, "requests", group_, "how many requests; of a trace 0: all",      \
		.arg = "N", .high = 1 << 24),                                                              \
		OWN(TEXT, home, load.arrivals, "arrivals", group_,                                         \
			"gaps between requests: exponential, equal, of a Gamma distribution with this "        \
			"coefficient of variation, Poisson in bursts with pauses between (mean "               \
			"seconds of both), or times and lengths of a CSV file in the form of the "             \
			"Azure LLM traces",                                                                    \
			.arg = "poisson|uniform|gamma:CV|onoff:S,S|trace:FILE"),                               \
		OWN(FLOAT, home, load.think, "think", group_,                                              \
			"with --users: time from an answer to the next question, mean of an "                  \
			"exponential",                                                                         \
			.arg = "S", .high = 86400, .unit = "seconds"),                                         \
		OWN(TEXT, home, load.kind, "kind", group_,                                                 \
			"what is asked: chat, document, edit, system, or several with commas, equally "        \
			"often",                                                                               \
			.arg = "LIST", SETTING_WORDS("chat", "document", "edit", "system")),                   \
		OWN(INT, home, load.live, "live", group_,                                                  \
			"conversations, documents or system prompts in use at a time, of each kind",           \
			.arg = "N", .low = 1, .high = WORKLOAD_MOST),                                          \
		OWN(FLOAT, home, load.scale, "scale", group_, "factor of all lengths but a trace's",       \
			.arg = "X", .low = 0.001, .high = 1000),                                               \
		OWN(INT, home, load.longest, "longest", group_,                                            \
			"prompt and answer together; longer ones are cut; 0: what the context holds, "         \
			"of a server 4032",                                                                    \
			.arg = "N", .high = 1 << 24, .unit = "tokens"),                                        \
		OWN(TEXT, home, load.slo, "slo", group_,                                                   \
			"target of each request, for the goodput: 99th percentile of its gaps (itl), "         \
			"their mean (tpot); times as in 500ms",                                                \
			.arg = "ttft=T,itl=T,tpot=T,e2e=T"),                                                   \
		OWN(FILE, home, load.table, "table", group_,                                               \
			"a row for each request, of the first 100000 of each run", .arg = "FILE"),             \
		OWN(FILE, home, load.queue, "queue-csv", group_,                                           \
			"a row for each time at which the queue's length changed, of as many "                 \
			"requests",                                                                            \
			.arg = "FILE"),                                                                        \
		OWN(FLAG, home, load.quiet, "quiet", group_, "no progress")

enum { LOAD_KEEP = 100000 }; /* requests of which --table and --queue-csv tell */

/* What they say. users: a closed loop was asked for. The words outlive *o. */
int words_read(const struct load_words *opts, const struct cli *c, bool users,
	struct load_options *o, struct err *e);
/* --csv, unless it is NULL, --table and --queue-csv of n points. */
int words_write(const struct load_words *opts, const char *csv, const struct load_options *o,
	const struct load_point *point, int n, struct err *e);
/* The points as rows into the array that is open in j. */
void words_json(
	const struct load_options *o, const struct load_point *point, int n, struct json *j);
/* The number up to the next comma, above 0; *at: after that. option: for the error. */
int words_number(const char **at, const char *option, double *out, struct err *e);
