/* why slow REQUEST:POS: the gap before a token. Which steps passed in it, which of them computed
 * for its request, and when that lost its pages and waited. See why.h. */
#include "sessions/why/why_impl.h"

struct gap {
	long long request, pos, id, seq, ns, step;        /* the token; ns: when it was drawn */
	long long from_seq, from_ns, from_step, from_pos; /* the token before; from_pos -1: the arrival
													   */
};

static bool read_gap(struct why *w, struct gap *g)
{
	g->request = w->at.number;
	g->pos = w->at.pos;
	if (!why_read(w,
			why_query(w,
				"SELECT id, seq, t_ns, step FROM token WHERE request = ?1 AND pos = ?2"
				" ORDER BY seq <= ?9 DESC, seq DESC LIMIT 1",
				g->request, g->pos),
			4, (long long *[]){ &g->id, &g->seq, &g->ns, &g->step }))
		return false;
	return why_read(w,
		why_query(w,
			"SELECT seq, t_ns, step, pos FROM token WHERE request = ?1 AND seq < ?2 UNION ALL"
			" SELECT seq, t_ns, 0, -1 FROM request WHERE request = ?1 ORDER BY 1 DESC LIMIT 1",
			g->request, g->seq),
		4, (long long *[]){ &g->from_seq, &g->from_ns, &g->from_step, &g->from_pos });
}

/* The median gap of the request's tokens, those of one step being one; 0: it has no other. */
static long long usual_gap(struct why *w, const struct gap *g)
{
	return why_int(w, 0,
		"WITH d AS (SELECT t_ns - lag(t_ns) OVER (ORDER BY seq) AS ns FROM token WHERE request = ?1"
		" GROUP BY step HAVING seq = min(seq))"
		" SELECT ns FROM d WHERE ns NOT NULL ORDER BY ns"
		" LIMIT 1 OFFSET (SELECT count(ns) / 2 FROM d)",
		g->request);
}

static void say_preemptions(struct why *w, const struct gap *g)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT p.seq, p.t_ns, p.favour, a.seq, a.waited_ns FROM preempt p LEFT JOIN admit a ON "
		"a.seq ="
		" (SELECT min(seq) FROM admit WHERE request = ?1 AND seq > p.seq)"
		" WHERE p.request = ?1 AND p.seq > ?2 AND p.seq < ?3 ORDER BY p.seq",
		g->request, g->from_seq, g->seq);

	while (why_row(w, &s))
		why_say(w,
			"  preempted in step %lld in favour of request %lld, back in step %lld after %.3f ms: "
			"why "
			"preempt %lld",
			why_step_of(w, sqlite3_column_int64(s, 0)), sqlite3_column_int64(s, 2),
			why_step_of(w, sqlite3_column_int64(s, 3)), (double)sqlite3_column_int64(s, 4) / 1e6,
			g->request);
}

/* Steps of the gap: those that had rows of the request, or the others. */
static long long say_steps(struct why *w, const struct gap *g, bool own)
{
	const char *sql =
		own ? "SELECT count(*), sum(ns), sum(b.rows) FROM step p JOIN batch b ON b.step = p.step "
			  "AND"
			  " b.request = ?1 WHERE p.step > ?2 AND p.step <= ?3"
			: "SELECT count(*), sum(ns), 0 FROM step p WHERE p.step > ?2 AND p.step <= ?3 AND NOT"
			  " EXISTS (SELECT 1 FROM batch b WHERE b.step = p.step AND b.request = ?1)";
	long long n, ns, rows;

	if (!why_read(w, why_query(w, sql, g->request, g->from_step, g->step), 3,
			(long long *[]){ &n, &ns, &rows }) ||
		n < 1)
		return 0;
	if (own)
		why_say(w, "  %10.3f ms in %lld step%s with %lld row%s of it", (double)ns / 1e6, n,
			plural(n), rows, plural(rows));
	else
		why_say(w, "  %10.3f ms in %lld step%s without it: it had to wait", (double)ns / 1e6, n,
			plural(n));
	return ns;
}

static void say_gap(struct why *w, const struct gap *g)
{
	const long long ns = g->ns - g->from_ns, usual = usual_gap(w, g);
	const long long in_steps = say_steps(w, g, true) + say_steps(w, g, false);
	long long step, longest;

	if (ns > in_steps)
		why_say(
			w, "  %10.3f ms between steps, or in the step's end", (double)(ns - in_steps) / 1e6);
	if (usual > 0 && g->from_pos >= 0)
		why_say(w, "  the median of its gaps is %.3f ms; this one is %.2f times that",
			(double)usual / 1e6, (double)ns / (double)usual);
	say_preemptions(w, g);
	if (why_read(w,
			why_query(w,
				"SELECT step, ns FROM step WHERE step > ?1 AND step <= ?2 ORDER BY ns DESC LIMIT 1",
				g->from_step, g->step),
			2, (long long *[]){ &step, &longest }))
		why_say(w, "  the longest of these steps is %lld, %.3f ms: why slow %lld", step,
			(double)longest / 1e6, step);
	why_say(w,
		"  in the log: SELECT * FROM batch WHERE request = %lld AND step BETWEEN %lld AND %lld",
		g->request, g->from_step + 1, g->step);
}

void why_gap(struct why *w)
{
	struct gap g;
	char text[80];

	if (!read_gap(w, &g)) {
		why_say(w, "No request has a generated token there.");
		return;
	}
	why_text(w, g.id, text, sizeof text);
	if (g.from_pos >= 0 && g.from_step == g.step) {
		why_say(w, "%s at position %lld of request %lld came in one step with the token before it.",
			text, g.pos, g.request);
		return;
	}
	if (g.from_pos < 0) /* steps of before its arrival are none of its gap */
		g.from_step = why_step_of(w, g.from_seq) - 1;
	why_say(w, "%s at position %lld of request %lld came %.3f ms after %s:", text, g.pos, g.request,
		(double)(g.ns - g.from_ns) / 1e6, g.from_pos < 0 ? "it arrived" : "the token before it");
	say_gap(w, &g);
}
