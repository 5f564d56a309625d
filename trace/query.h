/* SQL that somebody typed, or that a stranger's lesson holds: what it may do, and for how long.
 * SQLite asks between two steps of its machine whether to go on, and a function is one step, which
 * nothing can stop; so texts and patterns are bounded, too; of the functions that take the product
 * of two lengths instr() and replace() are our own, and the others are not there. Thread: that of
 * the connection. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sqlite3.h>

struct query_bound {
	int64_t most_ns;    /* of the thread's processor time for one statement, from `begun` on */
	int32_t most_steps; /* of SQLite's machine; 0: any number */
	int32_t longest;    /* bytes of a value */
	int64_t begun, begun_cpu; /* query_begin() */
	int32_t steps;
};

/* Sets the connection's limits. *b must outlive it; SQLITE_INTERRUPT says that one was met. */
void query_bind(sqlite3 *db, struct query_bound *b);
void query_begin(struct query_bound *b);
int64_t query_spent(const struct query_bound *b); /* processor time since then, in ns */

/* For an authorizer: whether a query may call the function. */
bool query_may_call(const char *function);
