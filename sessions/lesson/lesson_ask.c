/* See lesson.h: queries, and what is made of their answers. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <sqlite3.h>

#include "base/text.h"
#include "sessions/lesson/lesson.h"
#include "trace/query.h"
#include "trace/schema.h"

enum { LONGEST = 1 << 18 }; /* a prompt of the longest contexts */

/* Reading tables and calling functions is all that a query may do. */
static int authorise(
	void *arg, int action, const char *a, const char *b, const char *db, const char *trigger)
{
	(void)arg, (void)a, (void)db, (void)trigger;
	if (action == SQLITE_FUNCTION)
		return query_may_call(b) ? SQLITE_OK : SQLITE_DENY;
	return action == SQLITE_READ || action == SQLITE_SELECT || action == SQLITE_RECURSIVE
			   ? SQLITE_OK
			   : SQLITE_DENY;
}

static int open_to_read(sqlite3 **db, const char *path, struct query_bound *bound, struct err *e)
{
	int rc = schema_open(db, path, "mode=ro", SQLITE_OPEN_READONLY);

	if (rc) {
		err_set(e, ERR_IO, "%s: %s", path, sqlite3_errstr(rc));
		sqlite3_close(*db);
		return -1;
	}
	sqlite3_busy_timeout(*db, 1000);
	sqlite3_set_authorizer(*db, authorise, NULL);
	query_bind(*db, bound);
	return 0;
}

static void take(sqlite3_stmt *s, struct lesson_found *out)
{
	const int type = sqlite3_column_type(s, 0);
	const char *more = sqlite3_column_count(s) > 1 ? (const char *)sqlite3_column_text(s, 1) : NULL;

	out->known = type != SQLITE_NULL;
	snprintf(out->text, sizeof out->text, "%s",
		out->known ? (const char *)sqlite3_column_text(s, 0) : "");
	if (type == SQLITE_FLOAT)
		snprintf(out->text, sizeof out->text, "%.4g", sqlite3_column_double(s, 0));
	out->value =
		type == SQLITE_INTEGER || type == SQLITE_FLOAT ? sqlite3_column_double(s, 0) : (double)NAN;
	snprintf(
		out->shown, sizeof out->shown, "%s%s%s", out->text, more ? ": " : "", more ? more : "");
}

static int run(sqlite3 *db, const char *sql, struct lesson_found *out, struct err *e)
{
	sqlite3_stmt *s = NULL;
	const char *tail = "";
	int rc = sqlite3_prepare_v2(db, sql, -1, &s, &tail);

	if (!rc && (!s || tail[strspn(tail, " \t\r\n;")]))
		rc = err_set(e, ERR_INPUT, "one SELECT is needed");
	else if (!rc && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		take(s, out);
		rc = 0;
	} else if (rc == SQLITE_DONE) {
		rc = 0;
	} else {
		err_set(e, ERR_INPUT, "%.200s",
			rc == SQLITE_INTERRUPT ? "the query takes too long" : sqlite3_errmsg(db));
	}
	sqlite3_finalize(s);
	return rc ? -1 : 0;
}

int lesson_ask(
	const char *path, const char *sql, int64_t *left_ns, struct lesson_found *out, struct err *e)
{
	struct query_bound bound = { .most_ns = *left_ns, .longest = LONGEST };
	sqlite3 *db = NULL;
	int rc;

	*out = (struct lesson_found){ .value = NAN };
	if (open_to_read(&db, path, &bound, e))
		return -1;
	rc = run(db, sql, out, e);
	*left_ns -= query_spent(&bound);
	sqlite3_close(db);
	return rc;
}

/* ---- predictions ---- */

