/* why slow: where the time of a step went, and which resource bound it. Bytes and operations are
 * counted, times are measured. See why.h. */
#include "base/median.h"
#include "sessions/why/why_impl.h"

struct slow {
	long long step, seq, ns, kernel_ns, drafters_ns, rows, prefill, decode, draft, bytes, ops,
		running;
	/* bytes a second: plain reads measured at the start, else the fastest reads of a step; 0:
	 * neither */
	double bandwidth;
	bool from_steps;
	/* scheduling delay: time without a processor, in these steps; last 0: not known */
	long long delay_ns, delay_first, delay_last;
	long long exchange_ns; /* of rank 0, with other ranks */
};

/* The stages of the times of a step: by the row of a query, its event's seq. Returns how many. */
static int read_stages(struct why *w, sqlite3_stmt *s, struct ev_stage_time out[EV_N_stage])
{
	struct event ev;

	if (!why_event(w, EV_time, sqlite3_column_int64(s, 0), &ev))
		return 0;
	return (int)ev_items(ev.u.time.stages, out, sizeof *out, EV_N_stage);
}

/* Where plain reads were not measured: the bytes a second of the stage that read fastest, in steps
 * of one row, with more data than the caches hold. A lower bound of this machine's bandwidth. */
static double fastest_reads(struct why *w)
{
	const uint64_t least = 4 << 20;
	struct ev_stage_time stage[EV_N_stage];
	double best = 0;
	sqlite3_stmt *s = why_query(
		w, "SELECT t.seq FROM time t JOIN step p ON p.step = t.step WHERE p.rows = 1 LIMIT 1000");

	while (why_row(w, &s)) {
		const int n = read_stages(w, s, stage);

		for (int i = 0; i < n; i++)
			if (stage[i].bytes >= least && stage[i].ns)
				best = fmax(best, (double)stage[i].bytes / (double)stage[i].ns);
	}
	return best * 1e9;
}

/* Time outside kernels and drafters, ns. */
static double outside_ns(const struct slow *t)
{
	return (double)t->ns - (double)t->kernel_ns - (double)t->drafters_ns;
}

/* The run delay that covers the step: the first reading after it, which sums all steps since the
 * previous reading. */
static void read_delay(struct why *w, struct slow *t)
{
	sqlite3_stmt *s;

	s = why_query(w,
		"SELECT step, run_delay_ns FROM step WHERE step >= ?1 AND seq <= ?9 AND run_delay_ns NOT "
		"NULL"
		" ORDER BY step LIMIT 1",
		t->step);
	if (!why_read(w, s, 2, (long long *[]){ &t->delay_last, &t->delay_ns }))
		return;
	t->delay_first = 1 + why_int(w, 1,
							 "SELECT step FROM step WHERE step < ?1 AND run_delay_ns NOT NULL"
							 " ORDER BY step DESC LIMIT 1",
							 t->step);
	if (t->delay_first > t->step) /* counting began after the first step */
		t->delay_last = 0;
}

static bool read_slow(struct why *w, struct slow *t)
{
	const bool one = w->at.given || w->step > 0;
	long long *to[] = { &t->step, &t->seq, &t->ns, &t->kernel_ns, &t->drafters_ns, &t->rows,
		&t->prefill, &t->decode, &t->draft, &t->bytes, &t->ops, &t->running };
	char sql[256];
	sqlite3_stmt *s;

	snprintf(sql, sizeof sql,
		"SELECT step, seq, ns, kernel_ns, drafters_ns, rows, prefill_rows, decode_rows, "
		"draft_rows, bytes, ops,"
		" running FROM step %s",
		one ? "WHERE step = ?1" : "ORDER BY ns DESC LIMIT 1");
	if (!why_read(w, why_query(w, sql, w->at.given ? w->at.number : w->step), 12, to))
		return false;
	s = why_query(w,
		"SELECT coalesce((SELECT max(CAST(value AS REAL)) * 1e9 FROM setting WHERE name = 'roof' "
		"AND value > '0'),"
		" read_bandwidth) FROM session LIMIT 1");
	if (why_row(w, &s)) {
		t->bandwidth = why_is_null(s, 0) ? 0 : sqlite3_column_double(s, 0);
		why_done(&s);
	}
	if (t->bandwidth <= 0)
		t->from_steps = (t->bandwidth = fastest_reads(w)) > 0;
	read_delay(w, t);
	return true;
}

/* Median time of the other steps with so many prompt rows and rows in all; 0: there are none. */
static long long median_of_alike(struct why *w, const struct slow *t, long long *n)
{
	*n = why_int(w, 0,
		"SELECT count(*) FROM step WHERE rows = ?1 AND prefill_rows = ?2 AND step <> ?3", t->rows,
		t->prefill, t->step);
	return *n ? why_int(w, 0,
					"SELECT ns FROM step WHERE rows = ?1 AND prefill_rows = ?2 AND step <> ?3 "
					"ORDER BY ns"
					" LIMIT 1 OFFSET (SELECT count(*) / 2 FROM step WHERE rows = ?1 AND "
					"prefill_rows = ?2"
					" AND step <> ?3)",
					t->rows, t->prefill, t->step)
			  : 0;
}

