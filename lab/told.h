/* What is told of a layer that was quantised or pruned: the event `changed`. Its errors are those
 * of what the layer adds to the calibration text's residual stream, so they compare any methods:
 * the text goes through the layer as it was, rounded to the nearest, and as it is written. Thread:
 * any one. */
#ifndef CUTAWAY_LAB_TOLD_H
#define CUTAWAY_LAB_TOLD_H

#include "event/event.h"
#include "lab/layer_part.h"

/* All zero but for `change`: nothing was begun. */
struct told {
	struct change *change; /* whose `told` is NULL: all calls do nothing */
	struct ev_changed row; /* what is known by others is filled in by them */
	float alpha[CALIBRATION_INPUTS];
	float *before, *exact; /* what enters the layer, and what leaves it as it was; or NULL */
	int64_t began_ns;
};

/* The layer as it was: its parts' `w` has its weights; p NULL: they are not read. The text stays
 * before the layer. */
int told_begin(struct told *t, int32_t layer, const struct layer_parts *p, struct err *e);
/* The same with each weight rounded to the nearest; p is unchanged. */
int told_nearest(struct told *t, const struct layer_parts *p, struct err *e);
/* The layer is written, and the text has gone through it. error, size: sums of squares of what
 * changed in its weights, and of them. Tells. */
void told_end(struct told *t, const char *method, double error, double size);
/* Also after an error. */
void told_free(struct told *t);

#endif
