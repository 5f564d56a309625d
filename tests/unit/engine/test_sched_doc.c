/* docs/scheduling.md has a section for every policy. Its table is held by
 * tests/program/test_load.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sched/policy.h"

static const char path[] = "docs/scheduling.md";

static void test_sections(void **state)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 16), head[40];

	(void)state;
	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	for (int p = 0; sched_policies[p]; p++) {
		snprintf(head, sizeof head, "\n## `%s`\n", sched_policies[p]->name);
		if (!strstr(text, head))
			fail_msg("%s has no section of %s", path, sched_policies[p]->name);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_sections) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
