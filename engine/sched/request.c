/* See request.h. */
#include "engine/sched/request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/median.h"
#include "engine/grammar/constraint.h"
#include "engine/text/tokenizer.h"

/* JSON array of the stop strings; NULL: no memory. */
static char *stops_json(const char *const *stop)
{
	struct json j = { 0 };
	size_t size;

	json_array(&j, NULL);
	for (; *stop; stop++)
		json_text(&j, NULL, *stop);
	json_end(&j);
	return json_take(&j, &size);
}

static bool copy_stops(struct request *r, const char *const *stop)
{
	size_t longest = 0;

	if (!stop || !stop[0])
		return true;
	for (int i = 0; stop[i]; i++)
		longest = strlen(stop[i]) > longest ? strlen(stop[i]) : longest;
	/* room for the longest stop string and the longest token */
	r->cap_tail = 2 * longest + 4096;
	r->tail = malloc(r->cap_tail);
	r->stop_json = stops_json(stop);
	return setting_stops_take(&r->stop, stop) && r->tail && r->stop_json;
}

/* A kind of no list, which a recording may have, draws one token after the other. */
static const struct request_kind *how_of(enum ev_code_request_kind kind)
{
	const bool listed = (unsigned)kind < EV_N_request_kind;

	return listed && request_kinds[kind] ? request_kinds[kind] : &request_next;
}

struct request *request_new(
	const struct engine_request *spec, int32_t ctx, const struct memory *memory)
{
	struct request *r = calloc(1, sizeof *r);
	int64_t limit = spec->max_tokens > 0 ? (int64_t)spec->n_ids + spec->max_tokens : INT64_MAX;

	if (!r)
		return NULL;
	r->kind = spec->kind;
	r->how = how_of(spec->kind);
	r->parent = spec->parent;
	r->sample = spec->sample;
	r->params = spec->params;
	r->ignore_end = spec->ignore_end;
	r->user = spec->user ? strdup(spec->user) : NULL;
	r->priority = spec->priority;
	r->deadline = spec->deadline;
	r->top = spec->top;
	r->slot = -1;
	r->n_ids = spec->n_ids;
	r->n_prompt = spec->kind == EV_REQUEST_KIND_verify ? spec->n_prompt : spec->n_ids;
	r->limit_is_ctx = limit > ctx;
	r->limit = limit < ctx ? (int32_t)limit : ctx;
	if (r->limit < spec->n_ids)
		r->limit = spec->n_ids; /* longer than the context: it will be refused */
	r->n_stop_ids = spec->n_stop_ids;
	r->stop_ids = malloc((size_t)r->n_stop_ids * sizeof *r->stop_ids + 1);
	r->ids = malloc(((size_t)r->limit + 1) * sizeof *r->ids);
	r->text = strdup(spec->text ? spec->text : "");
	r->itl = malloc(((size_t)r->limit + 1) * sizeof *r->itl);
	r->first_token_ns = r->queue_ns = EV_NULL_I;
	if (!r->ids || !r->stop_ids || !r->itl || !r->text || (spec->user && !r->user) ||
		memory_table_open(&r->table, r->limit / memory->page_size + 2) ||
		!copy_stops(r, spec->stop)) {
		request_free(r);
		return NULL;
	}
	memcpy(r->ids, spec->ids, (size_t)spec->n_ids * sizeof *r->ids);
	if (r->n_stop_ids)
		memcpy(r->stop_ids, spec->stop_ids, (size_t)r->n_stop_ids * sizeof *r->stop_ids);
	return r;
}

void request_free(struct request *r)
{
	if (!r)
		return;
	setting_stops_free(&r->stop);
	if (r->how->release)
		r->how->release(r);
	bound_close(r->bound);
	free(r->stop_json);
	free(r->stop_ids);
	free(r->tail);
	free(r->text);
	free(r->user);
	free(r->pooled);
	free(r->itl);
	free(r->ids);
	memory_table_close(&r->table);
	free(r);
}

bool request_stops_at(const struct request *r, int32_t id)
{
	for (int32_t i = 0; i < r->n_stop_ids; i++)
		if (r->stop_ids[i] == id)
			return true;
	return false;
}

