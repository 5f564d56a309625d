/* See bench_search.h. */
#include "sessions/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/search.h"
#include "sessions/bench_prompts.h"
#include "sessions/session.h"

enum { TOKENS = 64, MOST_SAMPLES = 8 };
#define METHODS "best:8+beam:4+mcts:32"

struct run {
	double tokens, steps, ns;
};

struct sums { /* of one method */
	struct run with;
	double pages, unshared; /* of all steps */
};

struct bench {
	struct session session;
	struct engine *engine; /* the session's */
	struct run now;
	struct sums sum;
	char list[256];
	double ratio[BENCH_SEARCH_PROMPTS];
};

static void on_event(void *arg, const struct event *ev)
{
	struct bench *b = arg;

	if (ev->kind == EV_token && ev->u.token.source != EV_SOURCE_taken) {
		b->now.tokens++;
	} else if (ev->kind == EV_step) {
		b->now.steps++;
		b->now.ns += (double)ev->u.step.ns;
	}
}

static struct engine_request request_of(const int32_t *ids, size_t n)
{
	return (struct engine_request){ .kind = EV_REQUEST_KIND_load, .ids = ids, .n_ids = (int32_t)n, .max_tokens = TOKENS,
									.params = SAMPLE_DEFAULTS, .text = "bench" };
}

/* One after the other, and nothing shared. */
static int run_plain(struct bench *b, const int32_t *ids, size_t n, int samples, struct run *out, struct err *e)
{
	int more = 0;

	memset(&b->now, 0, sizeof b->now);
	if (engine_set(b->engine, "prefix-cache", "off", e))
		return -1;
	for (int i = 0; i < samples; i++) {
		struct engine_request q = request_of(ids, n);

		q.sample = i;
		if (engine_submit(b->engine, &q, e) < 0)
			return -1;
		while ((more = engine_step(b->engine, e)) > 0)
			;
		if (more < 0)
			return -1;
	}
	*out = b->now;
	return 0;
}

static int run_search(struct bench *b, const char *method, const int32_t *ids, size_t n, struct run *out,
					  struct search_view *v, struct err *e)
{
	const struct search_options o = { .method = method };
	struct engine_request q = request_of(ids, n);
	int64_t id;

	memset(&b->now, 0, sizeof b->now);
	if (engine_set(b->engine, "prefix-cache", "on", e) || (id = engine_search(b->engine, &o, &q, e)) < 0)
		return -1;
	while (engine_search_look(b->engine, id, v) && !v->done)
		if (engine_step(b->engine, e) < 0)
			return -1;
	*out = b->now;
	engine_search_close(b->engine, id);
	return v->err.code ? err_set(e, v->err.code, "%s", v->err.text) : 0;
}

/* Branches at once: what stands first behind the name, a tree's are as many as the slots. */
static int branches_of(const struct bench *b, const char *method)
{
	const char *colon = strchr(method, ':');
	long n = strncmp(method, "mcts", 4) && colon ? strtol(colon + 1, NULL, 10) : engine_info(b->engine)->slots;

	return n < 1 ? 1 : n > MOST_SAMPLES ? MOST_SAMPLES : (int)n;
}

