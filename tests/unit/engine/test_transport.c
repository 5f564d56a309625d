/* Ranks that are threads: what one sends, another gets, whole and in order, whatever the sizes and
 * patterns; who ends is missed, and no sooner than what it sent has come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/ranks/transport.h"
#include "tests/support/thorough.h"

enum { RING = 1 << 20, RANKS = 7, PER_PAIR = 3 };

struct rank {
	pthread_t thread;
	struct transport *t;
	void (*fn)(struct rank *r);
	bool bad;
	struct err err;
};

static void *main_of(void *arg)
{
	struct rank *r = arg;

	r->fn(r);
	return NULL;
}

/* Runs fn on n ranks; each closes its transport. */
static void on_ranks(struct rank *r, int32_t n, void (*fn)(struct rank *r))
{
	struct transport *t[TRANSPORT_RANKS];

	assert_int_equal(transport_threads(t, n, NULL), 0);
	for (int32_t i = 0; i < n; i++) {
		r[i] = (struct rank){ .t = t[i], .fn = fn };
		assert_int_equal(pthread_create(&r[i].thread, NULL, main_of, &r[i]), 0);
	}
	for (int32_t i = 0; i < n; i++)
		pthread_join(r[i].thread, NULL);
}

static uint64_t mix(uint64_t x)
{
	x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
	x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
	return x ^ (x >> 33);
}

static void fill(unsigned char *data, size_t n, uint64_t key)
{
	for (size_t i = 0; i < n; i++)
		data[i] = (unsigned char)(mix(key + i / 8) >> i % 8 * 8);
}

static bool is_filled(const unsigned char *data, size_t n, uint64_t key)
{
	for (size_t i = 0; i < n; i++)
		if (data[i] != (unsigned char)(mix(key + i / 8) >> i % 8 * 8))
			return false;
	return true;
}

static uint64_t key_of(int32_t from, int32_t to, int32_t round, int32_t nth)
{
	return mix((uint64_t)round << 32 | (uint64_t)(from << 16 | to << 8 | nth));
}

/* Both ranks know all lengths by the key: none, short, about a ring, several. */
static size_t size_of(uint64_t key)
{
	const uint64_t x = mix(key + 1);

	switch (x % 8) {
	case 0: return 0;
	case 1: return RING - 1 + x / 8 % 3;
	case 2: return x / 8 % (3 * RING);
	default: return x / 8 % 5000;
	}
}

/* ---- every pair, both ways at once ---- */

struct box {
	struct message m[RANKS * PER_PAIR];
	int32_t n;
};

static void add(struct box *b, int32_t rank, size_t bytes)
{
	b->m[b->n++] = (struct message){ rank, malloc(bytes + 1), bytes };
}

static void plan(struct box *out, struct box *in, const struct transport *t, int32_t round)
{
	out->n = in->n = 0;
	for (int32_t i = 1; i < t->n; i++)
		for (int32_t nth = 0; nth < PER_PAIR; nth++) {
			const int32_t to = (t->rank + i) % t->n, from = (t->rank + t->n - i) % t->n;
			const uint64_t key = key_of(t->rank, to, round, nth);

			add(out, to, size_of(key));
			fill(out->m[out->n - 1].data, out->m[out->n - 1].bytes, key);
			add(in, from, size_of(key_of(from, t->rank, round, nth)));
		}
}

static void exchange_round(struct rank *r, int32_t round)
{
	struct box out, in;

	plan(&out, &in, r->t, round);
	r->bad |= transport_exchange(r->t, out.m, out.n, in.m, in.n, &r->err) != 0;
	for (int32_t i = 0; i < in.n; i++)
		r->bad |= !is_filled(
			in.m[i].data, in.m[i].bytes, key_of(in.m[i].rank, r->t->rank, round, i % PER_PAIR));
	for (int32_t i = 0; i < in.n; i++) {
		free(in.m[i].data);
		free(out.m[i].data);
	}
}

static void many_rounds(struct rank *r)
{
	for (int32_t round = 0; round < (wants_all() ? 100 : 10); round++)
		exchange_round(r, round);
	r->t->ops->close(r->t);
}