const char *request_stop(struct request *r, const void *bytes, size_t size)
{
	if (!r->tail)
		return NULL;
	if (size > r->cap_tail / 2) { /* no usual token is that long, but a model's file may have one */
		bytes = (const char *)bytes + (size - r->cap_tail / 2);
		size = r->cap_tail / 2;
	}
	if (r->n_tail + size > r->cap_tail) {
		size_t keep = r->cap_tail / 2 < r->n_tail ? r->cap_tail / 2 : r->n_tail;
		memmove(r->tail, r->tail + r->n_tail - keep, keep);
		r->n_tail = keep;
	}
	size_t old = r->n_tail;
	memcpy(r->tail + old, bytes, size);
	r->n_tail += size;
	for (int i = 0; r->stop.text[i]; i++) {
		size_t n = strlen(r->stop.text[i]);
		/* only matches that end in the new bytes */
		size_t from = old + 1 > n ? old + 1 - n : 0;
		if (n && r->n_tail > from && memmem(r->tail + from, r->n_tail - from, r->stop.text[i], n))
			return r->stop.text[i];
	}
	return NULL;
}

void request_truncate(struct request *r, int32_t n, const struct tokenizer *t)
{
	r->n_ids = n;
	r->n_itl = n - r->n_prompt < r->n_itl ? n - r->n_prompt : r->n_itl;
	r->draft.n = 0;
	r->out_of_pages = false;
	if (r->observed > n)
		r->observed = 0;
	if (r->bound)
		bound_state(r->bound, r->ids, n); /* another token may take the place of the next */
	r->n_tail = 0;
	for (int32_t i = r->n_prompt; r->tail && i < n; i++) {
		struct gguf_text bytes = tokenizer_bytes(t, r->ids[i]);
		request_stop(r, bytes.data, bytes.size);
	}
}

/* Tokens that were not told of (forced) leave a gap. */
static void note_itl(struct request *r, const struct ev_token *t)
{
	const int64_t at = t->pos - r->n_prompt;

	while (r->n_itl < at)
		r->itl[r->n_itl++] = NAN;
	if (at < 0 || at > r->limit - r->n_prompt)
		return;
	r->n_itl = (int32_t)at + 1;
	r->itl[at] = !at ? (double)NAN : t->step == r->newest_step ? 0 : (double)t->ns;
	r->newest_step = t->step;
}

void request_charge(struct request *r, struct ev_token *t, int64_t now)
{
	t->rows = r->rows;
	t->pairs = r->pairs;
	t->ns = now - (r->newest_ns ? r->newest_ns : r->arrival_ns);
	r->rows = r->pairs = 0;
	r->newest_ns = now;
	note_itl(r, t);
}

int64_t request_itl(struct request *r, double q)
{
	int n = 0;

	for (int32_t i = 0; i < r->n_itl; i++)
		if (!isnan(r->itl[i]))
			r->itl[n++] = r->itl[i];
	r->n_itl = n;
	return n ? (int64_t)quantile_of(sorted_of(r->itl, n), n, q) : EV_NULL_I;
}

void request_event(const struct request *r, const char *spec, struct event *ev)
{
	struct ev_request *q = &ev->u.request;

	ev_init(ev, EV_request);
	q->request = r->id;
	q->kind = r->kind;
	q->parent = r->parent ? r->parent : EV_NULL_I;
	q->sample = r->sample;
	q->text = (struct ev_span){ r->text, strlen(r->text) };
	q->prompt = (struct ev_span){ r->ids, (size_t)r->n_prompt * sizeof *r->ids };
	q->n_prompt = r->n_prompt;
	q->max_tokens = r->limit - r->n_prompt;
	sample_params_emit(&r->params, q);
	if (r->stop_json)
		q->stop = (struct ev_span){ r->stop_json, strlen(r->stop_json) };
	q->spec = (struct ev_span){ spec, strlen(spec) };
	if (r->user)
		q->user = (struct ev_span){ r->user, strlen(r->user) };
	q->priority = r->priority;
	q->deadline = r->deadline;
	q->top = r->top;
	q->input = r->n_input ? r->n_input : EV_NULL_I;
	q->adapter = ev_text(r->adapter_name);
	if (r->bound) {
		q->grammar = ev_text(r->bound->constraint->spec);
		q->bound_from = r->bound->from;
	}
}
