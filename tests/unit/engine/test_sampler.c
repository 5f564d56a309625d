/* The sampler against its plain definition: everything sorted, in the words of docs/arithmetic.md
 * rule 15. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sample/sampler_impl.h"
#include "tests/support/rows.h"

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

static uint64_t allowed[MOST / 64];
static bool is_bound; /* whether `allowed` counts */
static float row[MOST];
static struct plain plain;

static bool is_allowed(int32_t id)
{
	return !is_bound || (allowed[id / 64] >> (id % 64) & 1);
}

static int by_rank(const void *va, const void *vb)
{
	const struct plain_token *a = va, *b = vb;

	if (a->y != b->y)
		return a->y > b->y ? -1 : 1;
	return a->id < b->id ? -1 : 1;
}

static float plain_bias(float l, const struct sample_params *p, int32_t id)
{
	for (int32_t i = 0; i < p->logit_bias.n; i++)
		if (p->logit_bias.entry[i].id == (uint32_t)id)
			return p->logit_bias.entry[i].bias != 0 ? l + p->logit_bias.entry[i].bias : l;
	return l;
}

static float plain_penalty(
	float raw, const struct sample_params *p, const int32_t *history, int64_t n, int32_t id)
{
	float l = plain_bias(raw, p, id);
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
static void plain_stage(
	struct plain *r, int stage, int32_t n, uint32_t cut, int32_t rank_end, uint64_t least)
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

		r->t[i] = (struct plain_token){ .y = is_allowed(i) ? y : -INFINITY,
			.id = i,
			.cut = is_allowed(i) ? EV_CUT_kept : EV_CUT_grammar,
			.arrival = NAN };
	}
	qsort(r->t, (size_t)n, sizeof *r->t, by_rank);
	for (int32_t i = 0; i < n; i++)
		r->t[i].mass =
			is_allowed(r->t[i].id) ? k_mass(k_exp(k_logit_depth(r->t[i].y, r->t[0].y))) : 0;
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

static bool same(float a, float b)
{
	return a == b || (a != a && b != b);
}

static float share(uint64_t mass, float weight, uint64_t all)
{
	return mass ? (float)((double)weight / ((double)all * 0x1p-40)) : 0.0f;
}

static float allowed_mass(const float *l, int32_t n, const struct k_logit_stats *raw)
{
	uint64_t mass = 0;

	for (int32_t i = 0; i < n; i++)
		mass += is_allowed(i) ? k_mass(k_exp(k_logit_depth(l[i], raw->max))) : 0;
	return (float)((double)mass / (double)raw->mass);
}

static void check_result(struct sampler *s, const struct sample_result *got,
	const struct plain *want, const float *l, int32_t n, const struct sample_params *p)
{
	const int32_t may = want->left[STAGE_PENALTIES];
	int32_t rank = 0, n_best = may < SAMPLE_CANDIDATES ? may : SAMPLE_CANDIDATES;
	const struct plain_token *w;
	struct k_logit_stats raw = stats_of(l, n);
	float draft_p, draft_arrival, top = want->t[0].y;

	assert_int_equal(got->id, want->winner);
	while (want->t[rank].id != want->winner)
		rank++;
	w = &want->t[rank];
	assert_int_equal(got->rank, rank + 1);
	assert_true(same(got->arrival, w->arrival));
	assert_int_equal(got->survivors, want->left[STAGE_MIN_P]);
	for (int i = 0; i < EV_N_STAGES; i++) {
		uint64_t before = want->mass[i ? i - 1 : 0];

		assert_int_equal(got->stage[i].left, want->left[i]);
		assert_true(got->stage[i].mass == (float)((double)want->mass[i] / (double)before));
	}
	assert_true(got->stage[STAGE_PENALTIES].value == want->logit);
	assert_int_equal(got->n_stages, is_bound          ? EV_MOST_STAGES
									: p->logit_bias.n ? EV_AT_BIAS + 1
													  : EV_N_STAGES);
	if (is_bound) {
		assert_int_equal(got->stage[EV_AT_GRAMMAR].left, may);
		assert_true(got->stage[EV_AT_GRAMMAR].mass == allowed_mass(l, n, &raw));
	}
	if (p->logit_bias.n || is_bound) {
		assert_int_equal(got->stage[EV_AT_BIAS].left, n);
		assert_true(got->stage[EV_AT_BIAS].value == plain_bias(l[got->id], p, got->id));
	}
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
		assert_true(
			c->p == share(t->mass, k_exp(k_logit_depth(t->y, top)), want->mass[STAGE_PENALTIES]));
	}
	for (int32_t i = 0; i < n && i < 40; i++) {
		const struct plain_token *t = &want->t[i < 20 ? (uint32_t)i : next() % (uint32_t)n];

		sampler_draft(s, t->id, &draft_p, &draft_arrival);
		if (t->cut == EV_CUT_kept) {
			assert_true(same(draft_arrival, t->arrival));
			assert_true(draft_p ==
						share(t->mass, k_exp(k_logit_depth(t->y, top)), want->mass[STAGE_MIN_P]));
		} else {
			assert_true(draft_p == 0 && draft_arrival == INFINITY);
		}
	}
}

