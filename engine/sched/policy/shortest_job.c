/* Shortest job first: by the tokens that a request may still cost, those to compute and those that
 * may be drawn up to its limit (max-tokens, or the context). Where limits tell the lengths, the
 * mean time to the end is the least that one server can give (shortest remaining processing time:
 * Schrage 1968); where all are equal it is the order of prompts.
 *
 * Long jobs would starve for as long as short ones come, so those overtaken SCHED_PATIENCE times
 * (sched.h) go before all others, in order of arrival. */
#include "engine/sched/policy.h"
#include "engine/sched/sched.h"

static int64_t job_rank(const struct sched *s, const struct request *r)
{
	return r->overtaken >= SCHED_PATIENCE ? -1 : sched_uncomputed(s, r) + r->limit - r->n_ids;
}

const struct sched_policy policy_shortest_job = {
	.name = "shortest-job",
	.doc = "shortest job first, by tokens still to be computed or drawn; nobody is overtaken more "
		   "than 8 times",
	.rank_is = "tokens still to be computed or drawn (-1: overtaken 8 times)",
	.admission = job_rank,
	.prompt = job_rank,
	.victim = job_rank,
};
