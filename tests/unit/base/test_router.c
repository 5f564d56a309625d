/* Routers: what each chooses and says of it, loads that come and go, replicas that are left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/router.h"

static void test_balance(void **state)
{
	struct router r;
	int32_t ids[64] = { 7 };
	const struct router_request q = { .ids = ids, .n_ids = 64 };
	int n[2] = { 0 };

	(void)state;
	assert_int_equal(router_open(&r, "prefix", 2, 4, 1, NULL), 0);
	for (int i = 0; i < 20; i++)
		n[router_send(&r, &q, NULL)]++;
	/* the second one gets some as soon as the first has a batch more */
	assert_true(n[0] - n[1] == 4 || n[1] - n[0] == 4);
	for (int i = 0; i < 2; i++)
		while (n[i]--)
			router_ended(&r, i, 64);
	assert_true(!r.requests[0] && !r.requests[1] && !r.tokens[0] && !r.tokens[1]);
	router_close(&r);
	assert_int_equal(router_open(&r, "nowhere", 2, 4, 1, NULL), -1);
}

/* What a router says is what it did: the tokens that match in whole blocks, and where they went. */
static void test_why(void **state)
{
	struct router r;
	struct router_why why;
	int32_t ids[160] = { 7 }, first;
	struct router_request q = { .ids = ids, .n_ids = 100 };

	(void)state;
	assert_int_equal(router_open(&r, "prefix", 3, 4, 1, NULL), 0);
	first = router_send(&r, &q, &why);
	assert_int_equal(why.matched, 0);
	assert_int_equal(why.last, -1);
	q.n_ids = 160;
	assert_int_equal(router_send(&r, &q, &why), first);
	assert_int_equal(why.matched, 96);
	assert_int_equal(why.last, first);
	assert_string_equal(why.reason, "longest known beginning");
	ids[32] = 8; /* 32 of 160 match: too few */
	assert_int_not_equal(router_send(&r, &q, &why), first);
	assert_int_equal(why.matched, 32);
	assert_int_equal(why.last, first);
	router_close(&r);
}

/* Answers count one by one. */
static void test_answers(void **state)
{
	struct router r;
	int32_t ids[16] = { 7 };
	const struct router_request many = { .ids = ids, .n_ids = 16, .answers = 3 },
								one = { .ids = ids, .n_ids = 16 };
	int32_t first;

	(void)state;
	assert_int_equal(router_open(&r, "least-loaded", 2, 4, 1, NULL), 0);
	first = router_send(&r, &many, NULL);
	for (int i = 0; i < 3; i++)
		assert_int_equal(router_send(&r, &one, NULL), 1 - first);
	for (int i = 0; i < 3; i++)
		router_ended(&r, first, 16);
	assert_int_equal(router_send(&r, &one, NULL), first);
	router_close(&r);
}

/* Nothing goes to a replica that was left out, not even what it got before; without any left there
 * is no answer. */
static void test_left_out(void **state)
{
	(void)state;
	for (int k = 0; router_name(k); k++) {
		struct router r;
		int32_t ids[64] = { k }, n[3] = { 0 };
		struct router_request q = { .ids = ids, .n_ids = 64 };

		assert_int_equal(router_open(&r, router_name(k), 3, 100, 1, NULL), 0);
		router_leave_out(&r, router_send(&r, &q, NULL) == 1 ? 1 : 0);
		for (q.number = 1; q.number < 60; q.number++)
			n[router_send(&r, &q, NULL)]++;
		assert_int_equal(n[r.live[0]] + n[r.live[1]], 59);
		if (strcmp(router_name(k), "prefix") != 0)
			assert_true(n[r.live[0]] && n[r.live[1]]);
		router_leave_out(&r, r.live[1]);
		router_leave_out(&r, r.live[0]);
		assert_int_equal(router_send(&r, &q, NULL), -1);
		router_close(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_balance),
		cmocka_unit_test(test_why),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
