/* bench --search: what searches cost and what sharing saves, on the prompts of demos/kinds.txt.
 *
 * For each prompt and method two runs next to each other: the search, and as many plain samples as it has branches at
 * once, one after the other with the prefix cache off, which share nothing, neither pages nor steps. Speeds are ratios of such
 * pairs: tokens of all branches a second against theirs, prompts included. Pages are counted by the engine in every step
 * (event sharing). Thread: any one; it opens and closes an engine of its own. */
#ifndef CUTAWAY_SESSIONS_BENCH_SEARCH_H
#define CUTAWAY_SESSIONS_BENCH_SEARCH_H

#include "base/err.h"
#include "engine/engine.h"

enum { BENCH_SEARCHES = 8, BENCH_SEARCH_PROMPTS = 6 };

struct bench_search_line {
	char method[64];
	int pairs;
	double answers, steps, tokens; /* of all searches; tokens: of their branches */
	double tok_s;             /* of the branches of a search together */
	double speed, low, high;  /* against one after the other: median, least and most of the pairs */
	double answer;            /* time of a search, in plain answers: mean */
	double pages, unshared;   /* mean over the searches, each in the step that had the most */
	double saved;             /* over all steps: 1 - pages / unshared */
};

struct bench_search {
	struct engine_info info; /* its pointers are not valid */
	int32_t page_size;
	char isa[32];
	int n;
	struct bench_search_line line[BENCH_SEARCHES];
};

/* list: "" (those that docs/search.md tells of), or methods joined by "+". tell may be NULL. */
int bench_search_run(const struct engine_options *o, const char *list, void (*tell)(void *arg, const char *what),
					 void *arg, struct bench_search *out, struct err *e);

#endif
