/* The sampler against its plain definition: everything sorted, in the words of docs/arithmetic.md rule 15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sampler_impl.h"

enum { MOST = 49152 };

struct plain_token {
	float y, arrival;
	int32_t id;
	uint64_t mass;
	uint32_t cut;
};

struct plain {
	struct plain_token t[MOST];
	int32_t left[EV_N_STAGES], winner;
	uint64_t mass[EV_N_STAGES];
	float logit; /* of the winner, penalised */
};

static float row[MOST];
static struct plain plain;

static uint32_t next(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

static int by_rank(const void *va, const void *vb)
{
	const struct plain_token *a = va, *b = vb;

	if (a->y != b->y)
		return a->y > b->y ? -1 : 1;
	return a->id < b->id ? -1 : 1;
}

static float plain_penalty(float l, const struct sample_params *p, const int32_t *history, int64_t n,
						   int32_t id)
{
	int32_t count = 0;

	for (int64_t i = n - 1; i >= 0 && i >= n - p->penalty_window; i--)
		count += history[i] == id;
	if (!count)
		return l;
	l = l > 0 ? l / p->repeat_penalty : l * p->repeat_penalty;
	l = l - (float)count * p->frequency_penalty;
	return l - p->presence_penalty;
}

/* Marks what a stage cuts among the first n by rank; fills left and mass. */
static void plain_stage(struct plain *r, int stage, int32_t n, uint32_t cut, int32_t rank_end,
						uint64_t least)
{
	r->left[stage] = 0;
	r->mass[stage] = 0;
	for (int32_t i = 0; i < n; i++) {
		struct plain_token *t = &r->t[i];

		if (t->cut == EV_CUT_kept && (i >= rank_end || t->mass < least))
			t->cut = cut;
		if (t->cut == EV_CUT_kept) {
			r->left[stage]++;
			r->mass[stage] += t->mass;
		}
	}
}

static int32_t plain_top_p(const struct plain *r, int32_t n, float top_p)
{
	unsigned __int128 part = (unsigned __int128)((double)top_p * 4294967296.0 + 0.5), cum = 0;

	for (int32_t i = 0; i < n; i++) {
		if (r->t[i].cut != EV_CUT_kept)
			return i;
		cum += r->t[i].mass;
		if ((cum << 32) >= part * r->mass[STAGE_TOP_K])
			return i + 1;
	}
	return n;
}

static void plain_pick(struct plain *r, const float *l, int32_t n, const struct sample_params *p,
					   const int32_t *history, int64_t n_history, struct sample_key key)
{
	bool greedy = !(p->temperature > 0);
	float factor = greedy ? 1 : (float)(1.0 / (double)p->temperature);
	float least_arrival = INFINITY;
	uint64_t light = 0;

	for (int32_t i = 0; i < n; i++) {
		float y = plain_penalty(l[i], p, history, n_history, i) * factor;

		r->t[i] = (struct plain_token){.y = y, .id = i, .cut = EV_CUT_kept, .arrival = NAN};
	}
	qsort(r->t, (size_t)n, sizeof *r->t, by_rank);
	for (int32_t i = 0; i < n; i++)
		r->t[i].mass = k_mass(k_exp(k_logit_depth(r->t[i].y, r->t[0].y)));
	plain_stage(r, STAGE_PENALTIES, n, 0, n, 0);
	plain_stage(r, STAGE_TEMPERATURE, n, EV_CUT_greedy, greedy ? 1 : n, 0);
	plain_stage(r, STAGE_TOP_K, n, EV_CUT_top_k, p->top_k > 0 && !greedy ? p->top_k : n, 0);
	plain_stage(r, STAGE_TOP_P, n, EV_CUT_top_p,
				p->top_p < 1 && !greedy ? plain_top_p(r, n, p->top_p) : n, 0);
	if (p->min_p > 0 && !greedy) /* mass * 2^32 >= part * 2^40 */
		light = (uint64_t)((double)p->min_p * 4294967296.0 + 0.5) << 8;
	plain_stage(r, STAGE_MIN_P, n, EV_CUT_min_p, n, light);
	r->winner = r->t[0].id;
	for (int32_t i = 0; i < n && !greedy; i++) {
		struct plain_token *t = &r->t[i];
		float u = k_draw_u(p->seed, (uint32_t)t->id, (uint32_t)key.pos, (uint32_t)key.sample, 0);

		if (t->cut != EV_CUT_kept)
			continue;
		t->arrival = k_arrival(u, t->y, r->t[0].y);
		if (t->arrival < least_arrival || (t->arrival == least_arrival && t->id < r->winner)) {
			least_arrival = t->arrival;
			r->winner = t->id;
		}
	}
	r->logit = plain_penalty(l[r->winner], p, history, n_history, r->winner);
}

static struct k_logit_stats stats_of(const float *l, int32_t n)
{
	struct k_logit_stats s = {.max = l[0]};

	for (int32_t i = 1; i < n; i++)
		if (l[i] > s.max) {
			s.max = l[i];
			s.argmax = i;
		}
	for (int32_t i = 0; i < n; i++)
		s.mass += k_mass(k_exp(k_logit_depth(l[i], s.max)));
	return s;
}

static bool same(float a, float b)
{
	return a == b || (a != a && b != b);
}

static float share(uint64_t mass, float weight, uint64_t all)
{
	return mass ? (float)((double)weight / ((double)all * 0x1p-40)) : 0.0f;
}

static void check_result(const struct sampler *s, const struct sample_result *got,
						 const struct plain *want, const float *l, int32_t n,
						 const struct sample_params *p)
{
	int32_t rank = 0, n_best = n < SAMPLE_CANDIDATES ? n : SAMPLE_CANDIDATES;
	const struct plain_token *w;
	struct k_logit_stats raw = stats_of(l, n);
	float draft_p, draft_arrival, top = want->t[0].y;

	assert_int_equal(got->id, want->winner);
	while (want->t[rank].id != want->winner)
		rank++;
	w = &want->t[rank];
	assert_true(same(got->arrival, w->arrival));
	assert_int_equal(got->survivors, want->left[STAGE_MIN_P]);
	for (int i = 0; i < EV_N_STAGES; i++) {
		uint64_t before = want->mass[i ? i - 1 : 0];

		assert_int_equal(got->stage[i].left, want->left[i]);
		assert_true(got->stage[i].mass == (float)((double)want->mass[i] / (double)before));
	}
	assert_true(got->stage[STAGE_PENALTIES].value == want->logit);
	assert_true(got->stage[STAGE_TEMPERATURE].value == w->y);
	if (p->temperature > 0)
		for (int i = STAGE_TOP_K; i < EV_N_STAGES; i++)
			assert_true(got->stage[i].value ==
						share(w->mass, k_exp(k_logit_depth(w->y, top)), want->mass[i]));
	assert_true(got->p_draw == got->stage[STAGE_MIN_P].value);
	assert_true(got->p == share(1, k_exp(k_logit_depth(l[got->id], raw.max)), raw.mass));
	assert_int_equal(got->n_candidates, n_best);
	for (int32_t i = 0; i < n_best; i++) {
		const struct ev_candidate *c = &got->candidate[i];
		const struct plain_token *t = i == n_best - 1 && rank >= n_best ? w : &want->t[i];

		assert_int_equal(c->id, t->id);
		assert_int_equal(c->cut, t->cut);
		assert_true(c->logit == l[t->id]);
		assert_true(same(c->arrival, t->arrival));
		assert_true(c->p ==
					share(t->mass, k_exp(k_logit_depth(t->y, top)), want->mass[STAGE_PENALTIES]));
	}
	for (int32_t i = 0; i < n && i < 40; i++) {
		const struct plain_token *t = &want->t[i < 20 ? (uint32_t)i : next() % (uint32_t)n];

		sampler_draft(s, t->id, &draft_p, &draft_arrival);
		if (t->cut == EV_CUT_kept) {
			assert_true(same(draft_arrival, t->arrival));
			assert_true(draft_p == share(t->mass, k_exp(k_logit_depth(t->y, top)),
										 want->mass[STAGE_MIN_P]));
		} else {
			assert_true(draft_p == 0 && draft_arrival == INFINITY);
		}
	}
}

/* Rows of many shapes: ties, both zeros, -Inf, flat, steep, one above all. */
static void make_row(float *l, int32_t n, int shape)
{
	static const float few[] = {0.0f, -0.0f, 1.5f, -INFINITY, 2.0f, 1.5f, -3.0f};
	float spread = shape % 3 == 0 ? 1.0f : shape % 3 == 1 ? 4.0f : 30.0f;

	for (int32_t i = 0; i < n; i++) {
		float g = 0;

		for (int k = 0; k < 6; k++)
			g += (float)(next() >> 8) * 0x1p-24f - 0.5f;
		if (shape == 3)
			l[i] = few[next() % 7];
		else if (shape == 4)
			l[i] = (float)(int)(g * 4); /* ties of all sizes */
		else
			l[i] = g * spread;
		if (shape > 6 && next() % 5 == 0)
			l[i] = -INFINITY;
	}
	if (shape == 5)
		l[next() % (uint32_t)n] += 40;
	if (shape == 6)
		for (int32_t i = 0; i < n; i++)
			l[i] = 1.25f;
	l[next() % (uint32_t)n] = 0.5f;
}

static void make_params(struct sample_params *p)
{
	static const float temperatures[] = {0, 0.05f, 0.7f, 1, 1.5f, 10};
	static const float top_ps[] = {1, 0.9f, 0.5f, 0.999f, 0, 0.99999994f, 0.1f};
	static const float min_ps[] = {0, 0, 0.05f, 1, 1e-6f, 1e-12f};
	static const int32_t top_ks[] = {0, 0, 1, 2, 7, 40, 1000, 1 << 30};

	*p = SAMPLE_DEFAULTS;
	p->temperature = temperatures[next() % 6];
	p->top_p = top_ps[next() % 7];
	p->min_p = min_ps[next() % 6];
	p->top_k = top_ks[next() % 8];
	p->seed = (uint64_t)next() << 32 | next();
	p->penalty_window = (int32_t)(next() % 3 * 20);
	p->repeat_penalty = next() % 2 ? 1.0f : 1.3f;
	p->frequency_penalty = next() % 2 ? 0.0f : 0.2f;
	p->presence_penalty = next() % 2 ? 0.0f : -0.4f;
}

static void try_vocab(int32_t n, int rounds)
{
	struct sampler *s;
	struct err e = {0};

	assert_int_equal(sampler_open(&s, n, &e), 0);
	for (int round = 0; round < rounds; round++) {
		struct sample_key key = {next() % 1000, next() % 4};
		struct sample_params p;
		struct sample_result got;
		struct k_logit_stats stats;
		int32_t history[50];
		int64_t n_history = next() % 51;

		for (int64_t i = 0; i < n_history; i++)
			history[i] = (int32_t)(next() % (uint32_t)(n + n / 10)) - n / 20; /* some no token at all */
		make_row(row, n, round % 9);
		make_params(&p);
		stats = stats_of(row, n);
		plain_pick(&plain, row, n, &p, history, n_history, key);
		s->pass = round & 1 ? &k_draw_scalar : k_draw_passes();
		sampler_pick(s, row, &stats, &p, history, n_history, key, &got);
		check_result(s, &got, &plain, row, n, &p);
	}
	sampler_close(s);
}

static void test_against_plain(void **state)
{
	(void)state;
	try_vocab(1, 50);
	try_vocab(2, 200);
	try_vocab(7, 1000);
	try_vocab(64, 1500);
	try_vocab(100, 3000);
	try_vocab(1000, 2000);
	try_vocab(5003, 400);
	try_vocab(MOST, 36);
}

/* The sum reaches the share exactly at a token: that token is the last to survive. */
static void test_top_p_boundary(void **state)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct sample_result got;
	struct sampler *s;
	struct err e = {0};

	(void)state;
	p.temperature = 1;
	assert_int_equal(sampler_open(&s, 1024, &e), 0);
	for (int32_t i = 0; i < 1024; i++)
		row[i] = i % 2 ? 3.0f : -INFINITY; /* 512 equal tokens, odd ids */
	for (int32_t k = 0; k <= 512; k++) {
		struct k_logit_stats stats = stats_of(row, 1024);

		p.top_p = (float)k / 512; /* exact */
		sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){k, 0}, &got);
		assert_int_equal(got.survivors, k == 512 ? 1024 : k ? k : 1);
		if (k > 0 && k < 512) {
			assert_true(got.id <= 2 * k - 1);
			p.top_p = k_float(k_bits(p.top_p) + 1); /* a hair more takes one token more */
			sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){k, 0}, &got);
			assert_int_equal(got.survivors, (int32_t)((double)p.top_p * 512) == k &&
											 (uint64_t)((double)p.top_p * 0x1p32 + 0.5) ==
												 (uint64_t)k << 23 ? k : k + 1);
		}
	}
	sampler_close(s);
}

