/* See bench_search.h. */
#include "cli/bench_search.h"

#include <math.h>
#include <stdio.h>

#include "sessions/bench_search.h"

static void print(const struct bench_search *r)
{
	printf("%s, %s, %d threads, %d slots, pages of %d; %d prompts, answers of at most 64 tokens\n\n", r->info.name, r->isa,
		   r->info.threads, r->info.slots, r->page_size, r->n ? r->line[0].pairs : 0);
	printf("%-16s %8s %8s %8s  %-36s  %-12s  %s\n", "search", "answers", "tokens", "tok/s",
		   "against one after another", "an answer", "pages at most, unshared, saved");
	for (int i = 0; i < r->n; i++) {
		const struct bench_search_line *l = &r->line[i];

		printf("%-16s %8.1f %8.1f %8.1f  %6.2fx (%.2f .. %.2f)%15s  %5.1f plain  %8.1f %8.1f %6.1f %%\n", l->method,
			   l->answers / l->pairs, l->tokens / l->pairs, l->tok_s, l->speed, l->low, l->high, "", l->answer,
			   l->pages, l->unshared, 100 * l->saved);
	}
}

static void print_json(const struct bench_search *r)
{
	printf("{\"searches\":[");
	for (int i = 0; i < r->n; i++) {
		const struct bench_search_line *l = &r->line[i];

		printf("%s{\"method\":\"%s\",\"pairs\":%d,\"answers\":%.6g,\"steps\":%.6g,\"tokens\":%.6g,\"tok_s\":%.6g,"
			   "\"speed\":%.6g,\"low\":%.6g,\"high\":%.6g,\"answer\":%.6g,\"pages\":%.6g,\"unshared\":%.6g,\"saved\":",
			   i ? "," : "", l->method, l->pairs, l->answers, l->steps, l->tokens, l->tok_s, l->speed, l->low, l->high,
			   l->answer, l->pages, l->unshared);
		printf(isfinite(l->saved) ? "%.6g}" : "null}", l->saved);
	}
	printf("]}\n");
}

int bench_search(const struct cli *c, const char *list, const struct engine_options *o, void (*tell)(void *arg, const char *what),
				 struct err *e)
{
	struct bench_search r;
	int status = bench_search_run(o, list, tell, NULL, &r, e);

	if (tell)
		fprintf(stderr, "\r\033[K");
	if (!status && c->json)
		print_json(&r);
	else if (!status)
		print(&r);
	return status;
}