static int measure_pair(struct bench *b, struct bench_search_line *l, const struct bench_prompt *p, struct err *e)
{
	int samples = branches_of(b, l->method);
	struct search_view v = { 0 };
	struct run plain, with;
	int32_t *ids;
	size_t n;
	int rc = bench_prompt_encode(p, b->engine, &ids, &n, e) || run_plain(b, ids, n, samples, &plain, e) ||
			 run_search(b, l->method, ids, n, &with, &v, e);

	free(ids);
	if (rc)
		return -1;
	b->ratio[l->pairs++] = with.tokens / with.ns / (plain.tokens / plain.ns);
	l->answers += v.n_answers;
	b->sum.with.steps += with.steps;
	b->sum.with.tokens += with.tokens;
	b->sum.with.ns += with.ns;
	l->answer += with.ns / (plain.ns / samples);
	l->pages += v.most_pages;
	l->unshared += v.most_unshared;
	b->sum.pages += (double)v.pages;
	b->sum.unshared += (double)v.unshared;
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void report(struct bench *b, struct bench_search_line *l)
{
	int n = l->pairs;

	l->saved = b->sum.unshared > 0 ? 1 - b->sum.pages / b->sum.unshared : (double)NAN;
	l->steps = b->sum.with.steps;
	l->tokens = b->sum.with.tokens;
	qsort(b->ratio, (size_t)n, sizeof *b->ratio, by_value);
	l->speed = n % 2 ? b->ratio[n / 2] : (b->ratio[n / 2 - 1] + b->ratio[n / 2]) / 2;
	l->low = b->ratio[0];
	l->high = b->ratio[n - 1];
	l->tok_s = 1e9 * l->tokens / b->sum.with.ns;
	l->answer /= n;
	l->pages /= n;
	l->unshared /= n;
}

static int measure(struct bench *b, const struct bench_prompts *prompts, struct bench_search_line *l, struct err *e)
{
	memset(&b->sum, 0, sizeof b->sum);
	for (int i = 0; i < prompts->n && i < BENCH_SEARCH_PROMPTS; i++)
		if (measure_pair(b, l, &prompts->prompt[i], e))
			return -1;
	report(b, l);
	return 0;
}

static int cut_list(struct bench *b, const char *list, struct bench_search *out, struct err *e)
{
	if (snprintf(b->list, sizeof b->list, "%s", *list ? list : METHODS) >= (int)sizeof b->list)
		return err_set(e, ERR_USAGE, "bench: the list of searches is too long");
	for (char *at = b->list, *next; at; at = next) {
		struct search_options o = { .method = at };

		next = strchr(at, '+');
		if (next)
			*next++ = '\0';
		if (out->n == BENCH_SEARCHES)
			return err_set(e, ERR_USAGE, "bench: at most %d searches", BENCH_SEARCHES);
		if (engine_search_check(b->engine, &o, e))
			return -1;
		if (strlen(at) >= sizeof out->line->method)
			return err_set(e, ERR_USAGE, "bench: '%.40s…' is too long", at);
		memcpy(out->line[out->n++].method, at, strlen(at) + 1);
	}
	return 0;
}

static int run_all(struct bench *b, const char *list, void (*tell)(void *arg, const char *what), void *arg,
				   struct bench_search *out, struct err *e)
{
	struct bench_prompts prompts;

	if (session_begin(&b->session, NULL, NULL, e))
		return -1;
	b->engine = b->session.engine;
	out->info = *engine_info(b->engine);
	out->page_size = engine_state(b->engine).page_size;
	snprintf(out->isa, sizeof out->isa, "%s", out->info.isa);
	bench_prompts_read(&prompts);
	bench_prompts_mix(&prompts);
	if (cut_list(b, list, out, e))
		return -1;
	for (int i = 0; i < out->n; i++) {
		if (tell)
			tell(arg, out->line[i].method);
		if (measure(b, &prompts, &out->line[i], e))
			return -1;
	}
	return 0;
}

int bench_search_run(const struct engine_options *o, const char *list, void (*tell)(void *arg, const char *what),
					 void *arg, struct bench_search *out, struct err *e)
{
	struct bench *b = calloc(1, sizeof *b);
	int rc = -1;

	memset(out, 0, sizeof *out);
	if (!b)
		return err_set(e, ERR_MEMORY, "no memory for the bench");
	if (!session_open(&b->session, &(struct session_options){ .engine = *o, .sink = on_event, .arg = b }, e))
		rc = run_all(b, list, tell, arg, out, e);
	session_close(&b->session, NULL);
	free(b);
	return rc;
}
