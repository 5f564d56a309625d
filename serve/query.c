/* What a request asks for, from its JSON: every field is checked, and a field that this server
 * cannot honour is refused rather than ignored. Sampling is read through the table of settings
 * (engine/settings/settings.h), so each of its rows is a field. */
#include "serve/dialect.h"

/* Stops are recorded with each request; of /v1/completions OpenAI has so few tokens. */
enum { STOP_BYTES = 1024, TEXT_TOKENS = 16 };

#define MOST_EXACT 9007199254740992.0 /* 2^53: of whole numbers that are doubles */

cJSON *query_object(const char *body, size_t size, struct err *e)
{
	cJSON *o = foreign_json_read(body, size, e);

	if (cJSON_IsObject(o) || !o)
		return o;
	cJSON_Delete(o);
	err_set(e, ERR_USAGE, "the body is no JSON object");
	return NULL;
}

int query_int(
	const cJSON *o, const char *name, double low, double high, int32_t *out, struct err *e)
{
	const cJSON *v = query_member(o, name);

	if (!v)
		return 0;
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= low && v->valuedouble <= high) ||
		v->valuedouble != floor(v->valuedouble))
		return err_set(e, ERR_USAGE, "%s: a whole number from %g to %g is needed", name, low, high);
	*out = (int32_t)v->valuedouble;
	return 0;
}

static int read_bool(const cJSON *o, const char *name, bool *out, struct err *e)
{
	const cJSON *v = query_member(o, name);

	if (v && !cJSON_IsBool(v))
		return err_set(e, ERR_USAGE, "%s: true or false is needed", name);
	if (v)
		*out = cJSON_IsTrue(v);
	return 0;
}

/* A number as setting_put() reads it; a seed in the digits that were sent, since those of a double
 * are too few. The error names the field. */
static int read_setting(struct query *a, const struct setting *s, const cJSON *v, struct err *e)
{
	struct setting named = *s;
	char value[40];

	named.name = v->string;
	if (!cJSON_IsNumber(v))
		return err_set(e, ERR_USAGE, "%s: a number is needed", v->string);
	if (s->type == SETTING_FLOAT)
		snprintf(value, sizeof value, "%.9g", v->valuedouble);
	else if (s->type == SETTING_U64 && v->valuestring && !strpbrk(v->valuestring, ".eE"))
		snprintf(value, sizeof value, "%.39s", v->valuestring);
	else if (v->valuedouble == floor(v->valuedouble) && fabs(v->valuedouble) <= MOST_EXACT)
		snprintf(value, sizeof value, "%.0f", v->valuedouble);
	else
		return err_set(e, ERR_USAGE, "%s: a whole number is needed", v->string);
	a->seeded |= s == &answer_settings[ANSWER_AT_seed];
	if (s == &answer_settings[ANSWER_AT_max_tokens])
		a->silent = v->valuedouble == 0;
	return setting_put(&named, &a->set, value, e);
}

/* One setting by two names, and not alike: whichever came last would win unseen. *said: the field
 * that had it before. */
static int refuse_two(const cJSON **said, const cJSON *v, struct err *e)
{
	if (*said && (*said)->valuedouble != v->valuedouble)
		return err_set(
			e, ERR_USAGE, "%s: %s says otherwise; send one of them", v->string, (*said)->string);
	*said = v;
	return 0;
}

static int read_settings(struct query *a, const cJSON *o, struct err *e)
{
	const cJSON *v, *said[N_ANSWER_SETTINGS] = { NULL };

	cJSON_ArrayForEach(v, o)
	{
		const struct setting *s = query_setting(v->string);

		if (s && !cJSON_IsNull(v) &&
			(refuse_two(&said[s - answer_settings], v, e) || read_setting(a, s, v, e)))
			return -1;
	}
	return 0;
}

/* One text or several; each is one whole stop string, escapes and all. */
static int read_stops(struct query *a, const cJSON *o, struct err *e)
{
	const cJSON *v = query_member(o, "stop"), *one = v;
	int n = 0;

	if (!v)
		return 0;
	setting_stops_free(&a->set.stop);
	a->set.stop = (struct setting_stops){ { NULL } };
	if (cJSON_IsArray(v))
		one = v->child;
	for (; one; one = cJSON_IsArray(v) ? one->next : NULL) {
		if (!cJSON_IsString(one) || !*one->valuestring || n == SETTING_STOPS_MAX ||
			strlen(one->valuestring) > STOP_BYTES)
			return err_set(e, ERR_USAGE,
				"stop: a text, or up to %d texts, none of them empty or longer than %d bytes",
				SETTING_STOPS_MAX, STOP_BYTES);
		a->set.stop.text[n] = strdup(one->valuestring);
		if (!a->set.stop.text[n++])
			return err_set(e, ERR_MEMORY, "out of memory for stop strings");
	}
	return 0;
}

