/* The shim itself: fibers meet as threads of a GPU do, schedules are drawn, whoever waits for ever
 * is named, fragments lie as PTX says, copies come when they are waited for; and the checked build
 * catches each kernel that is wrong on purpose (tests/cuda/shim/samples.cuh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/shim/shim.h"

static const struct shim *both[2];
static int n_both;

#define EACH(s)                                                                                    \
	for (int i_ = 0; i_ < n_both; i_++)                                                            \
		for (const struct shim *s = both[i_]; s; s = NULL)

static bool launch(const struct shim *s, const char *name, void *p, int blocks, int threads,
	bool together, uint64_t seed)
{
	const struct shim_options o = { .seed = seed };
	void *args[] = { &p };

	return s->launch(name, blocks, threads, CU_SHARED_BYTES, together, args, &o);
}

/* Runs, and asks that it fails with these words in the report. */
static void fails(
	const struct shim *s, const char *name, void *p, int blocks, int threads, const char *words)
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
			assert_true(launch(s, "right_index", p, blocks, 256, false, (uint64_t)blocks / 2));
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
			assert_true(launch(s, "right_shuffle", p, 1, 256, false, seed));
			for (int i = 0; i < 256; i++) {
				const int warp = i / 32 * 32, from = i % 32 ^ 7;

				assert_int_equal(
					p[i], 100 * (warp + (5 * from + 1) % 32) + warp + ((i % 32 ^ 1) + 1) % 32);
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
			assert_true(launch(s, k == 32 ? "right_mma_k32" : "right_mma_k16", p, 1, 32, false, 3));
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
		assert_true(launch(s, "right_copy", p, 1, 256, false, 5));
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

		assert_true(launch(s, "right_integers", p, 1, 32, false, 0));
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
				s->put(p, (uint32_t[]){ 0 }, 4);
				assert_true(launch(s, "right_order", p, 3, 64, true, seed));
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

/* What the checker cannot see, since nothing races, the schedules do: bits that depend on who came
 * first. */
static void test_schedules_change_wrong_bits(void **state)
{
	(void)state;
	EACH(s)
	{
		uint32_t *p = s->alloc(8), first = 0, n_others = 0;

		for (uint64_t seed = 0; seed < 8; seed++) {
			s->put(p, (uint32_t[2]){ 0, 0 }, 8);
			assert_true(launch(s, "wrong_order_of_sum", p, 3, 64, true, seed));
			first = seed ? first : p[1];
			n_others += p[1] != first;
		}
		assert_true(n_others > 0);
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
		fails(s, "wrong_deadlock", p, 1, 32, "16 threads, the first 16, wait at samples.cuh:");
		fails(s, "wrong_shuffle_lane", p, 1, 32, "a lane that does not exist");
		fails(s, "wrong_short_warp", p, 1, 16, "a warp that is not full");
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
			s->put(p, (uint32_t[]){ 0 }, 4);
			assert_true(launch(s, "right_together", p, 6, 64, true, seed));
			s->put(p, (uint32_t[]){ 0 }, 4);
			assert_false(launch(s, "right_together", p, 6, 64, false, seed));
			assert_non_null(strstr(s->report(), "nobody can go on"));
			assert_non_null(strstr(s->report(), "cu_relax"));
		}
		s->free(p);
	}
}

/* The checked build, on p of 256 integers. Fails with these words; or goes well. */
static void is_caught(const char *name, int blocks, int threads, const char *words)
{
	const struct shim *s = both[n_both - 1];
	int32_t *p;

	if (!s->checked)
		skip();
	p = s->alloc(256 * sizeof *p);
	memset(p, 0, 256 * sizeof *p);
	s->written(p, 256 * sizeof *p);
	if (words)
		fails(s, name, p, blocks, threads, words);
	for (uint64_t seed = 0; !words && seed < 8; seed++) {
		memset(p, 0, 256 * sizeof *p);
		if (!launch(s, name, p, blocks, threads, true, seed))
			fail_msg("%s, seed %d: %s", name, (int)seed, s->report());
	}
	s->free(p);
}

