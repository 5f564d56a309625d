/* Rows of a query as JSON: for the formats that have the session's data in an order of their own.
 */
#include "base/text.h"
#include "sessions/export/export_impl.h"
#include "trace/foreign.h"
#include "trace/reader.h"
#include "trace/schema.h"

enum { TOP = 5, DEPTHS = 16 };

/* ---- a value ---- */

void export_text(struct exporter *x, const char *bytes, size_t size)
{
	char *json = text_json(bytes ? bytes : "", size);

	for (const char *p = json ? json : "\"\""; *p; p++)
		if (*p == '<')
			fputs("\\u003c", x->out);
		else
			putc(*p, x->out);
	x->no_memory |= !json;
	free(json);
}

/* A string; a token that is not whole characters as the array of its bytes, which the page joins;
 * `unknown` if its text is not known. */
static void put_token(struct exporter *x, int64_t id, const char *unknown)
{
	const struct ev_text *t = ev_texts_get(&x->texts, id);

	if (!t)
		fputs(unknown, x->out);
	else if (text_is_utf8(t->bytes, t->size))
		export_text(x, t->bytes, t->size);
	else
		for (size_t i = 0; i < t->size; i++)
			fprintf(x->out, "%c%d%s", i ? ',' : '[', (unsigned char)t->bytes[i],
				i + 1 < t->size ? "" : "]");
}

static void put_candidates(struct exporter *x, struct ev_span b)
{
	struct ev_candidate c;
	char unknown[24];

	putc('[', x->out);
	for (size_t i = 0; i < TOP && ev_item(b, i, &c, sizeof c); i++) {
		fputs(i ? ",[" : "[", x->out);
		snprintf(unknown, sizeof unknown, "\"<%u>\"", c.id);
		put_token(x, c.id, unknown);
		export_json_real(x->out, ",", (double)c.p);
		putc(']', x->out);
	}
	putc(']', x->out);
}

static void put_counts(struct exporter *x, struct ev_span b)
{
	for (size_t i = 0; i < DEPTHS; i++) {
		uint32_t n = 0;

		ev_item(b, i, &n, sizeof n);
		fprintf(x->out, "%s%u", i ? "," : "[", n);
	}
	putc(']', x->out);
}

static void put_blob(struct exporter *x, const char *as, struct ev_span bytes)
{
	if (!strcmp(as, "candidates")) {
		put_candidates(x, bytes);
	} else if (!strcmp(as, "counts")) {
		put_counts(x, bytes);
	} else {
		putc('"', x->out);
		export_hex(x->out, bytes);
		putc('"', x->out);
	}
}

/* Absent, or more than a double holds exactly: -1. */
static void put_integer(struct exporter *x, const char *as, int64_t v)
{
	if (!strcmp(as, "token"))
		put_token(x, v, "\"\"");
	else if (!strcmp(as, "us"))
		fprintf(x->out, "%.3f", (double)v / 1e3);
	else if (!strcmp(as, "ms"))
		fprintf(x->out, "%.3f", (double)v / 1e6);
	else if (!strcmp(as, "ms6"))
		fprintf(x->out, "%.6f", (double)v / 1e6);
	else
		fprintf(x->out, "%lld", v < -1 || v > INT64_C(1) << 53 ? -1LL : (long long)v);
}

static void put_value(struct exporter *x, sqlite3_stmt *s, int column, const char *as)
{
	const int type = sqlite3_column_type(s, column);
	const char *declared = type == SQLITE_NULL ? sqlite3_column_decltype(s, column) : NULL;

	if (type == SQLITE_INTEGER)
		put_integer(x, as, sqlite3_column_int64(s, column));
	else if (type == SQLITE_FLOAT)
		export_json_real(x->out, "", sqlite3_column_double(s, column));
	else if (type == SQLITE_TEXT && !strcmp(as, "list"))
		fprintf(x->out, "[%s]", (const char *)sqlite3_column_text(s, column));
	else if (type == SQLITE_TEXT)
		export_text(x, (const char *)sqlite3_column_text(s, column),
			(size_t)sqlite3_column_bytes(s, column));
	else if (type == SQLITE_BLOB)
		put_blob(x, as,
			(struct ev_span){
				sqlite3_column_blob(s, column), (size_t)sqlite3_column_bytes(s, column) });
	else if (declared && !strcmp(declared, "BLOB"))
		put_blob(x, as, (struct ev_span){ 0 });
	else
		fputs(declared && !strcmp(declared, "INTEGER") ? "-1" : "null", x->out);
}