/* A sum that is less than the share by a part of the smallest unit is not enough. */
static void test_top_p_fraction(void **state)
{
	const unsigned __int128 first = (unsigned __int128)1 << 72; /* 2^40 * 2^32 */
	struct sample_params p = SAMPLE_DEFAULTS;
	struct sampler *s;
	struct err e = {0};
	int found = 0;

	(void)state;
	p.temperature = 1;
	assert_int_equal(sampler_open(&s, 2, &e), 0);
	for (int i = 1; i < 2000000 && found < 5; i++) {
		float l[2] = {0, -(float)i * 0x1p-22f};
		uint64_t z = ((uint64_t)1 << 40) + k_mass(k_exp(l[1]));
		uint64_t part = ((uint64_t)(first / z) / 256 + 1) * 256; /* what a float can say */
		unsigned __int128 product = (unsigned __int128)part * z;
		struct k_logit_stats stats = stats_of(l, 2);
		struct sample_result got;

		if (product <= first || product - first >= (unsigned __int128)1 << 32)
			continue;
		p.top_p = (float)part * 0x1p-32f;
		sampler_pick(s, l, &stats, &p, NULL, 0, (struct sample_key){i, 0}, &got);
		assert_int_equal(got.survivors, 2);
		found++;
	}
	assert_true(found > 0);
	sampler_close(s);
}

