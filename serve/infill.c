/* What stands between two texts: POST /infill, as llama-server and the plugins of editors have it,
 * and the field suffix of /v1/completions. The model is given both by the tokens that it was
 * trained with. See serve_impl.h. */
#include "serve/serve_impl.h"

enum {
	USUAL = 256, /* tokens that room is kept for where the request does not say how many */
	MARKS = 4,   /* tokens of a prompt besides its texts, at most */
};

/* The parts of a prompt, in its order. Where it is too long, the first tokens of what was read
 * elsewhere go, then those that are furthest from the gap. */
struct gap {
	struct query_prompt extra, prefix, prompt, suffix;
};

/* -1 is no token. */
static int push(struct query_prompt *p, int32_t id, struct err *e)
{
	return query_append(p, &id, id >= 0, e);
}

static int encode(
	struct query_prompt *p, const struct tokenizer *t, const char *text, struct err *e)
{
	return tokenizer_encode(t, text, strlen(text), false, &p->ids, &p->n, &p->cap, e);
}

/* A text of the request; "" if it has none. */
static int read_text(struct query_prompt *p, const cJSON *o, const char *field,
	const struct tokenizer *t, struct err *e)
{
	const cJSON *v = query_member(o, field);

	if (!v)
		return 0;
	if (!cJSON_IsString(v))
		return err_set(e, ERR_USAGE, "%s: a text is needed", field);
	return encode(p, t, v->valuestring, e);
}

/* ---- texts of elsewhere ---- */

static int add_name(struct query_prompt *p, int32_t mark, const char *name,
	const struct tokenizer *t, struct err *e)
{
	char line[300];

	snprintf(line, sizeof line, "%.256s\n", name);
	return push(p, mark, e) || encode(p, t, line, e) ? -1 : 0;
}

static int add_chunk(
	struct query_prompt *p, const cJSON *chunk, const struct tokenizer *t, struct err *e)
{
	const char *text = foreign_text(chunk, "text");
	const char *name = foreign_text(chunk, "filename");
	const int32_t mark = tokenizer_fim(t, TOKENIZER_FIM_FILE);

	if (!text)
		return err_set(
			e, ERR_USAGE, "input_extra: a list of {\"filename\": …, \"text\": …} is needed");
	if (mark >= 0 ? add_name(p, mark, name ? name : "tmp", t, e)
				  : encode(p, t, "\n\n--- snippet ---\n\n", e))
		return -1;
	return encode(p, t, text, e);
}

/* In the form of Qwen2.5-Coder, where the model has its tokens; names that are not known are
 * llama-server's. */
static int read_extra(
	struct query_prompt *p, const cJSON *list, const struct tokenizer *t, struct err *e)
{
	const int32_t repo = tokenizer_fim(t, TOKENIZER_FIM_REPO);
	const int32_t mark = tokenizer_fim(t, TOKENIZER_FIM_FILE);
	const cJSON *chunk;

	if (!query_nothing(list, NULL) && !cJSON_IsArray(list))
		return err_set(e, ERR_USAGE, "input_extra: a list is needed");
	if (repo >= 0 && add_name(p, repo, "myproject", t, e))
		return -1;
	cJSON_ArrayForEach(chunk, list) if (add_chunk(p, chunk, t, e)) return -1;
	return mark >= 0 ? add_name(p, mark, "filename", t, e) : 0;
}

/* ---- the prompt ---- */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* True: some went. */
static bool keep_last(struct query_prompt *p, size_t n)
{
	const size_t lost = p->n - n;

	if (n && lost)
		memmove(p->ids, p->ids + lost, n * sizeof *p->ids);
	p->n = n;
	return lost;
}

/* Leaves room for the answer in the context: the prefix gets three parts of it where the suffix
 * gets one, and each what the other does not need. */
static bool cut(struct gap *g, const struct query *a, const struct serve *s)
{
	const int64_t answer = a->set.max_tokens > 0 ? a->set.max_tokens : USUAL;
	const int64_t left = s->info->ctx - answer - MARKS - (int64_t)g->prompt.n;
	const size_t room = left > 0 ? (size_t)left : 0, spare = room - least(room, g->prefix.n);
	const size_t suffix = least(g->suffix.n, spare > room / 4 ? spare : room / 4);
	const size_t prefix = least(g->prefix.n, room - suffix);
	bool cuts = suffix < g->suffix.n;

	g->suffix.n = suffix;
	cuts |= keep_last(&g->prefix, prefix);
	cuts |= keep_last(&g->extra, least(g->extra.n, room - suffix - prefix));
	return cuts;
}