static int by_logit(const void *va, const void *vb)
{
	const int32_t a = *(const int32_t *)va, b = *(const int32_t *)vb;

	if (row[a] != row[b])
		return row[a] > row[b] ? -1 : 1;
	return a < b ? -1 : 1;
}

static const struct ev_candidate *candidate_of(const struct sample_result *r, int32_t id)
{
	for (int32_t i = 0; i < r->n_candidates; i++)
		if (r->candidate[i].id == (uint32_t)id)
			return &r->candidate[i];
	return NULL;
}

/* All of the greatest logits are told, each once, and the first eight stay as they were. */
static void check_top(
	struct sampler *s, struct sample_result *got, const struct plain *want, int32_t n, int32_t most)
{
	static int32_t order[MOST];
	struct k_draw_entry top[SAMPLE_TOP];
	const struct sample_result before = *got;
	const int32_t n_top = sampler_top(row, n, most, top);

	for (int32_t i = 0; i < n; i++)
		order[i] = i;
	qsort(order, (size_t)n, sizeof *order, by_logit);
	assert_int_equal(n_top, most < n ? most : n);
	if (!sampler_has_top(s, most))
		sampler_add_top(s, top, n_top, got);
	assert_memory_equal(
		before.candidate, got->candidate, (size_t)before.n_candidates * sizeof *got->candidate);
	for (int32_t i = 0; i < n_top; i++) {
		assert_int_equal(top[i].id, order[i]);
		assert_non_null(candidate_of(got, order[i]));
	}
	for (int32_t i = 0; i < got->n_candidates; i++)
		assert_ptr_equal(candidate_of(got, (int32_t)got->candidate[i].id), &got->candidate[i]);
	for (int32_t i = 0; i < n; i++) {
		const struct ev_candidate *c = candidate_of(got, want->t[i].id);

		if (c)
			assert_int_equal(c->cut, want->t[i].cut);
	}
}

/* No bias, a few tokens, or as many as there may be; whole numbers make ties. */
static void make_bias(struct sample_bias *b, int32_t vocab)
{
	const int n = next() % 3 ? 0 : next() % 5 ? (int)(next() % 4) : SAMPLE_BIAS_MAX;

	for (int i = 0; i < n; i++)
		sample_bias_add(b, next() % (uint32_t)vocab,
			next() % 4 ? (double)(next() % 201) - 100 : (double)(next() % 9) / 4 - 1, NULL);
}

