/* Earliest deadline first (Liu and Layland 1973). A request is due `deadline` steps after its
 * arrival: steps are what a recording repeats, and a clock is not. Those without a deadline come
 * after all that have one, in order of arrival, and starve for as long as those fill the slots;
 * with one nobody does, as later arrivals are due ever later. It meets all deadlines if any order
 * does and no slot has to be given back; under too much load most are missed, by as much as the
 * load. */
#include "engine/sched/policy.h"
#include "engine/sched/request.h"

static int64_t deadline_rank(const struct sched *s, const struct request *r)
{
	(void)s;
	return r->deadline ? r->arrived + r->deadline : INT64_MAX;
}

const struct sched_policy policy_deadline = {
	.name = "deadline",
	.doc = "earliest deadline first: --deadline, in steps from the arrival",
	.rank_is = "the step in which it is due",
	.admission = deadline_rank,
	.prompt = deadline_rank,
	.victim = deadline_rank,
};
