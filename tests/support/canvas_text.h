/* What a canvas shows, as text. */
#ifndef CUTAWAY_TESTS_CANVAS_TEXT_H
#define CUTAWAY_TESTS_CANVAS_TEXT_H

#include "tui/term/canvas.h"

/* Trailing blanks are cut, '\n' follows each row. malloc'd. */
char *canvas_to_text(const struct canvas *c);

#endif
