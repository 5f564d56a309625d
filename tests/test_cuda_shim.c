/* The shim itself: fibers meet as threads of a GPU do, schedules are drawn, whoever waits for ever is
 * named, fragments lie as PTX says, copies come when they are waited for; and the checked build catches
 * each kernel that is wrong on purpose (tests/cuda_shim/wrong.cuh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda_shim/shim.h"

static const struct shim *both[2];
static int n_both;

#define EACH(s)                                                                                    \
	for (int i_ = 0; i_ < n_both; i_++)                                                            \
		for (const struct shim *s = both[i_]; s; s = NULL)

static bool launch(const struct shim *s, const char *name, void *p, int blocks, int threads, bool together,
				   uint64_t seed)
{
	const struct shim_options o = {.seed = seed};
	void *args[] = {&p};

	return s->launch(name, blocks, threads, CU_SHARED_BYTES, together, args, &o);
}

/* Runs, and asks that it fails with these words in the report. */
static void fails(const struct shim *s, const char *name, void *p, int blocks, int threads,
				  const char *words)
{
	for (uint64_t seed = 0; seed < 4; seed++) {
		if (launch(s, name, p, blocks, threads, true, seed))
			fail_msg("%s: %s went well (seed %d)", s->name, name, (int)seed);
		if (!strstr(s->report(), words))
			fail_msg("%s: %s: no word of '%s' but: %s", s->name, name, words, s->report());
	}
}

static void test_threads_have_places(void **state)
{
	(void)state;
	EACH(s)
	{
		int32_t *p = s->alloc(40 * 256 * sizeof *p);

		for (int blocks = 1; blocks <= 40; blocks += 13) {
			memset(p, 0xff, 40 * 256 * sizeof *p);
			assert_true(launch(s, "wrong_index", p, blocks, 256, false, (uint64_t)blocks / 2));
			for (int i = 0; i < 256 * 40; i++)
				assert_int_equal(p[i], i < blocks * 256 ? i : -1);
		}
		s->free(p);
	}
}

static void test_shuffles(void **state)
{
	(void)state;
	EACH(s)
	{
		int32_t *p = s->alloc(256 * sizeof *p);

		for (uint64_t seed = 0; seed < 8; seed++) {
			assert_true(launch(s, "wrong_shuffle", p, 1, 256, false, seed));
			for (int i = 0; i < 256; i++) {
				const int warp = i / 32 * 32, from = i % 32 ^ 7;

				assert_int_equal(p[i], 100 * (warp + (5 * from + 1) % 32) +
										   warp + ((i % 32 ^ 1) + 1) % 32);
			}
		}
		s->free(p);
	}
}

static void test_fragments(void **state)
{
	(void)state;
	EACH(s)
	{
		for (int k = 16; k <= 32; k += 16) {
			const size_t bytes = (size_t)24 * (size_t)k + 128 * 4;
			int8_t *p = s->alloc(bytes), *host = malloc(bytes);
			int32_t *c = (int32_t *)(void *)(p + 24 * k), before[128];

			for (size_t i = 0; i < bytes; i++)
				host[i] = (int8_t)((i * i * 31 + i * 7) >> 3);
			host[0] = host[16 * k] = -128;
			s->put(p, host, bytes);
			memcpy(before, c, sizeof before);
			assert_true(launch(s, k == 32 ? "wrong_mma_k32" : "wrong_mma_k16", p, 1, 32, false, 3));
			for (int row = 0; row < 16; row++)
				for (int column = 0; column < 8; column++) {
					uint32_t sum = (uint32_t)before[row * 8 + column];

					for (int i = 0; i < k; i++)
						sum += (uint32_t)(host[row * k + i] * host[(16 + column) * k + i]);
					assert_int_equal(c[row * 8 + column], (int32_t)sum);
				}
			free(host);
			s->free(p);
		}
	}
}

