/* One self-contained page (export_page.html with the session's data in its middle): no network, no
 * library. All texts go in as JSON inside a script element of a type that is not run, with every <
 * escaped, so that nothing of a session can become markup. The data are lists, each of the rows of
 * a query; only what kernels took is summed while the events are read. */
#include <sqlite3.h>

#include "base/embed.h"
#include "sessions/export/export_impl.h"
#include "trace/reader.h"

EMBED(export_page, "sessions/export/export_page.html");

enum { MOST_STEPS = 100000 };

struct html { /* what is summed */
	double stage_ns[EV_N_stage];
	int64_t preempted;
};

/* ---- the lists ---- */

static const struct export_list lists[] = {
	{ "requests", EXPORT_OBJECT, INT64_MAX, INT64_MAX,
		"SELECT request AS id, code_name('request_kind', kind) AS kind, parent, n_prompt AS prompt,"
		" t_ns AS \"t:ms\", coalesce(text, '') AS text, temperature FROM request WHERE seq <= ?1" },
	{ "tokens", EXPORT_ARRAY, 200000, INT64_MAX,
		"SELECT request, pos, id AS \":token\", p, entropy, code_name('source', source), step,"
		" t_ns AS \":ms\", is_end IS 1, candidates AS \":candidates\" FROM token WHERE seq <= ?1" },
	{ "steps", EXPORT_ARRAY, MOST_STEPS, INT64_MAX,
		"SELECT t_ns AS \":ms\", step, ns, rows, prefill_rows, draft_rows, tokens, accepted,"
		" rejected, pages_used, pages_cached, running, waiting, pages_shared, evicted, kernel_ns"
		" FROM step WHERE seq <= ?1" },
	{ "pages", EXPORT_ARRAY, INT64_MAX, INT64_MAX,
		"SELECT 1 + coalesce((SELECT step FROM step WHERE seq < p.seq ORDER BY seq DESC LIMIT 1),"
		" 0), page, action, request FROM page p WHERE seq <= ?1 AND seq <"
		" coalesce((SELECT seq FROM step ORDER BY seq LIMIT 1 OFFSET 99999), 1 << 62)" },
	{ "session", EXPORT_OBJECT, INT64_MAX, INT64_MAX,
		"SELECT coalesce(model_name, '') AS model, coalesce(backend, '') AS backend,"
		" coalesce(isa, '') AS isa, coalesce(version, '') AS version, unix_ns / 1000000 AS unix_ms,"
		" pages, page_size, n_layers AS layers FROM session WHERE seq <= ?1" },
	/* after its time the latencies, ns */
	{ "finishes", EXPORT_ARRAY, INT64_MAX, INT64_MAX,
		"SELECT request, code_name('finish', reason), hit, t_ns AS \":ms\", queue_ns,"
		" first_token_ns, itl_p50_ns, itl_p99_ns, total_ns FROM finish WHERE seq <= ?1" },
	/* at last how many tokens came before it */
	{ "searches", EXPORT_ARRAY, 100000, INT64_MAX,
		"SELECT search, step, action, request, node, parent, tokens, visits, logp, score, method,"
		" judge, n FROM (SELECT seq AS at, sum(n) OVER (ORDER BY seq) AS n FROM (SELECT seq, 1 AS n"
		" FROM token UNION ALL SELECT seq, 0 FROM search)) CROSS JOIN search ON seq = at"
		" WHERE seq <= ?1" },
	{ "sharing", EXPORT_ARRAY, MOST_STEPS, INT64_MAX,
		"SELECT search, pages, unshared FROM sharing WHERE seq <= ?1" },
	{ "attention", EXPORT_ARRAY, INT64_MAX, 4 << 20,
		"SELECT step, request, pos, pages, threshold, coalesce(share, x''),"
		" coalesce(near_zero, x'') FROM attention WHERE seq <= ?1" },
	/* of what was drafted for a request in a step: how often, how many tokens, how many of them
	 * were verified and accepted, and how many tokens the request drew there; then by tokens ahead
	 * how often any was verified, and accepted */
	{ "drafters", EXPORT_ARRAY, 64, INT64_MAX,
		"WITH RECURSIVE nth(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM nth WHERE i < 16),"
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
		" a.drafter IS p.drafter) AS \":list\","
		" (SELECT group_concat(coalesce(accepted, 0)) FROM nth LEFT JOIN deep a ON depth = i AND"
		" a.drafter IS p.drafter) AS \":list\""
		" FROM part p LEFT JOIN drawn d ON d.step = p.step AND d.request = p.request"
		" GROUP BY drafter ORDER BY min(p.seq)" },
	/* of each what was told last */
	{ "shadows", EXPORT_ARRAY, 64, INT64_MAX,
		"SELECT coalesce(drafter, ''), used, step, steps, tokens, nodes, predicted, measured,"
		" verified AS \":counts\", accepted AS \":counts\" FROM (SELECT min(seq) AS first, max(seq)"
		" AS last FROM shadow WHERE seq <= ?1 GROUP BY drafter) JOIN shadow ON seq = last"
		" ORDER BY first" },
	{ "prices", EXPORT_ARRAY, 200000, INT64_MAX,
		"SELECT step, request, pos, kl, best IS exact_best FROM price WHERE seq <= ?1" },
};
enum { N_LISTS = sizeof lists / sizeof *lists };

static int write_data(struct exporter *x, struct reader *r, struct err *e)
{
	const struct html *h = x->own;
	int64_t left[N_LISTS] = { 0 };

	putc('{', x->out);
	for (int i = 0; i < N_LISTS; i++) {
		fprintf(x->out, "\"%s\":[", lists[i].key);
		x->n = 0;
		if (export_rows(x, r, &lists[i], &left[i], e))
			return -1;
		fputs("],\n", x->out);
	}
	fputs("\"stages\":{", x->out);
	for (int i = 0; i < EV_N_stage; i++)
		fprintf(
			x->out, "%s\"%s\":%.3f", i ? "," : "", ev_code_name("stage", i), h->stage_ns[i] / 1e6);
	fputs("},\n\"lossy\":", x->out);
	export_text(x, x->lossy, strlen(x->lossy));
	fprintf(x->out, ",\n\"preempted\":%lld,\n\"left_out\":{", (long long)h->preempted);
	for (int i = 0; i < N_LISTS; i++)
		fprintf(x->out, "%s\"%s\":%lld", i ? "," : "", lists[i].key, (long long)left[i]);
	fputs("}}", x->out);
	return 0;
}

static int begin(struct exporter *x, struct err *e)
{
	x->own = calloc(1, sizeof(struct html));
	return x->own ? 0 : err_no_memory(e, "a page");
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
		rc = write_data(x, r, e);
		sqlite3_exec(reader_db(r), "COMMIT", NULL, NULL, NULL);
		fputs(at + strlen(mark), x->out);
	}
	free(x->own);
	return rc;
}

const struct export_ops export_html = { .name = "html",
	.engine = true,
	.kinds = EV_BIT(vocab) | EV_BIT(preempt) | EV_BIT(time),
	.begin = begin,
	.event = event,
	.end = end };
