/* Vectors of texts: the final states that the logits are made of, pooled; the same bits in any
 * batch, chunk, page, cache, thread, instruction set and rank; and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "engine/model/gguf.h"
#include "kernels/arith.h"
#include "tests/support/tiny.h"

enum { DIM = 64, CTX = 512, VOCAB = 512, MOST = 400, LAST = 1, MEAN = 2 };

static const int32_t n_ids[] = { 300, 40, 1, 137 };
enum { TEXTS = sizeof n_ids / sizeof *n_ids };

static char *path; /* of F32, so that its rows are products of the vectors alone */

/* What an engine told. Requests of kind embed come last, in the order of the texts. */
struct found {
	float v[TEXTS][DIM];
	int64_t hash[TEXTS], pooling;
	int n, preempted /* while a vector was computed */, hits, handed, finish;
	char why[160];
	/* of the newest score: the row of its last token */
	struct ev_candidate top[SAMPLE_TOP + 1];
	int n_top;
};

static void see(void *arg, const struct event *ev)
{
	const struct ev_embedding *v = &ev->u.embedding;
	struct found *f = arg;

	if (ev->kind == EV_embedding) {
		const int64_t at = (v->request - 1) % TEXTS;

		assert_int_equal(v->vector.size, sizeof f->v[0]);
		memcpy(f->v[at], v->vector.data, v->vector.size);
		f->hash[at] = v->hash;
		f->pooling = v->pooling;
		f->n++;
	} else if (ev->kind == EV_score) {
		f->n_top = (int)(ev->u.score.candidates.size / sizeof *f->top);
		memcpy(f->top, ev->u.score.candidates.data, ev->u.score.candidates.size);
	} else if (ev->kind == EV_finish) {
		f->finish = (int)ev->u.finish.reason;
		snprintf(f->why, sizeof f->why, "%.*s", (int)ev->u.finish.why.size,
			ev->u.finish.why.data ? (const char *)ev->u.finish.why.data : "");
	}
	f->preempted +=
		ev->kind == EV_preempt && ev->u.preempt.request > TEXTS && ev->u.preempt.tokens > 0;
	f->handed += ev->kind == EV_handover;
	f->hits += ev->kind == EV_lookup && ev->u.lookup.hit > 0;
}

static void fill(int32_t ids[MOST], int text)
{
	for (int i = 0; i < MOST; i++)
		ids[i] = 3 + (i * i * 37 + i * 11 + text * 53) % 250;
}

static struct engine *open_engine(const struct engine_options *o, struct found *f)
{
	struct err err = { 0 };
	struct engine *e;

	memset(f, 0, sizeof *f);
	if (engine_open(&e, o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, see, f);
	engine_begin(e, NULL);
	return e;
}

static int64_t submit(struct engine *e, enum ev_code_request_kind kind, const int32_t *ids,
	int32_t n, int pooling, struct err *err)
{
	const struct engine_request q = { .kind = kind,
		.ids = ids,
		.n_ids = n,
		.max_tokens = 40,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true,
		.pooling = pooling,
		.top = kind == EV_REQUEST_KIND_score ? SAMPLE_TOP : 0 };

	return engine_submit(e, &q, err);
}

static void submit_texts(struct engine *e, enum ev_code_request_kind kind, int pooling)
{
	struct err err = { 0 };
	int32_t ids[MOST];

	for (int i = 0; i < TEXTS; i++) {
		fill(ids, i);
		if (submit(e, kind, ids, n_ids[i], pooling, &err) < 1)
			fail_msg("%s", err.text);
	}
}

static void finish(struct engine *e)
{
	struct err err = { 0 };

	while (!engine_idle(e))
		if (engine_step(e, &err) < 0)
			fail_msg("%s", err.text);
}

static struct engine_options options(void)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.model = path;
	o.ctx = CTX;
	o.threads = 1;
	o.slots = 2 * TEXTS;
	o.packed_cache = "off";
	return o;
}

/* known: their tokens were answered before. company: others are, meanwhile. */
static struct found vectors(const struct engine_options *o, int pooling, bool known, bool company)
{
	struct found f;
	struct engine *e = open_engine(o, &f);
	struct err err = { 0 };
	int32_t ids[MOST];

	if (known) {
		submit_texts(e, EV_REQUEST_KIND_run, 0);
		finish(e);
	}
	for (int i = 0; company && i < TEXTS; i++) {
		fill(ids, i);
		submit(e, EV_REQUEST_KIND_run, ids, 2, 0, &err);
	}
	f.hits = 0;
	submit_texts(e, EV_REQUEST_KIND_embed, pooling);
	finish(e);
	engine_close(e);
	assert_int_equal(f.n, TEXTS);
	assert_int_equal(f.pooling, pooling - 1);
	return f;
}

