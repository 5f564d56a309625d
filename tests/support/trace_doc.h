/* docs/trace.md, written from the event table, the views and the queries below, so that it cannot
 * be out of date: tests/test_trace_doc compares the file with this, and with --write writes it. */
#pragma once

struct trace_query {
	const char *question, *sql;
};
extern const struct trace_query trace_queries[]; /* worth asking; ends with question NULL */

/* The text in Markdown. sqlite3_free it; NULL: out of memory. */
char *trace_doc(void);
