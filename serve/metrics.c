/* See metrics.h. */
#include "serve/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Upper bounds. */
static const double seconds[METRICS_BUCKETS] = { 0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.1,
	0.15, 0.25, 0.5, 0.75, 1, 2.5, 5, 10, 20, 40, 80, 160 };
static const double tokens[METRICS_BUCKETS] = { 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000,
	5000, 10000, 20000, 50000, 100000, 200000, 500000, 1e6, 2e6 };

static void add(struct metrics_histogram *h, const double *bound, double value)
{
	int i = 0;

	while (i < METRICS_BUCKETS && value > bound[i])
		i++;
	h->count[i]++;
	h->sum += value;
}

static void add_time(struct metrics_histogram *h, int64_t ns)
{
	if (ns != EV_NULL_I)
		add(h, seconds, (double)ns / 1e9);
}

/* A request that was never in a slot has no times but its own and that in the queue. */
static void add_times(struct metrics *m, const struct ev_finish *f)
{
	const int64_t first = f->generated ? f->first_token_ns : EV_NULL_I;

	add_time(&m->whole, f->total_ns);
	if (f->queue_ns == EV_NULL_I)
		return;
	add_time(&m->queue, f->queue_ns);
	add_time(&m->inference, f->total_ns - f->queue_ns);
	if (first == EV_NULL_I)
		return;
	add_time(&m->first_token, first);
	add_time(&m->prefill, first - f->queue_ns);
	add_time(&m->decode, f->total_ns - first);
	if (f->generated > 1)
		add_time(&m->per_token, (f->total_ns - first) / (f->generated - 1));
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
	default: return; /* refused: it never began */
	}
	add(&m->answer, tokens, (double)f->generated);
	add_times(m, f);
}

static void add_draft(struct metrics *m, const struct ev_draft *d)
{
	const int64_t at = d->depth > METRICS_DEPTHS ? METRICS_DEPTHS : d->depth;

	m->drafts += d->nth == 1;
	m->drafted++;
	if (d->verdict != EV_VERDICT_accepted)
		return;
	m->accepted++;
	m->accepted_at[at - 1]++;
}

static void add_step(struct metrics *m, const struct ev_step *s)
{
	m->running = s->running;
	m->waiting = s->waiting;
	m->pages_used = s->pages_used;
	add(&m->step, tokens, (double)(s->prefill_rows + s->tokens));
}

void metrics_add_prompt(struct metrics *m, const struct ev_lookup *l, int64_t n)
{
	m->prompt_tokens += n;
	m->asked_tokens += l->asked;
	m->hit_tokens += l->hit;
	add(&m->prompt, tokens, (double)n);
}

/* Groups are told from 0 on. */
static void add_memory(struct metrics *m, const struct ev_memory *memory)
{
	if (!memory->memory)
		memset(m->pages, 0, sizeof m->pages);
	if (memory->memory >= 0 && memory->memory < METRICS_GROUPS)
		m->pages[memory->memory] = memory->pages;
}

void metrics_add(struct metrics *m, const struct event *ev)
{
	switch (ev->kind) {
	case EV_step: add_step(m, &ev->u.step); break;
	case EV_token: m->generated_tokens++; break;
	case EV_draft: add_draft(m, &ev->u.draft); break;
	case EV_page:
		m->pages_pinned +=
			(ev->u.page.action == EV_PAGE_pin) - (ev->u.page.action == EV_PAGE_unpin);
		break;
	case EV_preempt: m->preemptions++; break;
	case EV_memory: add_memory(m, &ev->u.memory); break;
	case EV_finish: add_finish(m, &ev->u.finish); break;
	default: break;
	}
}

