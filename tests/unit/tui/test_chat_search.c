/* /search: what people type is what the engine reads. The whole way, with a screen, is in
 * tests/program/screens.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tui/chat/chat.h"

static void forms_are_one(void **state)
{
	static const char *const same[][2] = { { "beam 4", "beam:4" }, { "beam:4", "beam:4" },
		{ "beam 4 0.6", "beam:4,0.6" }, { "beam:4,0.6", "beam:4,0.6" }, { " best   8 ", "best:8" },
		{ "mcts 32 3 16", "mcts:32,3,16" }, { "mcts: 32, 3", "mcts:32,3" }, { "off", "off" },
		{ "best", "best" }, { "", "" } };
	char out[CHAT_SEARCH_METHOD], long_one[200];

	(void)state;
	for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
		assert_int_equal(chat_search_form(same[i][0], out), 0);
		assert_string_equal(out, same[i][1]);
	}
	memset(long_one, 'a', sizeof long_one - 1);
	for (size_t n = 0; n < sizeof long_one; n++) {
		long_one[n] = '\0';
		assert_int_equal(chat_search_form(long_one, out), n + 2 > CHAT_SEARCH_METHOD ? -1 : 0);
		assert_true(n + 2 > CHAT_SEARCH_METHOD || !strcmp(out, long_one));
		long_one[n] = 'a';
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(forms_are_one) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
