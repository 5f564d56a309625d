/* As the router of text-generation-inference (router/src/infer.rs, batching_task; the arguments of
 * its launcher): while a batch decodes, those that wait join it if they are at least
 * waiting_served_ratio times as many as run, rounded down, and there is room for so many. When
 * max_waiting_tokens tokens have passed since the last did, counted as there from 1 at a prefill,
 * they join even if they are fewer. Decoding pauses while the prompts of those that join are
 * computed, whole.
 *
 * Room is free slots here, and there tokens of prompts and longest answers: what lacks pages waits,
 * where there the batch would not be formed. Nobody starves: waiting is bounded by
 * max_waiting_tokens wherever there is a slot. */
#include "engine/sched/policy.h"
#include "engine/sched/sched.h"

static bool tgi_opens(const struct sched *s)
{
	const int32_t least = (int32_t)((float)s->n_running * s->served_ratio);
	const int32_t waiting = sched_n_waiting(s), room = s->n_slots - s->n_running;

	return 1 + s->n_decodes >= s->waiting_tokens || (waiting < room ? waiting : room) >= least;
}

const struct sched_policy policy_tgi = {
	.name = "tgi",
	.doc = "those that wait join when they are many or waited long (see waiting-served-ratio, "
		   "max-waiting-tokens)",
	.closed_until =
		"waiting-served-ratio times as many as ran to wait, or max-waiting-tokens to pass",
	.turn = SCHED_PROMPTS_ALONE,
	.opens = tgi_opens,
};
