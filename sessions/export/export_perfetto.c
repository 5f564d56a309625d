/* The JSON trace format (Trace Event Format, "traceEvents"), which ui.perfetto.dev and
 * chrome://tracing open: requests with their queue, prompt and answer; the batch by slots; kernel
 * stages; counters of pages, tokens and drafts; evictions, preemptions and rejected drafts as
 * instants. Times are microseconds of the session.
 *
 * A step's kernel stages and its drafters have measured lengths but no recorded order in time: they
 * are laid one after the other from the step's start, stages in the order of a layer, each as long
 * as all its layers together. */
#include <sqlite3.h>

#include "sessions/export/export_impl.h"
#include "trace/reader.h"

struct perfetto { /* of the step that goes on */
	struct ev_stage_time stage[EV_N_stage];
	int n_stages;
};

/* ---- what is had by queries ---- */

/* 1: requests, 2: batch, 3: kernels, 4: counters. rest: more columns, which are arguments, and
 * where they come from. */
#define EVENT_OF(sql)                                                                              \
	{                                                                                              \
		NULL, EXPORT_EVENT, INT64_MAX, INT64_MAX, sql                                              \
	}
#define SLICE(pid, tid, from, until, name, rest)                                                   \
	"SELECT 'X' AS ph, " pid " AS pid, " tid " AS tid, " from " AS \"ts:us\", max(" until          \
	" - " from ", 0) AS \"dur:us\", " name " AS name, 0 AS args" rest
#define INSTANT(pid, tid, name, rest)                                                              \
	EVENT_OF("SELECT 'i' AS ph, 't' AS s, " pid " AS pid, " tid                                    \
			 " AS tid, t_ns AS \"ts:us\", " name " AS name, 0 AS args" rest)
#define THREAD(pid, tid, name, rest)                                                               \
	EVENT_OF("SELECT 'M' AS ph, " pid " AS pid, " tid                                              \
			 " AS tid, 'thread_name' AS name, 0 AS args, " name " AS name" rest)
#define COUNTER(name, value, where)                                                                \
	EVENT_OF("SELECT 'C' AS ph, 4 AS pid, t_ns AS \"ts:us\", '" name                               \
			 "' AS name, 0 AS args, CAST(" value                                                   \
			 " AS REAL) AS value FROM step WHERE seq <= ?1" where " ORDER BY seq")
/* A step's time ends with its event. */
#define BEGAN "(s.t_ns - CASE WHEN s.ns > 0 AND s.ns < s.t_ns THEN s.ns ELSE 0 END)"
/* Of each request when it came, was admitted and had its first token, and when it ended, or the
 * recording. */
#define REQUESTS                                                                                   \
	"WITH admitted AS (SELECT request, min(t_ns) AS ns FROM admit WHERE seq <= ?1 GROUP BY"        \
	" request), first AS (SELECT request, min(t_ns) AS ns FROM token WHERE seq <= ?1 GROUP BY"     \
	" request), life AS (SELECT r.request AS id, r.t_ns AS came, a.ns AS entered, t.ns AS spoke,"  \
	" coalesce(f.t_ns, ?2) AS ended, f.* FROM request r"                                           \
	" LEFT JOIN admitted a ON a.request = r.request LEFT JOIN first t ON t.request = r.request"    \
	" LEFT JOIN finish f ON f.request = r.request WHERE r.seq <= ?1"                               \
	" ORDER BY coalesce(f.seq, 1 << 62), r.seq) "

static const struct export_list lists[] = {
	THREAD("1", "request", "printf('request %d (%s)', request, code_name('request_kind', kind))",
		" FROM request WHERE seq <= ?1"),
	EVENT_OF(
		REQUESTS SLICE("1", "id", "came", "coalesce(entered, ended)", "'queue'", " FROM life")),
	EVENT_OF(REQUESTS SLICE("1", "id", "entered", "coalesce(spoke, ended)", "'prompt'",
		", hit AS cached FROM life WHERE entered NOT NULL")),
	EVENT_OF(REQUESTS SLICE("1", "id", "spoke", "ended", "'answer'",
		", generated AS tokens, iif(seq, code_name('finish', reason), NULL) AS reason,"
		" first_token_ns AS \"ttft_ms:ms6\", itl_p50_ns AS \"itl_p50_ms:ms6\","
		" itl_p99_ns AS \"itl_p99_ms:ms6\", total_ns AS \"e2e_ms:ms6\" FROM life"
		" WHERE spoke NOT NULL")),
	/* within its prompt or answer: from the loss of its pages until it is admitted again */
	EVENT_OF(SLICE("1", "request", "lost", "t_ns", "'preempted'",
		" FROM (SELECT request, t_ns, (SELECT max(t_ns) FROM preempt p WHERE p.request ="
		" a.request AND p.seq < a.seq) AS lost FROM admit a WHERE readmitted = 1 AND seq <= ?1)"
		" WHERE lost NOT NULL")),
	INSTANT("1", "request", "'preempted'", ", pages, favour FROM preempt WHERE seq <= ?1"),
	INSTANT("1", "request", "'draft rejected'",
		", pos FROM draft WHERE verdict = {verdict.rejected} AND seq <= ?1"),
	INSTANT("4", "1", "'page evicted'",
		", page FROM page WHERE action = {page_action.evict} AND seq <= ?1"),
	EVENT_OF(SLICE("3", "1", BEGAN, "s.t_ns", "'step'",
		", step, rows, tokens, bytes, ops FROM step s WHERE seq <= ?1")),
	THREAD("2", "slot + 1", "printf('slot %d', slot)",
		" FROM (SELECT DISTINCT slot FROM batch WHERE slot >= 0 AND seq <= ?1)"),
	EVENT_OF(
		SLICE("2", "slot + 1", BEGAN, "s.t_ns", "printf('%s %d', code_name('work', work), request)",
			", request, pos, b.rows FROM batch b JOIN step s ON s.step = b.step WHERE b.slot >= 0"
			" AND s.seq <= ?1")),
	COUNTER("pages read by requests", "pages_used", ""),
	COUNTER("pages only cached", "pages_cached", ""),
	COUNTER("pages shared", "pages_shared", ""),
	COUNTER("running", "running", ""),
	COUNTER("waiting", "waiting", ""),
	COUNTER("tokens a second", "tokens * 1e9 / ns", " AND ns > 0"),
};

