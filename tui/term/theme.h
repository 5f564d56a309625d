/* Maps inks (canvas.h) to colours, for four depths of colour, dark and light.
 *
 * The palette is safe for colour-blind eyes (Okabe and Ito 2008, lightened for dark backgrounds).
 * Where there are 16 colours or none, letters and shapes carry the meaning. Thread: any; no
 * state. */
#pragma once

#include "tui/term/canvas.h"

enum theme_depth { THEME_MONO, THEME_16, THEME_256, THEME_TRUE };

struct theme {
	enum theme_depth depth;
	bool light;
	bool projector; /* seen from afar: no text is dim */
};

/* A colour is -1 for the terminal's own, an index (16 and 256), or 0xrrggbb (truecolor). */
struct theme_style {
	int fg, bg;
	bool bold, dim, reverse, underline;
};

/* Is the background light by COLORFGBG? rxvt, konsole and others say "foreground;background" there,
 * as numbers of the 16 colours. */
bool theme_env_is_light(void);
/* The colour of plain text, or of the ground, where there is no terminal to have its own:
 * 0xrrggbb. */
int theme_own(const struct theme *t, bool ground);
struct theme_style theme_style(const struct theme *t, enum ink ink, enum ink paper, unsigned attr);
