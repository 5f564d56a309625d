/* Fair share between users: the virtual token counter (VTC) of Sheng et al. (2024). Who was served
 * least is admitted next, counted in tokens of prompts and, twice, tokens drawn; users.c keeps the
 * counters. Those of two users who both have requests waiting are never further apart than the
 * longest prompt and twice what one batch can draw, which is less than the paper's bound (lemma
 * 4.3), however many requests one of them sends; nobody starves, since counters of others only
 * grow. Among requests of one user it is first come, first served. */
#include "engine/sched/policy.h"
#include "engine/sched/sched.h"

static int64_t fair_rank(const struct sched *s, const struct request *r)
{
	(void)s;
	return r->account->served;
}

const struct sched_policy policy_fair = {
	.name = "fair",
	.doc = "the --user who was served least first, by tokens (virtual token counter)",
	.rank_is = "what its user was served by then: tokens of prompts, and twice those drawn",
	.admission = fair_rank,
};