void metrics_renew(struct metrics *m)
{
	m->open = m->running = m->waiting = m->pages_used = m->pins = m->pages_pinned = 0;
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

static void put_buckets(struct out *o, const char *name, const char *of, const double *bound,
	const struct metrics_histogram *h)
{
	int64_t n = 0;

	for (int i = 0; i < METRICS_BUCKETS; i++)
		fprintf(o->f, "cutaway:%s_bucket{%s,le=\"%.9g\"} %" PRId64 "\n", name, of, bound[i],
			n += h->count[i]);
	n += h->count[METRICS_BUCKETS];
	fprintf(o->f,
		"cutaway:%s_bucket{%s,le=\"+Inf\"} %" PRId64 "\ncutaway:%s_sum{%s} %.9g\n"
		"cutaway:%s_count{%s} %" PRId64 "\n",
		name, of, n, name, of, h->sum, name, of, n);
}

enum type { GAUGE, COUNTER, SECONDS, TOKENS };

/* Of each engine: a number of struct metrics, or a histogram of seconds or tokens. */
static const struct quantity {
	enum type type;
	const char *name, *help;
	size_t at; /* in struct metrics */
} quantities[] = {
#define AT(field) offsetof(struct metrics, field)
	{ GAUGE, "num_requests_running", "Requests in slots.", AT(running) },
	{ GAUGE, "num_requests_waiting", "Requests in the queue.", AT(waiting) },
	{ COUNTER, "num_preemptions_total", "Requests that gave up their pages to others.",
		AT(preemptions) },
	{ COUNTER, "prompt_tokens_total", "Tokens of prompts.", AT(prompt_tokens) },
	{ COUNTER, "generation_tokens_total", "Tokens generated.", AT(generated_tokens) },
	{ COUNTER, "prefix_cache_queries_total", "Tokens looked up in the prefix cache.",
		AT(asked_tokens) },
	{ COUNTER, "prefix_cache_hits_total", "Tokens found there.", AT(hit_tokens) },
	{ COUNTER, "spec_decode_num_drafts_total", "Drafts verified.", AT(drafts) },
	{ COUNTER, "spec_decode_num_draft_tokens_total", "Tokens drafted.", AT(drafted) },
	{ COUNTER, "spec_decode_num_accepted_tokens_total", "Of them, accepted.", AT(accepted) },
	/* what vLLM has not */
	{ GAUGE, "prefix_pins", "Declared prefixes that live.", AT(pins) },
	{ GAUGE, "prefix_pages_pinned", "Pages that they keep.", AT(pages_pinned) },
	{ COUNTER, "prefix_pinned_hits_total",
		"Of the tokens found in the prefix cache, those that pins kept.", AT(pinned_tokens) },
	{ COUNTER, "prefix_pins_refused_total", "Pins refused for want of room.", AT(pins_refused) },
	{ SECONDS, "time_to_first_token_seconds", "From arrival to the first token.", AT(first_token) },
	{ SECONDS, "inter_token_latency_seconds", "From a token to the next of its request.",
		AT(between) },
	{ SECONDS, "request_time_per_output_token_seconds", "Mean of that for a request.",
		AT(per_token) },
	{ SECONDS, "e2e_request_latency_seconds", "From arrival to the end.", AT(whole) },
	{ SECONDS, "request_queue_time_seconds", "In the queue.", AT(queue) },
	{ SECONDS, "request_inference_time_seconds", "From the queue to the end.", AT(inference) },
	{ SECONDS, "request_prefill_time_seconds", "From the queue to the first token.", AT(prefill) },
	{ SECONDS, "request_decode_time_seconds", "From the first token to the end.", AT(decode) },
	{ TOKENS, "request_prompt_tokens", "Tokens of a prompt.", AT(prompt) },
	{ TOKENS, "request_generation_tokens", "Tokens of an answer.", AT(answer) },
	{ TOKENS, "iteration_tokens_total", "Tokens of prompts and answers in a step.", AT(step) },
};

static void put(struct out *o, const struct quantity *q)
{
	put_head(o,
		q->type == GAUGE     ? "gauge"
		: q->type == COUNTER ? "counter"
							 : "histogram",
		q->name, q->help);
	for (int32_t i = 0; i < o->n; i++) {
		const void *at = (const char *)o->m[i] + q->at;

		if (q->type <= COUNTER)
			put_number(o, q->name, label(o, i), *(const int64_t *)at);
		else
			put_buckets(o, q->name, label(o, i), q->type == SECONDS ? seconds : tokens, at);
	}
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

/* Of positions that no draft reached there are no samples. */
static void put_positions(struct out *o)
{
	put_head(o, "counter", "spec_decode_num_accepted_tokens_per_pos_total",
		"Tokens accepted, by position in the draft, from 0.");
	for (int32_t e = 0; e < o->n; e++)
		for (int i = 0; i < METRICS_DEPTHS && o->m[e]->accepted_at[i]; i++)
			fprintf(o->f,
				"cutaway:spec_decode_num_accepted_tokens_per_pos_total{%s,position=\"%d\"} %" PRId64
				"\n",
				label(o, e), i, o->m[e]->accepted_at[i]);
}

/* Of the server as a whole. */
static void put_server(
	struct out *o, const char *type, const char *name, const char *help, int64_t value)
{
	put_head(o, type, name, help);
	put_number(o, name, o->model, value);
}

static void put_http(struct out *o, const struct metrics_http *h)
{
	put_server(o, "counter", "requests_refused_total",
		"Requests refused because the queue was full.", h->refused);
	put_server(o, "gauge", "requests_held",
		"Requests that wait for the model to be opened, or for others' bodies to be read.",
		h->held);
	put_server(
		o, "counter", "http_errors_total", "Replies with a status of 400 or more.", h->errors);
	put_server(o, "counter", "connections_closed_total",
		"Connections closed because a request did not come in time, or to take others.", h->closed);
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
	for (size_t i = 0; i < sizeof quantities / sizeof *quantities; i++)
		put(&o, &quantities[i]);
	put_usage(&o);
	put_http(&o, http);
	put_positions(&o);
	put_finished(&o);
	if (fclose(o.f)) {
		free(text);
		return NULL;
	}
	return text;
}
