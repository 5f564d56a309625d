/* The table of policies, the default first. See policy.h. Nothing else is here, so that a program
 * may link a table of its own. */
#include <stddef.h>

#include "engine/sched/policy.h"

extern const struct sched_policy policy_fcfs, policy_shortest;

const struct sched_policy *const sched_policies[] = { &policy_fcfs, &policy_shortest, NULL };
