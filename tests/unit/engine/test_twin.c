/* The exact twin: of an exact request it gives every row again, bit by bit, whatever the company,
 * the pages, the drafts and the chunks; of a lossy one the rows that an exact engine computes for
 * the same tokens. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine_impl.h"
#include "engine/observe/twin.h"
#include "kernels/cpu/isa.h"
#include "tests/support/tiny.h"

enum { REQUESTS = 12, TOKENS = 24, MOST = 1024 };

struct row {
	int64_t request, pos, id, hash;
	double kl, logp, exact_logp;
	int64_t rank, best, exact_best;
};
struct world {
	struct engine *e;
	struct row token[MOST], price[MOST], score[MOST];
	int n_tokens, n_prices, n_scores, n_accepted, n_preempts;
	int64_t twin_rows;
	char setting[512]; /* twin, as the log has it */
};

static char model_path[64];

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token && ev->u.token.source != EV_SOURCE_forced) {
		const struct ev_token *k = &ev->u.token;
		w->token[w->n_tokens++ % MOST] =
			(struct row){ .request = k->request, .pos = k->pos, .id = k->id, .hash = k->hash };
	} else if (ev->kind == EV_price) {
		const struct ev_price *k = &ev->u.price;
		w->price[w->n_prices++ % MOST] = (struct row){ k->request, k->pos, k->id, k->hash, k->kl,
			k->logp, k->exact_logp, k->rank, k->best, k->exact_best };
	} else if (ev->kind == EV_score) {
		const struct ev_score *k = &ev->u.score;
		w->score[w->n_scores++ % MOST] =
			(struct row){ k->request, k->pos, k->id, k->hash, .logp = k->logp };
	} else if (ev->kind == EV_step && ev->u.step.twin_rows != EV_NULL_I) {
		w->twin_rows += ev->u.step.twin_rows;
		assert_true(ev->u.step.twin_ns >= 0 && ev->u.step.twin_ns <= ev->u.step.ns);
	}
	if (ev->kind == EV_setting && ev_is(ev->u.setting.name, "twin"))
		ev_copy(w->setting, sizeof w->setting, ev->u.setting.value);
	w->n_preempts += ev->kind == EV_preempt;
	w->n_accepted += ev->kind == EV_draft && ev->u.draft.verdict == EV_VERDICT_accepted;
}

static struct engine_options options(void)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = model_path;
	o.threads = 1;
	o.ctx = 256;
	o.pages = 64;
	o.slots = 4;
	o.twin = "on";
	return o;
}