static void test_copies(void **state)
{
	(void)state;
	EACH(s)
	{
		int32_t *p = s->alloc(512 * sizeof *p), host[256];

		for (int i = 0; i < 256; i++)
			host[i] = 3 * i;
		s->put(p, host, sizeof host);
		assert_true(launch(s, "wrong_copy", p, 1, 256, false, 5));
		assert_memory_equal(p + 256, host, sizeof host);
		s->free(p);
	}
}

static void test_integers(void **state)
{
	(void)state;
	EACH(s)
	{
		uint32_t *p = s->alloc(16);

		assert_true(launch(s, "wrong_integers", p, 1, 32, false, 0));
		assert_int_equal((int32_t)p[0], 1 * -128 + 127 * -1 + -1 * 2 + -128 * 127 + 5);
		assert_int_equal(p[1], 0x77335500);
		assert_int_equal(p[2], 0x3555);
		assert_int_equal(p[3], 0x3eaaa000);
		s->free(p);
	}
}

/* Different seeds are different schedules, the same seed the same one, 0 the plain order. */
static void test_schedules_are_drawn(void **state)
{
	enum { N = 3 * 64, SEEDS = 6 };
	static uint32_t order[SEEDS][N + 1];

	(void)state;
	EACH(s)
	{
		uint32_t *p = s->alloc(sizeof order[0]);

		for (uint64_t seed = 0; seed < SEEDS; seed++)
			for (int again = 0; again < 2; again++) {
				s->put(p, (uint32_t[]){0}, 4);
				assert_true(launch(s, "wrong_order", p, 3, 64, true, seed));
				if (again)
					assert_memory_equal(p, order[seed], sizeof order[0]);
				memcpy(order[seed], p, sizeof order[0]);
				for (uint64_t other = 0; other < seed; other++)
					assert_memory_not_equal(p, order[other], sizeof order[0]);
			}
		for (uint32_t i = 0; i < N; i++)
			assert_int_equal(order[0][1 + i], i);
		s->free(p);
	}
}

static void test_those_who_wait_are_named(void **state)
{
	(void)state;
	EACH(s)
	{
		uint32_t *p = s->alloc(1024);

		memset(p, 0, 1024);
		s->written(p, 1024);
		fails(s, "wrong_divergent_block", p, 2, 64, "threads meet at different places");
		fails(s, "wrong_divergent_warp", p, 1, 32, "threads meet at different places");
		fails(s, "wrong_left_barrier", p, 1, 64, "left for good");
		fails(s, "wrong_left_warp", p, 1, 32, "left for good");
		fails(s, "wrong_deadlock", p, 1, 32, "16 threads, the first 16, wait at wrong.cuh:");
		fails(s, "wrong_misaligned_stream", p, 1, 32, "aligned");
		fails(s, "wrong_misaligned_copy", p, 1, 32, "aligned");
		s->free(p);
	}
}

/* Blocks that wait for one another go on only if they are there together. */
static void test_together(void **state)
{
	(void)state;
	EACH(s)
	{
		uint32_t *p = s->alloc(4);

		for (uint64_t seed = 0; seed < 4; seed++) {
			s->put(p, (uint32_t[]){0}, 4);
			assert_true(launch(s, "wrong_never", p, 6, 64, true, seed));
			s->put(p, (uint32_t[]){0}, 4);
			assert_false(launch(s, "wrong_never", p, 6, 64, false, seed));
			assert_non_null(strstr(s->report(), "nobody can go on"));
			assert_non_null(strstr(s->report(), "cu_relax"));
		}
		s->free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_have_places),
		cmocka_unit_test(test_shuffles),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_schedules_are_drawn),
		cmocka_unit_test(test_those_who_wait_are_named),
		cmocka_unit_test(test_together),
	};

	for (int checked = 0; checked < 2; checked++) {
		const char *why = "";
		const struct shim *s = shim_open(checked, &why);

		if (s)
			both[n_both++] = s;
		else
			printf("# the %s shim cannot be had: %s\n", checked ? "checked" : "fast", why);
	}
	if (!n_both)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
