/* Random sessions (tests/support/random_session.h): the same few each day, some of them on the
 * emulated GPU; with CUTAWAY_TEST_ALL 20 times as many. CUTAWAY_RANDOM_SEED=N is the first seed,
 * CUTAWAY_RANDOM_COUNT=N how many. A session that fails is shortened, operation by operation, and
 * printed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/cuda/shim/shim.h"
#include "tests/support/random_session.h"
#include "tests/support/thorough.h"

enum {
	DAILY = 20,
	SANITIZED = 10,
	DEVICE = 2,
	ALL = 20,
	SECONDS = 60,
	NOT_OPENED = 3,
	TRIES = 400
};

/* In a process of its own, whose memory errors, crashes and hangs are its own: its wait status. */
static int run(const struct session *s, bool talk)
{
	int status = -1;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		const struct rlimit none = { 0, 0 }, some = { SECONDS, SECONDS };

		setrlimit(RLIMIT_CORE, &none);
		setrlimit(RLIMIT_CPU, &some); /* one that waits for ever, after as long on a busy machine */
		alarm(SECONDS * 5);
		for (int i = 1; i < 32; i++)
			signal(i, SIG_DFL);
		if (!talk)
			stderr = fopen("/dev/null", "w");
		exit(session_run(s, talk) ? 0 : NOT_OPENED);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		fail_msg("no process for a session");
	return status;
}

static bool fails(const struct session *s)
{
	const int status = run(s, false);

	return status && !(WIFEXITED(status) && WEXITSTATUS(status) == NOT_OPENED);
}

/* Leaves out `n` of the operations and settings, from the at-th, if it fails without them. */
static bool leave_out(struct session *s, int at, int n)
{
	struct session less = *s;
	bool any = false;

	for (int i = at; i < at + n && i < s->n_ops + s->n_set; i++) {
		bool *off = i < s->n_ops ? &less.op[i].off : &less.set[i - s->n_ops].off;

		any |= !*off;
		*off = true;
	}
	if (!any || !fails(&less))
		return false;
	*s = less;
	return true;
}

static void shorten(struct session *s)
{
	int tries = 0;

	for (int n = s->n_ops / 2; n > 0; n /= 2)
		for (int at = 0; at < s->n_ops + s->n_set && tries < TRIES; at += n, tries++)
			leave_out(s, at, n);
	for (int at = 0; at < s->n_ops + s->n_set && tries < TRIES; at++, tries++)
		leave_out(s, at, 1);
}

static int number(const char *name, int otherwise)
{
	const char *value = getenv(name);

	return value ? atoi(value) : otherwise;
}

static void run_sessions(int some, bool on_device)
{
	const int count = number("CUTAWAY_RANDOM_COUNT", some * (getenv("CUTAWAY_TEST_ALL") ? ALL : 1));
	const int first = number("CUTAWAY_RANDOM_SEED", 1);
	int n_opened = 0, n_failed = 0;

	for (int i = 0; i < count; i++) {
		struct session s;
		int status;

		session_draw(&s, (uint64_t)(first + i));
		if (on_device)
			session_to_device(&s);
		status = run(&s, false);
		n_opened += !status;
		if (!status || (WIFEXITED(status) && WEXITSTATUS(status) == NOT_OPENED))
			continue;
		n_failed++;
		shorten(&s);
		session_print(&s, stderr);
		status = run(&s, true);
		fprintf(stderr, WIFSIGNALED(status) ? "# signal %d\n" : "# status %d\n",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	print_message("%d sessions, %d opened, %d failed\n", count, n_opened, n_failed);
	assert_int_equal(n_failed, 0);
	assert_true(n_opened > count / 2);
}

static void test_sessions(void **state)
{
	(void)state;
	run_sessions(is_thorough() ? DAILY : SANITIZED, false);
}

/* The bits of a GPU are a CPU's. */
static void test_on_device(void **state)
{
	const char *why;

	(void)state;
	if (!is_thorough() || !shim_use(&why))
		skip();
	run_sessions(DEVICE, true);
}

static int make(void **state)
{
	(void)state;
	return session_models() ? 0 : -1;
}

static int drop(void **state)
{
	(void)state;
	session_models_drop();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sessions),
		cmocka_unit_test(test_on_device) };

	return cmocka_run_group_tests(tests, make, drop);
}
