/* The cost view: two answers of known cost side by side, against what must stand there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/view_check.h"
#include "tui/views/views.h"

/* The requests of the made-up session get costs as with the cache, but for the last two tokens or
 * more of `without`. */
static struct timeline costs(int64_t without)
{
	struct timeline t = demo_timeline(DEMO_CHAT_STEPS);

	for (int32_t i = 0; i < t.n_requests; i++) {
		struct tl_request *r = &t.request[i];

		for (int32_t k = 0; k < r->n_tokens; k++) {
			int64_t pos = r->token[k].pos, all = pos * (pos + 1) / 2;
			bool again = !k || r->id == without;

			r->token[k].rows = again ? pos : 1;
			r->token[k].pairs = again ? all : pos;
			r->token[k].ns = again ? 1000000 * pos : 4000000;
		}
	}
	return t;
}

static char *drawn(const struct timeline *t, int64_t request, int w, int h)
{
	struct view_state s = fresh;

	s.request = request;
	return text_of(&view_cost, t, &s, w, h, false);
}

static void has(char *text, const char *words)
{
	if (!strstr(text, words))
		fail_msg("\"%s\" is not in\n%s", words, text);
}

static void both_kinds_side_by_side(void **state)
{
	struct timeline t = costs(1);
	const struct tl_request *with = &t.request[1], *without = &t.request[0];
	int64_t a = with->token[with->n_tokens - 1].pos, b = without->token[without->n_tokens - 1].pos;
	char *text = drawn(&t, 2, 80, 20), line[100];

	(void)state;
	assert_true(without->id == 1 && with->id == 2 && with->n_tokens > 2 && without->n_tokens > 2);
	has(text, "a without cache, b with it");
	snprintf(line, sizeof line, "newest: T%15lld%12lld", (long long)a, (long long)b);
	has(text, line);
	snprintf(line, sizeof line, "  rows%18d%12lld", 1, (long long)b);
	has(text, line);
	snprintf(line, sizeof line, "%lld.0 ms", (long long)b);
	has(text, line);
	snprintf(line, sizeof line, "%lld", (long long)(a % 1000));
	has(text, line);
	has(text, "T²/2 and T³/6");
	has(text, "×");
	has(text, "•");
	free(text);
	timeline_free(&t);
}

static void one_kind_or_none(void **state)
{
	struct timeline t = costs(0);
	char *text = drawn(&t, 2, 60, 8);
	const struct view_waiting engine = { .paused = false };
	struct view_state live = fresh;

	(void)state;
	live.waiting = &engine;
	has(text, "–");
	has(text, "… 3 more lines: /view cost, then /zoom");
	free(text);
	assert_shows(&view_cost, &t, &live, 60, 11, "/kv-cache off, /new and ask: without\n", true);
	assert_shows(&view_cost, &t, &fresh, 60, 11, "/kv-cache", false); /* nobody asks in a replay */
	timeline_free(&t);
	t = demo_timeline(0);
	text = drawn(&t, 0, 60, 8);
	has(text, "no answer of two tokens");
	free(text);
	timeline_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_kinds_side_by_side),
		cmocka_unit_test(one_kind_or_none),
	};

	return cmocka_run_group_tests_name("view_cost", tests, NULL, NULL);
}
