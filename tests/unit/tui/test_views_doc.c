/* docs/views.md is what the help texts of the views say, in short.
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

static const char head[] =
	"# The views\n\n"
	"What each picture beside the chat shows, why it matters, and what to try: the beginnings of\n"
	"their help. F1 in the program has all of it, mark by mark. Ctrl-O goes from the prompt to "
	"the\n"
	"views, 1 to 9 choose one, 0 the others in turn, Enter zooms, Esc goes one step back. All "
	"views\n"
	"read recorded events alone, so they look the same in a replay.\n";

static bool begins(const char *line, const char *with)
{
	return !strncmp(line, with, strlen(with));
}

/* Of a help text the first paragraph, why it matters, and what to try. */
static void write_view(FILE *f, int number, const struct view *v)
{
	bool first = true;

	fprintf(f, "\n## %d · %s\n", number, v->name);
	for (const char *line = v->help; *line;) {
		const int n = (int)strcspn(line, "\n");

		first = first && n;
		if (begins(line, "Why it matters:"))
			fprintf(f, "- **Why it matters:**%.*s\n", n - 15, line + 15);
		else if (begins(line, "Try:"))
			fprintf(f, "- **Try:**%.*s\n", n - 4, line + 4);
		else if (first) /* a list of marks follows in the help */
			fprintf(f, "%.*s%s\n", n - (line[n - 1] == ':'), line, line[n - 1] == ':' ? "." : "");
		line += n + (line[n] == '\n');
	}
}

/* malloc'd */
static char *doc_text(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs(head, f);
	for (int i = 0; views[i]; i++)
		write_view(f, i + 1, views[i]);
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
