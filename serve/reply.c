/* Answers as JSON: what the OpenAI interface says, and beside it what only this server knows: the
 * hash of a choice's last row of logits, and the number of its request in the recording. See
 * serve_impl.h. */
#include "serve/serve_impl.h"

#include "base/array.h"
#include "base/text.h"

enum { DIGITS = 9 };

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

/* Whether a token ended the answer and is no text of it. */
static bool ends_answer(const struct choice *c, size_t i)
{
	const struct query *a = &c->job->query;
	bool stops = c->token[i].is_end && !a->ignore_end;

	for (int32_t k = 0; k < a->n_stop_ids && !a->tell_stop; k++)
		stops |= a->stop_id[k] == c->token[i].id;
	return stops;
}

size_t reply_tokens(const struct choice *c)
{
	return c->n - (c->n && ends_answer(c, c->n - 1));
}

static struct gguf_text bytes_of(const struct choice *c, size_t i)
{
	const struct tokenizer *t = c->job->s->tokenizer;
	const int32_t id = c->token[i].id;

	if (c->token[i].is_end || ends_answer(c, i))
		return (struct gguf_text){ "", 0 };
	if (tokenizer_is_special(t, id)) { /* a mark that the answer is taken apart at, or nothing */
		const struct gguf_text name = tokenizer_bytes(t, id);

		return parts_has_token(&c->parts, name.data, name.size) ? name
																: (struct gguf_text){ "", 0 };
	}
	return i || c->job->query.kind != QUERY_CHAT ? tokenizer_bytes(t, id)
												 : tokenizer_first_bytes(t, id);
}

/* Of the prompt: control tokens by name, as they stand in its text, but for the model's own. */
static struct gguf_text prompt_bytes(const struct choice *c, size_t i)
{
	const struct tokenizer *t = c->job->s->tokenizer;
	const struct query_prompt *p = choice_prompt(c);

	if (p->begun && !i)
		return (struct gguf_text){ "", 0 };
	return i == p->begun ? tokenizer_first_bytes(t, p->ids[i]) : tokenizer_bytes(t, p->ids[i]);
}

static void add_prompt(struct choice *c)
{
	for (size_t i = 0; i < choice_prompt(c)->n; i++)
		add_text(c, prompt_bytes(c, i), false);
	c->echoed = true;
}

void reply_grow(struct choice *c, bool last)
{
	const char *const *stop = setting_stops(&c->job->query.set.stop);
	struct err ignored = { 0 };
	struct gguf_text ready;

	c->held.with_stop = c->job->query.tell_stop;
	if (c->job->query.echo && !c->echoed)
		add_prompt(c);
	for (; c->sent < c->n; c->sent++) {
		const struct gguf_text b = bytes_of(c, c->sent);

		c->logp += c->token[c->sent].logp;
		c->hash = c->token[c->sent].hash;
		if (held_add(&c->held, stop, b.data, b.size, &ready, &ignored))
			c->job->failed = true;
		else
			add_text(c, ready, false);
		if (c->job->query.kind == QUERY_CHAT)
			parts_read(&c->parts, c->text ? c->text : "", c->n_text, false);
		c->thought_tokens += parts_in_thought(&c->parts);
	}
	if (last)
		add_text(c, held_rest(&c->held), true);
	if (last && c->job->query.kind == QUERY_CHAT)
		parts_read(&c->parts, c->text ? c->text : "", c->n_text, true);
	c->job->failed |= c->parts.failed;
}