static void same(const struct found *want, const struct found *got, const char *what, int at)
{
	if (memcmp(want->v, got->v, sizeof want->v) || memcmp(want->hash, got->hash, sizeof want->hash))
		fail_msg("%s, case %d: other bits", what, at);
}

static void test_same_bits(void **state)
{
	(void)state;
	for (int pooling = LAST; pooling <= MEAN; pooling++) {
		struct engine_options o = options();
		const struct found want = vectors(&o, pooling, false, false);
		struct found got;

		for (int i = 0; i < 12; i++) {
			o = options();
			o.prefill_chunk = i == 1 ? 7 : i == 2 ? 0 : -1;
			o.budget = i == 1 ? 16 : i == 2 ? 1024 : 0;
			o.threads = i == 3 ? 3 : 1;
			o.backend = i == 4 ? "ref" : "cpu";
			o.page_size = i == 5 ? 64 : 16;
			o.prefix_cache = i != 6;
			o.kv_cache = i != 7;
			o.tensor_parallel = i == 8 ? 2 : 1;
			o.pipeline_parallel = i == 9 ? 2 : 1;
			o.sequence_parallel = i == 10 ? 2 : 1;
			o.spec = i == 11 ? "ngram:3" : "off";
			got = vectors(&o, pooling, false, i != 0 && i != 6);
			same(&want, &got, "options", i);
		}
		for (const char *const *isa = k_isas(); *isa; isa++) {
			o = options();
			o.isa = *isa;
			got = vectors(&o, pooling, false, true);
			same(&want, &got, *isa, 0);
		}
	}
}

/* Pages of earlier answers, preemption, and ranks that compute prompts. */
static void test_same_bits_again(void **state)
{
	(void)state;
	for (int pooling = LAST; pooling <= MEAN; pooling++) {
		struct engine_options o = options();
		const struct found want = vectors(&o, pooling, false, false);
		struct found got = vectors(&o, pooling, true, false);

		same(&want, &got, "prefix cache", 0);
		assert_int_equal(got.hits > 0, pooling == LAST); /* a mean needs the states of all rows */
		o.pages = 25;
		o.prefill_chunk = 16;
		got = vectors(&o, pooling, false, true);
		same(&want, &got, "few pages", 0);
		assert_true(got.preempted > 0);
		o = options();
		o.prefill_ranks = 1;
		o.prefill_least = 16;
		got = vectors(&o, pooling, false, false);
		same(&want, &got, "prompts elsewhere", 0);
		assert_int_equal(got.handed > 0, pooling == LAST);
	}
}

static double dot(const float *a, const float *b)
{
	double sum = 0;

	for (int d = 0; d < DIM; d++)
		sum += (double)a[d] * (double)b[d];
	return sum;
}

/* The length of the state whose direction is v, of which the row at `top` has the products with the
 * output matrix w; a logit of which it has not is a failure. */
static double length_of(const struct found *f, const float *v, const float *w)
{
	double up = 0, down = 0, most = 0, length;

	assert_true(f->n_top >= SAMPLE_TOP);
	for (int i = 0; i < f->n_top; i++) {
		const double p = dot(v, w + (size_t)f->top[i].id * DIM);

		up += p * (double)f->top[i].logit;
		down += p * p;
	}
	length = up / down;
	for (int i = 0; i < f->n_top; i++)
		most = fmax(
			most, fabs((double)f->top[i].logit - length * dot(v, w + (size_t)f->top[i].id * DIM)));
	if (!(most < 1e-4 * length))
		fail_msg("the logits are off by %g of a state of length %g", most, length);
	return length;
}

/* Logits are products of the state and the output matrix, which the file has as plain floats. So
 * the logits of a score give the state's length, and tell whether its direction is the vector. The
 * mean then follows from all states, one by one. */
static void test_states(void **state)
{
	enum { N = 20 };
	struct engine_options o = options();
	struct err err = { 0 };
	struct gguf *g = NULL;
	double mean[DIM] = { 0 }, squares = 0;
	struct found f;
	struct engine *e = open_engine(&o, &f);
	int32_t ids[MOST];
	const float *w;

	(void)state;
	assert_int_equal(gguf_open(&g, path, &err), 0);
	w = (const float *)(const void *)gguf_find(g, "output.weight")->data;
	fill(ids, 1);
	for (int n = 1; n <= N; n++) {
		const int64_t at = (submit(e, EV_REQUEST_KIND_embed, ids, n, 0, &err) - 1) % TEXTS;
		double length;

		submit(e, EV_REQUEST_KIND_score, ids, n + 1, 0, &err);
		finish(e);
		assert_true(fabs(dot(f.v[at], f.v[at]) - 1) < 1e-6);
		length = length_of(&f, f.v[at], w);
		for (int d = 0; d < DIM; d++)
			mean[d] += length * (double)f.v[at][d];
	}
	for (int d = 0; d < DIM; d++)
		squares += mean[d] * mean[d];
	const float *v = f.v[(submit(e, EV_REQUEST_KIND_embed, ids, N, MEAN, &err) - 1) % TEXTS];

	finish(e);
	for (int d = 0; d < DIM; d++)
		assert_true(fabs((double)v[d] - mean[d] / sqrt(squares)) < 1e-4);
	engine_close(e);
	gguf_close(g);
}

