/* Paths of the interface, and those that are answered at once. See serve_impl.h. */
#include "serve/dialect.h"

#include <stdlib.h>
#include <string.h>

static void put_model(struct json *j, const struct job *job)
{
	json_object(j, NULL);
	json_text(j, "id", job->s->name);
	json_text(j, "object", "model");
	json_int(j, "created", job->s->started);
	json_text(j, "owned_by", "cutaway");
	json_int(j, "max_model_len", job->s->info->ctx);
}

static char *models(struct job *job, size_t *size, struct err *e)
{
	struct json j = { 0 };

	json_object(&j, NULL);
	json_text(&j, "object", "list");
	json_array(&j, "data");
	put_model(&j, job);
	(void)e;
	return json_take(&j, size);
}

static char *model(struct job *job, size_t *size, struct err *e)
{
	struct json j = { 0 };

	job->missing = strcmp(job->rest, job->s->name) != 0;
	if (job->missing) {
		err_set(e, ERR_USAGE, "there is no model of this name: see GET /v1/models");
		return NULL;
	}
	put_model(&j, job);
	return json_take(&j, size);
}

static char *health(struct job *job, size_t *size, struct err *e)
{
	struct json j = { 0 };

	if (job->s->draining) {
		err_set(e, ERR_INTERRUPTED, "the server ends");
		return NULL;
	}
	json_object(&j, NULL);
	json_text(&j, "status", "ok");
	if (job->s->n_replicas > 1) {
		json_int(&j, "replicas", job->s->n_replicas);
		pthread_mutex_lock(&job->s->lock);
		json_int(&j, "live_replicas", replicas_live(job->s));
		pthread_mutex_unlock(&job->s->lock);
	}
	return json_take(&j, size);
}

