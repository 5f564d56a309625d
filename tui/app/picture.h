/* Pictures of views and of the whole screen, as SVG or PNG. Thread: the UI's. */
#ifndef CUTAWAY_TUI_PICTURE_H
#define CUTAWAY_TUI_PICTURE_H

#include "tui/app/app.h"

/* /export FILE.svg|FILE.png [VIEW] [WxH]: the view named (or screen: all of it), else the one that
 * has the focus or had it last, at the step that is looked at. Never writes over a file. */
int app_picture(struct app *a, const char *text, struct err *e);

#endif
