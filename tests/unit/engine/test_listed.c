/* Draws without the row: from what the reference's stats op tells of it, as a device does, the
 * sampler's result is that of the whole row to the bit, whatever the settings, or it says that it
 * needs the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sample/sampler.h"
#include "tests/support/rows.h"

enum { MOST = 49152 };

static struct k_ctx *ref;
static float row[MOST];
static struct k_draw_reply reply;
static struct k_draw_entry list[K_DRAW_LIST];
static struct k_logit_stats stats;

static void ask_ref(int32_t vocab, const struct k_draw_request *ask)
{
	struct k_op op = { .kind = K_OP_stats,
		.u.stats = { .logits = row,
			.vocab = vocab,
			.n = 1,
			.out = &stats,
			.ask = ask,
			.reply = &reply,
			.list = list } };
	struct k_program p = { .op = &op, .n_ops = 1 };
	struct err e = { 0 };

	assert_int_equal(k_run(ref, &p, &e), 0);
}

static struct sample_params random_params(void)
{
	static const float temperature[] = { 0, 0, 0.7f, 1, 3, 0.05f };
	static const int32_t top_k[] = { 0, 0, 1, 5, 40, 250, 300 };
	static const float top_p[] = { 1, 1, 0.9f, 0.5f, 0.1f, 0.999f, 0 };
	static const float min_p[] = { 0, 0, 0, 0.05f, 0.5f, 1e-6f, 1 };
	struct sample_params p = SAMPLE_DEFAULTS;

	p.temperature = temperature[next() % 6];
	p.top_k = top_k[next() % 7];
	p.top_p = top_p[next() % 7];
	p.min_p = min_p[next() % 7];
	p.seed = next();
	return p;
}

/* Drafted ids: the best, some of the list, any. */
static void same_drafts(const struct sampler *a, const struct sampler *b, int32_t vocab)
{
	for (int i = 0; i < 6; i++) {
		const int32_t id = i == 0  ? stats.argmax
						   : i < 3 ? list[next() % (uint32_t)reply.n].id
								   : (int32_t)(next() % (uint32_t)vocab);
		float p[2], arrival[2];

		sampler_draft(a, id, &p[0], &arrival[0]);
		sampler_draft(b, id, &p[1], &arrival[1]);
		assert_int_equal(k_bits(p[0]), k_bits(p[1]));
		assert_true(k_bits(arrival[0]) == k_bits(arrival[1]) ||
					(arrival[0] != arrival[0] && arrival[1] != arrival[1]));
	}
}

/* More candidates: from the row, and from the list. */
static void add_top(struct sampler *whole, struct sampler *listed, int32_t vocab,
	struct sample_result *a, struct sample_result *b)
{
	struct k_draw_entry top[2][SAMPLE_TOP];
	const int32_t n = sampler_top(row, vocab, SAMPLE_TOP, top[0]);

	assert_int_equal(sampler_top_listed(list, reply.n, SAMPLE_TOP, top[1]), n);
	assert_memory_equal(top[0], top[1], (size_t)n * sizeof top[0][0]);
	sampler_add_top(whole, top[0], n, a);
	sampler_add_top(listed, top[1], n, b);
}

static int n_listed, n_raced, n_whole, n_not_enough;

static void try_row(
	struct sampler *whole, struct sampler *listed, int32_t vocab, struct sample_params p)
{
	static struct sample_result a, b;
	const struct sample_key key = { .pos = next() % 5000, .sample = next() % 3 };
	const bool drafted = next() % 2;
	const int32_t most = next() % 2 ? SAMPLE_TOP : 0;
	struct k_draw_request ask;

	if (!sampler_request(listed, &p, key, drafted, &ask)) {
		n_whole++;
		return;
	}
	ask.best = most > ask.best ? most : ask.best;
	ask_ref(vocab, &ask);
	if (!sampler_can_do(listed, &p, &stats, &reply, list)) {
		n_not_enough++;
		return;
	}
	n_listed++;
	n_raced += ask.race;
	memset(&a, 0, sizeof a);
	memset(&b, 0, sizeof b);
	sampler_pick(whole, row, &stats, &p, NULL, 0, key, &a);
	sampler_pick_listed(listed, &stats, &reply, list, &p, key, &b);
	if (most)
		add_top(whole, listed, vocab, &a, &b);
	if (memcmp(&a, &b, sizeof a))
		fail_msg(
			"vocabulary of %d, temperature %g, top-k %d, top-p %g, min-p %g: %d of %d survivors, "
			"not %d of %d",
			(int)vocab, (double)p.temperature, (int)p.top_k, (double)p.top_p, (double)p.min_p,
			(int)b.id, (int)b.survivors, (int)a.id, (int)a.survivors);
	if (drafted)
		same_drafts(whole, listed, vocab);
}

