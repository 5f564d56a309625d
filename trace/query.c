/* See query.h. */
#include "trace/query.h"

#include <string.h>

#include "base/clock.h"

enum { ASK_EVERY = 10, PATTERN = 64, DEPTH = 64 };

/* ---- functions whose time is not the product of two lengths ---- */

/* As SQLite's: where the second begins in the first, from 1; 0: nowhere. In bytes of two blobs,
 * else in characters. */
static void instr(sqlite3_context *c, int n, sqlite3_value **v)
{
	const bool blobs =
		sqlite3_value_type(v[0]) == SQLITE_BLOB && sqlite3_value_type(v[1]) == SQLITE_BLOB;
	const char *text = blobs ? sqlite3_value_blob(v[0]) : (const char *)sqlite3_value_text(v[0]);
	const char *part = blobs ? sqlite3_value_blob(v[1]) : (const char *)sqlite3_value_text(v[1]);
	const size_t size = (size_t)sqlite3_value_bytes(v[0]), k = (size_t)sqlite3_value_bytes(v[1]);
	const char *at = text && k ? memmem(text, size, part, k) : text;
	sqlite3_int64 number = 1;

	(void)n;
	if (sqlite3_value_type(v[0]) == SQLITE_NULL || sqlite3_value_type(v[1]) == SQLITE_NULL)
		return;
	for (const char *p = text; at && p < at; p++)
		number += blobs || (*p & 0xc0) != 0x80;
	sqlite3_result_int64(c, at || !k ? number : 0);
}

/* As SQLite's: the first with the third wherever the second was. */
static void replace(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *text = (const char *)sqlite3_value_text(v[0]);
	const char *part = (const char *)sqlite3_value_text(v[1]);
	const char *by = (const char *)sqlite3_value_text(v[2]), *end, *at;
	const size_t k = (size_t)sqlite3_value_bytes(v[1]);
	sqlite3_str *out;

	(void)n;
	if (!text || !part || !by)
		return;
	out = sqlite3_str_new(sqlite3_context_db_handle(c));
	end = text + sqlite3_value_bytes(v[0]);
	for (; k && (at = memmem(text, (size_t)(end - text), part, k)); text = at + k) {
		sqlite3_str_append(out, text, (int)(at - text));
		sqlite3_str_append(out, by, sqlite3_value_bytes(v[2]));
	}
	sqlite3_str_append(out, text, (int)(end - text));
	if (sqlite3_str_errcode(out))
		sqlite3_result_error_code(c, sqlite3_str_errcode(out));
	else
		sqlite3_result_text(c, sqlite3_str_length(out) ? sqlite3_str_value(out) : "",
			sqlite3_str_length(out), SQLITE_TRANSIENT);
	sqlite3_free(sqlite3_str_finish(out));
}

/* ---- bounds ---- */

static int64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return timespec_ns(t);
}

int64_t query_spent(const struct query_bound *b)
{
	return cpu_ns() - b->begun_cpu;
}

static int too_long(void *bound)
{
	struct query_bound *b = bound;

	b->steps += ASK_EVERY;
	if (b->most_steps && b->steps > b->most_steps)
		return true;
	/* on a busy machine more time passes than was spent; asking for that costs a system call */
	return now_ns() - b->begun > b->most_ns && query_spent(b) > b->most_ns;
}

void query_bind(sqlite3 *db, struct query_bound *b)
{
	static const struct {
		const char *name;
		int args;
		void (*call)(sqlite3_context *, int, sqlite3_value **);
	} ours[] = { { "instr", 2, instr }, { "replace", 3, replace } };

	sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	/* "word" must be a column and never a string */
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	sqlite3_limit(db, SQLITE_LIMIT_LENGTH, b->longest);
	sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, PATTERN);
	sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, DEPTH);
	sqlite3_progress_handler(db, ASK_EVERY, too_long, b);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		sqlite3_create_function(db, ours[i].name, ours[i].args,
			SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, NULL, ours[i].call, NULL, NULL);
	query_begin(b);
}

void query_begin(struct query_bound *b)
{
	b->begun = now_ns();
	b->begun_cpu = cpu_ns();
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