/* Median time a stage took in steps of the same rows. */
static double usual_of(struct why *w, const struct slow *t, uint64_t stage)
{
	enum { SAMPLES = 25 };
	struct ev_stage_time at[EV_N_stage];
	double value[SAMPLES];
	int n = 0;
	sqlite3_stmt *s = why_query(w,
		"SELECT t.seq FROM time t JOIN step p ON p.step = t.step WHERE p.rows = ?1 AND"
		" p.prefill_rows = ?2 AND p.step <> ?3 ORDER BY abs(p.step - ?3) LIMIT 25",
		t->rows, t->prefill, t->step);

	while (why_row(w, &s)) {
		const int n_stages = read_stages(w, s, at);

		for (int i = 0; i < n_stages && n < SAMPLES; i++)
			if (at[i].stage == stage)
				value[n++] = (double)at[i].ns;
	}
	return n ? sorted_of(value, n)[n / 2] : 0;
}

static void say_stage(struct why *w, const struct slow *t, const struct ev_stage_time *one)
{
	double ns = (double)one->ns, usual = usual_of(w, t, one->stage);
	double least = t->bandwidth > 0 ? (double)one->bytes / t->bandwidth * 1e9 : 0;
	char times[32] = "", limit[32] = "";

	if (usual > 0)
		snprintf(times, sizeof times, "%.2f", ns / usual);
	if (least > 0)
		snprintf(limit, sizeof limit, "%.3f ms", least / 1e6);
	why_say(w, "  %-10s %9.3f ms %3.0f %% %7.2f MB %8.1f Mop %7s %11s",
		ev_code_name("stage", one->stage), ns / 1e6,
		t->kernel_ns > 0 ? 100 * ns / (double)t->kernel_ns : 0, (double)one->bytes / 1e6,
		(double)one->ops / 1e6, times, limit);
}

static int by_time(const void *a, const void *b)
{
	const struct ev_stage_time *x = a, *y = b;

	return (x->ns < y->ns) - (x->ns > y->ns);
}

/* Those of the step, longest first. */
static int own_stages(struct why *w, const struct slow *t, struct ev_stage_time out[EV_N_stage])
{
	sqlite3_stmt *s = why_query(w, "SELECT seq FROM time WHERE step = ?1 LIMIT 1", t->step);
	const int n = why_row(w, &s) ? read_stages(w, s, out) : 0;

	why_done(&s);
	qsort(out, (size_t)n, sizeof *out, by_time);
	return n;
}

/* Says the delay only if it is a tenth of the step or more. */
static void say_delay(struct why *w, const struct slow *t)
{
	if (!t->delay_last || (double)t->delay_ns < 0.1 * (double)t->ns)
		return;
	if (t->delay_first == t->delay_last)
		why_say(w,
			"  the system gave the processor to others for %.3f ms of this step: so long one of "
			"its threads was "
			"ready and had none",
			(double)t->delay_ns / 1e6);
	else
		why_say(w,
			"  the system gave the processor to others for %.3f ms of the steps %lld to %lld, of "
			"which this is one",
			(double)t->delay_ns / 1e6, t->delay_first, t->delay_last);
}

/* The share of this step in which one of its threads had no processor; 0: none, or not known. */
static double of_others(const struct slow *t)
{
	return t->delay_last && t->delay_first == t->delay_last && t->ns > 0
			   ? (double)t->delay_ns / (double)t->ns
			   : 0;
}

/* What may have made the step longer than others with as many rows. */
static const char *reason_for(const struct slow *t, double longer)
{
	if (!t->delay_last)
		return "the machine did something else meanwhile, or caches were cold";
	if ((double)t->delay_ns < longer / 10)
		return "no thread waited long for a processor; caches were cold, or the machine had less "
			   "to give (its clock, its "
			   "memory, its host)";
	if (of_others(t) * (double)t->ns > longer / 2)
		return "most of the difference is what others had of the processor";
	return "others had the processor meanwhile, but that need not be all of it: caches may have "
		   "been cold";
}