/* Rows that hold nothing to draw from do not break anything. */
static void test_degenerate(void **state)
{
	static const float values[] = {-INFINITY, INFINITY, NAN, 3e38f, -3e38f};
	static const float temperatures[] = {0, 1e-40f, 1e-3f, 1, NAN, -1};
	struct sampler *s;
	struct err e = {0};

	(void)state;
	assert_int_equal(sampler_open(&s, 300, &e), 0);
	for (int v = 0; v < 5; v++)
		for (int t = 0; t < 6; t++)
			for (int some = 0; some < 2; some++) {
				struct sample_params p = SAMPLE_DEFAULTS;
				struct k_logit_stats stats;
				struct sample_result got;
				float u, threshold;

				for (int32_t i = 0; i < 300; i++)
					row[i] = some && i % 2 ? 0.25f : values[v];
				stats = stats_of(row, 300);
				p.temperature = temperatures[t];
				sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){t, v}, &got);
				assert_in_range(got.id, 0, 299);
				assert_in_range(got.survivors, 1, 300);
				sampler_reject(s, 7, 1, NULL, (struct sample_key){t, v}, &got, &u, &threshold);
				assert_in_range(got.id, 0, 299);
			}
	sampler_close(s);
}

/* Upper quantile of chi-square with n degrees of freedom, 1 in 30,000 (Wilson and Hilferty 1931). */
static double chi_limit(int n)
{
	double a = 2.0 / (9.0 * n), c = 1 - a + 4.0 * sqrt(a);

	return n * c * c * c;
}

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

