/* Answers as JSON: what the OpenAI interface says, and beside it what only this server knows: the
 * hash of a choice's last row of logits, and the number of its request in the recording. See
 * serve_impl.h. */
#include "sessions/serve/serve_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static void add_text(struct choice *c, struct gguf_text t, bool flush)
{
	const size_t most = 3 * t.size + 8;

	if (!ARRAY_ROOM(c->text, c->cap_text, c->n_text + most)) {
		c->job->failed = true;
		return;
	}
	c->n_text += utf8_stream_feed(&c->utf8, t.data, t.size, c->text + c->n_text, most);
	if (flush)
		c->n_text += utf8_stream_flush(&c->utf8, c->text + c->n_text, 4);
}

static struct gguf_text bytes_of(const struct choice *c, size_t i)
{
	const struct tokenizer *t = c->job->s->tokenizer;
	const int32_t id = c->token[i].id;

	if (tokenizer_is_special(t, id) || c->token[i].is_end)
		return (struct gguf_text){ "", 0 };
	return i || c->job->ask.kind != ASK_CHAT ? tokenizer_bytes(t, id)
											 : tokenizer_first_bytes(t, id);
}

void reply_grow(struct choice *c, bool last)
{
	const char *const *stop = setting_stops(&c->job->ask.set.stop);
	struct err ignored = { 0 };
	struct gguf_text ready;

	for (; c->told < c->n; c->told++) {
		const struct gguf_text b = bytes_of(c, c->told);

		c->logp += log((double)c->token[c->told].p);
		c->hash = c->token[c->told].hash;
		if (held_add(&c->held, stop, b.data, b.size, &ready, &ignored))
			c->job->failed = true;
		else
			add_text(c, ready, false);
	}
	if (last)
		add_text(c, held_rest(&c->held), true);
}

const char *reply_reason(const struct choice *c)
{
	switch (c->reason) {
	case EV_FINISH_end:
	case EV_FINISH_stop: return "stop";
	case EV_FINISH_length:
	case EV_FINISH_context: return "length";
	default: return "abort";
	}
}

void reply_head(struct json *j, const struct job *job, const char *object)
{
	char print[208];

	snprintf(
		print, sizeof print, "%s%s%s", job->s->fingerprint, *job->lossy ? " " : "", job->lossy);
	json_object(j, NULL);
	json_text(j, "id", job->id);
	json_text(j, "object", object);
	json_int(j, "created", job->created);
	json_text(j, "model", job->s->info->name);
	json_text(j, "system_fingerprint", print);
}

void reply_usage(struct json *j, const struct job *job)
{
	const struct ask *a = &job->ask;
	int64_t prompt = 0, generated = 0, hit = 0;

	for (int32_t i = 0; i < a->n_prompts; i++) {
		prompt += (int64_t)a->prompt[i].n;
		hit += job->choice[i * a->best_of].hit;
	}
	for (int32_t i = 0; i < job->n_choices; i++)
		generated += job->choice[i].generated;
	json_object(j, "usage");
	json_int(j, "prompt_tokens", prompt);
	json_int(j, "completion_tokens", generated);
	json_int(j, "total_tokens", prompt + generated);
	json_object(j, "prompt_tokens_details");
	json_int(j, "cached_tokens", hit);
	json_end(j);
	json_end(j);
}

/* ---- log-probabilities ---- */

static void put_token(struct json *j, const struct choice *c, int32_t id, double p)
{
	const struct gguf_text b = tokenizer_bytes(c->job->s->tokenizer, id);

	json_bytes(j, "token", b.data, b.size);
	json_real(j, "logprob", p > 0 ? log(p) : -9999, 9);
	json_array(j, "bytes");
	for (size_t i = 0; i < b.size; i++)
		json_int(j, NULL, (unsigned char)b.data[i]);
	json_end(j);
}

