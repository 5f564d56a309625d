/* why preempt, why wait: the scheduler. See why.h. */
#include <stdio.h>

#include "engine/sched/policy.h"
#include "sessions/why/why_impl.h"

static double ms(int64_t ns)
{
	return (double)ns / 1e6;
}

/* The scheduler's policy at event `seq`, or the default of a log without it. */
static const char *policy_at(struct why *w, int64_t seq, char out[24])
{
	sqlite3_stmt *s = why_query(w,
		"SELECT value FROM setting WHERE name = 'policy' AND seq < ?1 ORDER BY seq"
		" DESC LIMIT 1",
		1, seq, 0, 0, 0);

	snprintf(out, 24, "fcfs");
	if (why_row(w, &s)) {
		const char *name = (const char *)sqlite3_column_text(s, 0);
		const struct sched_policy *known = name ? sched_policy_find(name, NULL) : NULL;

		/* an untrusted file may name any policy */
		snprintf(out, 24, "%s", known ? known->name : "of no known name");
		why_done(&s);
	}
	return out;
}

/* ---- preempt ---- */

static int64_t admitted_at(struct why *w, int64_t request, int64_t before)
{
	return why_int(
		w, 0, "SELECT max(seq) FROM admit WHERE request = ?1 AND seq < ?2", 2, request, before, 0);
}

static void say_cost(struct why *w, int64_t request, int64_t seq, int64_t tokens)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT a.seq, a.waited_ns, l.hit FROM admit a LEFT JOIN lookup l ON l.request ="
		" a.request AND l.seq > a.seq WHERE a.request = ?1 AND a.seq > ?2"
		" ORDER BY a.seq, l.seq LIMIT 1",
		2, request, seq, 0, 0);

	if (!why_row(w, &s)) {
		why_say(w, "  it was not admitted again in this log");
		return;
	}
	why_say(w,
		"  it came back in step %lld, after %.1f ms; of its %lld tokens the cache still had %lld",
		(long long)why_step_of(w, sqlite3_column_int64(s, 0)), ms(sqlite3_column_int64(s, 1)),
		(long long)tokens, (long long)sqlite3_column_int64(s, 2));
	if (tokens > sqlite3_column_int64(s, 2))
		why_say(w, "  what that cost: %lld tokens computed again",
			(long long)((uint64_t)tokens - (uint64_t)sqlite3_column_int64(s, 2)));
	why_done(&s);
}

static void say_victim(struct why *w, int64_t seq, int64_t request, int64_t favour)
{
	char policy[24];

	if (request != favour)
		why_say(w,
			"  the policy, %s, chose it of those admitted after request %lld: that was in step %lld, it came "
			"in step %lld",
			policy_at(w, seq, policy), (long long)favour,
			(long long)why_step_of(w, admitted_at(w, favour, seq)),
			(long long)why_step_of(w, admitted_at(w, request, seq)));
	else
		why_say(w, "  every other request that ran was older, or had rows in that step already");
}

void why_preempt(struct why *w)
{
	sqlite3_stmt *s = why_query(w,
		w->at.given ? "SELECT seq, request, pages, tokens, favour FROM preempt WHERE"
					  " request = ?1 ORDER BY seq <= ?9 DESC, seq DESC LIMIT 1"
					: "SELECT seq, request, pages, tokens, favour FROM preempt"
					  " WHERE seq <= ?9 ORDER BY seq DESC LIMIT 1",
		w->at.given, w->at.number, 0, 0, 0);
	int64_t seq, request, pages, tokens, favour, step;

	if (!why_read(w, s, 5, (int64_t *[]){ &seq, &request, &pages, &tokens, &favour })) {
		if (w->at.given)
			why_say(w, "Request %lld was never preempted.", (long long)w->at.number);
		else
			why_say(w, "No request was preempted in this session%s: there were pages for all.",
				why_so_far(w));
		return;
	}
	step = why_step_of(w, seq);
	why_say(w,
		"In step %lld request %lld gave up its %lld pages, because request %lld needed one and no page "
		"was free or only cached.",
		(long long)step, (long long)request, (long long)pages, (long long)favour);
	say_victim(w, seq, request, favour);
	why_say(w, "  the pool: %lld pages; %lld requests ran and %lld waited when the step ended",
		(long long)why_int(w, 0, "SELECT pages FROM session LIMIT 1", 0, 0, 0, 0),
		(long long)why_int(w, 0, "SELECT running FROM step WHERE step = ?1", 1, step, 0, 0),
		(long long)why_int(w, 0, "SELECT waiting FROM step WHERE step = ?1", 1, step, 0, 0));
	say_cost(w, request, seq, tokens);
	why_say(w,
		"  more pages (--pages), fewer slots (--slots) or shorter answers (--max-tokens) avoid it");
	why_say(w, "  in the log: SELECT * FROM preempt WHERE seq = %lld", (long long)seq);
}

