/* why preempt, why wait: the scheduler. See why.h. */

#include "engine/sched/policy.h"
#include "sessions/why/why_impl.h"

/* An engine that is not held begins a step sooner. */
enum { LONG_NS = 100000000 };

static double ms(long long ns)
{
	return (double)ns / 1e6;
}

/* The scheduler's policy at event `seq`, or the default of a log without it. NULL: an untrusted
 * file may name any. */
static const struct sched_policy *policy_of(struct why *w, long long seq)
{
	char name[64];

	why_setting(w, "policy", seq, name, sizeof name);
	return *name ? sched_policy_find(name, NULL) : sched_policies[0];
}

static const char *policy_at(struct why *w, long long seq)
{
	const struct sched_policy *p = policy_of(w, seq);

	return p ? p->name : "of no known name";
}

/* The rank that an admission or a preemption went by. */
static void say_rank(struct why *w, long long seq, const char *sql, bool victim)
{
	const struct sched_policy *p = policy_of(w, seq);
	long long rank;

	if (!p || !p->rank_is || (victim && !p->victim))
		return;
	rank = why_int(w, EV_NULL_I, sql, seq);
	if (rank == INT64_MAX)
		why_say(w, "  its rank: none, so after all that have one (%s)", p->rank_is);
	else if (rank != EV_NULL_I)
		why_say(w, "  its rank, of which the %s goes first: %lld, %s",
			victim ? "greatest" : "least", rank, p->rank_is);
}

/* ---- preempt ---- */

static long long admitted_at(struct why *w, long long request, long long before)
{
	return why_int(
		w, 0, "SELECT max(seq) FROM admit WHERE request = ?1 AND seq < ?2", request, before);
}

static void say_cost(struct why *w, long long request, long long seq, long long tokens)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT a.seq, a.waited_ns, l.hit FROM admit a LEFT JOIN lookup l ON l.request ="
		" a.request AND l.seq > a.seq WHERE a.request = ?1 AND a.seq > ?2"
		" ORDER BY a.seq, l.seq LIMIT 1",
		request, seq);

	if (!why_row(w, &s)) {
		why_say(w, "  it was not admitted again in this log");
		return;
	}
	why_say(w,
		"  it came back in step %lld, after %.1f ms; of its %lld tokens the cache still had %lld",
		why_step_of(w, sqlite3_column_int64(s, 0)), ms(sqlite3_column_int64(s, 1)), tokens,
		sqlite3_column_int64(s, 2));
	if (tokens > sqlite3_column_int64(s, 2))
		why_say(w, "  what that cost: %lld tokens computed again",
			(long long)((uint64_t)tokens - (uint64_t)sqlite3_column_int64(s, 2)));
	why_done(&s);
}

static void say_victim(struct why *w, long long seq, long long request, long long favour)
{
	if (request != favour)
		why_say(w,
			"  the policy, %s, chose it of those admitted after request %lld: that was in step "
			"%lld, it came "
			"in step %lld",
			policy_at(w, seq), favour, why_step_of(w, admitted_at(w, favour, seq)),
			why_step_of(w, admitted_at(w, request, seq)));
	else
		why_say(w, "  every other request that ran was older, or had rows in that step already");
	if (request != favour)
		say_rank(w, seq, "SELECT rank FROM preempt WHERE seq = ?1", true);
}

void why_preempt(struct why *w)
{
	sqlite3_stmt *s = why_query(w,
		w->at.given ? "SELECT seq, request, pages, tokens, favour FROM preempt WHERE"
					  " request = ?1 ORDER BY seq <= ?9 DESC, seq DESC LIMIT 1"
					: "SELECT seq, request, pages, tokens, favour FROM preempt"
					  " WHERE seq <= ?9 ORDER BY seq DESC LIMIT 1",
		w->at.number);
	long long seq, request, pages, tokens, favour, step, running;

	if (!why_read(w, s, 5, (long long *[]){ &seq, &request, &pages, &tokens, &favour })) {
		if (w->at.given)
			why_say(w, "Request %lld was never preempted.", w->at.number);
		else
			why_say(w, "No request was preempted in this session%s: there were pages for all.",
				why_so_far(w));
		return;
	}
	step = why_step_of(w, seq);
	why_say(w,
		"In step %lld request %lld gave up its %lld page%s, because request %lld needed one and no "
		"page "
		"was free or only cached.",
		step, request, pages, plural(pages), favour);
	say_victim(w, seq, request, favour);
	running = why_int(w, 0, "SELECT running FROM step WHERE step = ?1", step);
	why_say(w, "  the pool: %lld pages; %lld request%s ran and %lld waited when the step ended",
		why_pages(w, seq), running, plural(running),
		why_int(w, 0, "SELECT waiting FROM step WHERE step = ?1", step));
	say_cost(w, request, seq, tokens);
	why_say(w,
		"  more pages (--pages), fewer slots (--slots) or shorter answers (--max-tokens) avoid it");
	why_say(w, "  in the log: SELECT * FROM preempt WHERE seq = %lld", seq);
}

/* ---- wait ---- */

