/* Policies by name. See policy.h. */
#include "engine/sched/policy.h"

#include <string.h>

#include "base/text.h"

const struct sched_policy *sched_policy_find(const char *name, struct err *e)
{
	char known[200] = "";

	for (int i = 0; sched_policies[i]; i++) {
		if (!strcmp(sched_policies[i]->name, name))
			return sched_policies[i];
		text_append(known, sizeof known, ", ", "%s", sched_policies[i]->name);
	}
	err_set(e, ERR_USAGE, "policy %.40s: there are %s", name, known);
	return NULL;
}

const char *sched_policy_name(int i)
{
	return sched_policies[i] ? sched_policies[i]->name : NULL;
}