static void make_params(struct sample_params *p, int32_t vocab)
{
	static const float temperatures[] = { 0, 0.05f, 0.7f, 1, 1.5f, 10 };
	static const float top_ps[] = { 1, 0.9f, 0.5f, 0.999f, 0, 0.99999994f, 0.1f };
	static const float min_ps[] = { 0, 0, 0.05f, 1, 1e-6f, 1e-12f };
	static const int32_t top_ks[] = { 0, 0, 1, 2, 7, 40, 1000, 1 << 30 };

	*p = SAMPLE_DEFAULTS;
	make_bias(&p->logit_bias, vocab);
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

/* In every other round few, half or most tokens are allowed: none without a finite logit, as a
 * grammar would find it, and one at least. */
static int32_t make_allowed(int32_t n, int round)
{
	const uint32_t density = next() % 3, some = next() % (uint32_t)n;
	int32_t count = 0;

	memset(allowed, 0, sizeof allowed);
	for (int32_t i = 0; i < n; i++) {
		const bool is = (uint32_t)i == some || (density == 0      ? next() % 64 == 0
												   : density == 1 ? next() % 2
																  : next() % 64 != 0);

		if (is && row[i] > -INFINITY && row[i] < INFINITY) {
			allowed[i / 64] |= UINT64_C(1) << (i % 64);
			count++;
		}
	}
	is_bound = round % 2 && count;
	return count;
}

static void try_vocab(int32_t n, int rounds)
{
	struct sampler *s;
	struct err e = { 0 };

	assert_int_equal(sampler_open(&s, n, &e), 0);
	for (int round = 0; round < rounds; round++) {
		struct sample_key key = { .pos = next() % 1000, .sample = next() % 4 };
		struct sample_params p;
		struct sample_result got;
		struct k_logit_stats stats;
		int32_t history[50];
		int64_t n_history = next() % 51;

		for (int64_t i = 0; i < n_history; i++)
			history[i] = (int32_t)(next() % (uint32_t)(n + n / 10)) - n / 20; /* some no token at
																				 all */
		make_row(row, n, round % 9);
		make_params(&p, n);
		stats = stats_of(row, n);
		const int32_t n_allowed = make_allowed(n, round / 2);

		if (is_bound)
			sampler_allow(s, allowed, n_allowed);
		plain_pick(&plain, row, n, &p, history, n_history, key);
		s->pass = round & 1 ? &k_draw_scalar : k_draw_passes();
		sampler_pick(s, row, &stats, &p, history, n_history, key, &got);
		check_result(s, &got, &plain, row, n, &p);
		check_top(s, &got, &plain, n, 1 + (int32_t)(next() % SAMPLE_TOP));
	}
	sampler_close(s);
	is_bound = false;
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
	struct err e = { 0 };

	(void)state;
	p.temperature = 1;
	assert_int_equal(sampler_open(&s, 1024, &e), 0);
	for (int32_t i = 0; i < 1024; i++)
		row[i] = i % 2 ? 3.0f : -INFINITY; /* 512 equal tokens, odd ids */
	for (int32_t k = 0; k <= 512; k++) {
		struct k_logit_stats stats = stats_of(row, 1024);

		p.top_p = (float)k / 512; /* exact */
		sampler_pick(
			s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = k, .sample = 0 }, &got);
		assert_int_equal(got.survivors, k == 512 ? 1024 : k ? k : 1);
		if (k > 0 && k < 512) {
			assert_true(got.id <= 2 * k - 1);
			p.top_p = k_float(k_bits(p.top_p) + 1); /* a hair more takes one token more */
			sampler_pick(
				s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = k, .sample = 0 }, &got);
			assert_int_equal(got.survivors,
				(int32_t)((double)p.top_p * 512) == k &&
						(uint64_t)((double)p.top_p * 0x1p32 + 0.5) == (uint64_t)k << 23
					? k
					: k + 1);
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
	struct err e = { 0 };
	int found = 0;

	(void)state;
	p.temperature = 1;
	assert_int_equal(sampler_open(&s, 2, &e), 0);
	for (int i = 1; i < 2000000 && found < 5; i++) {
		float l[2] = { 0, -(float)i * 0x1p-22f };
		uint64_t z = ((uint64_t)1 << 40) + k_mass(k_exp(l[1]));
		uint64_t part = ((uint64_t)(first / z) / 256 + 1) * 256; /* what a float can say */
		unsigned __int128 product = (unsigned __int128)part * z;
		struct k_logit_stats stats = stats_of(l, 2);
		struct sample_result got;

		if (product <= first || product - first >= (unsigned __int128)1 << 32)
			continue;
		p.top_p = (float)part * 0x1p-32f;
		sampler_pick(s, l, &stats, &p, NULL, 0, (struct sample_key){ .pos = i, .sample = 0 }, &got);
		assert_int_equal(got.survivors, 2);
		found++;
	}
	assert_true(found > 0);
	sampler_close(s);
}

/* -0 without bias stays -0, and a bias of 0 is none. */
static void test_no_bias(void **state)
{
	struct sample_params p = SAMPLE_DEFAULTS;
	struct sample_result got;
	struct k_logit_stats stats;
	struct sampler *s;
	struct err e = { 0 };

	(void)state;
	p.temperature = 0;
	assert_int_equal(sampler_open(&s, 100, &e), 0);
	for (int32_t i = 0; i < 100; i++)
		row[i] = i == 7 ? -0.0f : -1;
	stats = stats_of(row, 100);
	assert_int_equal(sample_bias_add(&p.logit_bias, 7, 0, NULL), 0);
	sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = 1 }, &got);
	assert_int_equal(got.id, 7);
	assert_int_equal(k_bits(got.stage[EV_AT_BIAS].value), k_bits(-0.0f));
	assert_int_equal(sample_bias_add(&p.logit_bias, 9, 1.5, NULL), 0);
	sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = 1 }, &got);
	assert_int_equal(got.id, 9);
	p = SAMPLE_DEFAULTS; /* what the request before had is gone */
	p.temperature = 0;
	sampler_pick(s, row, &stats, &p, NULL, 0, (struct sample_key){ .pos = 1 }, &got);
	assert_int_equal(got.id, 7);
	assert_int_equal(got.n_stages, EV_N_STAGES);
	sampler_close(s);
}

