/* Paths of the interface, and those that are answered at once. See serve_impl.h. */
#include "serve/dialect.h"

/* The model, or an adapter of it, whose parent it is, as vLLM lists them. */
static void put_model(struct json *j, const struct job *job, const char *name)
{
	json_put(j, "{'id': %s, 'object': 'model', 'created': %ld, 'owned_by': 'cutaway'", name,
		job->s->started);
	if (strcmp(name, job->s->name) != 0)
		json_text(j, "parent", job->s->name);
	json_put(j, "'max_model_len': %d}", job->s->info->ctx);
}

static void models(struct job *job, struct json *j)
{
	json_put(j, "{'object': 'list', 'data': [");
	put_model(j, job, job->s->name);
	for (const char *const *name = job->s->info->adapters; *name; name++)
		put_model(j, job, *name);
}

static void model(struct job *job, struct json *j)
{
	job->missing = !query_adapter(job->s, job->rest) && strcmp(job->rest, job->s->name) != 0;
	if (job->missing)
		err_set(&job->error, ERR_USAGE, "there is no model of this name: see GET /v1/models");
	else
		put_model(j, job, job->rest);
}

static void health(struct job *job, struct json *j)
{
	if (job->s->draining) {
		err_set(&job->error, ERR_INTERRUPTED, "the server ends");
		return;
	}
	json_put(j, "{'status': 'ok'");
	if (job->s->n_replicas > 1) {
		pthread_mutex_lock(&job->s->lock);
		json_put(
			j, "'replicas': %d, 'live_replicas': %d", job->s->n_replicas, replicas_live(job->s));
		pthread_mutex_unlock(&job->s->lock);
	}
}

static void metrics(struct job *job, struct json *j)
{
	struct serve *s = job->s;
	const struct metrics *of[SERVE_REPLICAS];

	for (int32_t i = 0; i < s->n_replicas; i++)
		of[i] = &s->replica[i].metrics;
	s->http.held = s->n_deferred;
	pthread_mutex_lock(&s->lock);
	j->text = metrics_text(of, s->n_replicas, &s->http, s->name, &j->size);
	pthread_mutex_unlock(&s->lock);
}

/* Without the model's own first token, where it is not wanted. */
static void drop_begun(struct query_prompt *p, const cJSON *o)
{
	if (!p->begun || !(cJSON_IsFalse(foreign_member(o, "add_special")) ||
						 cJSON_IsFalse(foreign_member(o, "add_special_tokens"))))
		return;
	memmove(p->ids, p->ids + 1, --p->n * sizeof *p->ids);
}

/* Ids of a prompt, or of a conversation in the model's template. */
static void tokenize(struct job *job, struct json *j)
{
	struct err *e = &job->error;
	cJSON *o = query_object(job->body, job->n_body, e);
	struct query a = { .kind = cJSON_HasObjectItem(o, "messages") ? QUERY_CHAT : QUERY_TOKENIZE };
	const cJSON *content = foreign_member(o, "content");

	if (o && !query_check(QUERY_TOKENIZE, o, e)) {
		if (content && !cJSON_HasObjectItem(o, "prompt")) /* llama-server's name */
			cJSON_AddItemReferenceToObject(o, "prompt", (cJSON *)content);
		if (!query_tools(&a, o, job->s, e) && !query_thought(&a, o, job->s, e) &&
			!query_prompts(&a, o, job->s, e)) {
			drop_begun(&a.prompt[0], o);
			json_put(j, "{'count': %zu, 'max_model_len': %d", a.prompt[0].n, job->s->info->ctx);
			json_ids(j, "tokens", a.prompt[0].ids, a.prompt[0].n);
		}
	}
	cJSON_Delete(o);
	query_free(&a);
}

/* Anthropic's: of a conversation, with its tools. */
static void count_tokens(struct job *job, struct json *j)
{
	struct err *e = &job->error;
	cJSON *o = query_object(job->body, job->n_body, e);
	struct query a = { 0 };
	char *text = NULL;

	if (o && !cJSON_HasObjectItem(o, "max_tokens"))
		cJSON_AddNumberToObject(o, "max_tokens", 1);
	text = o ? foreign_json_print(o) : NULL;
	if (text && !query_read(&a, QUERY_CHAT, job->route->dialect, job->s, text, strlen(text), e))
		json_put(j, "{'input_tokens': %zu", a.prompt[0].n);
	cJSON_free(text);
	cJSON_Delete(o);
	query_free(&a);
}