/* ---- wait ---- */

struct wait {
	int64_t request, arrived_seq, arrived_ns, admit_seq, waited_ns, first_seq, first_ns;
};

static bool read_wait(struct why *w, struct wait *t)
{
	sqlite3_stmt *s = why_query(w,
		w->at.given ? "SELECT a.request, r.seq, r.t_ns, a.seq, a.waited_ns FROM admit a"
					  " JOIN request r ON r.request = a.request WHERE a.request = ?1"
					  " ORDER BY a.seq LIMIT 1"
					: "SELECT a.request, r.seq, r.t_ns, a.seq, a.waited_ns FROM admit a"
					  " JOIN request r ON r.request = a.request WHERE a.readmitted = 0 AND"
					  " a.seq <= ?9"
					  " ORDER BY a.waited_ns DESC LIMIT 1",
		w->at.given, w->at.number, 0, 0, 0);
	int64_t *to[] = { &t->request, &t->arrived_seq, &t->arrived_ns, &t->admit_seq, &t->waited_ns };

	if (!why_read(w, s, 5, to))
		return false;
	s = why_query(w, "SELECT seq, t_ns FROM token WHERE request = ?1 ORDER BY seq LIMIT 1", 1,
		t->request, 0, 0, 0);
	why_read(w, s, 2, (int64_t *[]){ &t->first_seq, &t->first_ns });
	return true;
}

/* Says which requests overtook it, and which it overtook. */
static void say_policy(struct why *w, const struct wait *t)
{
	char policy[24];
	int64_t later = why_int(w, 0,
		"SELECT count(DISTINCT a.request) FROM admit a JOIN request r ON r.request ="
		" a.request WHERE r.seq > ?1 AND a.seq < ?2",
		2, t->arrived_seq, t->admit_seq, 0);
	int64_t earlier = why_int(w, 0,
		"SELECT count(*) FROM request r WHERE r.seq < ?1 AND NOT EXISTS (SELECT 1 FROM"
		" admit a WHERE a.request = r.request AND a.seq < ?2) AND NOT EXISTS (SELECT 1"
		" FROM finish f WHERE f.request = r.request AND f.seq < ?2)",
		2, t->arrived_seq, t->admit_seq, 0);

	why_say(w,
		"  the policy, %s, admitted %lld requests before it that came later, and it before %lld that came "
		"earlier",
		policy_at(w, t->admit_seq, policy), (long long)later, (long long)earlier);
}

/* Says what it waited for: requests ahead of it, and slots in use at its arrival. */
static void say_waited_for(
	struct why *w, const struct wait *t, int64_t ahead, int64_t running, int64_t slots)
{
	int64_t ended = why_int(w, 0,
		"SELECT request FROM finish WHERE seq > ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 1", 2,
		t->arrived_seq, t->admit_seq, 0);
	int64_t n_ended = why_int(w, 0, "SELECT count(*) FROM finish WHERE seq > ?1 AND seq < ?2", 2,
		t->arrived_seq, t->admit_seq, 0);
	int64_t parent =
		why_int(w, 0, "SELECT parent FROM request WHERE request = ?1", 1, t->request, 0, 0);

