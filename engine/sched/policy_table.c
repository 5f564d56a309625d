/* The table of policies, the default first. See policy.h. Nothing else is here, so that a program
 * may link a table of its own. */
#include <stddef.h>

#include "engine/sched/policy.h"

extern const struct sched_policy policy_fcfs, policy_static, policy_prefill_first,
	policy_decode_first, policy_tgi, policy_shortest, policy_shortest_job, policy_priority,
	policy_fair, policy_deadline;

const struct sched_policy *const sched_policies[] = { &policy_fcfs, &policy_static,
	&policy_prefill_first, &policy_decode_first, &policy_tgi, &policy_shortest,
	&policy_shortest_job, &policy_priority, &policy_fair, &policy_deadline, NULL };