/* Of the chat interface. */
static void put_chat(struct json *j, const struct choice *c, size_t from, size_t to)
{
	json_object(j, "logprobs");
	json_array(j, "content");
	for (size_t i = from; i < to; i++) {
		const struct served *t = &c->token[i];

		json_object(j, NULL);
		put_token(j, c, t->id, t->p);
		json_array(j, "top_logprobs");
		for (int32_t k = 0; k < t->n_candidates && k < c->job->ask.top; k++) {
			json_object(j, NULL);
			put_token(j, c, (int32_t)t->candidate[k].id, t->candidate[k].p);
			json_end(j);
		}
		json_end(j);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

/* Keys of an object are texts here, so tokens with equal bytes share one, as the interface has
 * it. */
static void put_top(struct json *j, const struct choice *c, const struct served *t)
{
	json_object(j, NULL);
	for (int32_t k = 0; k < t->n_candidates && k < c->job->ask.top; k++) {
		const struct gguf_text b =
			tokenizer_bytes(c->job->s->tokenizer, (int32_t)t->candidate[k].id);

		json_named(j, b.data, b.size);
		json_real(j, NULL, log((double)t->candidate[k].p), 9);
	}
	json_end(j);
}

/* Of the older interface: columns, one of them of objects. */
static void put_text(struct json *j, const struct choice *c, size_t from, size_t to)
{
	size_t offset = 0;

	json_object(j, "logprobs");
	json_array(j, "tokens");
	for (size_t i = from; i < to; i++)
		json_bytes(j, NULL, bytes_of(c, i).data, bytes_of(c, i).size);
	json_end(j);
	json_array(j, "token_logprobs");
	for (size_t i = from; i < to; i++)
		json_real(j, NULL, log((double)c->token[i].p), 9);
	json_end(j);
	json_array(j, "top_logprobs");
	for (size_t i = from; i < to; i++)
		put_top(j, c, &c->token[i]);
	json_end(j);
	json_array(j, "text_offset");
	for (size_t i = 0; i < to; offset += bytes_of(c, i++).size)
		if (i >= from)
			json_int(j, NULL, (int64_t)offset);
	json_end(j);
	json_end(j);
}

void reply_logprobs(struct json *j, const struct choice *c, size_t from, size_t to)
{
	if (!c->job->ask.logprobs)
		json_null(j, "logprobs");
	else if (c->job->ask.kind == ASK_CHAT)
		put_chat(j, c, from, to);
	else
		put_text(j, c, from, to);
}

/* ---- whole answers ---- */

static int by_logp(const void *a, const void *b)
{
	const struct choice *x = *(struct choice *const *)a, *y = *(struct choice *const *)b;
	const double mx = x->logp / (double)(x->n ? x->n : 1), my = y->logp / (double)(y->n ? y->n : 1);

	return mx != my ? (mx < my) - (mx > my) : (x->index > y->index) - (x->index < y->index);
}

static void put_choice(struct json *j, const struct choice *c, int32_t index)
{
	json_object(j, NULL);
	json_int(j, "index", index);
	if (c->job->ask.kind == ASK_CHAT) {
		json_object(j, "message");
		json_text(j, "role", "assistant");
		json_bytes(j, "content", c->text ? c->text : "", c->n_text);
		json_null(j, "refusal");
		json_end(j);
	} else {
		json_bytes(j, "text", c->text ? c->text : "", c->n_text);
	}
	reply_logprobs(j, c, 0, c->n);
	json_text(j, "finish_reason", reply_reason(c));
	json_hash(j, "hash", c->hash);
	json_int(j, "request", c->request);
	json_end(j);
}

/* Of each prompt the n best by their mean log-probability; where all are told, in order. */
char *reply_whole(struct job *job, size_t *size)
{
	struct ask *a = &job->ask;
	struct choice *order[ASK_CHOICES];
	struct json j = { 0 };
	int32_t index = 0;

	for (int32_t i = 0; i < job->n_choices; i++)
		reply_grow(order[i] = &job->choice[i], true);
	reply_head(&j, job, a->kind == ASK_CHAT ? "chat.completion" : "text_completion");
	json_array(&j, "choices");
	for (int32_t p = 0; p < a->n_prompts; p++) {
		struct choice **of = order + p * a->best_of;

		if (a->best_of > a->n)
			qsort(of, (size_t)a->best_of, sizeof *of, by_logp);
		for (int32_t i = 0; i < a->n; i++)
			put_choice(&j, of[i], index++);
	}
	json_end(&j);
	reply_usage(&j, job);
	return json_take(&j, size);
}

/* /score: each token after the first, with its log-probability given those before it. */
char *reply_score(struct job *job, size_t *size)
{
	const struct choice *c = &job->choice[0];
	struct json j = { 0 };
	double sum = 0;

	json_object(&j, NULL);
	json_ids(&j, "ids", job->ask.prompt[0].ids, job->ask.prompt[0].n);
	json_array(&j, "logprobs");
	for (size_t i = 0; i < c->n; sum += (double)c->token[i++].p)
		json_real(&j, NULL, (double)c->token[i].p, 9);
	json_end(&j);
	json_real(&j, "sum", sum, 9);
	json_real(&j, "perplexity", c->n ? exp(-sum / (double)c->n) : NAN, 9);
	if (c->n)
		json_hash(&j, "hash", c->token[c->n - 1].hash);
	json_text(&j, "system_fingerprint", job->s->fingerprint);
	return json_take(&j, size);
}
