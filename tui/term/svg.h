/* A canvas as a picture: SVG 1.1 without scripts, links or fonts of its own.
 *
 * A cell is 10 x 20 units. Columns stay aligned with any font: a run of letters says its length,
 * and every character that may come from another font stands alone in the middle of its cells. Bars
 * and box-drawing characters are shapes, so that they touch. Thread: any; no state. */
#pragma once

#include <stdio.h>

#include "tui/term/theme.h"

/* The title is foreign text, too. Errors of the file are the caller's to find (ferror). */
void svg_write(FILE *out, const struct canvas *c, const struct theme *t, const char *title);
