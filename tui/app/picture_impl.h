/* Inside tui/app/picture*.c: a picture, and the recording that it is of. Thread: main's. */
#ifndef CUTAWAY_TUI_PICTURE_IMPL_H
#define CUTAWAY_TUI_PICTURE_IMPL_H

#include "tui/app/offscreen.h"
#include "tui/app/tui.h"

enum { PICTURE_SCREEN = -1 };

struct picture {
	int view; /* index, or PICTURE_SCREEN */
	int w, h; /* cells */
	bool light, mono, png;
};

/* Is it large enough for its view? ERR_USAGE with the size that is needed. */
int picture_check(const struct picture *p, struct err *e);
/* Draws the view, as it is when it fills the screen, on the app's canvas. */
void picture_draw(struct app *a, int view);
/* As SVG; the app's own canvas stays as it is. malloc'd; NULL: no memory. */
char *picture_svg(struct app *a, const struct picture *p, size_t *size);
/* Opens the recording at `at`: see struct tui_picture. Close it with picture_close(), also after an
 * error. */
int picture_open(
	struct offscreen **o, const char *path, const struct picture *p, const char *at, struct err *e);
void picture_close(struct offscreen *o);
/* Reads size, theme and format; w x h: the size if none is asked for. */
int picture_take(struct picture *p, const struct tui_picture *o, int w, int h, struct err *e);

#endif
