/* The bytes in docs/parallel.md are those of the formula, which test_exchanged.c holds against what
 * is counted; the sheet of formulas shows them; and hostile shapes give no number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fold/formulas_exchange.h"
#include "fold/formulas_sheet.h"

struct shape {
	const char *name;
	int32_t layers, dim, kv_heads, kv_dim, inner, vocab;
};
static const struct shape models[] = { { "SmolLM2-135M", 30, 576, 3, 192, 1536, 49152 },
	{ "Llama-3-8B", 32, 4096, 8, 1024, 14336, 128256 } };
static const char *const forms[] = { "q8", "f32", "f16" };

static void tell(struct timeline *t, struct event *ev)
{
	ev->seq = t->last_seq + 1;
	ev->t_ns = ev->seq;
	timeline_fold(t, ev);
}

static void tell_product(struct timeline *t, int stage, int64_t inputs, int64_t outputs, int64_t n)
{
	struct event ev;

	ev_init(&ev, EV_product);
	ev.u.product = (struct ev_product){ .stage = stage,
		.format = ev_text("Q4_1"),
		.inputs = inputs,
		.outputs = outputs,
		.n = n,
		.bytes = inputs * outputs * n * 5 / 8,
		.row_bytes = 1 };
	tell(t, &ev);
}

static void tell_setting(struct timeline *t, const char *name, const char *value)
{
	struct event ev;

	ev_init(&ev, EV_setting);
	ev.u.setting.name = ev_text(name);
	ev.u.setting.value = ev_text(value);
	tell(t, &ev);
}

static struct timeline session_of(const struct shape *m, int32_t ranks, const char *form)
{
	struct timeline t;
	struct event ev;

	timeline_init(&t);
	ev_init(&ev, EV_session);
	ev.u.session.n_layers = m->layers;
	ev.u.session.n_kv_heads = m->kv_heads;
	ev.u.session.head_dim = m->kv_dim / m->kv_heads;
	ev.u.session.weight_bytes = 80000000;
	ev.u.session.read_bandwidth = 10e9;
	tell(&t, &ev);
	tell_product(&t, EV_STAGE_qkv, m->dim, m->dim, m->layers);
	tell_product(&t, EV_STAGE_qkv, m->dim, m->kv_dim, 2 * m->layers);
	tell_product(&t, EV_STAGE_out, m->dim, m->dim, m->layers);
	tell_product(&t, EV_STAGE_gate_up, m->dim, m->inner, 2 * m->layers);
	tell_product(&t, EV_STAGE_down, m->inner, m->dim, m->layers);
	tell_product(&t, EV_STAGE_head, m->dim, m->vocab, 1);
	tell_setting(&t, "exchange", form);
	for (int32_t i = 0; i < ranks; i++) {
		ev_init(&ev, EV_rank);
		ev.u.rank.rank = ev.u.rank.part = i;
		tell(&t, &ev);
	}
	assert_int_equal(t.n_odd, 0);
	return t;
}

static char *document(void)
{
	FILE *f = fopen("docs/parallel.md", "rb");
	char *text = calloc(1, 1 << 16);

	assert_true(f && text);
	text[fread(text, 1, (1 << 16) - 1, f)] = '\0';
	fclose(f);
	return text;
}

static void rows_of_the_document(void **state)
{
	static const int32_t ranks[2][3] = { { 2, 3, 4 }, { 2, 4, 8 } };
	char *text = document();
	int missing = 0;

	(void)state;
	for (int m = 0; m < 2; m++)
		for (int r = 0; r < 3; r++) {
			char row[128];
			size_t at =
				(size_t)snprintf(row, sizeof row, "| %s | %d |", models[m].name, ranks[m][r]);

			for (int i = 0; i < 3; i++) {
				struct timeline t = session_of(&models[m], ranks[m][r], forms[i]);
				const struct formula_split of = formula_split_of(&t, 1, 1);

				assert_true(formula_is_dense(&of));
				at += (size_t)snprintf(row + at, sizeof row - at, " %.0f |",
					(double)formula_exchanged_bytes(&of) / 1e3);
				timeline_free(&t);
			}
			if (strstr(text, row))
				continue;
			print_error("docs/parallel.md has no row %s\n", row);
			missing++;
		}
	free(text);
	assert_int_equal(missing, 0);
}

static const struct formula_line *labelled(const struct formula_sheet *s, const char *label)
{
	for (int i = 0; i < s->n; i++)
		if (!strncmp(s->line[i].label, label, strlen(label)))
			return &s->line[i];
	return NULL;
}

static void tell_step(struct timeline *t, int64_t step, bool watched)
{
	static const uint32_t lane[] = { 1, 2 };
	static const struct ev_stage_time time = { EV_STAGE_head, 1000000, 1000, 1000 };
	struct event ev;

	for (int64_t rank = 0; rank < t->n_ranks; rank++) {
		ev_init(&ev, EV_traffic);
		ev.u.traffic = (struct ev_traffic){ .step = step,
			.rank = rank,
			.exchange_ns = 7000000,
			.exchanges = 121,
			.sent = watched ? 1000000
					: rank  ? 213504
							: 109440,
			.start_ns = 0 };
		if (watched)
			ev.u.traffic.lane = (struct ev_span){ lane, sizeof lane };
		tell(t, &ev);
	}
	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ step, { &time, sizeof time } };
	tell(t, &ev);
	ev_init(&ev, EV_step);
	ev.u.step = (struct ev_step){
		.step = step, .ns = 9000000, .rows = 1, .decode_rows = 1, .tokens = 1, .running = 1
	};
	tell(t, &ev);
}

/* Counted of SmolLM2-135M on two ranks: what the program said of it. */
static void beside_it_what_was_counted(void **state)
{
	struct timeline t = session_of(&models[0], 2, "q8");
	const struct formula_line *l;
	struct formula_sheet s;

	(void)state;
	tell_step(&t, 1, false);
	tell_step(&t, 2, true);
	formula_sheet(&t, 0, (struct formula_knobs){ .drafts = -1 }, &s);
	l = labelled(&s, "sent a token by 2 ranks");
	assert_non_null(l);
	assert_true(l->formula == 109440 + 213504);
	assert_true(!s.predicted && l->seen == l->formula);
	l = labelled(&s, "exchanges a step");
	assert_true(l && l->formula == 121);
	assert_true(isnan(labelled(&s, "time in exchanges")->formula)); /* what link, nobody said */
	tell_setting(&t, "link", "100mbit,200us");
	formula_sheet(&t, 0, (struct formula_knobs){ .drafts = -1 }, &s);
	l = labelled(&s, "time in exchanges");
	assert_true(fabs(l->formula - (121 * 200e3 + 213504 / 12.5e6 * 1e9)) < 1);
	l = labelled(&s, "which pays");
	assert_true(l && l->formula > 0);
	timeline_free(&t);
}

