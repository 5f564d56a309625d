/* The draw: its random numbers, its distribution over the whole vocabulary, and both rules of
 * speculation. Seeds are fixed, so a chi-square either always passes or never. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sample/sampler_impl.h"
#include "tests/support/chi.h"
#include "tests/support/rows.h"

enum { MOST = 49152 };

static float row[MOST];

static void check_fit(const int64_t *seen, const double *p, int32_t n, int64_t draws)
{
	double chi = 0;
	int bins = 0;

	for (int32_t i = 0; i < n; i++) {
		double want = p[i] * (double)draws, d = (double)seen[i] - want;

		if (p[i] <= 0) {
			assert_int_equal(seen[i], 0);
			continue;
		}
		assert_true(want >= 5);
		chi += d * d / want;
		bins++;
	}
	if (chi > chi_limit(bins - 1))
		fail_msg("chi-square %.1f of %d bins, limit %.1f", chi, bins, chi_limit(bins - 1));
}

static void test_uniform(void **state)
{
	uint64_t sum = 0;

	(void)state;
	for (uint32_t w = 0; w < 1u << 23; w++) {
		float u = k_uniform(w << 9 | (w & 511));

		if (!(u > 0 && u < 1) || !(-k_log(u) > 0))
			fail_msg("word %u gives u = %a", w, (double)u);
		sum += (uint64_t)(u * 0x1p24f);
	}
	assert_true(sum == (uint64_t)1 << 46); /* the mean is one half, exactly */
}

/* One likely token, 49,151 of 2e-7 each: together 1 %. A u that could round to 1 would add 0.3
 * %. */
static void test_tail(void **state)
{
	enum { DRAWS = 20000, BINS = 4 };
	struct sample_params p = SAMPLE_DEFAULTS;
	int64_t seen[BINS + 1] = { 0 };
	double want[BINS + 1];
	struct k_logit_stats stats;
	struct sampler *s;
	struct err e = { 0 };

	(void)state;
	p.temperature = 1;
	p.top_p = 1;
	assert_int_equal(sampler_open(&s, MOST, &e), 0);
	for (int32_t i = 0; i < MOST; i++)
		row[i] = i == 31000 ? 15.4f : 0;
	stats = stats_of(row, MOST);
	for (int64_t i = 0; i < DRAWS; i++) {
		struct sample_result got;

		sampler_pick(
			s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = i, .sample = 3 }, &got);
		seen[got.id == 31000 ? BINS : got.id / (MOST / BINS)]++;
	}
	for (int i = 0; i < BINS; i++)
		want[i] = 0x1p40 * exp(-15.4) * MOST / BINS / (double)stats.mass;
	want[BINS] = 0x1p40 / (double)stats.mass;
	check_fit(seen, want, BINS + 1, DRAWS);
	sampler_close(s);
}

static void make_target(float *l, int32_t n)
{
	for (int32_t i = 0; i < n; i++)
		l[i] = (float)((i * 7) % n) * 0.25f;
}

static void test_fit(void **state)
{
	enum { N = 12, DRAWS = 60000 };
	struct sampler *s;
	struct err e = { 0 };

	(void)state;
	assert_int_equal(sampler_open(&s, N, &e), 0);
	make_target(row, N);
	for (int cut = 0; cut < 3; cut++) {
		struct sample_params p = SAMPLE_DEFAULTS;
		struct k_logit_stats stats = stats_of(row, N);
		int64_t seen[N] = { 0 };
		double want[N];
		struct sample_result got;

		p.top_p = cut == 1 ? 0.8f : 1;
		p.top_k = cut == 2 ? 5 : 0;
		p.temperature = 1.3f;
		p.seed = 11;
		for (int64_t i = 0; i < DRAWS; i++) {
			sampler_pick(s, row, &stats, &p, NULL, 0,
				(struct sample_key){ .pos = i / 4, .sample = i % 4 }, &got);
			seen[got.id]++;
		}
		for (int32_t i = 0; i < N; i++) {
			float q, arrival;

			sampler_draft(s, i, &q, &arrival);
			want[i] = (double)q;
		}
		check_fit(seen, want, N, DRAWS);
	}
	sampler_close(s);
}

