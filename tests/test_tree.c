/* Trees of drafts: whatever is guessed, in whatever shape, a request gives the tokens and the hashes of plain
 * decoding, and every node's row is that of its own path. The drafter here knows the text, puts it on a random branch,
 * breaks it off at a random place, and fills the rest with chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/engine_impl.h"
#include "tests/cuda_shim/shim.h"
#include "tests/tiny.h"

enum { REQUESTS = 7, TOKENS = 40, PROMPT = 60 };

struct told {
	int32_t id[TOKENS], n;
	int64_t hash[TOKENS];
};

struct drafter { /* of this test */
	const struct told *truth;
	int64_t seen_pos[REQUESTS + 1];
	int32_t n_nodes;
	uint32_t chance;
	int n_learned;
};

struct world {
	struct engine *e;
	struct told r[REQUESTS + 1];
	int n_accepted, n_rejected, n_unread, n_branches, n_finished, n_other;
};

static char *model_path;
static const char *mode; /* of a device */

static uint32_t next(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token) {
		struct told *r = &w->r[ev->u.token.request];

		assert_true(r->n < TOKENS);
		r->id[r->n] = (int32_t)ev->u.token.id;
		r->hash[r->n++] = ev->u.token.hash;
	} else if (ev->kind == EV_draft) {
		w->n_accepted += ev->u.draft.verdict == EV_VERDICT_accepted;
		w->n_rejected += ev->u.draft.verdict == EV_VERDICT_rejected;
		w->n_other += ev->u.draft.other == EV_VERDICT_accepted || ev->u.draft.other == EV_VERDICT_rejected;
		w->n_unread += ev->u.draft.verdict == EV_VERDICT_unread;
		w->n_branches += ev->u.draft.parent != ev->u.draft.nth - 1;
	} else if (ev->kind == EV_finish) {
		w->n_finished++;
	}
}

/* The truth hangs, token by token, at random places among chance. */
static void grow(struct drafter *d, const struct draft_job *job)
{
	const struct told *t = &d->truth[job->request];
	int32_t at = job->n - job->n_prompt, good = -1, n = 1 + (int32_t)(next(&d->chance) % (uint32_t)job->nodes);
	int32_t ahead = 0;

	job->out->n = 0;
	for (int32_t i = 0; i < n; i++) {
		bool tell_truth = next(&d->chance) % 3 && ahead < job->depth && at + ahead < t->n;
		int32_t parent = (int32_t)(next(&d->chance) % (uint32_t)(i + 1)) - 1;

		if (tell_truth) {
			good = draft_add(job->out, good, t->id[at + ahead++], 1);
		} else {
			draft_add(job->out, parent, (int32_t)(next(&d->chance) % 64), 1);
		}
	}
	d->n_nodes += n;
}

static int propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++)
		grow(d, &job[i]);
	return 0;
}

/* Each position is told once, in order, and the rows are the step's. */
static int learn(struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++) {
		int64_t *pos = &d->seen_pos[seen[i].request];

		assert_true(seen[i].pos <= *pos || *pos == 0); /* the first may come from the cache */
		*pos = seen[i].pos + seen[i].n_rows;
		assert_true(*pos == seen[i].n || *pos == seen[i].n - 1);
		for (int32_t r = 1; r < seen[i].n_rows; r++)
			assert_true(seen[i].row[r] > seen[i].row[r - 1]);
		assert_true(!seen[i].draft || seen[i].n_kept == seen[i].n_rows - 1);
		d->n_learned++;
	}
	return 0;
}

static int32_t width(const struct drafter *d)
{
	(void)d;
	return DRAFT_NODES;
}

static void shut(struct drafter *d)
{
	(void)d;
}

static const struct draft_ops oracle = { .name = "oracle", .propose = propose, .learn = learn, .width = width,
										 .close = shut };