	if (ahead)
		why_say(w, "  what it waited for: its turn, after those; %lld requests ended meanwhile%s",
			(long long)n_ended, ended ? ", the last of them made room for it" : "");
	else if (slots && running >= slots && ended)
		why_say(
			w, "  what it waited for: a slot; request %lld ended and made room", (long long)ended);
	else if (parent)
		why_say(w,
			"  what it waited for: request %lld, its sibling, to compute the prompt they share",
			(long long)parent);
	else if (why_int(w, 0, "SELECT count(*) FROM step WHERE seq > ?1 AND seq < ?2", 2,
				 t->arrived_seq, t->admit_seq, 0))
		why_say(w, "  what it waited for: pages for its prompt; slots were free");
	else if (running)
		why_say(w, "  what it waited for: the end of the step that ran when it came");
	else
		why_say(w, "  what it waited for: nothing, it came while nothing ran");
}

static void say_queue(struct why *w, const struct wait *t)
{
	int64_t slots = why_int(w, 0, "SELECT slots FROM session LIMIT 1", 0, 0, 0, 0);
	/* the state between two steps is that of the step before */
	int64_t running =
		why_int(w, 0, "SELECT running FROM step WHERE seq < ?1 ORDER BY seq DESC LIMIT 1", 1,
			t->arrived_seq, 0, 0);
	int64_t ahead = why_int(w, 0,
		"SELECT count(*) FROM request r WHERE r.seq < ?1 AND NOT EXISTS (SELECT 1 FROM"
		" admit a WHERE a.request = r.request AND a.seq < ?1) AND NOT EXISTS (SELECT 1"
		" FROM finish f WHERE f.request = r.request AND f.seq < ?1)",
		1, t->arrived_seq, 0, 0);

	why_say(w, "  queue: %.1f ms, from step %lld to %lld", ms(t->waited_ns),
		(long long)why_step_of(w, t->arrived_seq), (long long)why_step_of(w, t->admit_seq));
	why_say(w,
		"  when it came: %lld of %lld slots were taken, %lld requests were in the queue before it",
		(long long)running, (long long)slots, (long long)ahead);
	say_policy(w, t);
	say_waited_for(w, t, ahead, running, slots);
}

static void say_prefill(struct why *w, const struct wait *t)
{
	sqlite3_stmt *s;

	if (!t->first_seq) {
		why_say(w, "  it has no token in this log");
		return;
	}
	s = why_query(w,
		"SELECT count(*), sum(b.rows), sum(p.ns), sum(p.rows) FROM batch b JOIN step p ON p.step ="
		" b.step WHERE b.request = ?1 AND b.seq < ?2 AND b.work = 0",
		2, t->request, t->first_seq, 0, 0);
	if (!why_row(w, &s))
		return;
	why_say(w,
		"  prompt: %.1f ms from slot to first token; its rows: %lld, in steps: %lld, which took %.1f "
		"ms and had %lld rows in all",
		ms(t->first_ns) - ms(t->arrived_ns) - ms(t->waited_ns),
		(long long)sqlite3_column_int64(s, 1), (long long)sqlite3_column_int64(s, 0),
		ms(sqlite3_column_int64(s, 2)), (long long)sqlite3_column_int64(s, 3));
	if (sqlite3_column_int64(s, 3) > sqlite3_column_int64(s, 1))
		why_say(w, "  the other %.0f rows were of requests in the same batch",
			(double)sqlite3_column_int64(s, 3) - (double)sqlite3_column_int64(s, 1));
	why_done(&s);
}

void why_wait(struct why *w)
{
	struct wait t = { 0 };

	if (!read_wait(w, &t)) {
		if (w->at.given)
			why_say(w, "Request %lld was never admitted, or is not in this log.",
				(long long)w->at.number);
		else
			why_say(w, "No request was admitted in this log%s.", why_so_far(w));
		return;
	}
	if (t.first_seq)
		why_say(w,
			"Request %lld waited %.1f ms for its first token: %.1f ms in the queue, then its prompt.",
			(long long)t.request, ms(t.first_ns) - ms(t.arrived_ns), ms(t.waited_ns));
	else
		why_say(
			w, "Request %lld waited %.1f ms in the queue.", (long long)t.request, ms(t.waited_ns));
	say_queue(w, &t);
	say_prefill(w, &t);
	why_say(w, "  in the log: SELECT * FROM requests WHERE request = %lld", (long long)t.request);
}
