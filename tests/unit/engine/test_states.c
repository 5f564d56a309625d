/* Models whose layers keep states, 8,192 tokens long: going back to any position, and a prompt that
 * shares a beginning, compute one page's tokens again at most, to the same bits, where the pool has
 * a snapshot for each page. In a smaller one the bytes stay within the setting, and what is
 * computed again within twice the tokens over the snapshots (prefix.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "tests/support/invariants.h"
#include "tests/support/thorough.h"

enum { CTX = 8448, LONG = 8192, PAGE = 16, N_PROMPT = 24, IN_USE = 8 };
#define FEW_MB 1.0f

struct world {
	struct engine *e;
	int64_t hash[2][CTX]; /* as it came first; as it came last */
	int32_t id[CTX];
	int end;
	int64_t recompute, rows;             /* of the last rewind; of prompts, since the last look */
	int64_t n_snapshots, snapshot_bytes; /* of the pool of states */
	int64_t reason;                      /* of the last lookup */
};

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token) {
		const struct ev_token *t = &ev->u.token;

		w->id[t->pos] = (int32_t)t->id;
		if (!w->hash[0][t->pos])
			w->hash[0][t->pos] = t->hash;
		w->hash[1][t->pos] = t->hash;
		w->end = (int)t->pos + 1;
	} else if (ev->kind == EV_step) {
		w->rows += ev->u.step.prefill_rows;
	} else if (ev->kind == EV_rewind) {
		w->recompute = ev->u.rewind.recompute;
		w->end = (int)ev->u.rewind.kept;
	} else if (ev->kind == EV_lookup) {
		w->reason = ev->u.lookup.reason;
	} else if (ev->kind == EV_memory && ev->u.memory.kind == EV_MEMORY_KIND_recurrent) {
		w->n_snapshots = ev->u.memory.pages;
		w->snapshot_bytes = ev->u.memory.page_bytes;
	}
}

/* The file, made for sequences of CTX tokens. */
static void open_long(struct world *w, const char *name, float state_memory)
{
	char from[96], key[64], path[] = "/tmp/cutaway-states-XXXXXX";
	static char data[1 << 20];
	struct engine_options o = ENGINE_DEFAULTS;
	const uint32_t ctx = CTX;
	struct err err = { 0 };
	int fd = mkstemp(path);
	size_t n;
	FILE *f;
	char *at;

	snprintf(from, sizeof from, "tests/data/zoo/%s.gguf", name);
	snprintf(key, sizeof key, "%s.context_length", name);
	f = fopen(from, "rb");
	assert_non_null(f);
	n = fread(data, 1, sizeof data, f);
	fclose(f);
	at = memmem(data, n, key, strlen(key));
	assert_non_null(at);
	memcpy(at + strlen(key) + 4, &ctx, sizeof ctx);
	assert_true(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	close(fd);
	memset(w, 0, sizeof *w);
	o.model = path;
	o.threads = 1;
	o.slots = 2;
	o.ctx = CTX;
	o.packed_cache = "off";
	o.state_memory = state_memory;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s", err.text);
	unlink(path);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

static void submit(struct world *w, const int32_t *ids, int n, int n_new)
{
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = n,
		.max_tokens = n_new,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true };
	struct err err = { 0 };

	q.params.temperature = 0.9f;
	q.params.seed = 7;
	if (engine_submit(w->e, &q, &err) < 1)
		fail_msg("%s", err.text);
}

static void step(struct world *w)
{
	struct err err = { 0 };

	if (engine_step(w->e, &err) < 0)
		fail_msg("%s", err.text);
}

/* Back to `keep` and on for two pages: what came before comes again. */
static void back(struct world *w, int keep, int64_t most)
{
	struct err err = { 0 };
	int end = keep + 2 * PAGE < LONG ? keep + 2 * PAGE : LONG;

	w->rows = 0;
	assert_int_equal(engine_rewind(w->e, 1, keep, -1, &err), 0);
	engine_check(w->e);
	while (w->end < end)
		step(w);
	engine_check(w->e);
	for (int p = keep; p < end; p++)
		assert_true(w->hash[0][p] == w->hash[1][p]);
	if (w->recompute > most)
		fail_msg(
			"back to %d: %d tokens computed again, not %d", keep, (int)w->recompute, (int)most);
}

/* A prompt of the first n tokens, which are known. */
static void ask(struct world *w, int n, int64_t most)
{
	w->rows = 0;
	submit(w, w->id, n, 1);
	while (!engine_idle(w->e))
		step(w);
	engine_check(w->e);
	assert_true(w->hash[1][n] == w->hash[0][n]);
	if (w->rows > most)
		fail_msg("%d tokens: %d computed, not %d", n, (int)w->rows, (int)most);
	assert_true(most > PAGE || w->reason == EV_PREFIX_hit || w->reason == EV_PREFIX_tail);
}

/* So many tokens are computed again at most, with the snapshots that are not in use. */
static int64_t most_again(const struct world *w)
{
	return PAGE * (1 + 2 * (LONG / PAGE) / (w->n_snapshots - IN_USE));
}

static void run(const char *name, float state_memory)
{
	static const int keeps[] = { 8191, 8177, 8176, 8000, 6001, 4097, 4096, 1000, 333, 49, 25 };
	static const int shares[] = { 8100, 5000, 4096, 4095, 100, 31 };
	static struct world w;
	int64_t most = PAGE;

	open_long(&w, name, state_memory);
	for (int i = 0; i < N_PROMPT; i++)
		w.id[i] = 3 + i * 37 % 200;
	submit(&w, w.id, N_PROMPT, CTX - N_PROMPT);
	while (w.end < LONG)
		step(&w);
	if (state_memory) {
		assert_in_range(w.n_snapshots * w.snapshot_bytes, 1, (int64_t)(state_memory * (1 << 20)));
		most = most_again(&w);
	}
	for (size_t i = 0; i < sizeof keeps / sizeof *keeps; i++)
		back(&w, keeps[i], most);
	assert_int_equal(engine_cancel(w.e, 1), 1);
	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
		ask(&w, shares[i], most);
	engine_close(w.e);
}

/* The models without a limit take long: in a run of the day, that with the one is enough. */
static void test_all(void **state)
{
	if (!wants_all())
		skip();
	run(*state, 0);
}

static void test_few(void **state)
{
	run(*state, FEW_MB);
}

int main(void)
{
	static char *const names[] = { "mamba2", "jamba" };
	enum { N = sizeof names / sizeof *names };
	struct CMUnitTest tests[N + 1] = { { "few", test_few, NULL, NULL, names[0] } };

	for (size_t i = 0; i < N; i++)
		tests[i + 1] = (struct CMUnitTest){
			.name = names[i], .test_func = test_all, .initial_state = names[i]
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