static char *metrics(struct job *job, size_t *size, struct err *e)
{
	struct serve *s = job->s;
	const struct metrics *of[SERVE_REPLICAS];
	char *text;

	for (int32_t i = 0; i < s->n_replicas; i++)
		of[i] = &s->replica[i].metrics;
	s->http.held = s->n_deferred;
	pthread_mutex_lock(&s->lock);
	text = metrics_text(of, s->n_replicas, &s->http, s->name, size);
	pthread_mutex_unlock(&s->lock);
	(void)e;
	return text;
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
static char *tokenize(struct job *job, size_t *size, struct err *e)
{
	cJSON *o = query_object(job->body, job->n_body, e);
	struct query a = { .kind = cJSON_HasObjectItem(o, "messages") ? QUERY_CHAT : QUERY_TEXT };
	const cJSON *content = foreign_member(o, "content");
	struct json j = { 0 };
	char *text = NULL;

	if (o && query_check(QUERY_TOKENIZE, o, e)) {
		cJSON_Delete(o);
		return NULL;
	}
	if (content && !cJSON_HasObjectItem(o, "prompt")) /* llama-server's name */
		cJSON_AddItemReferenceToObject(o, "prompt", (cJSON *)content);
	if (o && !query_tools(&a, o, job->s, e) && !query_thought(&a, o, job->s, e) &&
		!query_prompts(&a, o, job->s, e)) {
		drop_begun(&a.prompt[0], o);
		json_object(&j, NULL);
		json_int(&j, "count", (int64_t)a.prompt[0].n);
		json_int(&j, "max_model_len", job->s->info->ctx);
		json_ids(&j, "tokens", a.prompt[0].ids, a.prompt[0].n);
		text = json_take(&j, size);
	}
	cJSON_Delete(o);
	query_free(&a);
	return text;
}

/* Anthropic's: of a conversation, with its tools. */
static char *count_tokens(struct job *job, size_t *size, struct err *e)
{
	cJSON *o = query_object(job->body, job->n_body, e);
	struct query a = { 0 };
	struct json j = { 0 };
	char *text = NULL;

	if (o && !cJSON_HasObjectItem(o, "max_tokens"))
		cJSON_AddNumberToObject(o, "max_tokens", 1);
	text = o ? cJSON_PrintUnformatted(o) : NULL;
	if (text && !query_read(&a, QUERY_CHAT, job->route->dialect, job->s, text, strlen(text), e)) {
		json_object(&j, NULL);
		json_int(&j, "input_tokens", (int64_t)a.prompt[0].n);
	}
	cJSON_free(text);
	cJSON_Delete(o);
	query_free(&a);
	return j.text ? json_take(&j, size) : NULL;
}

static char *join(const struct job *job, const struct query_prompt *p, size_t *size, struct err *e)
{
	const struct tokenizer *t = job->s->tokenizer;
	char *text;

	*size = 0;
	for (size_t i = 0; i < p->n; i++)
		*size += tokenizer_bytes(t, p->ids[i]).size;
	if (*size > (size_t)job->s->o.body_kib << 10) {
		err_set(e, ERR_USAGE, "tokens: their text is longer than a body may be: see --body");
		return NULL;
	}
	text = malloc(*size + 1);
	if (!text)
		err_set(e, ERR_MEMORY, "out of memory for the text");
	*size = 0;
	for (size_t i = 0; text && i < p->n; i++) {
		const struct gguf_text b = tokenizer_bytes(t, p->ids[i]);

		if (b.size)
			memcpy(text + *size, b.data, b.size);
		*size += b.size;
	}
	return text;
}

static char *detokenize(struct job *job, size_t *size, struct err *e)
{
	cJSON *o = query_object(job->body, job->n_body, e);
	const cJSON *tokens = foreign_member(o, "tokens");
	struct query_prompt p = { 0 };
	struct json j = { 0 };
	char *text = NULL, *reply = NULL;

	if (o && !query_check(QUERY_DETOKENIZE, o, e) && !cJSON_IsArray(tokens))
		err_set(e, ERR_USAGE, "tokens: a list of token ids is needed");
	else if (o && !e->code && !query_ids(&p, tokens, "tokens", job->s, e))
		text = join(job, &p, size, e);
	if (text) {
		json_object(&j, NULL);
		json_bytes(&j, "prompt", text, *size);
		json_bytes(&j, "content", text, *size);
		reply = json_take(&j, size);
	}
	free(text);
	free(p.ids);
	cJSON_Delete(o);
	return reply;
}

#define JSON "application/json"
static const struct route routes[] = {
	{ "POST", "/v1/chat/completions", false, QUERY_CHAT, NULL, JSON, NULL },
	{ "POST", "/v1/completions", false, QUERY_TEXT, NULL, JSON, NULL },
	{ "POST", "/v1/embeddings", false, QUERY_EMBED, NULL, JSON, NULL },
	{ "POST", "/infill", false, QUERY_INFILL, NULL, JSON, NULL },
	{ "POST", "/v1/responses", false, QUERY_CHAT, NULL, JSON, &dialect_responses },
	{ "POST", "/v1/messages", false, QUERY_CHAT, NULL, JSON, &dialect_messages },
	{ "POST", "/v1/messages/count_tokens", false, QUERY_CHAT, count_tokens, JSON,
		&dialect_messages },
	{ "POST", "/score", false, QUERY_SCORE, NULL, JSON, NULL },
	{ "POST", "/pin", false, QUERY_PIN, NULL, JSON, NULL },
	{ "GET", "/pins", false, 0, pins_list, JSON, NULL },
	{ "DELETE", "/pins", false, 0, pins_delete, JSON, NULL },
	{ "DELETE", "/pins/*", false, 0, pins_delete, JSON, NULL },
	{ "GET", "/v1/models", false, 0, models, JSON, NULL },
	{ "GET", "/v1/models/*", false, 0, model, JSON, NULL },
	{ "POST", "/tokenize", false, QUERY_TOKENIZE, tokenize, JSON, NULL },
	{ "POST", "/detokenize", false, QUERY_DETOKENIZE, detokenize, JSON, NULL },
	{ "GET", "/health", true, 0, health, JSON, NULL },
	{ "GET", "/metrics", false, 0, metrics, "text/plain; version=0.0.4", NULL },
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
