/* The price view: an answer whose price is known, against what must stand there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

enum { NATS = 1000000000 };

/* Request 1: each token costs 1 nat of lossy surprise and 2 of the exact row; every fifth has
 * another best token there, and 0.5 nats of KL, the others 0.1. Steps of the twin move twice the
 * bytes. */
static struct timeline priced(void)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);
	struct tl_request *r = &t.request[0];

	for (int32_t i = 0; i < r->n_tokens; i++)
		r->token[i].price = (struct tl_price){ .kl = i % 5 ? NATS / 10 : NATS / 2,
			.lossy = NATS,
			.exact = 2 * (int64_t)NATS,
			.best = 5,
			.exact_best = i % 5 ? 5 : 6,
			.rank = i % 5 ? 1 : 3 };
	for (int32_t i = 0; i < t.n_steps; i++) {
		struct ev_step *s = &t.step[i].s;

		s->twin_rows = s->rows;
		s->twin_bytes = 2 * s->bytes;
		s->twin_ops = s->ops;
		s->twin_ns = s->kernel_ns;
	}
	return t;
}

static char *drawn(const struct timeline *t, int64_t request, int w, int h)
{
	struct view_state s = fresh;

	s.request = request;
	return text_of(&view_price, t, &s, w, h, false);
}

static void has(const char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in\n%s", words, text);
}

static void what_it_costs_and_saves(void **state)
{
	struct timeline t = priced();
	const int32_t n = t.request[0].n_tokens, parts = (n + 4) / 5;
	char *text = drawn(&t, 1, 120, 40), line[100];

	(void)state;
	assert_true(n > 9 && n % 5);
	snprintf(line, sizeof line, "exact · KL %.3g nats a token · best equal in %d of %d",
		(0.5 * parts + 0.1 * (n - parts)) / n, (int)(n - parts), (int)n);
	has(text, line);
	has(text, "perplexity                   2.718       7.389");
	has(text, "50 % of the exact");
	has(text, "100 % of the exact");
	has(text, "best token differs");
	has(text, "lossy best");
	has(text, "  0.5     3"); /* KL and rank of one that parts */
	free(text);
	text = drawn(&t, 1, 44, 4); /* the least that is asked for */
	has(text, "perplexity");
	free(text);
	timeline_free(&t);
}

static void lossy_settings_are_named(void **state)
{
	struct timeline t = priced();
	struct event ev;
	char *text;

	(void)state;
	ev_init(&ev, EV_setting);
	ev.seq = t.last_seq + 1;
	ev.t_ns = t.last_t_ns;
	ev.u.setting.name = ev_text("cache-format");
	ev.u.setting.value = ev_text("e4m3");
	timeline_fold(&t, &ev);
	text = drawn(&t, 1, 120, 40);
	has(text, "cache-format e4m3 · KL");
	free(text);
	timeline_free(&t);
}

static void without_a_twin_it_says_how_to_get_one(void **state)
{
	struct timeline t = priced();
	char *text = drawn(&t, 2, 80, 24);

	(void)state;
	has(text, "what lossy settings cost at each token: /twin on");
	free(text);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_costs_and_saves),
		cmocka_unit_test(lossy_settings_are_named),
		cmocka_unit_test(without_a_twin_it_says_how_to_get_one),
	};

	return cmocka_run_group_tests_name("view_price", tests, NULL, NULL);
}
