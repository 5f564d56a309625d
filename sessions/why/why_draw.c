/* why token, why reject: the sampler's stages, the sampling race, and the verification of drafts.
 * See why.h. */
#include "base/text.h"
#include "fold/timeline_parts.h"
#include "sessions/why/why_impl.h"

enum { MOST = 8, TEXT = 80 };

struct drawn {
	long long seq, step, request, pos, id, source, survivors, rank; /* rank 0: not known */
	double p, p_draw, entropy;
	int n_candidates, n_stages;
	struct ev_candidate candidate[MOST];
	struct ev_stage stage[EV_MOST_STAGES];
	bool bound; /* a grammar ruled it, as these say, clean for a terminal */
	char stack[240], forbidden[2048];
};

static long long or_none(int64_t value)
{
	return value == EV_NULL_I ? -1 : value;
}

/* Its rank among the best by probability, from 1; 0: not known. The last of the candidates may be
 * the drawn one, of whatever rank. */
static int rank_of(const struct drawn *t)
{
	for (int i = 0; i < t->n_candidates - 1; i++)
		if (t->candidate[i].id == t->id)
			return i + 1;
	return 0;
}

/* seq of the row of REQUEST:POS, of POS of the newest request that has it, or else of the newest of
 * which `else_where` holds; -1: there is none. Of a position that occurs twice (after a rewind) the
 * last counts. */
static long long place_seq(struct why *w, enum ev_kind kind, const char *else_where)
{
	char sql[200];

	snprintf(sql, sizeof sql,
		"SELECT seq FROM %s WHERE %s ORDER BY seq <= ?9 DESC, seq DESC LIMIT 1", ev_info[kind].name,
		w->at.number >= 0 ? "request = ?2 AND pos = ?1"
		: w->at.pos >= 0  ? "pos = ?1"
						  : else_where);
	return why_int(w, -1, sql, w->at.pos, w->at.number);
}

/* The event after the token's: after a rewind there may be another of its position. */
static void read_bound(struct why *w, struct drawn *t)
{
	struct event ev;
	const long long seq = why_int(w, -1,
		"SELECT seq FROM bound WHERE request = ?1 AND pos = ?2 AND seq > ?3 ORDER BY seq LIMIT 1",
		t->request, t->pos, t->seq);

	t->bound = t->n_stages > EV_AT_GRAMMAR && seq >= 0 && why_event(w, EV_bound, seq, &ev);
	if (!t->bound)
		return;
	why_clean(ev.u.bound.stack, false, "", t->stack, sizeof t->stack);
	why_clean(ev.u.bound.forbidden, true, "", t->forbidden, sizeof t->forbidden);
}

static bool read_drawn(struct why *w, struct drawn *t)
{
	const struct ev_token *k;
	struct event ev;

	t->seq = place_seq(w, EV_token, "seq <= ?9");
	if (t->seq < 0 || !why_event(w, EV_token, t->seq, &ev))
		return false;
	k = &ev.u.token;
	t->step = or_none(k->step);
	t->request = or_none(k->request);
	t->pos = or_none(k->pos);
	t->id = or_none(k->id);
	t->source = or_none(k->source);
	t->survivors = or_none(k->survivors);
	t->p = k->p;
	t->p_draw = k->p_draw;
	t->entropy = k->entropy;
	t->n_candidates = (int)ev_items(k->candidates, t->candidate, sizeof *t->candidate, MOST);
	t->n_stages = (int)ev_items(k->stages, t->stage, sizeof *t->stage, EV_MOST_STAGES);
	t->rank = k->rank == EV_NULL_I ? rank_of(t) : k->rank;
	*t->stack = *t->forbidden = '\0';
	read_bound(w, t);
	return true;
}

static const char *setting_of(
	struct why *w, long long request, const char *column, char *out, size_t cap)
{
	sqlite3_stmt *s;
	char sql[120];

	snprintf(sql, sizeof sql, "SELECT %s FROM request WHERE request = ?1", column);
	s = why_query(w, sql, request);
	snprintf(out, cap, "?");
	if (why_row(w, &s)) {
		if (!why_is_null(s, 0))
			snprintf(out, cap, "%.5g", sqlite3_column_double(s, 0));
		why_done(&s);
	}
	return out;
}

