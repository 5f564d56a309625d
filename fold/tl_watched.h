/* What layers did beside attention, at the newest row of a request that was watched (events experts
 * and state; setting watch-layers). Part of fold/timeline.h. Thread: the timeline's. */
#ifndef CUTAWAY_FOLD_TL_WATCHED_H
#define CUTAWAY_FOLD_TL_WATCHED_H

#include <stddef.h>
#include <stdint.h>

enum {
	TL_EXPERTS = 1024, /* of a layer, at most */
	TL_RANKS = 16,
	TL_HISTORY = 64,
};
/* Numbers of a layer's state: how many heads or channels decay, taps, length, half-lives. */
enum { TL_STATE_HEADS, TL_STATE_TAPS, TL_STATE_NORM, TL_STATE_HALF, TL_STATE = 3 + TL_RANKS };

struct tl_watched {
	int64_t step, pos; /* step EV_NULL_I: none */
	/* experts: as in the event */
	int64_t rows, read, whole;
	int32_t n_layers, n, used; /* n: experts of a layer; states: rows in the past */
	/* experts: [n_layers][3 * n + 1] shares 0 … 1 of the row's weights, of all rows, of the last
	 * ones; then the router's entropy, NaN: the layer has no experts.
	 * states: [n_layers][TL_STATE], then [n][2] length and median half-life, the newest last. NaN:
	 * there is none */
	int32_t n_values;
	float *value;
};

/* Of a layer: its numbers. */
static inline const float *tl_layer_experts(const struct tl_watched *w, int32_t layer)
{
	return w->value + (size_t)layer * (3 * (size_t)w->n + 1);
}
static inline const float *tl_layer_state(const struct tl_watched *w, int32_t layer)
{
	return w->value + (size_t)layer * TL_STATE;
}
/* Its pairs of the past. */
static inline const float *tl_state_history(const struct tl_watched *w)
{
	return w->value + (size_t)w->n_layers * TL_STATE;
}

#endif