struct wait {
	long long request, arrived_seq, arrived_ns, admit_seq, waited_ns, first_seq, first_ns;
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
		w->at.number);
	long long *to[] = { &t->request, &t->arrived_seq, &t->arrived_ns, &t->admit_seq,
		&t->waited_ns };

	if (!why_read(w, s, 5, to))
		return false;
	s = why_query(
		w, "SELECT seq, t_ns FROM token WHERE request = ?1 ORDER BY seq LIMIT 1", t->request);
	why_read(w, s, 2, (long long *[]){ &t->first_seq, &t->first_ns });
	return true;
}

/* Says which requests overtook it, and which it overtook. */
static void say_policy(struct why *w, const struct wait *t)
{
	long long later = why_int(w, 0,
		"SELECT count(DISTINCT a.request) FROM admit a JOIN request r ON r.request ="
		" a.request WHERE r.seq > ?1 AND a.seq < ?2",
		t->arrived_seq, t->admit_seq);
	long long earlier = why_int(w, 0,
		"SELECT count(*) FROM request r WHERE r.seq < ?1 AND NOT EXISTS (SELECT 1 FROM"
		" admit a WHERE a.request = r.request AND a.seq < ?2) AND NOT EXISTS (SELECT 1"
		" FROM finish f WHERE f.request = r.request AND f.seq < ?2)",
		t->arrived_seq, t->admit_seq);

	why_say(w,
		"  the policy, %s, admitted %lld request%s before it that came later, and it before %lld "
		"that came earlier",
		policy_at(w, t->admit_seq), later, plural(later), earlier);
	say_rank(w, t->admit_seq, "SELECT rank FROM admit WHERE seq = ?1", false);
}

/* While the policy was not open: its rule, and how many ran in the first and the last such step. */
static void say_closed(struct why *w, const struct wait *t, long long steps)
{
	static const char running[] = "SELECT running FROM step WHERE hold = ?1 AND seq > ?2 AND seq <"
								  " ?3 ORDER BY seq %s LIMIT 1";
	char first[sizeof running + 4], last[sizeof running + 4];
	const struct sched_policy *p = policy_of(w, t->admit_seq);

	snprintf(first, sizeof first, running, "ASC");
	snprintf(last, sizeof last, running, "DESC");
	why_say(w,
		"    %lld step%s: %s waited for %s; %lld ran after the first of them, %lld after the last",
		steps, plural(steps), p ? p->name : "the policy",
		p && p->closed_until ? p->closed_until : "what the log does not say",
		why_int(w, 0, first, EV_HOLD_policy, t->arrived_seq, t->admit_seq),
		why_int(w, 0, last, EV_HOLD_policy, t->arrived_seq, t->admit_seq));
}

/* Of each step that it waited through the plan's reason. False: there is none. */
static bool say_holds(struct why *w, const struct wait *t)
{
	const long long pinned = why_int(w, 0,
		"SELECT max(pages_pinned) FROM step WHERE"
		" seq > ?1 AND seq < ?2 AND hold = {hold.pages}",
		t->arrived_seq, t->admit_seq);
	static const char *const lacked[] = { [EV_HOLD_pages] = "lacked pages",
		[EV_HOLD_sibling] = "let another compute the prompt they share" };
	sqlite3_stmt *s = why_query(w,
		"SELECT hold, hold_first, count(*) FROM step WHERE seq > ?1 AND seq < ?2 AND hold IS NOT"
		" NULL GROUP BY hold, hold_first ORDER BY min(seq)",
		t->arrived_seq, t->admit_seq);
	bool any = false;

	while (why_row(w, &s)) {
		const long long hold = sqlite3_column_int64(s, 0), first = sqlite3_column_int64(s, 1);
		const long long n = sqlite3_column_int64(s, 2);

		if (!any)
			why_say(w, "  what it waited for, step by step:");
		any = true;
		if (hold == EV_HOLD_slot)
			why_say(w, "    %lld step%s: every slot was taken", n, plural(n));
		else if (hold == EV_HOLD_policy)
			say_closed(w, t, n);
		else if (hold == EV_HOLD_pages || hold == EV_HOLD_sibling)
			why_say(w, "    %lld step%s: %s %lld, first in the policy's order, %s", n, plural(n),
				first == t->request ? "it, request" : "request", first, lacked[hold]);
	}
	if (pinned > 0)
		why_say(
			w, "    of the pool, pins kept up to %lld page%s meanwhile", pinned, plural(pinned));
	return any;
}

/* Says what it waited for: requests ahead of it, and slots in use at its arrival. */
static void say_waited_for(
	struct why *w, const struct wait *t, long long ahead, long long running, long long slots)
{
	long long ended = why_int(w, 0,
		"SELECT request FROM finish WHERE seq > ?1 AND seq < ?2 ORDER BY seq DESC LIMIT 1",
		t->arrived_seq, t->admit_seq);
	long long n_ended = why_int(w, 0, "SELECT count(*) FROM finish WHERE seq > ?1 AND seq < ?2",
		t->arrived_seq, t->admit_seq);
	long long parent = why_int(w, 0, "SELECT parent FROM request WHERE request = ?1", t->request);

