/* Newest tokens alone: a prompt has rows only in steps in which no request decodes. This is the
 * strict priority of decoding that Agrawal et al. (2024, section 3) ascribe to batching by the
 * request, here with admission by the step: slots and the prefix cache are taken as they become
 * free. No answer ever pauses for a prompt, and prompts pay for it: all of them wait for the last
 * answer that decodes. Nobody starves, since answers end and no prompt can begin one meanwhile. */
#include "engine/sched/policy.h"

const struct sched_policy policy_decode_first = {
	.name = "decode-first",
	.doc = "prompts are computed only while nothing decodes",
	.turn = SCHED_NEWEST_ALONE,
};
