/* The sparsity view: a row whose counts are known, against what must stand there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

enum { LAYERS = 4 };

/* Layer 3 has no feed-forward of this kind. */
static struct timeline counted(int64_t since, int64_t rows)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct tl_sparsity *s = &t.request[0].sparsity;

	free(s->share);
	*s = (struct tl_sparsity){ .step = t.last_step, .pos = 41, .since = since, .rows = rows };
	s->mark = 0.02;
	s->n_layers = LAYERS;
	s->share = malloc(LAYERS * EV_N_sparse * sizeof *s->share);
	for (int32_t l = 0; l < LAYERS; l++)
		for (int k = 0; k < EV_N_sparse; k++)
			s->share[l * EV_N_sparse + k] =
				k < EV_SPARSE_inner_1 ? 0.1f
				: l == 3              ? NAN
						 : (float[]){ .8f, .4f, .2f, .1f, .5f, .4f, .7f }[k - EV_SPARSE_inner_1];
	return t;
}

static char *drawn(const struct timeline *t, int64_t request, int w, int h)
{
	struct view_state s = fresh;

	s.request = request;
	return text_of(&view_sparsity, t, &s, w, h, false);
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in\n%s", words, text);
}

static void what_is_small(void **state)
{
	struct timeline t = counted(1, 1);
	char *text = drawn(&t, 1, 80, 24);

	(void)state;
	has(text, "feed-forward's inner       80 %     40 %     20 %     10 %");
	has(text, "attention's output         10 %     10 %");
	has(text, "inner, at least 0.02: 50 % · as one token before: 40 % (by chance 33 %)");
	has(text, "request a, position 41");
	assert_null(strstr(text, "any of"));
	free(text);
	timeline_free(&t);
	t = counted(8, 3);
	text = drawn(&t, 1, 120, 10); /* two rows for four layers */
	has(text, "as 8 before: 40 %");
	has(text, "any of 3 rows: 70 %");
	has(text, "0–");
	free(text);
	text = drawn(&t, 1, 60, 7); /* the least that is asked for */
	has(text, "inner, at least");
	free(text);
	timeline_free(&t);
}

static void nothing_counted(void **state)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	char *text;

	(void)state;
	free(t.request[0].sparsity.share);
	t.request[0].sparsity = (struct tl_sparsity){ .step = EV_NULL_I };
	text = drawn(&t, 1, 80, 24);
	has(text, "attention is near zero, by layer");
	free(text);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_small),
		cmocka_unit_test(nothing_counted),
	};

	return cmocka_run_group_tests_name("view_sparsity", tests, NULL, NULL);
}