static void test_bias_setting(void **state)
{
	static const char *const wrong[] = { "", "5", "5:", ":5", "5:1,", "5:1;6:1", "5:101",
		"5:-100.5", "-1:5", "5:1,5:2", "5:nan", "4294967296:1", "x:1" };
	const struct setting *s = setting_find(answer_settings, "logit-bias");
	struct answer_settings a = ANSWER_DEFAULTS, b;
	char text[SAMPLE_BIAS_TEXT];
	struct err e = { 0 };

	(void)state;
	assert_int_equal(setting_put(s, &a, "77:-100,15:0.1, 3:2.5", &e), 0);
	setting_text(s, &a, text, sizeof text);
	assert_string_equal(text, "3:2.5,15:0.1,77:-100");
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		e = (struct err){ 0 };
		assert_int_equal(setting_put(s, &a, wrong[i], &e), -1);
		assert_int_equal(e.code, ERR_USAGE);
	}
	b = a;
	assert_true(setting_same(s, &a, &b));
	e = (struct err){ 0 };
	assert_int_equal(setting_put(s, &a, "off", &e), 0);
	assert_int_equal(a.params.logit_bias.n, 0);
	assert_false(setting_same(s, &a, &b));
	for (int32_t i = 0; i < SAMPLE_BIAS_MAX; i++)
		assert_int_equal(
			sample_bias_add(&a.params.logit_bias, INT32_MAX - i, -(double)i / 7, &e), 0);
	assert_int_equal(sample_bias_add(&a.params.logit_bias, 1, 1, &e), -1);
	setting_text(s, &a, text, sizeof text);
	assert_int_equal(setting_put(s, &b, text, NULL), 0);
	assert_true(setting_same(s, &a, &b));
	setting_text(s, &a, text, 64);
	assert_string_equal(text, "300 tokens");
}

/* Rows that hold nothing to draw from do not break anything. */
static void test_degenerate(void **state)
{
	static const float values[] = { -INFINITY, INFINITY, NAN, 3e38f, -3e38f };
	static const float temperatures[] = { 0, 1e-40f, 1e-3f, 1, NAN, -1 };
	struct sampler *s;
	struct err e = { 0 };

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
				sampler_pick(s, row, &stats, &p, NULL, 0,
					(struct sample_key){ .pos = t, .sample = v }, &got);
				assert_in_range(got.id, 0, 299);
				assert_in_range(got.survivors, 1, 300);
				sampler_reject_begin(s, (struct sample_key){ .pos = t, .sample = v });
				for (int32_t id = 7; id < 10; id++)
					if (sampler_reject_next(s, id, 1, NULL, &u, &threshold))
						break;
				sampler_reject_end(s, -1, &got);
				assert_in_range(got.id, 0, 299);
			}
	sampler_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_plain),
		cmocka_unit_test(test_top_p_boundary),
		cmocka_unit_test(test_top_p_fraction),
		cmocka_unit_test(test_no_bias),
		cmocka_unit_test(test_bias_setting),
		cmocka_unit_test(test_degenerate),
	};

	return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
