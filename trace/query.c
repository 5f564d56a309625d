/* See query.h. */
#include "trace/query.h"

#include <string.h>

#include "base/clock.h"

enum { ASK_EVERY = 10, PATTERN = 64, DEPTH = 64 };

static int too_long(void *bound)
{
	struct query_bound *b = bound;

	b->steps += ASK_EVERY;
	return (b->most_steps && b->steps > b->most_steps) || now_ns() - b->begun > b->most_ns;
}

void query_bind(sqlite3 *db, struct query_bound *b)
{
	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	/* "word" must be a column and never a string */
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, b->longest);
	sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN);
	sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, DEPTH);
	sqlite3_progress_handler(db, ASK_EVERY, too_long, b);
	query_begin(b);
}

void query_begin(struct query_bound *b)
{
	b->begun = now_ns();
	b->steps = 0;
}

bool query_may_call(const char *function)
{
	static const char *const denied[] = { "load_extension", "randomblob", "zeroblob",
		"fts3_tokenizer", "writefile", "readfile", "edit", "trim", "ltrim", "rtrim", "unhex" };

	for (size_t i = 0; i < sizeof denied / sizeof *denied; i++)
		if (function && !strcmp(function, denied[i]))
			return false;
	return true;
}
