/* Static batching, by the request (FasterTransformer; Agrawal et al. 2024, algorithm 1): a batch is
 * what waits when nothing runs, as much of it as finds slots and pages. Its prompts are computed,
 * then it decodes until the longest answer ends, and only then the next batch is admitted. Slots of
 * answers that ended stay empty: that is its price. Nobody starves. */
#include "engine/sched/policy.h"
#include "engine/sched/sched.h"

static bool static_opens(const struct sched *s)
{
	return !s->n_running;
}

const struct sched_policy policy_static = {
	.name = "static",
	.doc = "a batch is admitted only when the one before has ended",
	.closed_until = "every request of the batch that ran to end",
	.turn = SCHED_PROMPTS_ALONE,
	.opens = static_opens,
};