static void test_right_kernels_pass(void **state)
{
	(void)state;
	is_caught("right_neighbour", 1, 256, NULL);
	is_caught("right_lanes", 1, 256, NULL);
	is_caught("right_grid", 6, 64, NULL);
	is_caught("right_readers", 1, 256, NULL);
	is_caught("right_all_read", 6, 256, NULL);
}

static void test_races_are_caught(void **state)
{
	(void)state;
	is_caught("wrong_race_warps", 1, 256, "a race between warps");
	is_caught("wrong_race_warps_back", 1, 256, "a race between warps");
	is_caught("wrong_race_lanes", 1, 256, "a race between lanes");
	is_caught("wrong_race_blocks", 4, 1, "a race between blocks");
	is_caught("wrong_race_atomic", 1, 32, "a race between lanes");
	is_caught("wrong_flag_without_order", 2, 32, "a race between blocks");
	is_caught("wrong_reader_of_many", 1, 256, "a race between warps");
	is_caught("wrong_copy_of_another", 1, 32, "copy under way");
	is_caught("wrong_race_shared", 1, 32, "a race between lanes");
	is_caught("wrong_race_memset", 1, 64, "a race between");
	is_caught("wrong_copy_source", 1, 32, "changed while it was under way");
}

/* A kernel that begins early, behind one that wrote and read all of p. */
static void test_early_kernels_follow(void **state)
{
	static const char *const names[] = { "right_follow", "wrong_read_before",
		"wrong_write_before" };
	const struct shim *s = both[n_both - 1];
	const struct shim_options early = { .early = true };
	int32_t *p;

	(void)state;
	if (!s->checked)
		skip();
	p = s->alloc(32 * sizeof *p);
	for (int i = 0; i < 3; i++) {
		void *args[] = { &p };

		memset(p, 0, 32 * sizeof *p);
		s->written(p, 32 * sizeof *p);
		for (int n = 0; n < 3; n++) /* the first comes behind the host */
			assert_true(s->launch("right_follow", 1, 32, 0, false, args, &early));
		assert_int_equal(p[31], 3);
		assert_int_equal(s->launch(names[i], 1, 32, 0, false, args, &early), !i);
		assert_true(!i || strstr(s->report(), "a race with the kernel in front"));
		s->written(p, 32 * sizeof *p); /* then nothing is in front */
		assert_true(s->launch(names[i], 1, 32, 0, false, args, &early));
	}
	s->free(p);
}

static void test_bounds_are_kept(void **state)
{
	(void)state;
	is_caught("wrong_bounds_read", 1, 256, "out of bounds: kernel wrong_bounds_read");
	is_caught("wrong_bounds_write", 1, 256, "an allocation of 1024 bytes -4");
	is_caught("wrong_bounds_shared", 1, 256, "shared memory of 98304 bytes + 98304");
	is_caught("wrong_other_stack", 1, 64, "not device memory");
	is_caught("wrong_misaligned_read", 1, 32, "an access that is not aligned: kernel");
	is_caught("wrong_index_outside", 1, 32, "an index outside its array: kernel");
	is_caught("wrong_overflow", 1, 32, "a sum that overflows: kernel");
	is_caught("wrong_difference", 1, 32, "a difference that overflows: kernel");
	is_caught("wrong_product", 1, 32, "a product that overflows: kernel");
	is_caught("wrong_shift", 1, 32, "a shift by too much: kernel");
	is_caught("wrong_division", 1, 32, "a division by zero: kernel");
	is_caught("wrong_other_shared", 2, 32, "shared memory of another block");
	is_caught("wrong_bounds_atomic", 1, 32, "out of bounds");
	is_caught("wrong_bounds_memcpy", 1, 32, "out of bounds");
	is_caught("wrong_bounds_copy", 1, 32, "out of bounds");
	is_caught("wrong_copy_to_global", 1, 32, "a copy to what is not shared memory");
	is_caught("wrong_copy_written", 1, 32, "a copy under way is written");
}

static void test_foreign_memory(void **state)
{
	static int32_t of_the_host;
	const struct shim *s = both[n_both - 1];
	int32_t **p, *freed, *host = &of_the_host;

	(void)state;
	if (!s->checked)
		skip();
	p = s->alloc(sizeof *p);
	freed = s->alloc(4);
	s->put(p, &freed, sizeof freed);
	s->free(freed);
	fails(s, "wrong_freed", p, 1, 32, "out of bounds");
	s->put(p, &host, sizeof host);
	fails(s, "wrong_host_memory", p, 1, 32, "not device memory");
	s->free(p);
}

