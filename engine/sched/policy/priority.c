/* Classes: the lower priority goes first, as in vLLM (--scheduling-policy priority), into slots and
 * into rows for prompts, and the highest of those admitted later gives up its pages. Within a class
 * it is first come, first served. A slot that is taken stays taken: no answer is preempted for
 * another's class alone. A class starves for as long as lower ones fill the slots. */
#include "engine/sched/policy.h"
#include "engine/sched/request.h"

static int64_t priority_rank(const struct sched *s, const struct request *r)
{
	(void)s;
	return r->priority;
}

const struct sched_policy policy_priority = {
	.name = "priority",
	.doc = "classes: the lower --priority first, within a class first come, first served",
	.rank_is = "its priority",
	.admission = priority_rank,
	.prompt = priority_rank,
	.victim = priority_rank,
};