/* ---- the drawn token through the stages ---- */

/* The first stage, and the last in the list. */
static void say_bias(struct why *w, const struct drawn *t, const struct ev_candidate *own)
{
	const double after = (double)t->stage[EV_AT_BIAS].value;

	if (t->n_stages > EV_AT_BIAS && after != (double)own->logit)
		why_say(w, "  %-17s logit %9.4f   %+.4g by the request", "logit bias", after,
			after - (double)own->logit);
	else if (t->n_stages > EV_AT_BIAS)
		why_say(w, "  %-17s logit %9.4f   none for this token", "logit bias", after);
}

/* The second, and the last in the list. */
static void say_grammar(struct why *w, const struct drawn *t)
{
	const struct ev_stage *g = &t->stage[EV_AT_GRAMMAR];

	if (t->n_stages <= EV_AT_GRAMMAR)
		return;
	why_say(w, "  %-17s %-15s   %u token%s allowed, which the model gave %.4f", "grammar",
		g->left == 1 ? "no choice" : "", g->left, plural(g->left), (double)g->mass);
	if (t->bound)
		why_say(w, "  %-17s %s", "", *t->stack ? t->stack : "the text may end here");
}

static void say_forbidden(struct why *w, const struct drawn *t, uint32_t id)
{
	char rule[64];
	int passed;

	if (tl_bound_rule(t->forbidden, id, rule, sizeof rule, &passed))
		why_say(
			w, "the grammar forbids it: rule %s, after %d byte%s", rule, passed, plural(passed));
	else
		why_say(w, "the grammar forbids it");
}

static void say_stages(struct why *w, const struct drawn *t)
{
	static const struct {
		const char *name, *column;
	} stage[EV_N_STAGES] = { { "penalties", "repeat_penalty" }, { "temperature", "temperature" },
		{ "top-k", "top_k" }, { "top-p", "top_p" }, { "min-p", "min_p" } };
	char value[32], named[64];

	for (int i = 0; i < t->n_candidates; i++)
		if (t->candidate[i].id == t->id) {
			why_say(w, "  %-17s logit %9.4f   p %.4f", "the model", (double)t->candidate[i].logit,
				t->p);
			if (t->n_stages != EV_AT_GRAMMAR + 1 ||
				t->stage[EV_AT_BIAS].value != t->candidate[i].logit)
				say_bias(w, t, &t->candidate[i]);
			say_grammar(w, t);
		}
	for (int i = 0; i < t->n_stages && i < EV_N_STAGES; i++) {
		const struct ev_stage *g = &t->stage[i];

		setting_of(w, t->request, stage[i].column, value, sizeof value);
		snprintf(named, sizeof named, "%s %s", i ? stage[i].name : "repeat", value);
		why_say(w, "  %-17s %s %9.4f   %u token%s left, %.4f of the mass", named,
			i < 2 ? "logit" : "p    ", (double)g->value, g->left, plural(g->left), (double)g->mass);
	}
}

/* The names as of the options. */
static const char *cut_words(uint64_t cut)
{
	return cut == EV_CUT_top_k   ? "top-k"
		   : cut == EV_CUT_top_p ? "top-p"
		   : cut == EV_CUT_min_p ? "min-p"
								 : ev_code_name("cut", cut);
}

static void say_race(struct why *w, const struct drawn *t)
{
	char text[TEXT];
	bool greedy = t->n_candidates > 1 && t->candidate[1].cut == EV_CUT_greedy;

	why_say(w, greedy ? "  temperature 0: the first in order wins, nothing is drawn"
					  : "  the race: a token arrives at -log(u) * p(best) / p; the first wins");
	for (int i = 0; i < t->n_candidates; i++) {
		const struct ev_candidate *c = &t->candidate[i];
		bool won = c->id == t->id;
		int wide;

		why_text(w, c->id, text, sizeof text);
		wide = text_width(text, strlen(text), false);
		fprintf(w->out, "  %s %s%*s p %.4f   ", won ? ">" : " ", text, wide < 24 ? 24 - wide : 0,
			"", (double)c->p);
		if (c->cut == EV_CUT_grammar)
			say_forbidden(w, t, c->id);
		else if (isnan(c->arrival) && c->cut != EV_CUT_kept)
			why_say(w, "cut by %s", cut_words(c->cut));
		else if (isnan(c->arrival))
			why_say(w, "%s", won && greedy ? "first" : "");
		else
			why_say(w, "arrives at %.4f", (double)c->arrival);
	}
}