static void test_unwritten_reads_are_caught(void **state)
{
	static const char *const names[] = { "wrong_unwritten_global", "wrong_unwritten_memcpy" };
	const struct shim *s = both[n_both - 1];
	int32_t *p;

	(void)state;
	is_caught("wrong_unwritten_shared", 1, 32, "nobody wrote");
	is_caught("wrong_copy_not_waited", 1, 32, "copy under way");
	is_caught("wrong_unwritten_atomic", 1, 32, "nobody wrote");
	for (int i = 0; i < 2; i++) {
		p = s->alloc(400);
		memset(p, 0, 400);
		s->written(p, 396); /* all but the last */
		fails(s, names[i], p, 1, 32, "nobody wrote");
		s->written(p, 400);
		assert_true(launch(s, names[i], p, 1, 32, false, 1));
		s->unwritten(p + 99, 4);
		fails(s, names[i], p, 1, 32, "nobody wrote");
		s->free(p);
	}
}

/* A report says which kernel, who, what of, and where in the source, on both sides. */
static void test_reports_name_the_place(void **state)
{
	const struct shim *s = both[n_both - 1];

	(void)state;
	is_caught("wrong_race_warps", 1, 256, "not ordered with: block 0, thread ");
	is_caught("wrong_race_warps", 1, 256, "at samples.cuh:");
	assert_non_null(strstr(strstr(s->report(), "samples.cuh:") + 1, "samples.cuh:"));
}

/* Each place of the kernels that are right is needed: leaving it out is noticed. */
static void test_every_barrier_is_missed(void **state)
{
	static const struct {
		const char *name;
		int blocks, threads, places;
	} kernels[] = { { "right_neighbour", 1, 256, 2 }, { "right_lanes", 1, 64, 1 },
		{ "right_grid", 4, 64, 4 }, { "right_readers", 1, 256, 1 }, { "right_copy", 1, 256, 4 } };
	const struct shim *s = both[n_both - 1];

	(void)state;
	if (!s->checked)
		skip();
	for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
		static struct shim_place all[256], after[256];
		int32_t *p = s->alloc(2048);
		int n_tried = 0, n;

		memset(p, 0, 2048);
		s->written(p, 2048);
		n = s->places(all, 256);
		assert_true(launch(s, kernels[k].name, p, kernels[k].blocks, kernels[k].threads, true, 1));
		assert_true(s->places(after, 256) < 256);
		n = s->places(after, 256);
		for (int i = 0; i < n; i++) {
			bool visited = true;

			for (int j = 0; j < n; j++)
				if (!strcmp(all[j].name, after[i].name))
					visited = all[j].visits != after[i].visits;
			if (!visited || !after[i].orders)
				continue;
			n_tried++;
			memset(p, 0, 2048);
			s->unwritten((char *)p + 1024, 1024);
			assert_true(s->leave_out(after[i].name));
			if (launch(s, kernels[k].name, p, kernels[k].blocks, kernels[k].threads, true, 1))
				fail_msg("%s goes well without %s", kernels[k].name, after[i].name);
		}
		s->leave_out(NULL);
		assert_int_equal(n_tried, kernels[k].places);
		s->free(p);
	}
	assert_false(s->leave_out("samples.cuh:1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_have_places),
		cmocka_unit_test(test_shuffles),
		cmocka_unit_test(test_fragments),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_early_kernels_follow),
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_schedules_are_drawn),
		cmocka_unit_test(test_schedules_change_wrong_bits),
		cmocka_unit_test(test_those_who_wait_are_named),
		cmocka_unit_test(test_together),
		cmocka_unit_test(test_right_kernels_pass),
		cmocka_unit_test(test_races_are_caught),
		cmocka_unit_test(test_bounds_are_kept),
		cmocka_unit_test(test_foreign_memory),
		cmocka_unit_test(test_unwritten_reads_are_caught),
		cmocka_unit_test(test_reports_name_the_place),
		cmocka_unit_test(test_every_barrier_is_missed),
	};

	n_both = shim_open_both(both);
	if (!n_both)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