/* One likely token, 49,151 of 2e-7 each: together 1 %. A u that could round to 1 would add 0.3 %. */
static void test_tail(void **state)
{
	enum { DRAWS = 20000, BINS = 4 };
	struct sample_params p = SAMPLE_DEFAULTS;
	int64_t seen[BINS + 1] = {0};
	double want[BINS + 1];
	struct k_logit_stats stats;
	struct sampler *s;
	struct err e = {0};

	(void)state;
	p.temperature = 1;
	p.top_p = 1;
	assert_int_equal(sampler_open(&s, MOST, &e), 0);
	for (int32_t i = 0; i < MOST; i++)
		row[i] = i == 31000 ? 15.4f : 0;
	stats = stats_of(row, MOST);
	for (int64_t i = 0; i < DRAWS; i++) {
		struct sample_result got;

		sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){i, 3}, &got);
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
	struct err e = {0};

	(void)state;
	assert_int_equal(sampler_open(&s, N, &e), 0);
	make_target(row, N);
	for (int cut = 0; cut < 3; cut++) {
		struct sample_params p = SAMPLE_DEFAULTS;
		struct k_logit_stats stats = stats_of(row, N);
		int64_t seen[N] = {0};
		double want[N];
		struct sample_result got;

		p.top_p = cut == 1 ? 0.8f : 1;
		p.top_k = cut == 2 ? 5 : 0;
		p.temperature = 1.3f;
		p.seed = 11;
		for (int64_t i = 0; i < DRAWS; i++) {
			sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){i / 4, i % 4}, &got);
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

