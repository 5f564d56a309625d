/* Signals of threads that are not the user interface's: what comes from outside is not for them.
 * What a thread brings upon itself (a bug, a mapped file that was cut short) stays its own, so that
 * a handler can restore the terminal and say so. A thread that is started between the two has that
 * mask. Thread: any; of the one that calls. */
#ifndef CUTAWAY_BASE_SIGNALS_H
#define CUTAWAY_BASE_SIGNALS_H

#include <signal.h>

void signals_block(sigset_t *before);
void signals_restore(const sigset_t *before);

#endif
