/* What ranks send each other is what the formula says of the shapes, byte by byte: counted by the
 * transport, over ranks, forms, formats of weights, and one row and several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/core/engine.h"
#include "fold/formulas_exchange.h"
#include "fold/formulas_sheet.h"
#include "tests/support/tiny.h"

static struct {
	struct timeline t;
	int32_t compared, several, prompts; /* steps, of several rows, of prompts */
	int32_t lanes;
	bool leaves_out; /* columns of zeros: the formula is not of that */
} w;

/* Of its times every second one is of computing: all that was counted. */
static void check_lane(const struct ev_traffic *e)
{
	const size_t n = e->lane.size / sizeof(uint32_t);
	uint32_t lane[TL_LANE];
	int64_t sum[2] = { 0, 0 };

	if (!n || n >= TL_LANE)
		return;
	memcpy(lane, e->lane.data, e->lane.size);
	for (size_t i = 0; i < n; i++)
		sum[i % 2] += lane[i];
	assert_int_equal(sum[0], e->compute_ns);
	assert_true(sum[1] >= e->exchange_ns);
	w.lanes++;
}

static void compare(const struct tl_step *s)
{
	/* without drafts a row whose logits are wanted becomes a token */
	const struct formula_split of = formula_split_of(&w.t, s->s.rows, s->s.tokens);

	assert_int_equal(formula_is_dense(&of), !w.leaves_out);
	assert_int_equal(s->n_traffic, w.t.n_ranks);
	for (int32_t i = 0; w.leaves_out && i < s->n_traffic; i++)
		w.several += w.t.traffic[s->traffic_at + i].sent > 0;
	if (w.leaves_out)
		return;
	for (int32_t i = 0; i < s->n_traffic; i++) {
		const struct tl_traffic *did = &w.t.traffic[s->traffic_at + i];
		const struct formula_exchanged x = formula_exchanged(&of, i);

		if (did->watched)
			return;
		if (did->sent != x.sent || did->exchanges != x.exchanges)
			fail_msg("step %d of %d rows, rank %d of %d: %lld bytes in %lld exchanges, and the "
					 "formula says %lld in %lld",
				(int)s->s.step, (int)s->s.rows, i, w.t.n_ranks, (long long)did->sent,
				(long long)did->exchanges, (long long)x.sent, (long long)x.exchanges);
	}
	w.compared++;
	w.several += s->s.rows > 1;
	w.prompts += s->s.prefill_rows > 0;
}

static void on_event(void *arg, const struct event *ev)
{
	timeline_fold(&w.t, ev);
	if (ev->kind == EV_traffic)
		check_lane(&ev->u.traffic);
	if (ev->kind == EV_step && arg)
		compare(timeline_last_step(&w.t));
}

static void ask(struct engine *e, int32_t n, int32_t seed)
{
	int32_t ids[96];
	struct engine_request q = { .kind = EV_REQUEST_KIND_load,
		.ids = ids,
		.n_ids = n,
		.max_tokens = 6 + seed,
		.params = SAMPLE_DEFAULTS,
		.text = "test",
		.ignore_end = true };
	struct err err = { 0 };

	for (int32_t i = 0; i < n; i++)
		ids[i] = 5 + (i * 7 + seed * 31) % 200;
	if (engine_submit(e, &q, &err) < 0)
		fail_msg("%s", err.text);
}

/* formula: whether it is asked. */
static void run_with(const struct tiny_options *tiny, struct engine_options o, bool formula)
{
	struct engine *e;
	struct err err = { 0 };
	char *path = tiny_temp(tiny, &err);

	assert_non_null(path);
	memset(&w, 0, sizeof w);
	w.leaves_out = o.skip_zeros || o.skip_below > 0;
	o.model = path;
	o.threads = 1;
	o.ctx = 160;
	o.prefill_chunk = 20;
	if (engine_open(&e, &o, &err))
		fail_msg("%s", err.text);
	engine_add_sink(e, on_event, formula ? &w : NULL);
	engine_begin(e, NULL);
	for (int32_t i = 0; i < 3; i++)
		ask(e, 9 + 34 * i, i);
	while (!engine_idle(e))
		if (engine_step(e, &err) < 0)
			fail_msg("%s", err.text);
	engine_close(e);
	assert_true(w.t.n_odd == 0 && w.lanes > 1);
	assert_true(!w.leaves_out || w.several > 0);
	timeline_free(&w.t);
	unlink(path);
	free(path);
}

static void run(const struct tiny_options *tiny, int32_t ranks, const char *form)
{
	struct engine_options o = ENGINE_DEFAULTS;

	o.tensor_parallel = ranks;
	o.exchange = form;
	o.attention_every = 1000;
	run_with(tiny, o, true);
	assert_true(w.compared > 6 && w.several > 3 && w.prompts > 0);
}

static void every_form(const struct tiny_options *tiny)
{
	static const char *const forms[] = { "q8", "f32", "f16" };

	for (int32_t ranks = 2; ranks <= 3; ranks++)
		for (int i = 0; i < 3; i++)
			run(tiny, ranks, forms[i]);
}

static struct tiny_options split_by_heads(void)
{
	struct tiny_options tiny = TINY_DEFAULTS;

	tiny.dim = 192;
	tiny.heads = 6; /* of 32 */
	tiny.kv_heads = 3;
	tiny.ffn = 160;   /* five blocks: parts differ */
	tiny.vocab = 530; /* a last block that is not whole */
	return tiny;
}

static void by_heads(void **state)
{
	const struct tiny_options tiny = split_by_heads();

	(void)state;
	every_form(&tiny);
}

/* Two heads of keys and values for three ranks; heads of 16, which are no whole blocks. */
static void by_outputs(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;

	(void)state;
	tiny.dim = 128;
	every_form(&tiny);
	tiny.heads = 8;
	every_form(&tiny);
}

static void what_is_too_narrow_stays_whole(void **state)
{
	struct tiny_options tiny = TINY_DEFAULTS;

	(void)state;
	every_form(&tiny);
}

static void weights_of_floats_want_floats(void **state)
{
	struct tiny_options tiny = split_by_heads();

	(void)state;
	tiny.type = K_F32;
	every_form(&tiny);
	tiny.type = K_F16;
	run(&tiny, 2, "q8");
}

/* Of other ways to split, too, a lane tells computing from exchanging. */
static void lanes_go_by_turns(void **state)
{
	const struct tiny_options tiny = split_by_heads();
	struct engine_options o = ENGINE_DEFAULTS;

	(void)state;
	o.pipeline_parallel = 2;
	run_with(&tiny, o, false);
	o.tensor_parallel = 2;
	run_with(&tiny, o, false);
	o.tensor_parallel = o.pipeline_parallel = 1;
	o.sequence_parallel = 2;
	run_with(&tiny, o, false);
}

static void what_leaves_columns_out_is_not_predicted(void **state)
{
	const struct tiny_options tiny = split_by_heads();
	struct engine_options o = ENGINE_DEFAULTS;

	(void)state;
	o.tensor_parallel = 2;
	o.skip_zeros = true;
	run_with(&tiny, o, true);
	o.skip_zeros = false;
	o.skip_below = 0.01f;
	run_with(&tiny, o, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_heads),
		cmocka_unit_test(what_leaves_columns_out_is_not_predicted),
		cmocka_unit_test(by_outputs),
		cmocka_unit_test(what_is_too_narrow_stays_whole),
		cmocka_unit_test(weights_of_floats_want_floats),
		cmocka_unit_test(lanes_go_by_turns),
	};

	return cmocka_run_group_tests_name("exchanged", tests, NULL, NULL);
}
