/* The first table of docs/scheduling.md: three loads under every policy, counted in steps, without
 * a clock. --write: writes it into the document. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/median.h"
#include "tests/support/sched_toy.h"

static const char path[] = "docs/scheduling.md", begin[] = "<!-- measured -->\n",
				  end[] = "<!-- end -->\n";

/* Chats, documents, and bursts. */
static const struct load {
	int32_t one_in, burst;                  /* a step in `one_in` brings `burst` requests */
	int32_t prompt, drawn;                  /* at most */
	int32_t every, long_prompt, long_drawn; /* every so many-th request is long; 0: none */
} loads[] = {
	{ 5, 1, 40, 60, 0, 0, 0 },
	{ 5, 1, 400, 20, 0, 0, 0 },
	{ 60, 10, 30, 30, 10, 300, 100 },
};

enum { SLOTS = 8, PAGES = 200, REQUESTS = 600, N_LOADS = sizeof loads / sizeof *loads };

static void submit_some(struct toy *w, const struct load *l, uint32_t *random)
{
	if (w->n >= REQUESTS || toy_random(random, l->one_in) > 1)
		return;
	for (int i = 0; i < l->burst; i++) {
		struct toy_submission a = { (int32_t)w->n * 600, toy_random(random, l->prompt),
			toy_random(random, l->drawn), toy_random(random, 5) > 1 ? "many" : "few",
			toy_random(random, 4) > 1, 0 };

		if (l->every && w->n % l->every == 0) {
			a.n = l->long_prompt;
			a.drawn = l->long_drawn;
		}
		a.deadline = 4 * (a.n / 32 + a.drawn);
		toy_submit(w, a);
	}
}

enum { WAIT, WAIT_99, WHOLE, WHOLE_99, GAP, IDLE, STEPS, N_FIGURES };

static void measure(const struct load *l, const struct sched_policy *p, double figure[N_FIGURES])
{
	struct toy *w = malloc(sizeof *w);
	double wait[REQUESTS + 16], total[REQUESTS + 16], gap = 0;
	uint32_t random = 20260101;
	int n;

	assert_non_null(w);
	toy_open(w, p->name, SLOTS, PAGES);
	while (w->ended < REQUESTS) {
		submit_some(w, l, &random);
		toy_step(w);
	}
	n = (int)w->n;
	for (int i = 0; i < n; i++) {
		const struct toy_request *r = &w->request[i + 1];

		wait[i] = (double)(r->first - r->arrived);
		total[i] = (double)(r->done - r->arrived);
		gap = (double)r->gap > gap ? (double)r->gap : gap;
	}
	sorted_of(wait, n);
	sorted_of(total, n);
	figure[WAIT] = quantile_of(wait, n, 0.5);
	figure[WAIT_99] = quantile_of(wait, n, 0.99);
	figure[WHOLE] = quantile_of(total, n, 0.5);
	figure[WHOLE_99] = quantile_of(total, n, 0.99);
	figure[GAP] = gap;
	figure[IDLE] = 100 - 100 * (double)w->slot_steps / (double)(SLOTS * w->step);
	figure[STEPS] = (double)w->step;
	toy_close(w);
	free(w);
}

/* Each cell has the figure of every load. */
static void row(FILE *f, const struct sched_policy *p)
{
	double figure[N_LOADS][N_FIGURES];

	for (size_t l = 0; l < N_LOADS; l++)
		measure(&loads[l], p, figure[l]);
	fprintf(f, "| `%s` |", p->name);
	for (int i = 0; i < N_FIGURES; i++) {
		for (size_t l = 0; l < N_LOADS; l++)
			fprintf(f, "%s%.0f", l ? ", " : " ", figure[l][i]);
		fputs(" |", f);
	}
	fputc('\n', f);
}

static char *tables(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fputs(
		"\n| policy | TTFT p50 | p99 | whole p50 | p99 | longest gap | idle slots, % | steps in all |\n"
		"| --- | --- | --- | --- | --- | --- | --- | --- |\n",
		f);
	for (int p = 0; sched_policies[p]; p++)
		row(f, sched_policies[p]);
	fputs("\n", f);
	fclose(f);
	return text;
}

static char *read_document(void)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 16);

	assert_non_null(f);
	assert_non_null(text);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

/* The document tells what is measured. */
static void test_document(void **state)
{
	char *now = tables(), *text = read_document();
	char *from = strstr(text, begin), *to = strstr(text, end);

	(void)state;
	assert_non_null(from);
	assert_non_null(to);
	from += strlen(begin);
	*to = '\0';
	assert_string_equal(from, now);
	free(now);
	free(text);
}

/* A paragraph for each policy. */
static void test_paragraphs(void **state)
{
	char *text = read_document(), head[40];

	(void)state;
	for (int p = 0; sched_policies[p]; p++) {
		snprintf(head, sizeof head, "\n## `%s`\n", sched_policies[p]->name);
		if (!strstr(text, head))
			fail_msg("%s has no paragraph of %s", path, sched_policies[p]->name);
	}
	free(text);
}

static int write_tables(void)
{
	char *now = tables(), *text = read_document();
	char *from = strstr(text, begin), *to = strstr(text, end);
	FILE *f = from && to ? fopen(path, "w") : NULL;

	assert_non_null(f);
	fprintf(f, "%.*s%s%s", (int)(from - text + (ptrdiff_t)strlen(begin)), text, now, to);
	free(now);
	free(text);
	return fclose(f);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_document),
		cmocka_unit_test(test_paragraphs),
	};

	if (argc > 1 && !strcmp(argv[1], "--write"))
		return write_tables();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