/* ---- the stages of a step, event by event ---- */

static void name(struct exporter *x, int pid, int tid, const char *what, const char *text)
{
	fprintf(x->out, "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":",
		x->n++ ? ",\n" : "\n", pid, tid, what);
	export_json_text(x, text, strlen(text));
	fputs("}}", x->out);
}

/* The caller closes "args" and all. Returns where it ends. */
static int64_t slice(struct exporter *x, const char *text, int64_t from, uint64_t ns, int64_t end)
{
	const int64_t until = ns < (uint64_t)(end - from) ? from + (int64_t)ns : end;

	fprintf(x->out,
		"%s{\"ph\":\"X\",\"pid\":3,\"tid\":2,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\",\"args\":{",
		x->n++ ? ",\n" : "\n", (double)from / 1e3, (double)(until - from) / 1e3, text);
	return until;
}

static void on_step(struct exporter *x, struct perfetto *p, const struct ev_step *s, int64_t t)
{
	int64_t at = s->ns > 0 && s->ns < t ? t - s->ns : t;

	for (int i = 0; i < p->n_stages; i++) {
		const struct ev_stage_time *k = &p->stage[i];

		at = slice(x, ev_code_name("stage", (int64_t)k->stage), at, k->ns, t);
		fprintf(x->out, "\"bytes\":%llu,\"ops\":%llu}}", (unsigned long long)k->bytes,
			(unsigned long long)k->ops);
	}
	if (s->drafters_ns > 0) {
		slice(x, "drafters", at, (uint64_t)s->drafters_ns, t);
		fputs("}}", x->out);
	}
	p->n_stages = 0;
}

static int begin(struct exporter *x, struct err *e)
{
	x->own = calloc(1, sizeof(struct perfetto));
	if (!x->own)
		return err_set(e, ERR_MEMORY, "out of memory");
	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", x->out);
	name(x, 2, 0, "process_name", "batch");
	name(x, 3, 0, "process_name", "kernels");
	name(x, 4, 0, "process_name", "counters");
	name(x, 3, 1, "thread_name", "steps");
	name(x, 3, 2, "thread_name", "stages (lengths measured, laid end to end)");
	return 0;
}

/* A forged time must not overflow: 2^53 ns are a hundred days. */
static void event(struct exporter *x, const struct event *ev)
{
	const int64_t most = INT64_C(1) << 53, t = ev->t_ns < 0 ? 0 : ev->t_ns > most ? most : ev->t_ns;
	struct perfetto *p = x->own;

	if (ev->kind == EV_time)
		p->n_stages = (int)ev_items(ev->u.time.stages, p->stage, sizeof *p->stage, EV_N_stage);
	else if (ev->kind == EV_step)
		on_step(x, p, &ev->u.step, t);
}

static int end(struct exporter *x, struct reader *r, struct err *e)
{
	char requests[sizeof x->lossy + 32];
	int64_t left = 0;
	int rc = 0;

	for (size_t i = 0; r && !rc && i < sizeof lists / sizeof *lists; i++)
		rc = export_rows(x, r, &lists[i], &left, e);
	snprintf(requests, sizeof requests, *x->lossy ? "requests, LOSSY %s" : "requests", x->lossy);
	name(x, 1, 0, "process_name", requests);
	fputs("\n],\"otherData\":{\"lossy\":", x->out);
	export_json_text(x, x->lossy, strlen(x->lossy));
	fputs("}}\n", x->out);
	free(x->own);
	return rc;
}

const struct export_ops export_perfetto = { .name = "perfetto",
	.engine = true,
	.kinds = EV_BIT(time),
	.begin = begin,
	.event = event,
	.end = end };
