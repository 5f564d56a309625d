/* cutaway attach on the screens: the chat's views over another server. */
#pragma once

#include "sessions/attach/attach.h"
#include "tui/app/tui.h"

/* Until the user quits. Uses only answer, history and term of the options. Thread: main's, which is
 * the UI's. */
int tui_attach(struct attach *a, const struct tui_options *o, struct tui_end *end, struct err *e);
