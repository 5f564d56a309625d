/* Heat: a share of attention as amber, on one fixed scale for all views, so that equal colours mean
 * equal shares and a page's colour does not depend on other pages. Thread: any; no state. */
#ifndef CUTAWAY_TUI_VIEW_HEAT_H
#define CUTAWAY_TUI_VIEW_HEAT_H

#include <math.h>

#include "tui/term/canvas.h"

#define VIEW_HEAT_FULL 0.3

/* 0 … 1. The brightest amber stands for three tenths of a row's attention and more. The scale is
 * not linear, because most pages get a few hundredths and would all look black. NaN: no heat. */
static inline double view_heat(double share)
{
	double heat = share > 0 ? pow(share / VIEW_HEAT_FULL, 0.75) : 0;

	return heat < 1 ? heat : 1;
}

static inline enum ink view_heat_ink(double share)
{
	return (enum ink)(INK_HEAT_0 + (int)(15 * view_heat(share) + 0.5));
}

#endif
