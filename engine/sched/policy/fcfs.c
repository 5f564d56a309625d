/* First come, first served: every rank is equal, so the order of arrival decides admission, the
 * order of admission decides prompts, and the youngest is preempted (Yu et al. 2022; vLLM's
 * default).
 *
 * With the usual turn this is the mixed, stall-free batching of Sarathi-Serve (Agrawal et al. 2024,
 * algorithm 3): newest tokens first, then chunks of prompts up to a budget of tokens, so that no
 * prompt makes a running answer pause. Nobody starves. */
#include "engine/sched/policy.h"

const struct sched_policy policy_fcfs = {
	.name = "fcfs",
	.doc = "first come, first served; newest tokens, then chunks of prompts (Sarathi-Serve)",
};
