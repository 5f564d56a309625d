/* Ctrl-C in a verb: the first one asks it to end, the next ends the program. Thread: main's; the
 * flag may be read from any. */
#ifndef CUTAWAY_CLI_INTERRUPT_H
#define CUTAWAY_CLI_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool interrupted; /* set by Ctrl-C; also while a model is opened */

/* From here on Ctrl-C sets the flag. restart: system calls that it interrupts go on; without it one
 * that waits for a reader or a key ends. */
void interrupt_catch(bool restart);

#endif
