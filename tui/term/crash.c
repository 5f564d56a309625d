/* See crash.h. */
#include "tui/term/crash.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct {
	char text[256];
	size_t size;
	int out;
	struct termios found;
	volatile sig_atomic_t armed;
} crash;

static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS };

static struct sigaction before[sizeof signals / sizeof *signals];

/* Restores the earlier handlers: main's reports SIGBUS. */
static void give_back(void)
{
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &before[i], NULL);
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
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &action, &before[i]);
}

void crash_disarm(void)
{
	if (crash.armed)
		give_back();
	crash.armed = 0;
}