static int join(
	struct query_prompt *p, const struct gap *g, const struct tokenizer *t, struct err *e)
{
	p->begun = tokenizer_adds_bos(t);
	return push(p, p->begun ? tokenizer_bos(t) : -1, e) ||
				   query_append(p, g->extra.ids, g->extra.n, e) ||
				   push(p, tokenizer_fim(t, TOKENIZER_FIM_PREFIX), e) ||
				   query_append(p, g->prefix.ids, g->prefix.n, e) ||
				   query_append(p, g->prompt.ids, g->prompt.n, e) ||
				   push(p, tokenizer_fim(t, TOKENIZER_FIM_SUFFIX), e) ||
				   query_append(p, g->suffix.ids, g->suffix.n, e) ||
				   push(p, tokenizer_fim(t, TOKENIZER_FIM_MIDDLE), e)
			   ? -1
			   : 0;
}

/* An answer that begins another file is at its end. */
static void add_ends(struct query *a, const struct tokenizer *t)
{
	for (int i = 0; i < TOKENIZER_N_FIM && a->n_stop_ids < QUERY_STOP_IDS; i++)
		if (tokenizer_fim(t, (enum tokenizer_fim)i) >= 0)
			a->stop_id[a->n_stop_ids++] = tokenizer_fim(t, (enum tokenizer_fim)i);
}

static int check(const struct tokenizer *t, const char *field, struct err *e)
{
	for (int i = TOKENIZER_FIM_PREFIX; i <= TOKENIZER_FIM_MIDDLE; i++)
		if (tokenizer_fim(t, (enum tokenizer_fim)i) < 0)
			return err_set(e, ERR_USAGE,
				"%s: this model's file names no tokens for what comes before and after a gap "
				"(tokenizer.ggml.fim_pre_token_id …): it was not trained to fill one",
				field);
	return 0;
}

static void gap_free(struct gap *g)
{
	free(g->extra.ids);
	free(g->prefix.ids);
	free(g->prompt.ids);
	free(g->suffix.ids);
}

int query_infill(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const struct tokenizer *t = s->tokenizer;
	struct gap g = { 0 };
	int rc;

	a->n_prompts = 1;
	snprintf(a->label, sizeof a->label, "infill");
	rc = check(t, "infill", e) || read_extra(&g.extra, foreign_member(o, "input_extra"), t, e) ||
				 read_text(&g.prefix, o, "input_prefix", t, e) ||
				 read_text(&g.prompt, o, "prompt", t, e) ||
				 read_text(&g.suffix, o, "input_suffix", t, e)
			 ? -1
			 : 0;
	if (!rc) {
		add_ends(a, t);
		a->cut = cut(&g, a, s);
		rc = join(&a->prompt[0], &g, t, e);
	}
	gap_free(&g);
	return rc;
}

/* A prompt as it was read is what comes before. */
static int put_suffix(struct query_prompt *p, const struct query_prompt *suffix,
	const struct tokenizer *t, struct err *e)
{
	const bool begins = p->n && tokenizer_adds_bos(t) && p->ids[0] == tokenizer_bos(t);
	struct gap g = { .prefix = { .ids = p->ids + begins, .n = p->n - begins }, .suffix = *suffix };
	struct query_prompt to = { 0 };
	const int rc = join(&to, &g, t, e);

	free(p->ids);
	*p = to;
	return rc;
}

int query_suffix(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	struct query_prompt suffix = { 0 };
	int rc;

	if (a->kind != QUERY_TEXT || query_nothing(foreign_member(o, "suffix"), NULL))
		return 0;
	if (a->echo)
		return err_set(e, ERR_USAGE, "suffix: the prompt that it makes is not told: not with echo");
	rc = check(s->tokenizer, "suffix", e) || read_text(&suffix, o, "suffix", s->tokenizer, e) ? -1
																							  : 0;
	for (int32_t i = 0; !rc && i < a->n_prompts; i++)
		rc = put_suffix(&a->prompt[i], &suffix, s->tokenizer, e);
	add_ends(a, s->tokenizer);
	free(suffix.ids);
	return rc;
}

/* ---- the answer ---- */

/* In llama-server's words. */
static const char *stop_type(const struct choice *c)
{
	const char *reason = reply_reason(c);

	if (reply_tokens(c) < c->n)
		return "eos";
	return !strcmp(reason, "length") ? "limit" : !strcmp(reason, "stop") ? "word" : "none";
}

void reply_infill(struct job *job, struct json *j)
{
	struct choice *c = &job->choice[0];

	reply_grow(c, true);
	json_put(j, "{'index': 0");
	json_bytes(j, "content", c->text, c->n_text);
	json_put(j, "'stop': true, 'stop_type': %s, 'model': %s, 'tokens_predicted': %ld", stop_type(c),
		job->s->name, c->generated);
	json_put(j, "'tokens_evaluated': %zu", job->query.prompt[0].n);
	json_bool(j, "truncated", job->query.cut);
	if (c->request) {
		json_put(j, "'hash': %lx, 'request': %ld", c->hash, c->request);
		reply_replica(j, c->replica);
	}
	json_put(j, "'system_fingerprint': %s", job->s->fingerprint);
	reply_usage(j, job);
}
