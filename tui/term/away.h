/* Ctrl-Z: the process stops and gives the terminal back. Thread: the UI's. */
#ifndef CUTAWAY_TUI_AWAY_H
#define CUTAWAY_TUI_AWAY_H

#include <stdbool.h>

/* Stops the process. Returns true when it is continued in the foreground; false when it is
 * continued in the background to end: after `kill %1` of a shell it must not stop again before it
 * has read that signal. */
bool away_until_ours(void);

#endif
