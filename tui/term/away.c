/* See away.h. */
#include "tui/term/away.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { AWAY_MS = 50 };

static bool asked_to_end(void)
{
	static const int ends[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	sigset_t waiting;

	sigpending(&waiting); /* all of these are blocked: the loop reads them */
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (sigismember(&waiting, ends[i]))
			return true;
	return false;
}

bool away_until_ours(void)
{
	sigset_t stop, before;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	kill(0, SIGTSTP); /* all of the group, as the terminal itself would: `make chat` stops, too */
	pthread_sigmask(SIG_UNBLOCK, &stop, &before); /* here it stops, and here it goes on */
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	for (;;) {
		pid_t front = tcgetpgrp(STDIN_FILENO);

		if (front < 0 || front == getpgrp())
			return true;
		if (asked_to_end())
			return false;
		kill(0, SIGTTOU);
		poll(NULL, 0, AWAY_MS); /* an orphaned process group does not stop */
	}
}