static void world_open(struct world *w, const struct engine_options *o)
{
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	if (engine_open(&w->e, o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void set(struct world *w, const char *name, const char *value)
{
	struct err err = { 0 };

	if (engine_set(w->e, name, value, &err))
		fail_msg("%s", err.text);
}

/* Half of them begin alike; the text repeats itself, so that n-grams guess. */
static void submit(struct world *w, int which)
{
	int32_t ids[64], n = 9 + which * 3;
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = n,
		.max_tokens = TOKENS,
		.params = SAMPLE_DEFAULTS,
		.sample = which,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };

	q.params.temperature = which % 3 ? 0.8f : 0;
	q.params.seed = 7;
	for (int i = 0; i < n; i++)
		ids[i] = 10 + (i * 7 + (i > 8 ? which % 2 : 0)) % 40;
	if (engine_submit(w->e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

static void run_all(struct world *w)
{
	struct err err = { 0 };
	int more;

	for (int i = 0; i < REQUESTS; i++)
		submit(w, i);
	while ((more = engine_step(w->e, &err)) > 0)
		;
	if (more < 0)
		fail_msg("%s", err.text);
}

static const struct row *price_of_token(const struct world *w, const struct row *k)
{
	for (int i = 0; i < w->n_prices; i++)
		if (w->price[i].request == k->request && w->price[i].pos == k->pos)
			return &w->price[i];
	return NULL;
}

static void check_exact(const struct world *w)
{
	assert_int_equal(w->n_tokens, REQUESTS * TOKENS);
	assert_int_equal(w->n_prices, w->n_tokens);
	for (int i = 0; i < w->n_tokens; i++) {
		const struct row *p = price_of_token(w, &w->token[i]);

		assert_non_null(p);
		assert_int_equal(p->id, w->token[i].id);
		assert_true(p->hash == w->token[i].hash && p->kl == 0 && p->logp == p->exact_logp);
		assert_true(p->best == p->exact_best && p->rank >= 1);
		assert_true((p->rank == 1) == (p->id == p->exact_best));
	}
}

/* ---- what an exact request has for a twin ---- */

static void exact_rows_are_equal(void **state)
{
	static const char *const specs[] = { "off", "ngram:4", "ngram:4,1,4,3" };
	static const struct {
		int32_t slots, pages, chunk;
	} shapes[] = { { 4, 64, 128 }, { 1, 64, 0 }, { 4, 9, 5 } };
	static struct world w, plain;

	(void)state;
	for (size_t i = 0; i < 3 * sizeof shapes / sizeof *shapes; i++) {
		struct engine_options o = options();

		o.slots = shapes[i / 3].slots;
		o.pages = shapes[i / 3].pages;
		o.prefill_chunk = shapes[i / 3].chunk;
		o.spec = specs[i % 3];
		world_open(&w, &o);
		run_all(&w);
		check_exact(&w);
		assert_true(w.twin_rows > 0 && (i % 3 == 0 || w.n_accepted > 0));
		assert_true(o.pages > 9 || w.n_preempts > 0);
		o.twin = "off"; /* and it changes nothing */
		world_open(&plain, &o);
		run_all(&plain);
		assert_int_equal(plain.n_prices, 0);
		assert_memory_equal(plain.token, w.token, sizeof plain.token);
		engine_close(plain.e);
		engine_close(w.e);
	}
}

static void without_cache_too(void **state)
{
	static struct world w;
	struct engine_options o = options();

	(void)state;
	world_open(&w, &o);
	set(&w, "kv-cache", "off");
	run_all(&w);
	check_exact(&w);
	engine_close(w.e);
}

/* ---- a lossy one ---- */

/* The tokens of a request as an exact engine scores them. */
static void score(struct world *w, const struct world *lossy, int64_t request, int which)
{
	int32_t ids[128], n = 9 + which * 3;
	struct engine_request q = {
		.kind = EV_REQUEST_KIND_score, .ids = ids, .params = SAMPLE_DEFAULTS, .text = "test"
	};
	struct err err = { 0 };

	for (int i = 0; i < n; i++)
		ids[i] = 10 + (i * 7 + (i > 8 ? which % 2 : 0)) % 40;
	for (int i = 0; i < lossy->n_tokens; i++)
		if (lossy->token[i].request == request)
			ids[n++] = (int32_t)lossy->token[i].id;
	q.n_ids = n;
	w->n_scores = 0;
	if (engine_submit(w->e, &q, &err) < 0)
		fail_msg("%s", err.text);
	while (engine_step(w->e, &err) > 0)
		;
}

static void check_lossy(const struct world *lossy, const struct world *exact, int64_t request)
{
	int n = 0;

	for (int i = 0; i < exact->n_scores; i++) {
		const struct row like = { .request = request, .pos = exact->score[i].pos };
		const struct row *p = price_of_token(lossy, &like);

		if (!p)
			continue;
		assert_true(p->hash == exact->score[i].hash);
		assert_true(fabs(p->exact_logp - exact->score[i].logp) < 1e-9);
		assert_true(p->kl >= -1e-12 && p->kl < 50);
		n++;
	}
	assert_int_equal(n, TOKENS);
}

static void lossy_rows_have_the_exact_ones(void **state)
{
	static const char *const setting[][2] = { { "cache-format", "e4m3" },
		{ "visible", "window:16" }, { "skip-below", "0.2" }, { "activations", "int8-token" },
		{ "activations", "e5m2" }, { "weights", "4-bit/32" } };
	static struct world w, exact;
	struct engine_options o = options();

	(void)state;
	for (int i = 0; i < 6; i++) {
		double sum = 0;

		world_open(&w, &o);
		set(&w, setting[i][0], setting[i][1]);
		run_all(&w);
		assert_int_equal(w.n_prices, REQUESTS * TOKENS);
		o.twin = "off";
		world_open(&exact, &o);
		for (int r = 0; r < REQUESTS; r++) {
			score(&exact, &w, r + 1, r);
			check_lossy(&w, &exact, r + 1);
		}
		for (int k = 0; k < w.n_prices; k++)
			sum += w.price[k].kl;
		assert_true(sum > 0.001);
		engine_close(exact.e);
		engine_close(w.e);
		o.twin = "on";
	}
}

static void given_tokens_have_a_price(void **state)
{
	static struct world w, none;
	struct engine_options o = options();

	(void)state;
	memset(&none, 0, sizeof none);
	world_open(&w, &o);
	set(&w, "cache-format", "e4m3");
	score(&w, &none, 1, REQUESTS - 1);
	assert_int_equal(w.n_prices, w.n_scores);
	for (int i = 0; i < w.n_scores; i++) {
		assert_int_equal(w.price[i].pos, w.score[i].pos);
		assert_true(fabs(w.price[i].logp - w.score[i].logp) < 1e-9);
	}
	engine_close(w.e);
}

/* ---- the setting ---- */

static void refusals_leave_it_as_it_is(void **state)
{
	static struct world w;
	struct engine_options o = options();
	struct err err = { 0 };
	char value[64];

	(void)state;
	world_open(&w, &o);
	assert_int_equal(engine_set(w.e, "twin", "/no/such/file.gguf", &err), -1);
	engine_get(w.e, "twin", value, sizeof value);
	assert_string_equal(value, "on");
	run_all(&w);
	check_exact(&w);
	set(&w, "twin", "off");
	engine_close(w.e);
	o.model = "tests/data/zoo/mamba.gguf";
	err = (struct err){ 0 };
	assert_int_equal(engine_open(&w.e, &o, &err), -1);
	assert_non_null(strstr(err.text, "no twin for this model: its layers keep states"));
}

/* The same weights under another name give the same rows. */
static void a_file_of_its_own(void **state)
{
	static struct world w;
	struct engine_options o = options();
	struct tiny_options other = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path;

	(void)state;
	o.twin = model_path;
	world_open(&w, &o);
	run_all(&w);
	check_exact(&w);
	engine_close(w.e);
	other.seed = 2;
	path = tiny_temp(&other, &err);
	assert_non_null(path);
	o.twin = path;
	world_open(&w, &o);
	run_all(&w);
	assert_int_equal(w.n_prices, REQUESTS * TOKENS);
	for (int i = 0; i < w.n_prices; i++)
		assert_true(w.price[i].kl > 0.01);
	engine_close(w.e);
	unlink(path);
	free(path);
}

/* ---- the figures, by their definition ---- */

static struct k_logit_stats stats_of(const float *row, int n)
{
	struct k_logit_stats s;

	k_ref_stats_row(row, n, &s);
	return s;
}

static void figures_follow_the_definition(void **state)
{
	enum { N = 100 };
	float p[N], q[N];
	double zp = 0, zq = 0, kl = 0;
	struct k_logit_stats of_p, of_q;
	struct price out;

	(void)state;
	for (int i = 0; i < N; i++) {
		p[i] = (float)((i * 37 % N) - 50) / 10;
		q[i] = p[i] + (float)(i * 11 % 7 - 3) / 4;
		zp += exp((double)p[i]);
		zq += exp((double)q[i]);
	}
	for (int i = 0; i < N; i++)
		kl += exp((double)p[i]) / zp * ((double)p[i] - log(zp) - (double)q[i] + log(zq));
	of_p = stats_of(p, N);
	of_q = stats_of(q, N);
	out = price_of(p, &of_p, q, &of_q, N, 5);
	assert_true(fabs(out.kl - kl) < 1e-6);
	assert_true(fabs(out.exact_logp - ((double)p[5] - log(zp))) < 1e-6);
	assert_true(fabs(out.logp - ((double)q[5] - log(zq))) < 1e-6);
	assert_int_equal(out.rank, 100 - 5 * 37 % N);
	q[0] = q[1] = q[2] = 9; /* equal ones are in the order of their ids */
	of_q = stats_of(q, N);
	assert_int_equal(price_of(q, &of_q, q, &of_q, N, 2).rank, 3);
	assert_true(price_of(q, &of_q, q, &of_q, N, 2).kl == 0);
}

static int setup(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err err = { 0 };
	char *path = tiny_temp(&o, &err);

	(void)state;
	if (!path)
		return -1;
	snprintf(model_path, sizeof model_path, "%s", path);
	free(path);
	return 0;
}

static void the_log_has_the_whole_name(void **state)
{
	static struct world w;
	struct engine_options o = options();
	char path[400] = "";

	(void)state;
	while (strlen(path) < 300)
		strcat(path, "/.");
	strcat(path, model_path);
	world_open(&w, &o);
	set(&w, "twin", path);
	assert_string_equal(w.setting, path);
	engine_close(w.e);
}

static int teardown(void **state)
{
	(void)state;
	unlink(model_path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_rows_are_equal),
		cmocka_unit_test(without_cache_too),
		cmocka_unit_test(lossy_rows_have_the_exact_ones),
		cmocka_unit_test(given_tokens_have_a_price),
		cmocka_unit_test(refusals_leave_it_as_it_is),
		cmocka_unit_test(a_file_of_its_own),
		cmocka_unit_test(the_log_has_the_whole_name),
		cmocka_unit_test(figures_follow_the_definition),
	};

	return cmocka_run_group_tests_name("twin", tests, setup, teardown);
}
