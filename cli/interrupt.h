/* Ctrl-C and other signals that ask a verb to end. Thread: main's; the flag may be read from any.
 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool interrupted; /* set by the signal; also while a model is opened */

/* From here on this signal sets the flag. flags: of sigaction(2): with SA_RESETHAND the next one
 * ends the program; with SA_RESTART system calls that it interrupts go on, without it one that
 * waits for a reader or a key ends. */
void interrupt_catch(int signal, int flags);
