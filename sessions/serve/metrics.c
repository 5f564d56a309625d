/* See metrics.h. */
#include "sessions/serve/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Upper bounds, seconds. */
static const double bound[METRICS_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1,
	0.15, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 20, 40, 80, 160 };

static void add_time(struct metrics_times *t, int64_t ns)
{
	const double s = (double)ns / 1e9;
	int i = 0;

	if (ns == EV_NULL_I)
		return;
	while (i < METRICS_BUCKETS && s > bound[i])
		i++;
	t->count[i]++;
	t->sum += s;
}

static void add_finish(struct metrics *m, const struct ev_finish *f)
{
	if (f->reason >= 0 && f->reason < METRICS_REASONS)
		m->finished[f->reason]++;
	m->generated_tokens += f->generated;
	add_time(&m->first_token, f->generated ? f->first_token_ns : EV_NULL_I);
	add_time(&m->whole, f->total_ns);
	add_time(&m->queue, f->queue_ns);
}

void metrics_add(struct metrics *m, const struct event *ev)
{
	switch (ev->kind) {
	case EV_step:
		m->running = ev->u.step.running;
		m->waiting = ev->u.step.waiting;
		m->pages_used = ev->u.step.pages_used;
		break;
	case EV_request: m->prompt_tokens += ev->u.request.n_prompt; break;
	case EV_lookup:
		m->asked_tokens += ev->u.lookup.asked;
		m->hit_tokens += ev->u.lookup.hit;
		break;
	case EV_page:
		m->pages_pinned +=
			(ev->u.page.action == EV_PAGE_pin) - (ev->u.page.action == EV_PAGE_unpin);
		break;
	case EV_preempt: m->preemptions++; break;
	case EV_memory:
		if (ev->u.memory.memory >= 0 && ev->u.memory.memory < METRICS_GROUPS)
			m->pages[ev->u.memory.memory] = ev->u.memory.pages;
		break;
	case EV_finish: add_finish(m, &ev->u.finish); break;
	default: break;
	}
}

void metrics_count(struct metrics *m, const struct event *ev)
{
	m->open += (ev->kind == EV_request) - (ev->kind == EV_finish);
	if (!m->open)
		m->running = m->waiting = m->pages_used = 0;
}

void metrics_add_gap(struct metrics *m, int64_t ns)
{
	add_time(&m->between, ns);
}

static void put(FILE *f, const char *type, const char *name, const char *help, int64_t value)
{
	fprintf(f, "# HELP cutaway:%s %s\n# TYPE cutaway:%s %s\ncutaway:%s %" PRId64 "\n", name, help,
		name, type, name, value);
}

static void put_times(FILE *f, const char *name, const char *help, const struct metrics_times *t)
{
	int64_t n = 0;

	fprintf(f, "# HELP cutaway:%s %s\n# TYPE cutaway:%s histogram\n", name, help, name);
	for (int i = 0; i < METRICS_BUCKETS; i++)
		fprintf(f, "cutaway:%s_bucket{le=\"%g\"} %" PRId64 "\n", name, bound[i], n += t->count[i]);
	n += t->count[METRICS_BUCKETS];
	fprintf(f,
		"cutaway:%s_bucket{le=\"+Inf\"} %" PRId64 "\ncutaway:%s_sum %.9g\ncutaway:%s_count %" PRId64
		"\n",
		name, n, name, t->sum, name, n);
}

static void put_counters(FILE *f, const struct metrics *m)
{
	int64_t pages = 0;

	for (int g = 0; g < METRICS_GROUPS; g++)
		pages += m->pages[g];
	put(f, "gauge", "num_requests_running", "Requests in slots.", m->running);
	put(f, "gauge", "num_requests_waiting", "Requests in the queue.", m->waiting);
	fprintf(f,
		"# HELP cutaway:kv_cache_usage_perc Pages that requests read, 1: all.\n"
		"# TYPE cutaway:kv_cache_usage_perc gauge\ncutaway:kv_cache_usage_perc %.6g\n",
		pages ? (double)m->pages_used / (double)pages : 0);
	put(f, "counter", "num_preemptions_total", "Requests that gave up their pages to others.",
		m->preemptions);
	put(f, "counter", "prompt_tokens_total", "Tokens of prompts.", m->prompt_tokens);
	put(f, "counter", "generation_tokens_total", "Tokens generated.", m->generated_tokens);
	put(f, "counter", "prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
		m->asked_tokens);
	put(f, "counter", "prefix_cache_hits_total", "Tokens found there.", m->hit_tokens);
	put(f, "gauge", "prefix_pins", "Declared prefixes that live.", m->pins);
	put(f, "gauge", "prefix_pages_pinned", "Pages that they keep.", m->pages_pinned);
	put(f, "counter", "prefix_pinned_hits_total",
		"Of the tokens found in the prefix cache, those that pins kept.", m->pinned_tokens);
	put(f, "counter", "prefix_pins_refused_total", "Pins refused for want of room.",
		m->pins_refused);
	put(f, "counter", "requests_refused_total", "Requests refused because the queue was full.",
		m->refused);
}

char *metrics_text(const struct metrics *m, size_t *size)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);

	if (!f)
		return NULL;
	put_counters(f, m);
	fprintf(f, "# HELP cutaway:request_success_total Requests that ended, by reason.\n"
			   "# TYPE cutaway:request_success_total counter\n");
	for (int i = 0; i < METRICS_REASONS; i++)
		fprintf(f, "cutaway:request_success_total{finished_reason=\"%s\"} %" PRId64 "\n",
			ev_code_name("finish", i), m->finished[i]);
	put_times(
		f, "time_to_first_token_seconds", "From arrival to the first token.", &m->first_token);
	put_times(
		f, "inter_token_latency_seconds", "From a token to the next of its request.", &m->between);
	put_times(f, "e2e_request_latency_seconds", "From arrival to the end.", &m->whole);
	put_times(f, "request_queue_time_seconds", "In the queue.", &m->queue);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}