static int read_choice(
	const struct lesson_part *p, const char *typed, char *predicted, size_t cap, struct err *e)
{
	char all[300] = "";
	size_t n = strlen(typed);

	for (int i = 0; i < p->n_choices; i++) {
		bool letter = n == 1 && tolower((unsigned char)*typed) == 'a' + i;

		if (letter || !strcasecmp(typed, p->choice[i])) {
			snprintf(predicted, cap, "%s", p->choice[i]);
			return 0;
		}
		text_append(all, sizeof all, ", ", "%c: %s", 'a' + i, p->choice[i]);
	}
	return err_set(e, ERR_USAGE, "one of these is needed: %s", all);
}

static void drop(char *text, const char *chars)
{
	char *to = text;

	for (; *text; text++)
		if (!strchr(chars, *text))
			*to++ = *text;
	*to = '\0';
}

/* Its commas are between groups of three digits: 1,040 and 1,000,000.5, but not 0,125. */
static bool is_grouped(const char *s)
{
	static const char digits[] = "0123456789";

	s += *s == '-' || *s == '+';
	if (*s < '1' || *s > '9' || strspn(s, digits) > 3)
		return false;
	for (s += strspn(s, digits); *s == ','; s += 4)
		if (strspn(s + 1, digits) != 3)
			return false;
	return !strchr(s, ',');
}

/* 1,024 and 1 024 are numbers, 7,5 (a decimal comma), 1.5k and 30 % too. */
static int read_number(const char *typed, double *value, struct err *e)
{
	char plain[64], *end, *comma;

	snprintf(plain, sizeof plain, "%s", typed);
	drop(plain, " _");
	if (is_grouped(plain))
		drop(plain, ",");
	else if ((comma = strchr(plain, ',')))
		*comma = '.'; /* any other comma or point is in the way then */
	*value = strtod(plain, &end);
	if (end > plain && (*end == 'k' || *end == 'M' || *end == 'G') && !end[1])
		*value *= *end == 'k' ? 1e3 : *end == 'M' ? 1e6 : 1e9;
	else if (end > plain && *end && strcmp(end, "%") != 0)
		end = plain;
	return end > plain && isfinite(*value)
			   ? 0
			   : err_set(e, ERR_USAGE, "a number is needed, such as 12, 1,500, 7.5 or 1.5k");
}

int lesson_read_answer(const struct lesson_part *p, const char *typed, char *predicted, size_t cap,
	double *value, struct err *e)
{
	*value = NAN;
	typed += strspn(typed, " ");
	if (p->n_choices)
		return read_choice(p, typed, predicted, cap, e);
	if (read_number(typed, value, e))
		return -1;
	snprintf(predicted, cap, "%g", *value);
	return 0;
}

void lesson_form(const struct lesson_part *p, char *out, size_t cap)
{
	*out = '\0';
	if (!p->n_choices && p->tolerance > 0)
		snprintf(out, cap, "a number; within %g %% is right", 100 * p->tolerance);
	else if (!p->n_choices)
		snprintf(out, cap, "a number, exactly");
	for (int i = 0; i < p->n_choices; i++)
		text_append(out, cap, "   ", "%c %s", 'a' + i, p->choice[i]);
}

static bool is_choice(const struct lesson_part *p, const char *word)
{
	for (int i = 0; i < p->n_choices; i++)
		if (!strcasecmp(word, p->choice[i]))
			return true;
	return false;
}

enum ev_code_answer_verdict lesson_judge(
	const struct lesson_part *p, const char *predicted, double value, const struct lesson_found *f)
{
	bool right;

	if (!f->known)
		return EV_ANSWER_open;
	if (p->n_choices && !is_choice(p, f->text))
		return EV_ANSWER_failed;
	if (p->kind == LESSON_CHECK)
		right = f->value != 0 && !isnan(f->value);
	else if (!predicted)
		return EV_ANSWER_shown;
	else if (p->n_choices)
		right = !strcasecmp(predicted, f->text);
	else
		right = fabs(value - f->value) <= p->tolerance * fabs(f->value) + 1e-9;
	return right ? EV_ANSWER_right : EV_ANSWER_wrong;
}
