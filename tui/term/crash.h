/* Restores the terminal when the program crashes: SIGSEGV, SIGABRT and the like.
 *
 * Everything the handler touches is prepared before it is installed and is safe in a signal
 * handler: write(), tcsetattr(), constant memory. The signal then has its normal effect. Thread:
 * the UI's; the handler may run on any. */
#ifndef CUTAWAY_TUI_CRASH_H
#define CUTAWAY_TUI_CRASH_H

#include <termios.h>

void crash_begin(int out, const struct termios *found); /* found: the modes to restore */
void crash_add(const char *text); /* bytes to write; what no longer fits is left out */
void crash_arm(void);
void crash_disarm(void);

#endif