/* An answer ends with any of these tokens. */
static int read_stop_ids(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *list = foreign_member(o, "stop_token_ids"), *v;

	cJSON_ArrayForEach(v, list)
	{
		if (!cJSON_IsArray(list) || !cJSON_IsNumber(v) || a->n_stop_ids == QUERY_STOP_IDS ||
			!(v->valuedouble >= 0 && v->valuedouble < s->info->vocab) ||
			v->valuedouble != floor(v->valuedouble))
			return err_set(e, ERR_USAGE,
				"stop_token_ids: a list of up to %d token ids from 0 to %d is needed",
				QUERY_STOP_IDS, s->info->vocab - 1);
		a->stop_id[a->n_stop_ids++] = (int32_t)v->valuedouble;
	}
	return query_nothing(list, NULL) || a->n_stop_ids
			   ? 0
			   : err_set(e, ERR_USAGE, "stop_token_ids: a list of token ids is needed");
}

/* {"15": 5, "27": -100} */
static int read_bias(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *list = query_member(o, "logit_bias"), *v;
	struct sample_bias *b = &a->set.params.logit_bias;
	struct err why = { 0 };

	if (!list)
		return 0;
	if (!cJSON_IsObject(list))
		return err_set(e, ERR_USAGE, "logit_bias: an object of token ids and numbers is needed");
	b->n = 0;
	cJSON_ArrayForEach(v, list)
	{
		char *end;
		const long long id = strtoll(v->string, &end, 10);

		if (end == v->string || *end || !cJSON_IsNumber(v))
			return err_set(e, ERR_USAGE,
				"logit_bias: \"%.40s\": a token id and a number are needed", v->string);
		if (id >= s->info->vocab)
			return err_set(e, ERR_USAGE, "logit_bias: token id %lld is not in the vocabulary of %d",
				id, s->info->vocab);
		if (sample_bias_add(b, id, v->valuedouble, &why)) /* whose words begin with the option */
			return err_set(e, why.code, "logit_bias%s", why.text + strlen("logit_bias"));
	}
	return 0;
}

/* The word of OpenAI's Responses API for what a full context does. */
static int read_truncation(struct query *a, const cJSON *o, struct err *e)
{
	const cJSON *v = query_member(o, "truncation");
	const char *word = cJSON_GetStringValue(v);

	if (!v)
		return 0;
	if (!word || (strcmp(word, "auto") && strcmp(word, "disabled")))
		return err_set(e, ERR_USAGE, "truncation: auto or disabled is needed");
	a->set.overflow = strcmp(word, "auto") ? "stop" : "drop";
	return 0;
}

/* With a prompt that is told again nothing need follow. */
static int read_echo(struct query *a, const cJSON *o, struct err *e)
{
	if (read_bool(o, "echo", &a->echo, e))
		return -1;
	if (a->silent && !a->echo && a->kind != QUERY_INFILL)
		return err_set(e, ERR_USAGE, "max_tokens: 0 is for echo; at least 1 is needed");
	if (a->stream && query_scores(a))
		return err_set(e, ERR_USAGE,
			"echo with logprobs, or with max_tokens 0, is known as a whole only: not with stream");
	return 0;
}

static int read_user(struct query *a, const cJSON *o, struct err *e)
{
	const cJSON *v = query_member(o, "user");

	if (!v)
		return 0;
	if (!cJSON_IsString(v) || strlen(v->valuestring) >= sizeof a->user)
		return err_set(
			e, ERR_USAGE, "user: a text of less than %zu bytes is needed", sizeof a->user);
	if (*v->valuestring)
		a->set.user = strcpy(a->user, v->valuestring);
	return 0;
}

const char *query_adapter(const struct serve *s, const char *name)
{
	const char *const *own = s->info->adapters;

	while (*own && strcmp(*own, name) != 0)
		own++;
	return *own;
}

/* By its own field, or, as with vLLM, by the name of a model: the served model's is none. */
static int read_adapter(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *v = foreign_member(o, "adapter"), *model = foreign_member(o, "model");
	const char *name = cJSON_GetStringValue(v), *by_model = cJSON_GetStringValue(model);

	if (!query_nothing(v, NULL)) {
		a->set.adapter = name && strcmp(name, "off") != 0 ? query_adapter(s, name) : "off";
		if (!name || !a->set.adapter)
			return err_set(e, ERR_USAGE,
				"adapter: \"off\" or the name of an adapter is needed: see GET /v1/models");
	} else if (by_model && *s->info->adapters && !strcmp(by_model, s->name)) {
		a->set.adapter = "off";
	} else if (by_model && query_adapter(s, by_model)) {
		a->set.adapter = query_adapter(s, by_model);
	}
	return 0;
}

