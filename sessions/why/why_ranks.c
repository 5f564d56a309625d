/* Part of why slow: what ranks of a step waited for each other. */
#include "sessions/why/why_impl.h"

struct did { /* of a rank */
	long long rank, compute, exchange, slowed, exchanges;
};

static bool read_did(struct why *w, long long step, const char *which, struct did *d)
{
	char sql[256];

	snprintf(sql, sizeof sql,
		"SELECT rank, coalesce(compute_ns, 0), coalesce(exchange_ns, 0), coalesce(slowed_ns, 0),"
		" coalesce(exchanges, 0) FROM traffic WHERE step = ?1 %s LIMIT 1",
		which);
	return why_read(w, why_query(w, sql, step), 5,
		(long long *[]){ &d->rank, &d->compute, &d->exchange, &d->slowed, &d->exchanges });
}

static double ms(long long ns)
{
	return (double)ns / 1e6;
}

/* All ranks exchange at the same places, and moving bytes takes them as long: what one of them
 * spends there less than another, the other waited. */
long long why_ranks(struct why *w, long long step, long long step_ns)
{
	struct did own, slowest, least;
	char slowed[64] = "", other[48] = "";

	if (!read_did(w, step, "AND rank = 0", &own) ||
		!read_did(w, step, "ORDER BY compute_ns DESC, rank", &slowest) ||
		!read_did(w, step, "ORDER BY exchange_ns, rank", &least))
		return 0;
	if (own.slowed > 0)
		snprintf(slowed, sizeof slowed, ", of which the slowed link added %.3f ms", ms(own.slowed));
	if (own.compute < slowest.compute)
		snprintf(other, sizeof other, "; rank 0 computed %.3f ms", ms(own.compute));
	why_say(w, "  of the kernels' time, exchanges: %lld took %.3f of %.3f ms on rank 0%s",
		own.exchanges, ms(own.exchange), ms(step_ns), slowed);
	why_say(w, "  the slowest rank was %lld, computing %.3f ms%s", slowest.rank,
		ms(slowest.compute), other);
	if (own.exchange - least.exchange > own.exchange / 10)
		why_say(w,
			"  rank %lld exchanged least, %.3f ms: so rank 0 waited %.3f ms at least for others",
			least.rank, ms(least.exchange), ms(own.exchange - least.exchange));
	return own.exchange;
}
