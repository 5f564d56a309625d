/* Signal masks of threads other than the user interface's. Signals from outside are blocked; those
 * that a thread itself raises (a bug, a mapped file that was truncated) are not, so that a handler
 * can restore the terminal and report them. A thread that is started between the two calls inherits
 * the mask. Thread: any; the mask is the caller's. */
#pragma once

#include <signal.h>

void signals_block(sigset_t *before);
void signals_restore(const sigset_t *before);