static int read_amounts(struct query *a, const cJSON *o, struct err *e)
{
	const cJSON *options = foreign_member(o, "stream_options");

	a->n = 1;
	if (query_int(o, "n", 1, QUERY_CHOICES, &a->n, e) || read_bool(o, "stream", &a->stream, e) ||
		read_bool(o, "ignore_eos", &a->ignore_end, e) ||
		read_bool(o, "include_stop_str_in_output", &a->tell_stop, e) ||
		(cJSON_IsObject(options) && read_bool(options, "include_usage", &a->usage, e)))
		return -1;
	a->best_of = a->n;
	if (query_int(o, "best_of", a->n, QUERY_CHOICES, &a->best_of, e))
		return -1;
	if (a->stream && a->best_of > a->n)
		return err_set(e, ERR_USAGE, "best_of: it is known at the end only, so not with stream");
	if ((a->kind == QUERY_PIN || a->kind == QUERY_SCORE) && (a->best_of > 1 || a->stream))
		return err_set(e, ERR_USAGE, "%s: there is no answer here",
			a->stream  ? "stream"
			: a->n > 1 ? "n"
					   : "best_of");
	return 0;
}

/* Of a conversation a switch and a number, of a text one number. */
static int read_logprobs(struct query *a, const cJSON *o, struct err *e)
{
	const cJSON *v = foreign_member(o, "logprobs");

	if (a->kind != QUERY_CHAT) {
		a->logprobs = cJSON_IsNumber(v);
		return query_nothing(v, NULL) ? 0 : query_int(o, "logprobs", 0, QUERY_TOP, &a->top, e);
	}
	if (read_bool(o, "logprobs", &a->logprobs, e) ||
		query_int(o, "top_logprobs", 0, QUERY_TOP, &a->top, e))
		return -1;
	return a->top && !a->logprobs ? err_set(e, ERR_USAGE, "top_logprobs: it needs logprobs: true")
								  : 0;
}

static int read_all(struct query *a, enum query_kind kind, const struct dialect *d,
	const struct serve *s, const char *body, size_t size, struct err *e)
{
	cJSON *o = query_object(body, size, e);
	int rc;

	a->kind = kind;
	if (d) { /* the request is kept, in the chat's form it is read */
		a->dialect = d;
		a->asked = o;
		o = o ? dialect_chat(d, o, e) : NULL;
	}
	a->set = *s->o.answer;
	a->set.stop = (struct setting_stops){ { NULL } };
	if (kind == QUERY_TEXT && !a->set.max_tokens)
		a->set.max_tokens = TEXT_TOKENS;
	if (!o || setting_stops_copy(&a->set.stop, &s->o.answer->stop, e)) {
		cJSON_Delete(o);
		return -1;
	}
	rc = query_check(kind, o, e) || read_settings(a, o, e) || read_stops(a, o, e) ||
				 read_bias(a, o, s, e) || read_user(a, o, e) || read_adapter(a, o, s, e) ||
				 read_amounts(a, o, e) || read_logprobs(a, o, e) || read_stop_ids(a, o, s, e) ||
				 read_echo(a, o, e) || (kind == QUERY_EMBED && query_embedding(a, o, s, e)) ||
				 read_truncation(a, o, e) || query_grammar(a, o, e) || query_tools(a, o, s, e) ||
				 query_thought(a, o, s, e) || query_prompts(a, o, s, e) ||
				 query_suffix(a, o, s, e) || query_parts(a, s, e) || query_pins(a, o, s, e)
			 ? -1
			 : 0;
	if (!rc && (int64_t)a->n_prompts * a->best_of > QUERY_CHOICES)
		rc = err_set(e, ERR_USAGE, "n: at most %d answers at once are given", QUERY_CHOICES);
	cJSON_Delete(o);
	return rc;
}

int query_read(struct query *a, enum query_kind kind, const struct dialect *d,
	const struct serve *s, const char *body, size_t size, struct err *e)
{
	const int rc = read_all(a, kind, d, s, body, size, e);

	if (rc && d)
		dialect_name(d, e);
	return rc;
}

void query_free(struct query *a)
{
	for (int32_t i = 0; i < a->n_prompts; i++)
		free(a->prompt[i].ids);
	for (int32_t i = 0; i < a->n_variables; i++) {
		free((void *)(uintptr_t)a->variable[i].name);
		free((void *)(uintptr_t)a->variable[i].value);
	}
	setting_stops_free(&a->set.stop);
	cJSON_Delete(a->tools);
	cJSON_Delete(a->asked);
	free(a->grammar);
	*a = (struct query){ 0 };
}
