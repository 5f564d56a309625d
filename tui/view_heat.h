/* Heat: a share of attention as amber, on one fixed scale for all views, so that equal colours mean equal
 * shares and nothing changes its colour because another page did. Thread: any; no state. */
#ifndef CUTAWAY_TUI_VIEW_HEAT_H
#define CUTAWAY_TUI_VIEW_HEAT_H

#include <math.h>

#include "tui/canvas.h"

/* The brightest amber stands for a quarter of a row's attention and more. The scale is a root, because most
 * pages get a few hundredths and would all look black on a straight one. NaN is no heat. */
static inline int view_heat_level(double share)
{
	double level = share > 0 ? 15 * sqrt(share / 0.25) : 0;

	return level >= 15 ? 15 : (int)(level + 0.5);
}

static inline enum ink view_heat_ink(double share)
{
	return (enum ink)(INK_HEAT_0 + view_heat_level(share));
}

#endif
