/* why route: the replica that a request was sent to. See why.h. */
#include "sessions/why/why_impl.h"

static void say_prefix(struct why *w, const struct ev_route *r)
{
	const long long hit = why_int(
		w, -1, "SELECT hit FROM lookup WHERE request = ?1 ORDER BY seq LIMIT 1", r->request);

	if (r->matched > 0)
		why_say(w,
			"  the router had sent %lld tokens of the prompt's beginning before, last to replica "
			"%lld",
			(long long)r->matched, (long long)r->last);
	else if (r->matched == 0)
		why_say(w, "  the router had sent no prompt that begins like this one");
	if (hit >= 0)
		why_say(w, "  the prefix cache here had %lld tokens of it (why miss %lld)", hit,
			(long long)r->request);
}

void why_route(struct why *w)
{
	const long long seq =
		w->at.given
			? why_int(w, -1, "SELECT seq FROM route WHERE request = ?1 AND seq <= ?9", w->at.number)
			: why_int(w, -1, "SELECT max(seq) FROM route WHERE seq <= ?9");
	char router[32], reason[120], loads[400];
	struct event ev;
	const struct ev_route *r = &ev.u.route;

	if (seq < 0 || !why_event(w, EV_route, seq, &ev)) {
		why_say(w, "No router chose a replica for %s%s: see cutaway serve --replicas.",
			w->at.given ? "that request" : "a request", why_so_far(w));
		return;
	}
	why_say(w, "Request %lld went to replica %lld of %lld by router %s: %s.", (long long)r->request,
		(long long)r->replica, (long long)r->replicas,
		why_clean(r->router, false, "?", router, sizeof router),
		why_clean(r->reason, false, "?", reason, sizeof reason));
	say_prefix(w, r);
	why_say(w, "  requests under way before it, by replica from 0: %s",
		why_clean(r->loads, false, "?", loads, sizeof loads));
	why_say(w, "  in the log: SELECT * FROM route WHERE request = %lld", (long long)r->request);
}
