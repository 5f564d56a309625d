/* What the timeline (timeline.h) keeps of drafters: their guesses, how they would do, windows, and
 * what was drafted ahead. Thread: as the timeline's. */
#ifndef CUTAWAY_FOLD_TL_DRAFT_H
#define CUTAWAY_FOLD_TL_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

struct tl_draft {
	int64_t step, request, pos;
	int32_t nth, id, winner;
	/* nth of its parent node, 0: the newest token; tokens ahead of that, from 1 */
	int32_t parent, depth;
	int32_t top; /* what the target holds most probable after it, or -1 */
	enum ev_code_verdict verdict;
	enum ev_code_rule rule;
	int32_t other; /* verdict of the other rule, or -1 */
	float q, p, arrival, winner_arrival, other_arrival, other_winner_arrival;
	char drafter[16];
};
/* A drafter that guesses beside the run, as it was told last: see EV_shadow. */
enum { TL_SHADOWS = 20, TL_COSTS = 40, TL_CHOICES = 16, TL_PLACES = 16, TL_DRAFTER = 64 };
struct tl_shadow {
	char drafter[TL_DRAFTER]; /* "off": plain decoding */
	bool used;
	int64_t step, measured_step; /* of the newest; the one that measured, 0: none */
	int64_t steps, tokens, nodes, propose_ns, learn_ns;
	int32_t best_nodes;                     /* -1: not known */
	double tokens_ema, predicted, measured; /* tokens a step; tokens a second; NaN: not known */
	uint32_t verified[TL_PLACES], accepted[TL_PLACES];
};
struct tl_choice { /* of auto */
	int64_t step;
	int32_t nodes;
	double speed, speed_before;
	char drafter[TL_DRAFTER], before[TL_DRAFTER];
};
/* State of the window of a drafter that iterates its guesses: see the event. */
struct tl_window {
	int64_t step, request, pos;
	int32_t levels, columns, gram, n_entered, own, pool;
	/* in timeline.window_id: cells [levels][columns], next [columns], entered [n_entered][gram] */
	int32_t ids_at;
};
/* Guesses made while a step verified those before: see the event. */
struct tl_ahead {
	struct ev_ahead a;
};

#endif