static void one_rank_sends_nothing(void **state)
{
	struct timeline t = session_of(&models[0], 0, "q8");
	struct formula_sheet s;

	(void)state;
	formula_sheet(&t, 0, (struct formula_knobs){ .drafts = -1 }, &s);
	assert_null(labelled(&s, "sent a token"));
	timeline_free(&t);
}

/* Of a mixture, and of numbers that no model has, nothing is said. */
static void unknown_shapes_have_no_number(void **state)
{
	struct shape odd = models[1];
	struct timeline t;
	struct formula_split of;

	(void)state;
	t = session_of(&models[1], 2, "q8");
	of = formula_split_of(&t, 1, 1);
	assert_true(formula_is_dense(&of));
	t.product[2].each_row = true;
	assert_false(formula_is_dense(&of));
	t.product[2].each_row = false;
	t.rank[1].has.stage = 1; /* a pipeline sends other things */
	of = formula_split_of(&t, 1, 1);
	assert_false(formula_is_dense(&of));
	timeline_free(&t);
	odd.inner = INT32_MAX;
	t = session_of(&odd, 64, "f32");
	of = formula_split_of(&t, INT64_MAX, 1);
	assert_false(formula_is_dense(&of));
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_the_document),
		cmocka_unit_test(beside_it_what_was_counted),
		cmocka_unit_test(one_rank_sends_nothing),
		cmocka_unit_test(unknown_shapes_have_no_number),
	};

	return cmocka_run_group_tests_name("parallel_doc", tests, NULL, NULL);
}
