/* Part of the timeline (timeline.h): what a trainer told, and what `quantize` and `prune` made of a
 * file. Thread: that of the timeline. */
#ifndef CUTAWAY_FOLD_TL_STUDY_H
#define CUTAWAY_FOLD_TL_STUDY_H

#include "event/event.h"

/* The spans of these events are not valid; texts are beside them, "" if absent. */
struct tl_training {
	struct ev_training e;
	char name[64], teacher[64];
};

/* Of steps of a trainer, struct ev_trained: beyond so many every second one is let go of. */
enum { TL_MOST_TRAINED = 1 << 16 };

enum { TL_ALPHAS = 4 };
struct tl_changed {
	struct ev_changed e;
	char method[16];
	float alpha[TL_ALPHAS]; /* NaN: there is none */
};

#endif