static void try_vocab(int32_t vocab, int n)
{
	struct sampler *whole, *listed;
	struct err e = { 0 };

	assert_int_equal(sampler_open(&whole, vocab, &e), 0);
	assert_int_equal(sampler_open(&listed, vocab, &e), 0);
	for (int i = 0; i < n; i++) {
		make_row(row, vocab, i % 9);
		for (int k = 0; k < 6; k++)
			try_row(whole, listed, vocab, random_params());
	}
	sampler_close(whole);
	sampler_close(listed);
}

static void test_equal(void **state)
{
	(void)state;
	try_vocab(5, 40);
	try_vocab(300, 120);
	try_vocab(1000, 60);
	try_vocab(5003, 60);
	try_vocab(MOST, 45);
	assert_true(n_listed > 800 && n_raced > 15 && n_whole > 20 && n_not_enough > 20);
}

/* Of the usual settings and rows like a model's, hardly any asks for the row; of greedy ones
 * none. */
static void test_enough(void **state)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct sampler *s;
	struct err e = { 0 };
	const struct sample_key key = { .pos = 7 };
	struct k_draw_request ask;
	int n = 0;

	(void)state;
	assert_int_equal(sampler_open(&s, MOST, &e), 0);
	for (int i = 0; i < 20; i++) {
		make_row(row, MOST, 1);
		for (int32_t k = 0; k < 50; k++)
			row[next() % MOST] += 15.0f - 0.2f * (float)k; /* a few stand out */
		p.temperature = 0.7f;
		assert_true(sampler_request(s, &p, key, true, &ask));
		ask_ref(MOST, &ask);
		n += sampler_can_do(s, &p, &stats, &reply, list);
		p.temperature = 0;
		assert_true(sampler_request(s, &p, key, true, &ask));
		ask_ref(MOST, &ask);
		assert_true(sampler_can_do(s, &p, &stats, &reply, list));
		assert_true(reply.n < 200);
	}
	assert_int_equal(n, 20);
	p.repeat_penalty = 1.1f;
	assert_false(sampler_request(s, &p, key, false, &ask));
	p = SAMPLE_DEFAULTS;
	assert_int_equal(sample_bias_add(&p.logit_bias, 5, 1, NULL), 0);
	assert_false(sampler_request(s, &p, key, false, &ask));
	sampler_close(s);
}

/* A NaN anywhere, or an infinite maximum: the row itself decides. */
static void test_hostile(void **state)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct sampler *s;
	struct err e = { 0 };
	const struct sample_key key = { .pos = 7 };
	struct k_draw_request ask;

	(void)state;
	assert_int_equal(sampler_open(&s, 300, &e), 0);
	for (int i = 0; i < 4; i++) {
		p.temperature = i % 2 ? 0.7f : 0;
		make_row(row, 300, 1);
		row[77] = i < 2 ? NAN : -NAN;
		sampler_request(s, &p, key, false, &ask);
		ask_ref(300, &ask);
		assert_false(sampler_can_do(s, &p, &stats, &reply, list));
	}
	make_row(row, 300, 1);
	row[5] = 3e38f;
	ask_ref(300, &ask);
	assert_false(sampler_can_do(s, &p, &stats, &reply, list));
	sampler_close(s);
}

static int open_ref(void **state)
{
	struct err e = { 0 };

	(void)state;
	return k_open(&ref, "ref", NULL, 1, &e);
}

static int close_ref(void **state)
{
	(void)state;
	k_close(ref);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_equal), cmocka_unit_test(test_enough),
		cmocka_unit_test(test_hostile) };

	return cmocka_run_group_tests(tests, open_ref, close_ref);
}