static void world_open(struct world *w, const char *backend, int32_t threads, int32_t page_size, int32_t pages)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	o.model = model_path;
	o.backend = backend;
	o.cuda_mode = mode;
	o.threads = threads;
	o.ctx = 256;
	o.slots = 4;
	o.page_size = page_size;
	o.pages = pages;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void submit_all(struct world *w)
{
	for (int which = 1; which <= REQUESTS; which++) {
		struct sample_params p = SAMPLE_DEFAULTS;
		uint32_t s = 5000u + (uint32_t)(which % 3);
		int32_t ids[PROMPT + REQUESTS];
		struct engine_request q = { .kind = EV_REQUEST_KIND_run, .ids = ids, .n_ids = PROMPT + which,
									.max_tokens = TOKENS - which, .sample = which, .ignore_end = true };
		struct err err = { 0 };

		for (int i = 0; i < q.n_ids; i++)
			ids[i] = (int32_t)(next(&s) % (uint32_t)engine_info(w->e)->vocab);
		p.temperature = which % 2 ? 0 : 1.2f;
		p.repeat_penalty = which % 4 ? 1 : 1.1f;
		q.params = p;
		if (engine_submit(w->e, &q, &err) < 0)
			fail_msg("%s", err.text);
	}
}

static void run_all(struct world *w)
{
	struct err err = { 0 };
	int steps = 0;

	while (engine_step(w->e, &err) > 0) {
		engine_check(w->e);
		assert_true(++steps < 5000);
	}
	assert_int_equal(err.code, 0);
	assert_int_equal(w->n_finished, REQUESTS);
}

static void compare(const struct world *plain, const struct world *w)
{
	for (int i = 1; i <= REQUESTS; i++) {
		assert_int_equal(w->r[i].n, plain->r[i].n);
		assert_memory_equal(w->r[i].id, plain->r[i].id, sizeof w->r[i].id);
		assert_memory_equal(w->r[i].hash, plain->r[i].hash, sizeof w->r[i].hash);
	}
}

/* The device is the shim's (tests/cuda_shim). */
static bool find_device(void)
{
	const char *why;

	if (!shim_use(&why)) {
		print_message("no device: %s\n", why);
		return false;
	}
	return true;
}

/* Requests at temperature 0 alone: by rejection the others have other texts, of the same distribution. */
static void compare_greedy(const struct world *plain, const struct world *w)
{
	for (int i = 1; i <= REQUESTS; i += 2) {
		assert_int_equal(w->r[i].n, plain->r[i].n);
		assert_memory_equal(w->r[i].id, plain->r[i].id, sizeof w->r[i].id);
		assert_memory_equal(w->r[i].hash, plain->r[i].hash, sizeof w->r[i].hash);
	}
}

/* The drafters of the table that need no file. */
static void with_drafter(const struct world *plain, const char *spec, const char *rule, int32_t page_size,
						 int32_t pages)
{
	static struct world w;
	struct err err = { 0 };

	world_open(&w, "cpu", 2, page_size, pages);
	if (engine_set_spec(w.e, spec, &err) || engine_set(w.e, "rule", rule, &err))
		fail_msg("%s", err.text);
	submit_all(&w);
	run_all(&w);
	engine_close(w.e);
	if (!strcmp(rule, "race"))
		compare(plain, &w);
	else
		compare_greedy(plain, &w);
	assert_true(w.n_rejected > 5);
	assert_true(w.n_other > 5);
}

static void test_drafters(void **state)
{
	static const char *const specs[] = { "ngram:4,1,4", "ngram:5,1,4,4", "ngram:4,1,3,pool", "ngram:6,1,4,3,pool",
										 "jacobi", "jacobi:9", "lookahead", "lookahead:4,4,3", "lookahead:6,3,8",
										 "lookahead:1,5,4" };
	static struct world plain;

	(void)state;
	world_open(&plain, "ref", 1, 16, 64);
	submit_all(&plain);
	run_all(&plain);
	engine_close(plain.e);
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
		with_drafter(&plain, specs[i], "race", i % 2 ? 16 : 64, i % 2 ? 64 : 16);
		with_drafter(&plain, specs[i], "rejection", i % 2 ? 64 : 16, i % 2 ? 16 : 64);
		with_drafter(&plain, specs[i], "race", 16, 20); /* pages run short */
	}
}