/* The drafter draws from a distribution of its own; what comes out has the target's. */
static void try_rejection(int dense, float top_p, float draft_q)
{
	enum { N = 12, DRAWS = 60000 };
	struct sample_params p = SAMPLE_DEFAULTS, dp = SAMPLE_DEFAULTS;
	struct sampler *s, *drafter;
	struct k_logit_stats stats, dstats;
	struct err e = {0};
	int64_t seen[N] = {0}, accepted = 0;
	float guess[N], q[N], arrival, expect_accept = 0;
	double want[N];

	assert_int_equal(sampler_open(&s, N, &e), 0);
	assert_int_equal(sampler_open(&drafter, N, &e), 0);
	make_target(row, N);
	for (int32_t i = 0; i < N; i++)
		guess[i] = row[(i + 2) % N] * 0.8f;
	stats = stats_of(row, N);
	dstats = stats_of(guess, N);
	p.temperature = dp.temperature = 1;
	p.top_p = top_p;
	dp.top_p = 1;
	dp.seed = 99;
	for (int64_t i = 0; i < DRAWS; i++) {
		struct sample_key key = {i, 0};
		struct sample_result got, drafted;
		float u, threshold, chance;
		int32_t draft;
		bool kept;

		sampler_pick(drafter, guess, &dstats, &dp, NULL, 0, key, &drafted);
		for (int32_t k = 0; k < N; k++)
			sampler_draft(drafter, k, &q[k], &arrival);
		sampler_pick(s, row, &stats, &p, NULL, 0, key, &got);
		draft = dense ? drafted.id : 5;
		kept = sampler_reject(s, draft, draft_q, dense ? q : NULL, key, &got, &u, &threshold);
		accepted += kept;
		assert_true(u == k_draw_u(p.seed, (uint32_t)draft, (uint32_t)i, 0, PURPOSE_ACCEPT));
		assert_true(kept == (u < threshold) && (!kept || got.id == draft));
		sampler_draft(s, got.id, &chance, &arrival);
		assert_true(got.p_draw == chance);
		if (!kept) {
			float wait = -k_log(k_draw_u(p.seed, (uint32_t)got.id, (uint32_t)i, 0, PURPOSE_RESIDUAL));
			float proposed = dense ? q[got.id] : got.id == draft ? draft_q : 0;

			assert_true(got.arrival == wait / (chance - proposed));
		}
		seen[got.id]++;
	}
	for (int32_t i = 0; i < N; i++) {
		float t;

		sampler_draft(s, i, &t, &arrival);
		want[i] = (double)t;
		if (dense)
			expect_accept += t < q[i] ? t : q[i];
		else if (i == 5)
			expect_accept = t < draft_q ? t / draft_q : 1;
	}
	if (draft_q == 1)
		check_fit(seen, want, N, DRAWS);
	assert_true(fabs((double)accepted / DRAWS - (double)expect_accept) < 0.01);
	sampler_close(s);
	sampler_close(drafter);
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

/* At temperature 0 both rules keep exactly the best token. */
static void test_rejection_greedy(void **state)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct k_logit_stats stats;
	struct sample_result got;
	struct sampler *s;
	struct err e = {0};
	float u, threshold;

	(void)state;
	p.temperature = 0;
	assert_int_equal(sampler_open(&s, 100, &e), 0);
	make_target(row, 100);
	stats = stats_of(row, 100);
	for (int32_t draft = 0; draft < 100; draft++) {
		sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){draft, 0}, &got);
		assert_int_equal(got.id, stats.argmax);
		assert_int_equal(sampler_reject(s, draft, 1, NULL, (struct sample_key){draft, 0}, &got, &u,
										&threshold),
						 draft == stats.argmax);
		assert_int_equal(got.id, stats.argmax);
	}
	sampler_close(s);
}

/* A draft is kept if it is what the plain draw gives: the accepted text is the plain text, and drafts of
 * a fixed id win as often as their probability says. */
static void test_race_speculation(void **state)
{
	enum { N = 200, DRAWS = 20000 };
	struct sample_params p = SAMPLE_DEFAULTS;
	struct k_logit_stats stats;
	struct sampler *s;
	struct err e = {0};
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

		sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){i, 0}, &got);
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
	const struct k_draw_passes *pass[2] = {&k_draw_scalar, k_draw_passes()};

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct k_draw_key key = {(uint64_t)next() << 32 | next(), next(), next(), next()};
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
				any[v][b] = pass[v]->contest(e[v] + b * K_DRAW_BLOCK, b, 0.01f, &key,
											 u[v] + b * K_DRAW_BLOCK);
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
			assert_true(u[0][i] == k_draw_u(key.seed, (uint32_t)i, key.pos, key.sample, key.purpose));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes),          cmocka_unit_test(test_against_plain),
		cmocka_unit_test(test_top_p_boundary),  cmocka_unit_test(test_top_p_fraction),
		cmocka_unit_test(test_degenerate),
		cmocka_unit_test(test_uniform),         cmocka_unit_test(test_tail),
		cmocka_unit_test(test_fit),             cmocka_unit_test(test_rejection),
		cmocka_unit_test(test_rejection_greedy), cmocka_unit_test(test_race_speculation),
	};

	return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
