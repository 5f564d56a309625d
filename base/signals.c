/* See signals.h. */
#include "base/signals.h"

#include <stddef.h>

void signals_block(sigset_t *before)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };
	sigset_t others;

	sigfillset(&others);
	for (size_t i = 0; i < sizeof own / sizeof *own; i++)
		sigdelset(&others, own[i]);
	pthread_sigmask(SIG_BLOCK, &others, before);
}

void signals_restore(const sigset_t *before)
{
	pthread_sigmask(SIG_SETMASK, before, NULL);
}