static void test_patterns(void **state)
{
	struct rank r[RANKS];

	(void)state;
	for (int32_t n = 1; n <= RANKS; n += n < 3 ? 1 : 2) {
		on_ranks(r, n, many_rounds);
		for (int32_t i = 0; i < n; i++)
			assert_false(r[i].bad);
	}
}

/* ---- counted, and broadcast ---- */

static void count_round(struct rank *r)
{
	unsigned char text[100] = "", to[64], from[64];
	struct message out = { 1 - r->t->rank, to, sizeof to }, in = { 1 - r->t->rank, from, 64 };

	fill(to, sizeof to, 5);
	if (!r->t->rank)
		fill(text, sizeof text, 7);
	r->bad = transport_broadcast(r->t, text, sizeof text, true, &r->err) ||
			 !is_filled(text, sizeof text, 7) ||
			 transport_exchange(r->t, &out, 1, &in, 1, &r->err) ||
			 transport_exchange(r->t, &out, r->t->rank, &in, 1 - r->t->rank, &r->err);
	r->bad |= r->t->count.exchanges != 2 || r->t->count.control != sizeof text ||
			  r->t->count.sent != (r->t->rank ? 128 : 64) ||
			  r->t->count.received != (r->t->rank ? 64 : 128);
	r->t->ops->close(r->t);
}

static void test_counts(void **state)
{
	struct rank r[2];

	(void)state;
	on_ranks(r, 2, count_round);
	assert_false(r[0].bad || r[1].bad);
}

/* ---- a rank that ends ---- */

static void end_early(struct rank *r)
{
	unsigned char data[3000];
	struct message m = { r->t->rank == 2 ? 0 : 2, data, sizeof data };

	fill(data, sizeof data, 9);
	if (r->t->rank == 2) {
		r->bad = transport_exchange(r->t, &m, 1, NULL, 0, &r->err);
	} else if (!r->t->rank) { /* what it sent comes, though it may have ended by then */
		memset(data, 0, sizeof data);
		r->bad = transport_exchange(r->t, NULL, 0, &m, 1, &r->err) ||
				 !is_filled(data, sizeof data, 9) ||
				 !transport_exchange(r->t, NULL, 0, &m, 1, &r->err);
	} else {
		r->bad = !transport_control(r->t, NULL, 0, &m, 1, true, &r->err);
	}
	r->t->ops->close(r->t);
}

static void test_ended(void **state)
{
	struct rank r[4];

	(void)state;
	for (int i = 0; i < (wants_all() ? 2000 : 200); i++) {
		on_ranks(r, 4, end_early);
		for (int32_t k = 0; k < 4; k++) {
			assert_false(r[k].bad);
			if (k == 2)
				continue;
			assert_int_equal(r[k].err.code, ERR_DEVICE);
			assert_string_equal(r[k].err.text, "rank 2 has ended");
		}
	}
}

/* One that waits for room, since nobody takes what it sends. */
static void end_full(struct rank *r)
{
	const size_t n = 4 * (size_t)RING;
	struct message m = { 1, calloc(1, n), n };

	r->bad = !r->t->rank && !transport_exchange(r->t, &m, 1, NULL, 0, &r->err);
	free(m.data);
	r->t->ops->close(r->t);
}

static void test_full(void **state)
{
	struct rank r[2];

	(void)state;
	on_ranks(r, 2, end_full);
	assert_false(r[0].bad);
	assert_string_equal(r[0].err.text, "rank 1 has ended");
}

/* ---- a link ---- */

static void test_link(void **state)
{
	static const char *const bad[] = { "", "1", "gbit", "1gbit,", ",1ms", "1gbit;1ms", "-1mbit",
		"0us", "nanms", "1e9gbit", "1gbits", NULL };
	struct link_speed l;

	(void)state;
	assert_int_equal(link_parse(&l, "1gbit,50us", NULL), 0);
	assert_true(l.rate == 1.25e8 && l.latency_ns == 50000);
	assert_int_equal(link_parse(&l, "100mbit", NULL), 0);
	assert_true(l.rate == 1.25e7 && l.latency_ns == 0);
	assert_int_equal(link_parse(&l, "1.5ms", NULL), 0);
	assert_true(l.rate == 0 && l.latency_ns == 1500000);
	for (int i = 0; bad[i]; i++) {
		struct err e = { 0 };

		assert_int_equal(link_parse(&l, bad[i], &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_ended),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