static char *join(struct job *job, const struct query_prompt *p, size_t *size)
{
	const struct tokenizer *t = job->s->tokenizer;
	size_t all = 0;
	char *text;

	for (size_t i = 0; i < p->n; i++)
		all += tokenizer_bytes(t, p->ids[i]).size;
	if (all > (size_t)job->s->o.body_kib << 10) {
		err_set(
			&job->error, ERR_USAGE, "tokens: their text is longer than a body may be: see --body");
		return NULL;
	}
	text = tokenizer_text(t, p->ids, p->n, true, size);
	if (!text)
		err_set(&job->error, ERR_MEMORY, "out of memory for the text");
	return text;
}

static void detokenize(struct job *job, struct json *j)
{
	struct err *e = &job->error;
	cJSON *o = query_object(job->body, job->n_body, e);
	const cJSON *tokens = foreign_member(o, "tokens");
	struct query_prompt p = { 0 };
	char *text = NULL;
	size_t size;

	if (o && !query_check(QUERY_DETOKENIZE, o, e) && !cJSON_IsArray(tokens))
		err_set(e, ERR_USAGE, "tokens: a list of token ids is needed");
	else if (o && !e->code && !query_ids(&p, tokens, "tokens", job->s, e))
		text = join(job, &p, &size);
	if (text) {
		json_object(j, NULL);
		json_bytes(j, "prompt", text, size);
		json_bytes(j, "content", text, size);
	}
	free(text);
	free(p.ids);
	cJSON_Delete(o);
}

static const struct route routes[] = {
	{ "POST", "/v1/chat/completions", QUERY_CHAT, reply_whole, .prefix = "chatcmpl" },
	{ "POST", "/v1/completions", QUERY_TEXT, reply_whole, .prefix = "cmpl" },
	{ "POST", "/v1/embeddings", QUERY_EMBED, reply_embeddings, .prefix = "embd" },
	{ "POST", "/infill", QUERY_INFILL, reply_infill, .prefix = "cmpl" },
	{ "POST", "/v1/responses", QUERY_CHAT, reply_response, "resp", .dialect = &dialect_responses },
	{ "POST", "/v1/messages", QUERY_CHAT, reply_message, "msg", .dialect = &dialect_messages },
	{ "POST", "/v1/messages/count_tokens", .at_once = count_tokens, .dialect = &dialect_messages },
	{ "POST", "/score", QUERY_SCORE, reply_score, .prefix = "cmpl" },
	{ "POST", "/pin", QUERY_PIN, pins_made, .prefix = "cmpl" },
	{ "GET", "/pins", .at_once = pins_list },
	{ "DELETE", "/pins", QUERY_UNPIN, .reply = pins_removed },
	{ "DELETE", "/pins/*", QUERY_UNPIN, .reply = pins_removed },
	{ "GET", "/v1/models", .at_once = models },
	{ "GET", "/v1/models/*", .at_once = model },
	{ "POST", "/tokenize", .at_once = tokenize },
	{ "POST", "/detokenize", .at_once = detokenize },
	{ "GET", "/health", .at_once = health, .open = true },
	{ "GET", "/metrics", .at_once = metrics, .plain = true },
};

/* One that ends with a star takes anything more there. */
static bool is_path(const char *of, const char *path, const char **rest)
{
	const size_t n = strcspn(of, "*");

	*rest = of[n] && !strncmp(path, of, n) && path[n] ? path + n : NULL;
	return *rest || !strcmp(path, of);
}

const struct route *route_find(
	const char *method, const char *path, char allow[ROUTE_ALLOW], const char **rest)
{
	const char *const as = !strcmp(method, "HEAD") ? "GET" : method;
	const struct route *found = NULL;
	const char *more;

	*allow = '\0';
	*rest = NULL;
	for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
		const char *own = routes[i].method;

		if (!is_path(routes[i].path, path, &more))
			continue;
		strcat(allow, !strcmp(own, "GET")    ? "GET, HEAD, "
					  : !strcmp(own, "POST") ? "POST, "
											 : "DELETE, ");
		if (!strcmp(as, own)) {
			found = &routes[i];
			*rest = more;
		}
	}
	if (*allow)
		strcat(allow, "OPTIONS");
	return found;
}
