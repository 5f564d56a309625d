/* Example of docs/extend.md: the longest prompt first. Nobody starves by it as long as prompts end
 * to come. */
#include "engine/sched/policy.h"
#include "engine/sched/sched.h"

static int64_t longest_rank(const struct sched *s, const struct request *r)
{
	return -(int64_t)sched_uncomputed(s, r);
}

const struct sched_policy policy_longest = {
	.name = "longest",
	.doc = "longest prompt first",
	.admission = longest_rank,
	.prompt = longest_rank,
	.victim = longest_rank,
};
