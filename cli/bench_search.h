/* cutaway bench --search: prints what searches cost. Thread: main's. */
#ifndef CUTAWAY_CLI_BENCH_SEARCH_H
#define CUTAWAY_CLI_BENCH_SEARCH_H

#include "cli/cli.h"

/* list: methods joined by +, or "": all of them. */
int bench_search(const struct cli *c, const char *list, const struct engine_options *o, void (*tell)(void *arg, const char *what),
				 struct err *e);

#endif
