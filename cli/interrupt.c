/* See interrupt.h. */
#include "cli/interrupt.h"

atomic_bool interrupted;

static void on_signal(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

void interrupt_catch(int signal, int flags)
{
	sigaction(signal, &(struct sigaction){ .sa_handler = on_signal, .sa_flags = flags }, NULL);
}
