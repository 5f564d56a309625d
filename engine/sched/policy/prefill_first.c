/* Prompts first (Yu et al. 2022; vLLM's order before it had chunks; "prefill-prioritizing", Agrawal
 * et al. 2024, algorithm 2): who finds a slot is admitted, its whole prompt is computed before any
 * newest token has a row again, and decoding pauses meanwhile. The least time to the first token,
 * and the longest gaps between later ones. No request starves in the queue; a running answer does
 * for as long as prompts keep coming, which slots bound: the prompts of those that run end. */
#include "engine/sched/policy.h"

const struct sched_policy policy_prefill_first = {
	.name = "prefill-first",
	.doc = "whole prompts before newest tokens: decoding pauses for them",
	.turn = SCHED_PROMPTS_ALONE,
};
