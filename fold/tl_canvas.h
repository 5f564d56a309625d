/* The answer of a diffusion model as its steps (events denoise) left it. Part of fold/timeline.h.
 * Thread: the timeline's. */
#ifndef CUTAWAY_FOLD_TL_CANVAS_H
#define CUTAWAY_FOLD_TL_CANVAS_H

#include <stdint.h>

struct tl_cell {
	int32_t nth, id;  /* step of the answer that fixed it, 0: a mask; newest proposal, -1: none */
	float p, entropy; /* of that; bits */
};

struct tl_canvas {
	int64_t step;          /* the newest that computed it; 0: there is none */
	int32_t nth;           /* of the answer's steps, from 1 */
	int32_t from;          /* position of the first cell */
	int32_t first, end;    /* positions of the block under work, from its first mask on */
	int32_t fixed, masked; /* in that step; left after it */
	int32_t steps, block;  /* settings; 0: see there */
	float above;
	uint8_t schedule; /* code */
	int32_t n;
	struct tl_cell *cell; /* [n] */
};

#endif
