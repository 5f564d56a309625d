/* A command that scores an answer (sessions/score/score_command.h), as the engine's thread runs
 * it. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "sessions/score/score_command.h"

enum { PATIENCE = 600, LOOK_MS = 100 };

static int n_forks;

static void on_fork(void)
{
	n_forks++;
}

static double score_of(const char *command, const char *text)
{
	struct score_command c = { .command = command, .quiet = true };
	enum score_verdict v = SCORE_LATER;
	struct err e = { 0 };
	double score = 0;

	for (int i = 0; v == SCORE_LATER && i < PATIENCE; i++)
		v = score_command(&c, text, strlen(text), LOOK_MS, &score, &e);
	if (v != SCORE_KNOWN)
		fail_msg("%s: %s", command, v == SCORE_LATER ? "it does not end" : e.text);
	return score;
}

/* It reads the answer, whole or not at all. */
static void test_score(void **state)
{
	(void)state;
	assert_true(score_of("wc -c", "four") == 4);
	assert_true(score_of("echo -1.5e1; echo 7", "never read") == -15);
}

/* A fork copies the page tables of all weights while the engine waits; it would call this
 * handler. */
static void test_engine_is_not_forked(void **state)
{
	(void)state;
	assert_int_equal(pthread_atfork(on_fork, NULL, NULL), 0);
	assert_true(score_of("echo 1", "") == 1);
	assert_int_equal(n_forks, 0);
}

/* Nothing of how this program takes signals is the command's. */
static void test_signals(void **state)
{
	sigset_t all, before;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	assert_true(score_of("sh -c 'kill -PIPE $$'; echo $?", "") == 128 + SIGPIPE);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_score),
		cmocka_unit_test(test_engine_is_not_forked),
		cmocka_unit_test(test_signals),
	};

	return cmocka_run_group_tests_name("score_command", tests, NULL, NULL);
}