static void say_source(struct why *w, const struct drawn *t)
{
	switch (t->source) {
	case EV_SOURCE_accepted:
		why_say(
			w, "  it had been drafted, and the draft won this draw: nothing changes but the time");
		break;
	case EV_SOURCE_corrected:
		why_say(w, "  a draft stood here and was not kept: ask why reject %lld:%lld", t->request,
			t->pos);
		break;
	case EV_SOURCE_bonus:
		why_say(w, "  it came for free: after a draft that was accepted whole");
		break;
	default: break;
	}
}

/* "“ dog” at position 7 of request 3", and what became of it. */
static void say_token(
	struct why *w, long long id, long long pos, long long request, const char *end)
{
	char text[TEXT];

	why_say(w, "%s at position %lld of request %lld %s", why_text(w, id, text, sizeof text), pos,
		request, end);
}

/* A token that was not drawn in this session. */
static void say_elsewhere(struct why *w, const struct drawn *t)
{
	say_token(w, t->id, t->pos, t->request,
		t->source == EV_SOURCE_taken
			? "is of the best answer of a search, whose branches computed it."
		: t->source == EV_SOURCE_recorded
			? "was drawn in the session that this one continues: `why` of its recording says more."
			: "was not drawn: a search went on with it.");
	if (t->rank > 0)
		why_say(w, "  it was number %lld by probability", t->rank);
	why_say(w, "  p %.4f in the model's own distribution, of %.2f bits", t->p, t->entropy);
}

static void say_won(struct why *w, const struct drawn *t)
{
	char how[80] = "was the likeliest token, and it won.";

	if (t->rank > 1)
		snprintf(how, sizeof how, "was number %lld by probability, and it won the draw.", t->rank);
	say_token(
		w, t->id, t->pos, t->request, t->rank > 0 ? how : "won the draw; its rank is not known.");
	why_say(w,
		"  p %.4f in the model's own distribution, of %.2f bits; %.4f in the draw of %lld token%s",
		t->p, t->entropy, t->p_draw, t->survivors, plural(t->survivors));
	say_stages(w, t);
	if (t->n_candidates)
		say_race(w, t);
	else
		why_say(w, "  its candidates were not recorded");
	say_source(w, t);
	why_say(w, "  in the log: SELECT * FROM candidates WHERE seq = %lld", t->seq);
}

void why_token(struct why *w)
{
	struct drawn t = { 0 };

	if (!read_drawn(w, &t))
		why_say(w,
			w->at.given ? "No request has a generated token there." : "No token was generated%s.",
			why_so_far(w));
	else if (t.source == EV_SOURCE_forced)
		say_token(w, t.id, t.pos, t.request, "was not drawn: the user put it there.");
	else if (t.source == EV_SOURCE_carried)
		say_token(w, t.id, t.pos, t.request,
			"was not drawn: it is of another model's answer, whose text stands in this one's "
			"tokens.");
	else if (t.source >= EV_SOURCE_chosen)
		say_elsewhere(w, &t);
	else
		say_won(w, &t);
}

/* ---- a draft that was not kept ---- */

struct refusal {
	long long seq, step, request, pos, nth, id, rule, verdict, winner;
	double q, p, arrival, threshold;
};

static bool read_refusal(struct why *w, struct refusal *r)
{
	const struct ev_draft *d;
	struct event ev;
	const long long seq = place_seq(w, EV_draft, "verdict = {verdict.rejected} AND seq <= ?9");

	if (seq < 0 || !why_event(w, EV_draft, seq, &ev))
		return false;
	d = &ev.u.draft;
	*r = (struct refusal){ seq, or_none(d->step), or_none(d->request), or_none(d->pos),
		or_none(d->nth), or_none(d->id), or_none(d->rule), or_none(d->verdict), or_none(d->winner),
		d->q, d->p, d->arrival, d->winner_arrival };
	return true;
}

