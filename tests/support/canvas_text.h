/* What a canvas shows, as text. */
#pragma once

#include "tui/term/canvas.h"

/* Trailing blanks are cut, '\n' follows each row. malloc'd. */
char *canvas_to_text(const struct canvas *c);
