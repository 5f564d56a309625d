/* See interrupt.h. */
#include "cli/interrupt.h"

#include <signal.h>

atomic_bool interrupted;

static void on_sigint(int signal)
{
	(void)signal;
	atomic_store(&interrupted, true);
}

void interrupt_catch(bool restart)
{
	const struct sigaction action = { .sa_handler = on_sigint,
		.sa_flags = (int)(SA_RESETHAND | (restart ? SA_RESTART : 0)) };

	sigaction(SIGINT, &action, NULL);
}
