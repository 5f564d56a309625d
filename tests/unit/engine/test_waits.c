/* What the system says of threads that had no processor: it is counted while two threads want the
 * same one, and a step is told of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/event.h"
#include "engine/observe/waits.h"

enum { PATIENCE = 20 }; /* seconds, for what comes in milliseconds */

static atomic_bool quit;

static void *spin(void *arg)
{
	(void)arg;
	while (!atomic_load(&quit))
		;
	return NULL;
}

static bool told_here(void)
{
	int fd = waits_open((int)gettid());
	bool told = fd >= 0 && waits_of(fd) >= 0;

	if (fd >= 0)
		close(fd);
	return told;
}

static void test_unknown(void **state)
{
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	assert_true(waits_open(0) < 0); /* no thread has this number */
	assert_int_equal(waits_of(fd), -1);
	assert_int_equal(waits_of(-1), -1);
	close(fd);
}

static int64_t of_text(const char *text)
{
	char name[] = "/tmp/cutaway-waits-XXXXXX";
	int fd = mkstemp(name);
	int64_t told;

	assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	told = waits_of(fd);
	close(fd);
	unlink(name);
	return told;
}

static void test_text(void **state)
{
	(void)state;
	assert_int_equal(of_text("123 4567 8\n"), 4567);
	assert_int_equal(of_text("0 0 1\n"), 0);
	assert_int_equal(of_text("0 0 0\n"), -1); /* the system counts nothing */
	assert_int_equal(of_text("1 2\n"), -1);
	assert_int_equal(of_text("some words\n"), -1);
	assert_int_equal(of_text("1 -2 3\n"), -1);
	assert_int_equal(of_text("99999999999999999999 99999999999999999999 9\n"), INT64_MAX);
}

/* Two that want one processor: this thread has to wait for it, and that is told. */
static void test_rival(void **state)
{
	struct waits w = { 0 };
	struct k_ctx *kernels;
	struct err e = { 0 };
	pthread_t rival;
	cpu_set_t one, before;
	int64_t end = now_ns() + PATIENCE * INT64_C(1000000000), told = 0;

	(void)state;
	if (!told_here())
		skip();
	assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof one, &one))
		skip();
	assert_int_equal(k_open(&kernels, "ref", NULL, 1, &e), 0);
	/* it inherits the one processor */
	assert_int_equal(pthread_create(&rival, NULL, spin, NULL), 0);
	assert_int_equal(waits_ask(&w, kernels), EV_NULL_I); /* the first: from here on */
	assert_int_equal(w.n, 1);
	while (told <= 0 && now_ns() < end)
		told = waits_ask(&w, kernels);
	atomic_store(&quit, true);
	pthread_join(rival, NULL);
	assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
	assert_true(told > 0);
	waits_close(&w);
	k_close(kernels);
}

struct asking {
	struct waits w;
	struct k_ctx *kernels;
	int64_t told;
	bool by_itself;
};

static void *ask_again(void *arg)
{
	struct asking *a = arg;

	a->told = waits_ask(&a->w, a->kernels);
	a->by_itself = pthread_equal(a->w.by, pthread_self());
	return NULL;
}

/* Another thread steps the engine from now on: it begins anew, with that one's own number. */
static void test_other_thread(void **state)
{
	struct asking a = { 0 };
	struct err e = { 0 };
	pthread_t other;

	(void)state;
	/* the known answers ran on the pool */
	assert_int_equal(k_open(&a.kernels, "cpu", NULL, 3, &e), 0);
	assert_int_equal(waits_ask(&a.w, a.kernels), EV_NULL_I);
	assert_int_equal(a.w.n, told_here() ? 3 : 0);
	assert_int_equal(pthread_create(&other, NULL, ask_again, &a), 0);
	pthread_join(other, NULL);
	assert_int_equal(a.told, EV_NULL_I);
	assert_true(a.by_itself);
	assert_int_equal(a.w.n, told_here() ? 3 : 0);
	waits_close(&a.w);
	k_close(a.kernels);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_rival),
		cmocka_unit_test(test_other_thread),
	};

	return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
