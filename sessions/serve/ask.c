/* What a request asks for, from its JSON: every field is checked, and a field that this server
 * cannot honour is refused rather than ignored. Sampling is read through the table of settings
 * (engine/core/settings.h), so each of its rows is a field. */
#include "sessions/serve/serve_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STOP_BYTES = 1024 }; /* recorded with each request */

/* Names that the interface has for settings. */
static const struct {
	const char *name, *setting;
} names[] = { { "temperature", "temp" }, { "max_completion_tokens", "max-tokens" },
	{ "repetition_penalty", "repeat-penalty" } };

/* Fields that ask for something when they are not null, false, empty or this number. */
static const struct {
	const char *name;
	double none;
	const char *why;
} unserved[] = { { "tools", 0, SERVE_NO_TOOLS }, { "functions", 0, SERVE_NO_TOOLS },
	{ "response_format", 0, ": answers are not bound to a form" }, { "suffix", 0, "" },
	{ "audio", 0, "" }, { "prediction", 0, "" } };

cJSON *ask_object(const char *body, size_t size, struct err *e)
{
	const char *end = NULL;
	cJSON *o = cJSON_ParseWithLengthOpts(body ? body : "", size, &end, false);

	if (cJSON_IsObject(o))
		return o;
	err_set(e, ERR_USAGE,
		o ? "the body is no JSON object" : "the body is no JSON: what is wrong begins at byte %zu",
		body && end ? (size_t)(end - body) : 0);
	cJSON_Delete(o);
	return NULL;
}

static bool asks_nothing(const cJSON *v, double none)
{
	const char *type = v->child && v->child->string && !strcmp(v->child->string, "type")
						   ? cJSON_GetStringValue(v->child)
						   : NULL;

	return cJSON_IsNull(v) || cJSON_IsFalse(v) || (cJSON_IsNumber(v) && v->valuedouble == none) ||
		   ((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child) ||
		   (cJSON_IsString(v) && !*v->valuestring) || (type && !strcmp(type, "text"));
}

/* Without tools "auto" and "none" say the same; any other asks for a call. */
static int refuse_choice(const cJSON *choice, struct err *e)
{
	const char *word = cJSON_GetStringValue(choice);

	if (!choice || cJSON_IsNull(choice) ||
		(word && (!strcmp(word, "none") || !strcmp(word, "auto"))))
		return 0;
	return err_set(e, ERR_USAGE, "tool_choice is not served here%s", SERVE_NO_TOOLS);
}

static int refuse_unserved(const cJSON *o, struct err *e)
{
	for (size_t i = 0; i < sizeof unserved / sizeof *unserved; i++) {
		const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, unserved[i].name);

		if (v && !asks_nothing(v, unserved[i].none))
			return err_set(
				e, ERR_USAGE, "%s is not served here%s", unserved[i].name, unserved[i].why);
	}
	return refuse_choice(cJSON_GetObjectItemCaseSensitive(o, "tool_choice"), e);
}

/* A whole number from low to high; absent or null: *out stays. */
static int read_int(
	const cJSON *o, const char *name, double low, double high, int32_t *out, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	if (!v || cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsNumber(v) || !(v->valuedouble >= low && v->valuedouble <= high) ||
		v->valuedouble != floor(v->valuedouble))
		return err_set(e, ERR_USAGE, "%s: a whole number from %g to %g is needed", name, low, high);
	*out = (int32_t)v->valuedouble;
	return 0;
}

static int read_bool(const cJSON *o, const char *name, bool *out, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, name);

	if (v && !cJSON_IsNull(v) && !cJSON_IsBool(v))
		return err_set(e, ERR_USAGE, "%s: true or false is needed", name);
	if (v && !cJSON_IsNull(v))
		*out = cJSON_IsTrue(v);
	return 0;
}

/* The setting that a field names: temperature, top_p, repeat_penalty, max_tokens … */
static const struct setting *setting_of(const char *field)
{
	char name[32];
	const struct setting *s;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(field, names[i].name))
			return setting_find(answer_settings, names[i].setting);
	if (snprintf(name, sizeof name, "%s", field) >= (int)sizeof name || strchr(name, '-'))
		return NULL;
	for (char *c = name; *c; c++)
		*c = *c == '_' ? '-' : *c;
	s = setting_find(answer_settings, name);
	return s && s->type != SETTING_TEXT && s->type != SETTING_STOPS && s->type != SETTING_CHOICE &&
				   s->type != SETTING_BIAS
			   ? s
			   : NULL;
}

static int read_setting(struct ask *a, const struct setting *s, const cJSON *v, struct err *e)
{
	char value[40];
	double most = s->type == SETTING_U64 ? 9007199254740992.0 : s->high;

	if (cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsNumber(v))
		return err_set(e, ERR_USAGE, "%s: a number is needed", v->string);
	if (s->type == SETTING_FLOAT)
		snprintf(value, sizeof value, "%.9g", v->valuedouble);
	else if (v->valuedouble == floor(v->valuedouble) && fabs(v->valuedouble) <= most)
		snprintf(value, sizeof value, "%.0f", v->valuedouble);
	else
		return err_set(e, ERR_USAGE, "%s: a whole number up to %.0f is needed", v->string, most);
	if (!strcmp(s->name, "seed"))
		a->seeded = true;
	if (s == &answer_settings[ANSWER_AT_max_tokens])
		a->silent = v->valuedouble == 0;
	return setting_put(s, &a->set, value, e);
}