const char *reply_reason(const struct choice *c)
{
	switch (c->reason) {
	case EV_FINISH_end:
	case EV_FINISH_whole:
	case EV_FINISH_stop:
		return c->parts.n_calls && c->parts.n_whole == c->parts.n_calls ? "tool_calls" : "stop";
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
	json_put(j, "{'id': %s, 'object': %s, 'created': %ld, 'model': %s, 'system_fingerprint': %s",
		job->id, object, job->created, job->s->name, print);
}

void reply_usage(struct json *j, const struct job *job)
{
	const struct query *a = &job->query;
	int64_t prompt = 0, generated = 0, hit = 0, pinned = 0, made = 0, thought = 0;

	for (int32_t i = 0; i < a->n_prompts; i++) {
		prompt += (int64_t)a->prompt[i].n;
		hit += job->choice[i * a->best_of].hit;
		pinned += job->choice[i * a->best_of].pinned;
	}
	for (int32_t i = 0; i < job->n_choices; i++) {
		generated += job->choice[i].generated;
		thought += job->choice[i].thought_tokens;
		made += job->choice[i].pin.renewed ? 0 : job->choice[i].pin.tokens;
	}
	json_put(j, "'usage': {'prompt_tokens': %ld, 'completion_tokens': %ld, 'total_tokens': %ld",
		prompt, generated, prompt + generated);
	json_put(j,
		"'prompt_tokens_details': {'cached_tokens': %ld, 'pinned_tokens': %ld, "
		"'left_out_messages': %zu, 'left_out_tokens': %zu}",
		hit, pinned, a->left.messages, a->left.tokens);
	if (a->kind == QUERY_CHAT)
		json_put(j, "'completion_tokens_details': {'reasoning_tokens': %ld}", thought);
	json_put(
		j, "'cache_creation_input_tokens': %ld, 'cache_read_input_tokens': %ld}", made, pinned);
}

/* ---- log-probabilities ---- */

static double logp_of(const struct served *t, const struct k_draw_entry *k)
{
	return t->logp + ((double)k->logit - (double)t->logit);
}

static void put_token(struct json *j, const struct choice *c, int32_t id, double logp)
{
	const struct gguf_text b = tokenizer_bytes(c->job->s->tokenizer, id);

	json_bytes(j, "token", b.data, b.size);
	json_real(j, "logprob", logp, DIGITS);
	json_array(j, "bytes");
	for (size_t i = 0; i < b.size; i++)
		json_int(j, NULL, (unsigned char)b.data[i]);
	json_end(j);
}

/* Of the chat interface. */
static void put_chat(struct json *j, const struct choice *c, size_t from, size_t to)
{
	json_put(j, "'logprobs': {'content': [");
	for (size_t i = from; i < to; i++) {
		const struct served *t = &c->token[i];

		json_put(j, "{");
		put_token(j, c, t->id, t->logp);
		json_put(j, "'top_logprobs': [");
		for (int32_t k = 0; k < t->n_top; k++) {
			json_put(j, "{");
			put_token(j, c, t->top[k].id, logp_of(t, &t->top[k]));
			json_put(j, "}");
		}
		json_put(j, "]}");
	}
	json_put(j, "]}");
}

/* Adds a text to those there are; false: it is among them, or there is no memory. */
static bool add_key(char **key, int32_t *n, struct gguf_text b)
{
	key[*n] = text_json(b.data, b.size);
	for (int32_t i = 0; key[*n] && i < *n; i++)
		if (!strcmp(key[i], key[*n])) {
			free(key[*n]);
			return false;
		}
	return key[*n] && ++*n;
}

/* Keys of an object are texts here, so of tokens that look alike the likeliest is in it; and the
 * token itself is, so that there may be one more than was asked for. */
static void put_top(struct json *j, const struct choice *c, const struct served *t)
{
	char *key[QUERY_TOP + 1];
	int32_t n = 0;

	json_object(j, NULL);
	for (int32_t k = 0; k <= t->n_top; k++) {
		const int32_t id = k < t->n_top ? t->top[k].id : t->id;
		const struct gguf_text b = tokenizer_bytes(c->job->s->tokenizer, id);

		if (!add_key(key, &n, b))
			continue;
		json_named(j, b.data, b.size);
		json_real(j, NULL, k < t->n_top ? logp_of(t, &t->top[k]) : t->logp, DIGITS);
	}
	json_end(j);
	while (n)
		free(key[--n]);
}

/* Columns of the older interface: the prompt where it is told again, then the answer. */
struct column {
	struct gguf_text bytes;
	const struct served *t; /* NULL: of the first token, which follows nothing */
};

/* What scored the prompt of a choice, or NULL. */
static const struct choice *scorer_of(const struct choice *c)
{
	const struct job *job = c->job;

	return query_scores(&job->query) ? &job->choice[job->n_choices + c->index / job->query.best_of]
									 : NULL;
}

static size_t count_prompt(const struct choice *c)
{
	return c->job->query.echo ? choice_prompt(c)->n : 0;
}

static struct column column_at(const struct choice *c, size_t i)
{
	const size_t n = count_prompt(c);

	if (i >= n)
		return (struct column){ bytes_of(c, i - n), &c->token[i - n] };
	return (struct column){ prompt_bytes(c, i), i ? &scorer_of(c)->token[i - 1] : NULL };
}

/* Characters, but for those that begin in a column before. */
static int64_t count_chars(struct gguf_text b)
{
	int64_t n = 0;

	for (size_t i = 0; i < b.size; i++)
		n += ((unsigned char)b.data[i] & 0xc0) != 0x80;
	return n;
}

/* Of the older interface: columns, one of them of objects. */
static void put_text(struct json *j, const struct choice *c, size_t from, size_t to)
{
	int64_t offset = 0;

	json_put(j, "'logprobs': {'tokens': [");
	for (size_t i = from; i < to; i++)
		json_bytes(j, NULL, column_at(c, i).bytes.data, column_at(c, i).bytes.size);
	json_put(j, "], 'token_logprobs': [");
	for (size_t i = from; i < to; i++)
		json_real(j, NULL, column_at(c, i).t ? column_at(c, i).t->logp : (double)NAN, DIGITS);
	json_put(j, "], 'top_logprobs': [");
	for (size_t i = from; i < to; i++)
		if (column_at(c, i).t)
			put_top(j, c, column_at(c, i).t);
		else
			json_null(j, NULL);
	json_put(j, "], 'text_offset': [");
	for (size_t i = 0; i < to; offset += count_chars(column_at(c, i++).bytes))
		if (i >= from)
			json_int(j, NULL, offset);
	json_put(j, "]}");
}

void reply_logprobs(struct json *j, const struct choice *c, size_t from, size_t to)
{
	if (!c->job->query.logprobs)
		json_null(j, "logprobs");
	else if (c->job->query.kind == QUERY_CHAT)
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

/* Nine letters and digits, as Mistral's templates want them; no two of a server's are the same. */
void reply_call_id(const struct choice *c, size_t call, char id[REPLY_CALL_ID])
{
	static const char digit[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	uint64_t n = ((uint64_t)c->job->number * QUERY_CHOICES + (uint64_t)c->index) * 1000 + call;

	for (int i = REPLY_CALL_ID - 2; i >= 0; i--, n /= 36)
		id[i] = digit[n % 36];
	id[0] = c->job->s->session_id[0] ? c->job->s->session_id[0] : 'c';
	id[REPLY_CALL_ID - 1] = 0;
}

static void put_text_of(struct json *j, const char *key, const struct parts_text *t, size_t from)
{
	json_bytes(j, key, t->n ? t->text + from : "", t->n - from);
}

void reply_call(struct json *j, const struct choice *c, size_t call, bool head, size_t from)
{
	char id[REPLY_CALL_ID];

	if (head) {
		reply_call_id(c, call, id);
		json_put(j, "'id': %s, 'type': 'function'", id);
	}
	json_put(j, "'function': {");
	if (head)
		put_text_of(j, "name", &c->parts.call[call].name, 0);
	put_text_of(j, "arguments", &c->parts.call[call].args, from);
	json_put(j, "}}");
}

static void put_message(struct json *j, const struct choice *c)
{
	const struct parts *p = &c->parts;

	json_put(j, "'message': {'role': 'assistant'");
	if (p->n_calls && !p->text.n)
		json_null(j, "content");
	else
		put_text_of(j, "content", &p->text, 0);
	if (p->thoughts.n)
		put_text_of(j, "reasoning_content", &p->thoughts, 0);
	if (p->n_calls)
		json_put(j, "'tool_calls': [");
	for (size_t i = 0; i < p->n_calls; i++) {
		json_put(j, "{");
		reply_call(j, c, i, true, 0);
	}
	if (p->n_calls)
		json_put(j, "]");
	json_put(j, "'refusal': null}");
}

static void put_choice(struct json *j, const struct choice *c, int32_t index)
{
	const struct choice *computed = c->job->query.silent ? scorer_of(c) : c;

	json_put(j, "{'index': %d", index);
	if (c->job->query.kind == QUERY_CHAT)
		put_message(j, c);
	else
		json_bytes(j, "text", c->text, c->n_text);
	reply_logprobs(j, c, 0, count_prompt(c) + reply_tokens(c));
	json_put(j, "'finish_reason': %s", reply_reason(c));
	if (computed->request) {
		json_put(j, "'hash': %lx, 'request': %ld",
			computed->n ? computed->token[computed->n - 1].hash : 0, computed->request);
		reply_replica(j, computed->replica);
	}
	json_put(j, "}");
}

/* Of each prompt the n best by their mean log-probability; where all are told, in order. */
void reply_whole(struct job *job, struct json *j)
{
	struct query *a = &job->query;
	struct choice *order[QUERY_CHOICES];
	int32_t index = 0;

	for (int32_t i = 0; i < job->n_choices; i++)
		reply_grow(order[i] = &job->choice[i], true);
	reply_head(j, job, a->kind == QUERY_CHAT ? "chat.completion" : "text_completion");
	json_put(j, "'choices': [");
	for (int32_t p = 0; p < a->n_prompts; p++) {
		struct choice **of = order + p * a->best_of;

		if (a->best_of > a->n)
			qsort(of, (size_t)a->best_of, sizeof *of, by_logp);
		for (int32_t i = 0; i < a->n; i++)
			put_choice(j, of[i], index++);
	}
	json_put(j, "]");
	reply_usage(j, job);
	reply_pin(j, job);
}

/* /score: each token after the first, with its log-probability given those before it. */
void reply_score(struct job *job, struct json *j)
{
	const struct choice *c = &job->choice[0];
	double sum = 0;

	json_object(j, NULL);
	json_ids(j, "ids", job->query.prompt[0].ids, job->query.prompt[0].n);
	json_array(j, "logprobs");
	for (size_t i = 0; i < c->n; sum += c->token[i++].logp)
		json_real(j, NULL, c->token[i].logp, 9);
	json_put(j, "], 'sum': %.9g, 'perplexity': %.9g", sum,
		c->n ? exp(-sum / (double)c->n) : (double)NAN);
	if (c->n)
		json_hash(j, "hash", c->token[c->n - 1].hash);
	json_put(j, "'system_fingerprint': %s", job->s->fingerprint);
}