static bool reject(struct sampler *s, int32_t draft, float q, const float *dense,
	struct sample_key key, struct sample_result *out, float *u, float *threshold)
{
	bool kept;

	sampler_reject_begin(s, key);
	kept = sampler_reject_next(s, draft, q, dense, u, threshold);
	sampler_reject_end(s, kept ? draft : -1, out);
	return kept;
}

/* A target, and a drafter that draws from a distribution of its own. */
enum { TOKENS = 12 };
struct couple {
	struct sampler *target, *drafter;
	struct sample_params p, drafter_p;
	struct k_logit_stats stats, drafter_stats;
	/* the drafter's logits, and its chances at the newest position */
	float guess[TOKENS], q[TOKENS];
};

static void couple_open(struct couple *c, float top_p)
{
	struct err e = { 0 };

	assert_int_equal(sampler_open(&c->target, TOKENS, &e), 0);
	assert_int_equal(sampler_open(&c->drafter, TOKENS, &e), 0);
	make_target(row, TOKENS);
	for (int32_t i = 0; i < TOKENS; i++)
		c->guess[i] = row[(i + 2) % TOKENS] * 0.8f;
	c->stats = stats_of(row, TOKENS);
	c->drafter_stats = stats_of(c->guess, TOKENS);
	c->p = c->drafter_p = SAMPLE_DEFAULTS;
	c->p.temperature = c->drafter_p.temperature = 1;
	c->p.top_p = top_p;
	c->drafter_p.top_p = 1;
	c->drafter_p.seed = 99;
}

static float chance_of(const struct sampler *s, int32_t id)
{
	float p, arrival;

	sampler_draft(s, id, &p, &arrival);
	return p;
}

/* Both draw. Returns what the drafter drew. */
static int32_t couple_pick(struct couple *c, struct sample_key key, struct sample_result *got)
{
	struct sample_result drafted;

	sampler_pick(c->drafter, c->guess, &c->drafter_stats, &c->drafter_p, NULL, 0, key, &drafted);
	for (int32_t k = 0; k < TOKENS; k++)
		c->q[k] = chance_of(c->drafter, k);
	sampler_pick(c->target, row, &c->stats, &c->p, NULL, 0, key, got);
	return drafted.id;
}

static void couple_close(struct couple *c, double want[TOKENS])
{
	for (int32_t i = 0; i < TOKENS; i++)
		want[i] = (double)chance_of(c->target, i);
	sampler_close(c->target);
	sampler_close(c->drafter);
}

/* The drafter draws from a distribution of its own; what comes out has the target's. */
static void try_rejection(int dense, float top_p, float draft_q)
{
	enum { DRAWS = 60000, GIVEN = 5 };
	struct couple c;
	int64_t seen[TOKENS] = { 0 }, accepted = 0;
	double want[TOKENS], expect_accept = 0;

	couple_open(&c, top_p);
	for (int64_t i = 0; i < DRAWS; i++) {
		struct sample_key key = { .pos = i };
		struct sample_result got;
		int32_t drafted = couple_pick(&c, key, &got), draft = dense ? drafted : GIVEN;
		float u, threshold, chance;
		bool kept = reject(c.target, draft, draft_q, dense ? c.q : NULL, key, &got, &u, &threshold);

		accepted += kept;
		assert_true(u == k_draw_u(c.p.seed, (uint32_t)draft, (uint32_t)i, 0, PURPOSE_ACCEPT));
		assert_true(kept == (u < threshold) && (!kept || got.id == draft));
		chance = chance_of(c.target, got.id);
		assert_true(got.p_draw == chance);
		if (!kept) {
			float wait =
				-k_log(k_draw_u(c.p.seed, (uint32_t)got.id, (uint32_t)i, 0, PURPOSE_RESIDUAL));
			float proposed = dense ? c.q[got.id] : got.id == draft ? draft_q : 0;

			assert_true(got.arrival == wait / (chance - proposed));
		}
		seen[got.id]++;
	}
	couple_close(&c, want);
	for (int32_t i = 0; i < TOKENS; i++) {
		if (dense)
			expect_accept += fmin(want[i], (double)c.q[i]);
		else if (i == GIVEN)
			expect_accept = fmin(want[i] / (double)draft_q, 1);
	}
	if (draft_q == 1)
		check_fit(seen, want, TOKENS, DRAWS);
	assert_true(fabs((double)accepted / DRAWS - expect_accept) < 0.01);
}

