/* docs/views.md is what the help texts of the views say.
 *
 *     build/tests/test_views_doc --write      writes docs/views.md anew */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/views/views.h"

#define DOC "docs/views.md"
#define HEAD                                                                                           \
	"# The views\n\n"                                                                                  \
	"What each picture beside the chat shows, why it matters, and what to try. F1 says the same in\n"  \
	"the program. Ctrl-O goes from the prompt to the views, 1 to 9 choose one, 0 the others in\n"      \
	"turn, Enter lets it fill the screen, Esc goes one step back, and Ctrl-O returns to the prompt.\n" \
	"The view that has the keys wears a bright bar. All views read recorded events alone, so that\n"   \
	"they look the same in a replay.\n"

/* A line that begins small and has a colon is an item of a list; one that begins large is a
 * sentence. */
static void write_line(FILE *f, const char *line, int n)
{
	int term = (int)strcspn(line, ":\n");
	bool head = term < n && term < 28, item = head && !(*line >= 'A' && *line <= 'Z');

	if (!n)
		fprintf(f, "\n");
	else if (head && !strncmp(line, "Why it matters", 14))
		fprintf(f, "**Why it matters:**%.*s\n", n - term - 1, line + term + 1);
	else if (head && !strncmp(line, "Try", 3))
		fprintf(f, "**Try:**%.*s\n", n - term - 1, line + term + 1);
	else if (item)
		fprintf(f, "- **%.*s**:%.*s\n", term, line, n - term - 1, line + term + 1);
	else
		fprintf(f, "%.*s\n", n, line);
}

/* malloc'd */
static char *doc_text(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs(HEAD, f);
	for (int i = 0; views[i]; i++) {
		fprintf(f, "\n## %d · %s\n\n", i + 1, views[i]->name);
		for (const char *line = views[i]->help; *line;) {
			int n = (int)strcspn(line, "\n");

			write_line(f, line, n);
			line += n + (line[n] == '\n');
		}
	}
	assert_int_equal(fclose(f), 0);
	return text;
}

static void the_document_says_what_the_views_say(void **state)
{
	char *want = doc_text(), *have = calloc(1, strlen(want) + 2);
	FILE *f = fopen(DOC, "r");

	(void)state;
	assert_non_null(have);
	if (!f)
		fail_msg("%s cannot be read; `build/tests/test_views_doc --write` makes it", DOC);
	have[fread(have, 1, strlen(want) + 1, f)] = '\0';
	fclose(f);
	if (strcmp(have, want) != 0)
		fail_msg("%s is old; `build/tests/test_views_doc --write` makes it anew", DOC);
	free(have);
	free(want);
}

static void each_view_explains_itself(void **state)
{
	(void)state;
	for (int i = 0; views[i]; i++) {
		assert_int_equal(views[i]->index, i);
		assert_non_null(strstr(views[i]->help, "Try: "));
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_document_says_what_the_views_say),
		cmocka_unit_test(each_view_explains_itself),
	};

	if (argc > 1 && !strcmp(argv[1], "--write")) {
		char *text = doc_text();
		FILE *f = fopen(DOC, "w");
		int failed = !f || fputs(text, f) < 0;

		failed |= f && fclose(f);
		free(text);
		return failed;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