/* Whether something else than kernels bound the step, which it says then. */
static bool say_not_kernels(struct why *w, const struct slow *t)
{
	const double outside = outside_ns(t), drafters = (double)t->drafters_ns,
				 exchange = (double)t->exchange_ns, some = 0.3 * (double)t->ns;

	if (t->ns <= 0)
		return false;
	if (exchange > some && exchange > outside && exchange > drafters)
		why_say(w,
			"  what bound it: not the kernels; for %.0f %% of it rank 0 exchanged with other ranks",
			100 * exchange / (double)t->ns);
	else if (drafters > some && drafters > outside)
		why_say(w,
			"  what bound it: not the kernels; drafters took %.0f %% of it to guess and to take "
			"in what was computed",
			100 * drafters / (double)t->ns);
	else if (outside > some)
		why_say(w,
			"  what bound it: not the kernels; %.0f %% of it passed outside them (plan, draws, "
			"events)",
			100 * outside / (double)t->ns);
	else
		return false;
	return true;
}

/* Says what bound the step, from the time that its bytes need and the time of similar steps. */
static void say_bound(struct why *w, const struct slow *t, long long usual, int n_stages)
{
	double reads;

	if (say_not_kernels(w, t))
		return;
	if (t->bandwidth > 0 && t->kernel_ns > 0) {
		reads = (double)t->bytes / t->bandwidth * 1e9 / (double)t->kernel_ns;
		why_say(w,
			"  what bound it: %s; its bytes at %s (%.1f GB/s, %s) take %.0f %% of its kernels' "
			"time",
			reads > 0.6          ? "memory"
			: of_others(t) > 0.3 ? "others, who had the processor"
			: t->prefill > 16
				? "arithmetic, of many rows"
				: "neither memory nor, at so few rows, arithmetic: waiting, or a busy machine",
			t->from_steps ? "the fastest that a stage of one row read"
						  : "the bandwidth of plain reads",
			t->bandwidth / 1e9, t->from_steps ? "in this log" : "measured", 100 * reads);
	} else {
		why_say(w,
			"  what bound it cannot be told: the bandwidth of this machine was not measured, and "
			"no large read of one row is in this log%s",
			n_stages ? "" : ", nor the stages' times");
	}
	if (usual > 0 && t->ns / 2 > usual)
		why_say(w, "  steps alike need half of that or less: %s",
			reason_for(t, (double)t->ns - (double)usual));
}

static void say_members(struct why *w, const struct slow *t)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT request, work, pos, rows FROM batch WHERE step = ?1 ORDER BY rows DESC", t->step);
	int n = 0;

	while (why_row(w, &s)) {
		if (++n > 4)
			continue;
		why_say(w, "  request %lld: %s, %lld row%s from position %lld", sqlite3_column_int64(s, 0),
			ev_code_name("work", sqlite3_column_int64(s, 1)), sqlite3_column_int64(s, 3),
			plural(sqlite3_column_int64(s, 3)), sqlite3_column_int64(s, 2));
	}
	if (n > 4)
		why_say(w, "  and %d more", n - 4);
}

static void say_stages(struct why *w, const struct slow *t, long long usual)
{
	struct ev_stage_time stage[EV_N_stage];
	int n = own_stages(w, t, stage);

	/* per stage: its work, its time against that of similar steps, and the time its bytes alone
	 * take */
	if (n)
		why_say(w, "  %-10s %12s %5s %10s %12s %7s %11s", "stage", "time", "", "bytes",
			"operations", "x usual", t->bandwidth > 0 ? "reads alone" : "");
	for (int i = 0; i < n; i++)
		say_stage(w, t, &stage[i]);
	say_bound(w, t, usual, n);
}

void why_slow(struct why *w)
{
	struct slow t;
	char drafters[48] = "";
	long long usual, alike;

	if (w->at.pos >= 0) {
		why_gap(w);
		return;
	}
	memset(&t, 0, sizeof t);
	if (!read_slow(w, &t)) {
		if (w->at.given)
			why_say(w, "Step %lld is not in this log.", w->at.number);
		else
			why_say(w, "This log has no steps.");
		return;
	}
	usual = median_of_alike(w, &t, &alike);
	why_say(w,
		"Step %lld took %.3f ms: %lld row%s (of prompts %lld, newest tokens %lld, drafted %lld).",
		t.step, (double)t.ns / 1e6, t.rows, plural(t.rows), t.prefill, t.decode, t.draft);
	if (usual > 0)
		why_say(w, "  %lld other step%s of the same rows: median %.3f ms; this one %.2f times that",
			alike, plural(alike), (double)usual / 1e6, (double)t.ns / (double)usual);
	say_members(w, &t);
	if (t.drafters_ns > 0)
		snprintf(drafters, sizeof drafters, "drafters %.3f ms; ", (double)t.drafters_ns / 1e6);
	why_say(w, "  kernels %.3f ms; %severything else (plan, draws, events) %.3f ms",
		(double)t.kernel_ns / 1e6, drafters, outside_ns(&t) / 1e6);
	why_ahead(w, t.step, 0);
	t.exchange_ns = why_ranks(w, t.step, t.ns);
	say_delay(w, &t);
	say_stages(w, &t, usual);
	why_say(w, "  in the log: SELECT * FROM kernel_stages WHERE step = %lld", t.step);
}