static void test_rejection(void **state)
{
	(void)state;
	try_rejection(0, 1, 1);
	try_rejection(0, 0.7f, 1);
	try_rejection(1, 1, 1);
	try_rejection(1, 0.7f, 1);
	try_rejection(0, 1, 0.125f);
}

/* The first `most` of a drafter's race: candidates drawn without replacement. */
static void draw_several(struct sampler *drafter, int32_t n, int32_t most, int32_t *id)
{
	for (int32_t k = 0; k < most; k++) {
		float least = INFINITY;

		for (int32_t i = 0; i < n; i++) {
			float p, arrival;
			bool had = false;

			for (int32_t j = 0; j < k; j++)
				had |= id[j] == i;
			sampler_draft(drafter, i, &p, &arrival);
			if (!had && arrival < least) {
				least = arrival;
				id[k] = i;
			}
		}
	}
}

/* Several candidates of one position: chosen ones, drawn ones, and both. What comes out has the
 * target's distribution, and each further candidate raises the share that is accepted. */
static double try_several(int n_dense, int n_chosen, float top_p)
{
	enum { DRAWS = 20000 };
	static const int32_t chosen[] = { 5, 3, 10, 1 };
	struct couple c;
	int64_t seen[TOKENS] = { 0 }, accepted = 0;
	double want[TOKENS];

	couple_open(&c, top_p);
	for (int64_t i = 0; i < DRAWS; i++) {
		struct sample_key key = { .pos = i };
		struct sample_result got;
		int32_t id[8], kept = -1;
		float u, threshold;

		couple_pick(&c, key, &got);
		draw_several(c.drafter, TOKENS, n_dense, id);
		memcpy(id + n_dense, chosen, (size_t)n_chosen * sizeof *id);
		sampler_reject_begin(c.target, key);
		for (int32_t k = 0; k < n_dense + n_chosen && kept < 0; k++)
			if (sampler_reject_next(c.target, id[k], 1, k < n_dense ? c.q : NULL, &u, &threshold))
				kept = id[k];
		sampler_reject_end(c.target, kept, &got);
		assert_true(kept < 0 || got.id == kept);
		accepted += kept >= 0;
		seen[got.id]++;
	}
	couple_close(&c, want);
	check_fit(seen, want, TOKENS, DRAWS);
	return (double)accepted / DRAWS;
}

static void test_several(void **state)
{
	double chosen = try_several(0, 1, 1), drawn = try_several(1, 0, 1);

	(void)state;
	for (int n = 2; n <= 3; n++) {
		double more = try_several(0, n, 1);

		assert_true(more > chosen + 0.01);
		chosen = more;
		more = try_several(n, 0, 1);
		assert_true(more > drawn + 0.01);
		drawn = more;
	}
	try_several(2, 2, 1);
	try_several(3, 1, 0.8f);
}

/* At temperature 0 both rules keep exactly the best token. */
static void test_rejection_greedy(void **state)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct k_logit_stats stats;
	struct sample_result got;
	struct sampler *s;
	struct err e = { 0 };
	float u, threshold;

	(void)state;
	p.temperature = 0;
	assert_int_equal(sampler_open(&s, 100, &e), 0);
	make_target(row, 100);
	stats = stats_of(row, 100);
	for (int32_t draft = 0; draft < 100; draft++) {
		sampler_pick(
			s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = draft, .sample = 0 }, &got);
		assert_int_equal(got.id, stats.argmax);
		assert_int_equal(reject(s, draft, 1, NULL, (struct sample_key){ .pos = draft, .sample = 0 },
							 &got, &u, &threshold),
			draft == stats.argmax);
		assert_int_equal(got.id, stats.argmax);
	}
	sampler_close(s);
}

