/* What happens to the terminal when the process crashes, or stops. See term_impl.h. */
#include <pthread.h>

#include "tui/term/term_impl.h"

static struct {
	char text[256];
	size_t size;
	int out;
	struct termios found;
	volatile sig_atomic_t armed;
} crash;

static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };

static struct sigaction usual[ARRAY_N(signals)];

/* Restores the earlier handlers: main's reports SIGBUS. */
static void give_back(void)
{
	for (size_t i = 0; i < ARRAY_N(signals); i++)
		sigaction(signals[i], &usual[i], NULL);
}

static void on_crash(int number)
{
	if (crash.armed) {
		crash.armed = 0;
		if (write(crash.out, crash.text, crash.size) < 0)
			crash.size = 0; /* a failure cannot be handled here */
		tcsetattr(STDIN_FILENO, TCSANOW, &crash.found);
	}
	give_back();
	raise(number);
}

void crash_begin(int out, const struct termios *found)
{
	crash.size = 0;
	crash.out = out;
	crash.found = *found;
}

void crash_add(const char *text)
{
	size_t n = strlen(text);

	if (n > sizeof crash.text - crash.size)
		return;
	memcpy(crash.text + crash.size, text, n);
	crash.size += n;
}

void crash_arm(void)
{
	static char stack[1 << 15];
	stack_t alternative = { .ss_sp = stack, .ss_size = sizeof stack };
	struct sigaction action = { .sa_handler = on_crash, .sa_flags = SA_ONSTACK };

	if (crash.armed)
		return;
	crash.armed = 1;
	sigaltstack(&alternative, NULL);
	for (size_t i = 0; i < ARRAY_N(signals); i++)
		sigaction(signals[i], &action, &usual[i]);
}

void crash_disarm(void)
{
	if (crash.armed)
		give_back();
	crash.armed = 0;
}

/* --- Ctrl-Z --- */

enum { AWAY_MS = 50 };

static bool asked_to_end(void)
{
	static const int ends[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };
	sigset_t waiting;

	sigpending(&waiting); /* all of these are blocked: the loop reads them */
	for (size_t i = 0; i < ARRAY_N(ends); i++)
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
