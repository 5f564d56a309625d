/* Shortest prompt first: by the tokens still to be computed, without those in the prefix cache. It
 * lowers the mean time to the first token, since a short prompt does not wait for a long one
 * (shortest remaining processing time: Schrage and Miller 1966), and would starve long prompts for
 * as long as short ones come.
 *
 * So requests that were overtaken SCHED_PATIENCE times (sched.h) go before all others, in order of
 * arrival: no request is overtaken more often. */
#include "engine/sched/policy.h"
#include "engine/sched/sched.h"

static int64_t shortest_rank(const struct sched *s, const struct request *r)
{
	return r->overtaken >= SCHED_PATIENCE ? -1 : sched_uncomputed(s, r);
}

const struct sched_policy policy_shortest = {
	.name = "shortest",
	.doc = "shortest prompt first, by tokens still to be computed; nobody is overtaken more than 8 "
		   "times",
	.rank_is = "tokens of its prompt to compute (-1: overtaken 8 times)",
	.admission = shortest_rank,
	.prompt = shortest_rank,
	.victim = shortest_rank,
};