static void with_trees(const struct world *plain, const char *backend, int32_t threads, int32_t page_size,
					   int32_t pages, uint32_t seed)
{
	static struct world w;
	struct drafter d = { .truth = plain->r, .chance = seed };
	struct err err = { 0 };

	world_open(&w, backend, threads, page_size, pages);
	if (engine_set_spec(w.e, "ngram", &err))
		fail_msg("%s", err.text);
	w.e->draft_ops->close(w.e->drafter);
	w.e->draft_ops = &oracle;
	w.e->drafter = &d;
	submit_all(&w);
	run_all(&w);
	engine_close(w.e);
	compare(plain, &w);
	assert_true(w.n_accepted > 40 && w.n_rejected > 20 && w.n_unread > 20 && w.n_branches > 20);
	assert_true(d.n_learned > 0);
}

static void test_device(void **state)
{
	static const char *const modes[] = { "launches", "graph", "persistent" };
	static struct world plain;

	(void)state;
	if (!find_device())
		skip();
	world_open(&plain, "ref", 1, 16, 64);
	submit_all(&plain);
	run_all(&plain);
	engine_close(plain.e);
	for (uint32_t i = 0; i < 3; i++) {
		mode = modes[i];
		with_trees(&plain, "cuda", 1, i ? 32 : 16, 64, 20 + i);
	}
	mode = NULL;
}

static void test_trees(void **state)
{
	static struct world plain;

	(void)state;
	world_open(&plain, "ref", 1, 16, 64);
	submit_all(&plain);
	run_all(&plain);
	engine_close(plain.e);
	with_trees(&plain, "ref", 1, 16, 64, 1);
	for (uint32_t seed = 2; seed < 8; seed++)
		with_trees(&plain, "cpu", 1 + (int32_t)seed % 3, seed % 2 ? 32 : 16, 64, seed);
	with_trees(&plain, "cpu", 2, 64, 16, 9);
	with_trees(&plain, "cpu", 2, 16, 16, 10); /* pages run short: preemption between */
}

static void test_prune(void **state)
{
	uint32_t chance = 3;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct draft t = { 0 };
		int32_t n = (int32_t)(next(&chance) % (DRAFT_NODES + 1)), nodes = 1 + (int32_t)(next(&chance) % 40);
		int32_t depth = 1 + (int32_t)(next(&chance) % 8), leaves = 1 + (int32_t)(next(&chance) % 8);
		int8_t branch[DRAFT_NODES];

		for (int32_t i = 0; i < n; i++)
			draft_add(&t, (int32_t)(next(&chance) % (uint32_t)(i + 1)) - 1, (int32_t)(next(&chance) % 5), 1);
		draft_prune(&t, nodes, depth, leaves);
		assert_true(t.n <= nodes && draft_reach(&t) <= depth && draft_branches(&t, branch) < leaves);
		assert_true(!n || t.n > 0);
		for (int32_t i = 0; i < t.n; i++) {
			assert_true(t.parent[i] < i);
			for (int32_t j = 0; j < i; j++)
				assert_false(t.parent[i] == t.parent[j] && t.id[i] == t.id[j]);
		}
	}
}

static int setup(void **state)
{
	struct tiny_options o = TINY_DEFAULTS;
	struct err err = { 0 };

	(void)state;
	model_path = tiny_temp(&o, &err);
	return model_path ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	unlink(model_path);
	free(model_path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_prune), cmocka_unit_test(test_trees),
										 cmocka_unit_test(test_drafters),
										 cmocka_unit_test(test_device) };

	return cmocka_run_group_tests(tests, setup, teardown);
}