/* A draft is kept if it is what the plain draw gives: the accepted text is the plain text, and
 * drafts of a fixed id win as often as their probability says. */
static void test_race_speculation(void **state)
{
	enum { N = 200, DRAWS = 20000 };
	struct sample_params p = SAMPLE_DEFAULTS;
	struct k_logit_stats stats;
	struct sampler *s;
	struct err e = { 0 };
	int64_t kept = 0;
	double want = 0;

	(void)state;
	p.temperature = 1.2f;
	assert_int_equal(sampler_open(&s, N, &e), 0);
	make_row(row, N, 0);
	row[17] = 5;
	stats = stats_of(row, N);
	for (int64_t i = 0; i < DRAWS; i++) {
		struct sample_result got;
		float prob, arrival;

		sampler_pick(
			s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = i, .sample = 0 }, &got);
		sampler_draft(s, 17, &prob, &arrival);
		assert_true((arrival <= got.arrival) == (got.id == 17));
		kept += got.id == 17;
		want += (double)prob / DRAWS;
	}
	assert_true(want > 0.05 && want < 0.95);
	assert_true(fabs((double)kept / DRAWS - want) < 0.015);
	sampler_close(s);
}

/* Both compilations of the passes give the same bits. */
static void test_passes(void **state)
{
	enum { BLOCKS = 16, N = BLOCKS * K_DRAW_BLOCK };
	static float y[2][N] __attribute__((aligned(64))), e[2][N] __attribute__((aligned(64)));
	const struct k_draw_passes *pass[2] = { &k_draw_scalar, k_draw_passes() };

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct k_draw_key key = { (uint64_t)next() << 32 | next(), next(), next(), next() };
		float max[2], block_max[2][BLOCKS], u[2][N], wait[2][100], arrival[2][100];
		bool any[2][BLOCKS];
		uint64_t mass[2];
		int32_t id[100];

		make_row(row, N, round % 9);
		for (int i = 0; i < 100; i++)
			id[i] = (int32_t)(next() % N);
		for (int v = 0; v < 2; v++) {
			max[v] = pass[v]->scale(row, BLOCKS, 1.7f, y[v], block_max[v]);
			mass[v] = pass[v]->weigh(y[v], BLOCKS, max[v], e[v]);
			for (int b = 0; b < BLOCKS; b++)
				any[v][b] = pass[v]->contest(
					e[v] + b * K_DRAW_BLOCK, b, 0.01f, &key, u[v] + b * K_DRAW_BLOCK);
			pass[v]->wait_ids(id, 100, &key, wait[v]);
			pass[v]->arrive_ids(y[v], id, 100, max[v], &key, arrival[v]);
		}
		assert_true(max[0] == max[1] && mass[0] == mass[1]);
		assert_memory_equal(y[0], y[1], sizeof y[0]);
		assert_memory_equal(e[0], e[1], sizeof e[0]);
		assert_memory_equal(block_max[0], block_max[1], sizeof block_max[0]);
		assert_memory_equal(u[0], u[1], sizeof u[0]);
		assert_memory_equal(any[0], any[1], sizeof any[0]);
		assert_memory_equal(wait[0], wait[1], sizeof wait[0]);
		assert_memory_equal(arrival[0], arrival[1], sizeof arrival[0]);
		for (int i = 0; i < N; i++)
			assert_true(
				u[0][i] == k_draw_u(key.seed, (uint32_t)i, key.pos, key.sample, key.purpose));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes),
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_tail),
		cmocka_unit_test(test_fit),
		cmocka_unit_test(test_rejection),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_rejection_greedy),
		cmocka_unit_test(test_race_speculation),
	};

	return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
