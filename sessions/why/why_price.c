/* why price: what the lossy settings of a request cost beside its exact twin, where, and which of
 * several costs most (the scores that /price makes of the same text). */
#include "sessions/why/why_impl.h"

#include "base/text.h"
#include "engine/lossy.h"
#include "trace/schema.h"

enum { DEAREST = 5, NAMES = 96 };

/* Of a request's tokens, but those that it let go of when it went back. */
#define PRICES                                                                                     \
	" FROM price p WHERE request = ?1 AND seq <= ?9 AND " SCHEMA_KEPT("p", " AND w.seq <= ?9")

struct asked_at {
	struct why *w;
	long long seq;
};

/* The value of a setting at an event, in a buffer of its own. */
static const char *value_of(void *of, const char *name)
{
	static _Thread_local char value[LOSSY_VALUE];
	const struct asked_at *at = of;

	return why_setting(at->w, name, at->seq, value, sizeof value);
}

/* "window:64, cache-format e4m3", or "exact settings"; and whose weights the twin has, if they are
 * others. */
static const char *settings_at(struct why *w, long long seq, char names[NAMES])
{
	struct asked_at at = { w, seq };
	const struct lossy_settings l = lossy_query(value_of, &at);
	char twin[LOSSY_VALUE];

	if (!*lossy_print(&l, names, NAMES))
		snprintf(names, NAMES, "exact settings");
	why_setting(w, "twin", seq, twin, sizeof twin);
	if (*twin && strcmp(twin, "on") != 0 && strcmp(twin, "off") != 0)
		text_append(
			names, NAMES, ", ", "twin %.40s", text_cleaned(twin, sizeof twin, twin, strlen(twin)));
	return names;
}

/* A line of sums over the prices of a request. */
static bool say_sums(struct why *w, long long request, long long seq, const char *before)
{
	char names[NAMES];
	sqlite3_stmt *s = why_query(w,
		"SELECT count(*), avg(kl), sum(best = exact_best), avg(logp), avg(exact_logp)" PRICES,
		request);

	if (!why_row(w, &s) || !sqlite3_column_int64(s, 0)) {
		why_done(&s);
		return false;
	}
	why_say(w,
		"%s%s: KL %.5f nats a token, perplexity %.4g beside %.4g, best token equal in %lld of %lld",
		before, settings_at(w, seq, names), sqlite3_column_double(s, 1),
		exp(-sqlite3_column_double(s, 3)), exp(-sqlite3_column_double(s, 4)),
		sqlite3_column_int64(s, 2), sqlite3_column_int64(s, 0));
	why_done(&s);
	return true;
}

static void say_dearest(struct why *w, long long request)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT pos, id, kl, exact_best, best, rank" PRICES " AND kl > 0 ORDER BY kl DESC LIMIT ?2",
		request, DEAREST);

	for (int i = 0; why_row(w, &s); i++) {
		char drawn[64], exact[64], lossy[64];

		if (!i)
			why_say(w, "  it costs most at:");
		why_say(w,
			"    position %lld, %s: KL %.4f; most probable is %s, for the exact model %s; the "
			"drawn one "
			"is number %lld there",
			sqlite3_column_int64(s, 0),
			why_text(w, sqlite3_column_int64(s, 1), drawn, sizeof drawn),
			sqlite3_column_double(s, 2),
			why_text(w, sqlite3_column_int64(s, 4), lossy, sizeof lossy),
			why_text(w, sqlite3_column_int64(s, 3), exact, sizeof exact),
			sqlite3_column_int64(s, 5));
	}
}

/* The scores of the same text, dearest first. Returns how many there are. */
static int say_apart(struct why *w, long long request)
{
	sqlite3_stmt *s = why_query(w,
		"SELECT s.request, s.seq FROM request s JOIN request r ON r.request = ?1 WHERE s.kind = ?2"
		" AND s.seq > r.seq AND s.seq <= ?9 AND CAST(s.text AS TEXT) = 'price'"
		" AND substr(s.prompt, 1, length(r.prompt)) = r.prompt"
		" ORDER BY (SELECT avg(kl) FROM price p WHERE p.request = s.request) DESC",
		request, EV_REQUEST_KIND_score);
	int n = 0;

	for (; why_row(w, &s); n++) {
		if (!n)
			why_say(w, "  its text, scored under some of the settings, the dearest first:");
		say_sums(w, sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), "    ");
	}
	return n;
}

void why_price(struct why *w)
{
	const long long request =
		w->at.given
			? w->at.number
			: why_int(w, -1,
				  "SELECT p.request FROM price p JOIN request r USING (request) WHERE"
				  " p.seq <= ?9 AND CAST(r.text AS TEXT) <> 'price' ORDER BY p.seq DESC LIMIT 1");
	const long long seq = why_int(w, -1, "SELECT seq FROM request WHERE request = ?1", request);
	const bool drawn = request >= 0 && say_sums(w, request, seq, "");
	int scored = 0;

	if (drawn)
		say_dearest(w, request);
	if (request >= 0)
		scored = say_apart(w, request);
	if (drawn && !scored)
		why_say(
			w, "  which of several settings costs most: /price scores its text under each alone");
	if (drawn)
		why_say(w, "  in the log: SELECT * FROM prices; SELECT * FROM price WHERE request = %lld",
			request);
	else if (!scored)
		why_say(w, "No price is recorded%s: it takes an exact twin (--twin on, or /twin on).",
			why_so_far(w));
}
