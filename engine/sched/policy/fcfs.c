/* First come, first served: every rank is equal, so the order of arrival decides admission, the
 * order of admission decides prompts, and the youngest is preempted (Yu et al. 2022; vLLM's
 * default). */
#include "engine/sched/policy.h"

static int64_t fcfs_rank(const struct sched *s, const struct request *r)
{
	(void)s, (void)r;
	return 0;
}

/* An admitted request reaches the end of its prompt without preemption. */
static bool fcfs_admits(
	const struct sched *s, const struct request *r, const struct sched_need *need)
{
	(void)s, (void)r;
	return need->own + need->running <= need->available;
}

const struct sched_policy policy_fcfs = {
	.name = "fcfs",
	.doc = "first come, first served",
	.admission = fcfs_rank,
	.admits = fcfs_admits,
	.prompt = fcfs_rank,
	.victim = fcfs_rank,
};