	if (say_holds(w, t))
		return;
	if (ahead)
		why_say(w, "  what it waited for: its turn, after those; %lld request%s ended meanwhile%s",
			n_ended, plural(n_ended), ended ? ", the last of them made room for it" : "");
	else if (slots && running >= slots && ended)
		why_say(w, "  what it waited for: a slot; request %lld ended and made room", ended);
	else if (parent)
		why_say(w,
			"  what it waited for: request %lld, its sibling, to compute the prompt they share",
			parent);
	else if (why_int(w, 0, "SELECT count(*) FROM step WHERE seq > ?1 AND seq < ?2", t->arrived_seq,
				 t->admit_seq))
		why_say(w, "  what it waited for: pages for its prompt; slots were free");
	else if (t->waited_ns > LONG_NS)
		why_say(w, "  what it waited for: no step ran meanwhile; the engine was held (F5, a "
				   "breakpoint), or changed a setting");
	else if (running)
		why_say(w, "  what it waited for: the end of the step that ran when it came");
	else
		why_say(w, "  what it waited for: nothing, it came while nothing ran");
}

static void say_queue(struct why *w, const struct wait *t)
{
	long long slots = why_int(w, 0, "SELECT slots FROM session LIMIT 1");
	/* the state between two steps is that of the step before */
	long long running = why_int(
		w, 0, "SELECT running FROM step WHERE seq < ?1 ORDER BY seq DESC LIMIT 1", t->arrived_seq);
	long long ahead = why_int(w, 0,
		"SELECT count(*) FROM request r WHERE r.seq < ?1 AND NOT EXISTS (SELECT 1 FROM"
		" admit a WHERE a.request = r.request AND a.seq < ?1) AND NOT EXISTS (SELECT 1"
		" FROM finish f WHERE f.request = r.request AND f.seq < ?1)",
		t->arrived_seq);

	why_say(w, "  queue: %.1f ms, from step %lld to %lld", ms(t->waited_ns),
		why_step_of(w, t->arrived_seq), why_step_of(w, t->admit_seq));
	why_say(w,
		"  when it came: %lld of %lld slots were taken, %lld request%s in the queue before it",
		running, slots, ahead, ahead == 1 ? " was" : "s were");
	say_policy(w, t);
	say_waited_for(w, t, ahead, running, slots);
}

/* Steps from its slot to its first token in which it had no row. */
static void say_pause(struct why *w, const struct wait *t, long long with_rows)
{
	const struct sched_policy *p = policy_of(w, t->first_seq);
	/* the row of the last step comes after its token */
	const long long steps =
		1 + why_int(w, 0, "SELECT count(*) FROM step WHERE seq > ?1 AND seq < ?2", t->admit_seq,
				t->first_seq);

	if (steps > with_rows)
		why_say(w, "  %lld step%s in between had no row of it: %s", steps - with_rows,
			plural(steps - with_rows),
			p && p->turn == SCHED_NEWEST_ALONE
				? "the policy computes prompts only while nothing decodes"
				: "others had the rows of the budget");
}

/* Whether it ended when it should have. */
static void say_deadline(struct why *w, const struct wait *t)
{
	const long long steps =
		why_int(w, 0, "SELECT deadline FROM request WHERE request = ?1", t->request);
	const long long due = why_step_of(w, t->arrived_seq) - 1 + steps;
	const long long end = why_int(w, 0, "SELECT step FROM finish WHERE request = ?1", t->request);

	if (steps > 0 && end)
		why_say(w, "  it was due in step %lld and ended in step %lld", due, end);
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
		" b.step WHERE b.request = ?1 AND b.seq < ?2 AND b.work = {work.prefill}",
		t->request, t->first_seq);
	if (!why_row(w, &s))
		return;
	why_say(w,
		"  prompt: %.1f ms from slot to first token; its rows: %lld, in steps: %lld, which took "
		"%.1f "
		"ms and had %lld rows in all",
		ms(t->first_ns) - ms(t->arrived_ns) - ms(t->waited_ns), sqlite3_column_int64(s, 1),
		sqlite3_column_int64(s, 0), ms(sqlite3_column_int64(s, 2)), sqlite3_column_int64(s, 3));
	say_pause(w, t, sqlite3_column_int64(s, 0));
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
			why_say(w, "Request %lld was never admitted, or is not in this log.", w->at.number);
		else
			why_say(w, "No request was admitted in this log%s.", why_so_far(w));
		return;
	}
	if (t.first_seq)
		why_say(w,
			"Request %lld waited %.1f ms for its first token: %.1f ms in the queue, then its "
			"prompt.",
			t.request, ms(t.first_ns) - ms(t.arrived_ns), ms(t.waited_ns));
	else
		why_say(w, "Request %lld waited %.1f ms in the queue.", t.request, ms(t.waited_ns));
	say_queue(w, &t);
	say_prefill(w, &t);
	say_deadline(w, &t);
	why_say(w, "  in the log: SELECT * FROM requests WHERE request = %lld", t.request);
}