/* The hash is that of rule 14. */
static void test_hash(void **state)
{
	struct engine_options o = options();
	const struct found f = vectors(&o, LAST, false, false);

	(void)state;
	for (int i = 0; i < TEXTS; i++) {
		uint64_t hash = 0;

		for (uint32_t d = 0; d < DIM; d++)
			hash += k_hash_term(k_bits(f.v[i][d]), d);
		assert_true(f.hash[i] == (int64_t)hash);
	}
	assert_true(f.hash[0] != f.hash[1]);
}

/* Nothing is drawn, so a text may fill the context. */
static void test_context(void **state)
{
	struct engine_options o = options();
	struct err err = { 0 };
	int32_t ids[MOST];
	struct found f;
	struct engine *e;

	(void)state;
	fill(ids, 0);
	o.ctx = 64;
	e = open_engine(&o, &f);
	assert_int_equal(submit(e, EV_REQUEST_KIND_embed, ids, 64, LAST, &err), 1);
	finish(e);
	assert_int_equal(f.finish, EV_FINISH_end);
	assert_int_equal(submit(e, EV_REQUEST_KIND_embed, ids, 65, LAST, &err), 2);
	assert_int_equal(f.finish, EV_FINISH_refused);
	assert_non_null(strstr(f.why, "65 tokens do not fit a context of 64"));
	engine_close(e);
}

/* What the file says is obeyed, or refused. */
static void test_file(void **state)
{
	static const struct {
		uint32_t says;
		int pooling;
		const char *why;
	} cases[] = { { 0, LAST, NULL }, { 1, MEAN, NULL }, { 3, LAST, NULL },
		{ 2, 0, "asks for the first token's state" }, { 4, 0, "the head of a ranker" } };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tiny_options t = TINY_DEFAULTS;
		struct engine_options o = options();
		struct err err = { 0 };
		int32_t ids[MOST];
		struct found f;
		struct engine *e;
		char *file;

		fill(ids, 0);
		t.key[0] = (struct tiny_key){ .name = "llama.pooling_type", .value = cases[i].says };
		o.model = file = tiny_temp(&t, &err);
		e = open_engine(&o, &f);
		if (cases[i].why) {
			assert_int_equal(submit(e, EV_REQUEST_KIND_embed, ids, 9, 0, &err), -1);
			assert_non_null(strstr(err.text, cases[i].why));
			assert_int_equal(err.code, ERR_USAGE);
		} else {
			assert_int_equal(submit(e, EV_REQUEST_KIND_embed, ids, 9, 0, &err), 1);
			finish(e);
			assert_int_equal(f.pooling, cases[i].pooling - 1);
		}
		engine_close(e);
		unlink(file);
		free(file);
	}
}

/* Models whose final states are of more than the text. */
static void test_refused(void **state)
{
	static const char *const of[][2] = { { "t5", "encoder-decoder" }, { "llada", "masks" } };
	const int32_t ids[4] = { 5, 6, 7, 8 };

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		struct engine_options o = options();
		struct err err = { 0 };
		char file[64];
		struct found f;
		struct engine *e;

		snprintf(file, sizeof file, "tests/data/zoo/%s.gguf", of[i][0]);
		o.model = file;
		o.ctx = 0;
		e = open_engine(&o, &f);
		assert_int_equal(submit(e, EV_REQUEST_KIND_embed, ids, 4, LAST, &err), -1);
		assert_non_null(strstr(err.text, of[i][1]));
		engine_close(e);
	}
}

static int make_model(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	t.dim = DIM;
	t.layers = 3;
	t.type = t.embd_type = K_F32;
	t.tied = false;
	path = tiny_temp(&t, &err);
	return path ? 0 : -1;
}

static int drop_model(void **state)
{
	(void)state;
	unlink(path);
	free(path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_same_bits),
		cmocka_unit_test(test_same_bits_again), cmocka_unit_test(test_states),
		cmocka_unit_test(test_hash), cmocka_unit_test(test_context), cmocka_unit_test(test_file),
		cmocka_unit_test(test_refused) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, make_model, drop_model);
}