static void say_race_lost(
	struct why *w, const struct refusal *d, const char *text, const char *winner)
{
	why_say(w, "%s was drafted for position %lld of request %lld and lost the draw to %s.", text,
		d->pos, d->request, winner);
	why_say(w, "  the race is the target's own, as without a draft: the first to arrive wins");
	if (d->arrival >= 0)
		why_say(w, "  %s would have arrived at %.4f, %s arrived at %.4f", text, d->arrival, winner,
			d->threshold);
	else
		why_say(w, "  %s did not take part: it was cut before the draw", text);
	why_say(
		w, "  so the text is the same as without drafts; the target gave the guess p %.4f", d->p);
}

static void say_rejection_lost(
	struct why *w, const struct refusal *d, const char *text, const char *winner)
{
	why_say(w,
		"%s was drafted for position %lld of request %lld and was rejected; %s was drawn instead.",
		text, d->pos, d->request, winner);
	why_say(w, "  modified rejection keeps a guess with probability min(1, p / q)");
	why_say(w, "  p %.4f by the target, q %.4f by the drafter: threshold %.4f", d->p, d->q,
		d->threshold);
	why_say(w, "  the random number was %.4f, which is not below it", d->arrival);
	why_say(
		w, "  then one token is drawn from what p has above q, so that the distribution stays p");
}

void why_ahead(struct why *w, long long step, long long request)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT request, nodes, assumed, held, came, start_ns, ns, wait_ns FROM ahead "
		"WHERE step = ?1 AND ?2 IN (0, request) AND nodes > 0",
		step, request);

	while (why_row(w, &s)) {
		const bool kept = sqlite3_column_int64(s, 4) == EV_AHEAD_kept;

		why_say(w,
			"  beside it the drafter guessed %lld further tokens of request %lld, from %.3f ms on "
			"for %.3f ms; the engine waited %.3f ms of that",
			sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 0),
			(double)sqlite3_column_int64(s, 5) / 1e6, (double)sqlite3_column_int64(s, 6) / 1e6,
			(double)sqlite3_column_int64(s, 7) / 1e6);
		why_say(w, "    they assumed %lld tokens, of which the text then had %lld: %s",
			sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 3),
			kept ? "they were the next draft" : "they were thrown away");
	}
}

void why_reject(struct why *w)
{
	struct refusal d;
	char text[TEXT], winner[TEXT];

	memset(&d, 0, sizeof d);
	if (!read_refusal(w, &d)) {
		why_say(w,
			w->at.given ? "No token was drafted there."
						: "No draft was rejected in this session%s.",
			why_so_far(w));
		return;
	}
	why_text(w, d.id, text, sizeof text);
	why_text(w, d.winner, winner, sizeof winner);
	if (d.verdict == EV_VERDICT_accepted)
		why_say(w,
			"%s was drafted for position %lld of request %lld and was kept: it won the draw.", text,
			d.pos, d.request);
	else if (d.verdict == EV_VERDICT_discarded)
		why_say(w,
			"%s was drafted for position %lld of request %lld and discarded: a guess before it was "
			"not kept, or the request ended.",
			text, d.pos, d.request);
	else if (d.rule == EV_RULE_race)
		say_race_lost(w, &d, text, winner);
	else
		say_rejection_lost(w, &d, text, winner);
	why_say(w, "  it was guess %lld of step %lld; drafted there: %lld, kept: %lld", d.nth, d.step,
		why_int(
			w, 0, "SELECT count(*) FROM draft WHERE step = ?1 AND request = ?2", d.step, d.request),
		why_int(w, 0,
			"SELECT count(*) FROM draft WHERE step = ?1 AND request = ?2 AND verdict = "
			"{verdict.accepted}",
			d.step, d.request));
	why_ahead(w, d.step, d.request);
	why_say(w, "  in the log: SELECT * FROM drafts WHERE seq = %lld", d.seq);
}