static int read_settings(struct ask *a, const cJSON *o, struct err *e)
{
	const cJSON *v;

	cJSON_ArrayForEach(v, o)
	{
		const struct setting *s = setting_of(v->string);

		if (s && read_setting(a, s, v, e))
			return -1;
	}
	return 0;
}

/* One text or several; each is one whole stop string, escapes and all. */
static int read_stops(struct ask *a, const cJSON *o, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "stop"), *one = v;
	int n = 0;

	if (!v || cJSON_IsNull(v))
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

/* {"15": 5, "27": -100} */
static int read_bias(struct ask *a, const cJSON *o, struct err *e)
{
	const cJSON *list = cJSON_GetObjectItemCaseSensitive(o, "logit_bias"), *v;
	struct sample_bias *b = &a->set.params.logit_bias;

	if (!list || cJSON_IsNull(list))
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
		if (sample_bias_add(b, id, v->valuedouble, e))
			return -1;
	}
	return 0;
}

/* With a prompt that is told again nothing need follow. */
static int read_echo(struct ask *a, const cJSON *o, struct err *e)
{
	if (read_bool(o, "echo", &a->echo, e))
		return -1;
	if (a->echo && a->kind != ASK_TEXT)
		return err_set(e, ERR_USAGE, "echo is served by /v1/completions alone");
	if (a->silent && !a->echo)
		return err_set(e, ERR_USAGE, "max_tokens: 0 is for echo; at least 1 is needed");
	if (a->stream && ask_scores(a))
		return err_set(e, ERR_USAGE,
			"echo with logprobs, or with max_tokens 0, is known as a whole only: not with stream");
	return 0;
}

static int read_user(struct ask *a, const cJSON *o, struct err *e)
{
	const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, "user");

	if (!v || cJSON_IsNull(v))
		return 0;
	if (!cJSON_IsString(v) || strlen(v->valuestring) >= sizeof a->user)
		return err_set(
			e, ERR_USAGE, "user: a text of less than %zu bytes is needed", sizeof a->user);
	if (*v->valuestring)
		a->set.user = strcpy(a->user, v->valuestring);
	return 0;
}

static int read_amounts(struct ask *a, const cJSON *o, struct err *e)
{
	const cJSON *options = cJSON_GetObjectItemCaseSensitive(o, "stream_options"), *top;

	a->n = 1;
	if (read_int(o, "n", 1, ASK_CHOICES, &a->n, e) || read_bool(o, "stream", &a->stream, e) ||
		read_bool(o, "ignore_eos", &a->ignore_end, e) ||
		(cJSON_IsObject(options) && read_bool(options, "include_usage", &a->usage, e)))
		return -1;
	a->best_of = a->n;
	if (read_int(o, "best_of", a->n, ASK_CHOICES, &a->best_of, e))
		return -1;
	if (a->stream && a->best_of > a->n)
		return err_set(e, ERR_USAGE, "best_of: it is known at the end only, so not with stream");
	if (a->kind == ASK_PIN && (a->n > 1 || a->stream))
		return err_set(e, ERR_USAGE, "a pin has no answer, so neither n nor stream");
	if (a->kind == ASK_CHAT)
		return read_bool(o, "logprobs", &a->logprobs, e) ||
					   read_int(o, "top_logprobs", 0, ASK_TOP, &a->top, e)
				   ? -1
				   : 0;
	top = cJSON_GetObjectItemCaseSensitive(o, "logprobs");
	a->logprobs = top && cJSON_IsNumber(top);
	return read_int(o, "logprobs", 0, ASK_TOP, &a->top, e);
}

int ask_read(struct ask *a, enum ask_kind kind, const struct serve *s, const char *body,
	size_t size, struct err *e)
{
	cJSON *o = ask_object(body, size, e);
	int rc;

	a->kind = kind;
	a->set = *s->o.answer;
	a->set.stop = (struct setting_stops){ { NULL } };
	if (!o || setting_stops_copy(&a->set.stop, &s->o.answer->stop, e)) {
		cJSON_Delete(o);
		return -1;
	}
	rc = refuse_unserved(o, e) || read_settings(a, o, e) || read_stops(a, o, e) ||
				 read_bias(a, o, e) || read_user(a, o, e) || read_amounts(a, o, e) ||
				 read_echo(a, o, e) || ask_prompts(a, o, s, e) || ask_pins(a, o, s, e)
			 ? -1
			 : 0;
	if (!rc && (int64_t)a->n_prompts * a->best_of > ASK_CHOICES)
		rc = err_set(e, ERR_USAGE, "at most %d answers at once are given", ASK_CHOICES);
	cJSON_Delete(o);
	return rc;
}

void ask_free(struct ask *a)
{
	for (int32_t i = 0; i < a->n_prompts; i++)
		free(a->prompt[i].ids);
	setting_stops_free(&a->set.stop);
	*a = (struct ask){ 0 };
}
