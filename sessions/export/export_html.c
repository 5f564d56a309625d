/* One self-contained page (export_page.html with the session's data in its middle): no network, no
 * library. All texts go in as JSON inside a script element of a type that is not run, with every <
 * escaped, so that nothing of a session can become markup. The data are lists, each of the rows of
 * a query; only what kernels took is summed while the events are read. */
#include <sqlite3.h>

#include "base/embed.h"
#include "base/text.h"
#include "sessions/export/export_impl.h"
#include "trace/foreign.h"
#include "trace/reader.h"
#include "trace/schema.h"

EMBED(export_page, "sessions/export/export_page.html");

enum { TOP = 5, DEPTHS = 16, MOST_STEPS = 100000 };
#define NO_END INT64_MAX

struct html { /* what is summed */
	double stage_ns[EV_N_stage];
	int64_t preempted;
};

/* ---- the lists ---- */

/* An alias is the key of an object's member and, after a colon, how the value is written: as the
 * name of that code list, or by a function below. */
static const struct list {
	const char *key;
	bool objects;
	int64_t most;  /* rows */
	int64_t bytes; /* of blobs in them */
	const char *sql;
} lists[] = {
	{ "requests", true, NO_END, NO_END,
		"SELECT request AS id, kind AS \"kind:request_kind\", parent, n_prompt AS prompt, t_ns AS"
		" \"t:ms\", coalesce(text, '') AS text, temperature FROM request WHERE seq <= ?1" },
	{ "tokens", false, 200000, NO_END,
		"SELECT request, pos, id AS \":token\", p, entropy, source AS \":source\", step, t_ns AS"
		" \":ms\", is_end IS 1, candidates AS \":candidates\" FROM token WHERE seq <= ?1" },
	{ "steps", false, MOST_STEPS, NO_END,
		"SELECT t_ns AS \":ms\", step, ns, rows, prefill_rows, draft_rows, tokens, accepted,"
		" rejected, pages_used, pages_cached, running, waiting, pages_shared, evicted, kernel_ns"
		" FROM step WHERE seq <= ?1" },
	{ "pages", false, NO_END, NO_END,
		"SELECT 1 + coalesce((SELECT step FROM step WHERE seq < p.seq ORDER BY seq DESC LIMIT 1),"
		" 0), page, action, request FROM page p WHERE seq <= ?1 AND seq <"
		" coalesce((SELECT seq FROM step ORDER BY seq LIMIT 1 OFFSET ?2), 1 << 62)" },
	{ "session", true, NO_END, NO_END,
		"SELECT coalesce(model_name, '') AS model, coalesce(backend, '') AS backend,"
		" coalesce(isa, '') AS isa, coalesce(version, '') AS version, unix_ns / 1000000 AS unix_ms,"
		" pages, page_size, n_layers AS layers FROM session WHERE seq <= ?1" },
	/* after its time the latencies, ns */
	{ "finishes", false, NO_END, NO_END,
		"SELECT request, reason AS \":finish\", hit, t_ns AS \":ms\", queue_ns, first_token_ns,"
		" itl_p50_ns, itl_p99_ns, total_ns FROM finish WHERE seq <= ?1" },
	/* at last how many tokens came before it */
	{ "searches", false, 100000, NO_END,
		"SELECT search, step, action, request, node, parent, tokens, visits, logp, score, method,"
		" judge, n FROM (SELECT seq AS at, sum(n) OVER (ORDER BY seq) AS n FROM (SELECT seq, 1 AS n"
		" FROM token UNION ALL SELECT seq, 0 FROM search)) CROSS JOIN search ON seq = at"
		" WHERE seq <= ?1" },
	{ "sharing", false, MOST_STEPS, NO_END,
		"SELECT search, pages, unshared FROM sharing WHERE seq <= ?1" },
	{ "attention", false, NO_END, 4 << 20,
		"SELECT step, request, pos, pages, threshold, coalesce(share, x''),"
		" coalesce(near_zero, x'') FROM attention WHERE seq <= ?1" },
	/* of what was drafted for a request in a step: how often, how many tokens, how many of them
	 * were verified and accepted, and how many tokens the request drew there; then by tokens ahead
	 * how often any was verified, and accepted */
	{ "drafters", false, 64, NO_END,
		"WITH RECURSIVE nth(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM nth WHERE i < ?3),"
		" ahead AS (SELECT drafter, step, request, depth, min(seq) AS seq, count(*) AS n,"
		" sum(verdict <> {verdict.discarded}) AS verified, sum(verdict = {verdict.accepted}) AS"
		" accepted FROM draft WHERE seq <= ?1 GROUP BY drafter, step, request, depth),"
		" part AS (SELECT drafter, step, request, min(seq) AS seq, sum(n) AS n, sum(verified) AS"
		" verified, sum(accepted) AS accepted FROM ahead GROUP BY drafter, step, request),"
		" drawn AS (SELECT step, request, count(*) AS n FROM token WHERE seq <= ?1 AND source"
		" BETWEEN 0 AND {source.bonus} GROUP BY step, request),"
		" deep AS (SELECT drafter, depth, sum(verified > 0) AS verified, sum(accepted > 0) AS"
		" accepted FROM ahead GROUP BY drafter, depth)"
		" SELECT coalesce(drafter, ''), count(*), sum(p.n), sum(verified), sum(accepted),"
		" coalesce(sum(d.n), 0), min(p.step), max(p.step),"
		" (SELECT group_concat(coalesce(verified, 0)) FROM nth LEFT JOIN deep a ON depth = i AND"
		" a.drafter IS p.drafter) AS \":counts\","
		" (SELECT group_concat(coalesce(accepted, 0)) FROM nth LEFT JOIN deep a ON depth = i AND"
		" a.drafter IS p.drafter) AS \":counts\""
		" FROM part p LEFT JOIN drawn d ON d.step = p.step AND d.request = p.request"
		" GROUP BY drafter ORDER BY min(p.seq)" },
	/* of each what was told last */
	{ "shadows", false, 64, NO_END,
		"SELECT coalesce(drafter, ''), used, step, steps, tokens, nodes, predicted, measured,"
		" verified AS \":counts\", accepted AS \":counts\" FROM (SELECT min(seq) AS first, max(seq)"
		" AS last FROM shadow WHERE seq <= ?1 GROUP BY drafter) JOIN shadow ON seq = last"
		" ORDER BY first" },
	{ "prices", false, 200000, NO_END,
		"SELECT step, request, pos, kl, best IS exact_best FROM price WHERE seq <= ?1" },
};
enum { N_LISTS = sizeof lists / sizeof *lists };