/* ---- rows ---- */

static void put_array(struct exporter *x, sqlite3_stmt *s)
{
	for (int i = 0; i < sqlite3_column_count(s); i++) {
		const char *as = strchr(sqlite3_column_name(s, i), ':');

		putc(i ? ',' : '[', x->out);
		put_value(x, s, i, as ? as + 1 : "");
	}
	putc(']', x->out);
}

/* In an event of a trace what is absent is left out, and what follows a column `args` is in them.
 */
static void put_object(struct exporter *x, sqlite3_stmt *s, bool event)
{
	const char *before = "{";

	for (int i = 0; i < sqlite3_column_count(s); i++) {
		const char *name = sqlite3_column_name(s, i), *as = strchr(name, ':');

		if (event && !strcmp(name, "args")) {
			fputs(",\"args\":", x->out);
			before = "{";
		} else if (!event || sqlite3_column_type(s, i) != SQLITE_NULL) {
			fprintf(x->out, "%s\"%.*s\":", before, (int)strcspn(name, ":"), name);
			put_value(x, s, i, as ? as + 1 : "");
			before = ",";
		}
	}
	fputs(!event ? "}" : *before == '{' ? "{}}" : "}}", x->out);
}

static int64_t blob_bytes(sqlite3_stmt *s)
{
	int64_t bytes = 0;

	for (int i = 0; i < sqlite3_column_count(s); i++)
		bytes += sqlite3_column_type(s, i) == SQLITE_BLOB ? sqlite3_column_bytes(s, i) : 0;
	return bytes;
}

static void code_name(sqlite3_context *c, int n, sqlite3_value **v)
{
	const char *list = (const char *)sqlite3_value_text(v[0]);

	(void)n;
	sqlite3_result_text(c,
		ev_code_name(list ? list : "",
			sqlite3_value_type(v[1]) == SQLITE_INTEGER ? sqlite3_value_int64(v[1]) : EV_NULL_I),
		-1, SQLITE_STATIC);
}

int export_rows(
	struct exporter *x, struct reader *r, const struct export_list *l, int64_t *left, struct err *e)
{
	sqlite3 *db = reader_db(r);
	sqlite3_stmt *s = NULL;
	int64_t n = 0, bytes = 0;
	int rc = sqlite3_create_function(
		db, "code_name", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, code_name, NULL, NULL);

	rc = rc ? rc : schema_prepare(db, l->sql, &s);
	sqlite3_bind_int64(s, 1, reader_info(r)->last_seq);
	sqlite3_bind_int64(s, 2, reader_info(r)->last_t_ns);
	while (!rc && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		bytes += blob_bytes(s);
		rc = export_goes_on(x, 1, 1, e) ? SQLITE_ABORT : SQLITE_OK;
		if (n == l->most || bytes > l->bytes) {
			++*left;
			continue;
		}
		n++;
		fputs(x->n++ ? l->form == EXPORT_EVENT ? ",\n" : "," : "", x->out);
		if (l->form == EXPORT_ARRAY)
			put_array(x, s);
		else
			put_object(x, s, l->form == EXPORT_EVENT);
	}
	if (rc != SQLITE_DONE)
		foreign_fail(db, x->path, e);
	sqlite3_finalize(s);
	return rc == SQLITE_DONE ? 0 : -1;
}
