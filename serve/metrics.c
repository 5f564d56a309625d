/* See metrics.h. */
#include "serve/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	switch ((enum ev_code_finish)f->reason) {
	case EV_FINISH_end:
	case EV_FINISH_whole:
	case EV_FINISH_stop: m->finished[METRICS_stop]++; break;
	case EV_FINISH_length:
	case EV_FINISH_context: m->finished[METRICS_length]++; break;
	case EV_FINISH_cancelled: m->finished[METRICS_abort]++; break;
	case EV_FINISH_failed: m->finished[METRICS_error]++; break;
	default: break; /* refused: it never began */
	}
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
		m->drafted += ev->u.step.accepted + ev->u.step.rejected;
		m->accepted += ev->u.step.accepted;
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

/* ---- as text ---- */

struct out {
	FILE *f;
	const struct metrics *const *m; /* [n] */
	int32_t n;
	char model[256], label[280]; /* label: that each sample of an engine has */
};

static void set_model(struct out *o, const char *name)
{
	size_t n = (size_t)snprintf(o->model, sizeof o->model, "model_name=\"");

	for (; *name && n < sizeof o->model - 4; name++) {
		if (strchr("\\\"\n", *name))
			o->model[n++] = '\\';
		o->model[n++] = *name == '\n' ? 'n' : *name;
	}
	memcpy(o->model + n, "\"", 2);
}

static const char *label(struct out *o, int32_t i)
{
	if (o->n == 1)
		return o->model;
	snprintf(o->label, sizeof o->label, "engine=\"%d\",%s", i, o->model);
	return o->label;
}

static void put_head(struct out *o, const char *type, const char *name, const char *help)
{
	fprintf(o->f, "# HELP cutaway:%s %s\n# TYPE cutaway:%s %s\n", name, help, name, type);
}

static void put_number(struct out *o, const char *name, const char *of, int64_t value)
{
	fprintf(o->f, "cutaway:%s{%s} %" PRId64 "\n", name, of, value);
}

/* at: offset of a number in struct metrics. */
static void put(struct out *o, const char *type, const char *name, const char *help, size_t at)
{
	put_head(o, type, name, help);
	for (int32_t i = 0; i < o->n; i++)
		put_number(
			o, name, label(o, i), *(const int64_t *)(const void *)((const char *)o->m[i] + at));
}

static void put_buckets(
	struct out *o, const char *name, const char *of, const struct metrics_times *t)
{
	int64_t n = 0;

	for (int i = 0; i < METRICS_BUCKETS; i++)
		fprintf(o->f, "cutaway:%s_bucket{%s,le=\"%g\"} %" PRId64 "\n", name, of, bound[i],
			n += t->count[i]);
	n += t->count[METRICS_BUCKETS];
	fprintf(o->f,
		"cutaway:%s_bucket{%s,le=\"+Inf\"} %" PRId64 "\ncutaway:%s_sum{%s} %.9g\n"
		"cutaway:%s_count{%s} %" PRId64 "\n",
		name, of, n, name, of, t->sum, name, of, n);
}

static void put_times(struct out *o, const char *name, const char *help, size_t at)
{
	put_head(o, "histogram", name, help);
	for (int32_t i = 0; i < o->n; i++)
		put_buckets(o, name, label(o, i),
			(const struct metrics_times *)(const void *)((const char *)o->m[i] + at));
}

static void put_usage(struct out *o)
{
	put_head(o, "gauge", "kv_cache_usage_perc", "Pages that requests read, 1: all.");
	for (int32_t i = 0; i < o->n; i++) {
		int64_t pages = 0;

		for (int g = 0; g < METRICS_GROUPS; g++)
			pages += o->m[i]->pages[g];
		fprintf(o->f, "cutaway:kv_cache_usage_perc{%s} %.6g\n", label(o, i),
			pages ? (double)o->m[i]->pages_used / (double)pages : 0);
	}
}

#define AT(field) offsetof(struct metrics, field)

static void put_counters(struct out *o)
{
	put(o, "gauge", "num_requests_running", "Requests in slots.", AT(running));
	put(o, "gauge", "num_requests_waiting", "Requests in the queue.", AT(waiting));
	put_usage(o);
	put(o, "counter", "num_preemptions_total", "Requests that gave up their pages to others.",
		AT(preemptions));
	put(o, "counter", "prompt_tokens_total", "Tokens of prompts.", AT(prompt_tokens));
	put(o, "counter", "generation_tokens_total", "Tokens generated.", AT(generated_tokens));
	put(o, "counter", "prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
		AT(asked_tokens));
	put(o, "counter", "prefix_cache_hits_total", "Tokens found there.", AT(hit_tokens));
	put(o, "counter", "spec_decode_num_draft_tokens_total", "Tokens drafted.", AT(drafted));
	put(o, "counter", "spec_decode_num_accepted_tokens_total", "Of them, accepted.", AT(accepted));
}

/* What vLLM has not. */
static void put_own(struct out *o, const struct metrics_http *h)
{
	put(o, "gauge", "prefix_pins", "Declared prefixes that live.", AT(pins));
	put(o, "gauge", "prefix_pages_pinned", "Pages that they keep.", AT(pages_pinned));
	put(o, "counter", "prefix_pinned_hits_total",
		"Of the tokens found in the prefix cache, those that pins kept.", AT(pinned_tokens));
	put(o, "counter", "prefix_pins_refused_total", "Pins refused for want of room.",
		AT(pins_refused));
	put_head(
		o, "counter", "requests_refused_total", "Requests refused because the queue was full.");
	put_number(o, "requests_refused_total", o->model, h->refused);
	put_head(o, "counter", "http_errors_total", "Replies with a status of 400 or more.");
	put_number(o, "http_errors_total", o->model, h->errors);
	put_head(o, "counter", "connections_closed_total",
		"Connections closed because a request did not come in time, or to take others.");
	put_number(o, "connections_closed_total", o->model, h->closed);
}

static void put_finished(struct out *o)
{
	static const char *const word[METRICS_REASONS] = { "stop", "length", "abort", "error" };

	put_head(o, "counter", "request_success_total", "Requests that ended, by reason.");
	for (int32_t e = 0; e < o->n; e++)
		for (int i = 0; i < METRICS_REASONS; i++)
			fprintf(o->f, "cutaway:request_success_total{%s,finished_reason=\"%s\"} %" PRId64 "\n",
				label(o, e), word[i], o->m[e]->finished[i]);
}

char *metrics_text(const struct metrics *const *m, int32_t n, const struct metrics_http *http,
	const char *name, size_t *size)
{
	char *text = NULL;
	struct out o = { .f = open_memstream(&text, size), .m = m, .n = n };

	if (!o.f)
		return NULL;
	set_model(&o, name);
	put_counters(&o);
	put_own(&o, http);
	put_finished(&o);
	put_times(
		&o, "time_to_first_token_seconds", "From arrival to the first token.", AT(first_token));
	put_times(
		&o, "inter_token_latency_seconds", "From a token to the next of its request.", AT(between));
	put_times(&o, "e2e_request_latency_seconds", "From arrival to the end.", AT(whole));
	put_times(&o, "request_queue_time_seconds", "In the queue.", AT(queue));
	if (fclose(o.f)) {
		free(text);
		return NULL;
	}
	return text;
}