/* ---- a value ---- */

static void put_text(struct exporter *x, const char *bytes, size_t size)
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
		put_text(x, t->bytes, t->size);
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

/* Absent, or more than a double holds exactly: -1. */
static long long number(int64_t v)
{
	return v < -1 || v > INT64_C(1) << 53 ? -1 : v;
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

static void put_integer(struct exporter *x, const char *as, int64_t v)
{
	if (!strcmp(as, "ms"))
		fprintf(x->out, "%.3f", (double)v / 1e6);
	else if (!strcmp(as, "token"))
		put_token(x, v, "\"\"");
	else if (*as)
		fprintf(x->out, "\"%s\"", ev_code_name(as, v));
	else
		fprintf(x->out, "%lld", number(v));
}

/* as: what is after the colon of its name, or "". */
static void put_value(struct exporter *x, sqlite3_stmt *s, int column, const char *as)
{
	const char *declared = sqlite3_column_decltype(s, column);
	int type = sqlite3_column_type(s, column);

	if (type == SQLITE_NULL && declared)
		type = !strcmp(declared, "INTEGER") ? SQLITE_INTEGER
			   : !strcmp(declared, "BLOB")  ? SQLITE_BLOB
											: type;
	if (type == SQLITE_INTEGER)
		put_integer(x, as,
			sqlite3_column_type(s, column) == type ? sqlite3_column_int64(s, column) : EV_NULL_I);
	else if (type == SQLITE_FLOAT)
		export_json_real(x->out, "", sqlite3_column_double(s, column));
	else if (type == SQLITE_TEXT && *as) /* a list of our own making */
		fprintf(x->out, "[%s]", (const char *)sqlite3_column_text(s, column));
	else if (type == SQLITE_TEXT)
		put_text(x, (const char *)sqlite3_column_text(s, column),
			(size_t)sqlite3_column_bytes(s, column));
	else if (type == SQLITE_BLOB)
		put_blob(x, as,
			(struct ev_span){
				sqlite3_column_blob(s, column), (size_t)sqlite3_column_bytes(s, column) });
	else
		fputs("null", x->out);
}

/* ---- rows ---- */

static void put_row(struct exporter *x, sqlite3_stmt *s, bool object)
{
	for (int i = 0; i < sqlite3_column_count(s); i++) {
		const char *name = sqlite3_column_name(s, i), *as = strchr(name, ':');
		const int key = (int)strcspn(name, ":");

		if (object)
			fprintf(x->out, "%c\"%.*s\":", i ? ',' : '{', key, name);
		else
			putc(i ? ',' : '[', x->out);
		put_value(x, s, i, as ? as + 1 : "");
	}
	putc(object ? '}' : ']', x->out);
}

static int64_t blob_bytes(sqlite3_stmt *s)
{
	int64_t bytes = 0;

	for (int i = 0; i < sqlite3_column_count(s); i++)
		bytes += sqlite3_column_type(s, i) == SQLITE_BLOB ? sqlite3_column_bytes(s, i) : 0;
	return bytes;
}

/* *left: rows for which there was no room. */
static int put_list(
	struct exporter *x, sqlite3 *db, const struct list *l, int64_t last, int64_t *left)
{
	sqlite3_stmt *s = NULL;
	int64_t n = 0, bytes = 0;
	int rc = schema_prepare(db, l->sql, &s);

	fprintf(x->out, "\"%s\":[", l->key);
	sqlite3_bind_int64(s, 1, last);
	sqlite3_bind_int64(s, 2, MOST_STEPS - 1);
	sqlite3_bind_int64(s, 3, DEPTHS);
	while (!rc && (rc = sqlite3_step(s)) == SQLITE_ROW) {
		bytes += blob_bytes(s);
		if (n < l->most && bytes <= l->bytes) {
			fputs(n++ ? "," : "", x->out);
			put_row(x, s, l->objects);
		} else {
			++*left;
		}
		rc = x->no_memory ? SQLITE_NOMEM : SQLITE_OK;
	}
	fputs("],\n", x->out);
	sqlite3_finalize(s);
	return rc == SQLITE_DONE ? 0 : -1;
}

static int write_data(struct exporter *x, sqlite3 *db, int64_t last, struct err *e)
{
	const struct html *h = x->own;
	int64_t left[N_LISTS] = { 0 };

	putc('{', x->out);
	for (int i = 0; i < N_LISTS; i++)
		if (put_list(x, db, &lists[i], last, &left[i]))
			return foreign_fail(db, x->path, e);
	fputs("\"stages\":{", x->out);
	for (int i = 0; i < EV_N_stage; i++)
		fprintf(
			x->out, "%s\"%s\":%.3f", i ? "," : "", ev_code_name("stage", i), h->stage_ns[i] / 1e6);
	fputs("},\n\"lossy\":", x->out);
	put_text(x, x->lossy, strlen(x->lossy));
	fprintf(x->out, ",\n\"preempted\":%lld,\n\"left_out\":{", (long long)h->preempted);
	for (int i = 0; i < N_LISTS; i++)
		fprintf(x->out, "%s\"%s\":%lld", i ? "," : "", lists[i].key, (long long)left[i]);
	fputs("}}", x->out);
	return 0;
}

static int begin(struct exporter *x, struct err *e)
{
	x->own = calloc(1, sizeof(struct html));
	return x->own ? 0 : err_set(e, ERR_MEMORY, "no memory for a page");
}

static void event(struct exporter *x, const struct event *ev)
{
	struct html *h = x->own;
	struct ev_stage_time s;

	h->preempted += ev->kind == EV_preempt;
	for (size_t i = 0; ev->kind == EV_time && ev_item(ev->u.time.stages, i, &s, sizeof s); i++)
		if (s.stage < EV_N_stage)
			h->stage_ns[s.stage] += (double)s.ns;
}

static int end(struct exporter *x, struct reader *r, struct err *e)
{
	static const char mark[] = "@DATA@";
	const char *at = strstr(export_page, mark);
	int rc = 0;

	if (r) {
		fwrite(export_page, 1, (size_t)(at - export_page), x->out);
		sqlite3_exec(reader_db(r), "BEGIN", NULL, NULL, NULL);
		rc = write_data(x, reader_db(r), reader_info(r)->last_seq, e);
		sqlite3_exec(reader_db(r), "COMMIT", NULL, NULL, NULL);
		fputs(at + strlen(mark), x->out);
	}
	free(x->own);
	return rc;
}

const struct export_ops export_html = {
	.name = "html", .engine = true, .begin = begin, .event = event, .end = end
};
