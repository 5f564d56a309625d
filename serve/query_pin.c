/* What a request declares stable: cache_control as Anthropic's interface has it, on a part of a
 * message, a message or the whole request; cache_prefix for prompts that are texts or ids. */
#include "base/ids.h"
#include "serve/serve_impl.h"

#include "base/duration.h"

static const int64_t SECOND = 1000000000;

/* A text as of duration_parse(), or seconds; absent or null: five minutes. */
static int read_ttl(const cJSON *v, int64_t *ns, struct err *e)
{
	*ns = 300 * SECOND;
	if (!v)
		return 0;
	if (cJSON_IsString(v))
		*ns = duration_parse(v->valuestring);
	else if (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= DURATION_MOST_S)
		*ns = (int64_t)floor(v->valuedouble) * SECOND;
	else
		*ns = -1;
	return *ns > 0 ? 0
				   : err_set(e, ERR_USAGE,
						 "ttl: a time from 1s to 24h is needed, as 90s, 5m, 1h, or in seconds");
}

int query_cache_control(const cJSON *o, int64_t *ttl_ns, struct err *e)
{
	const cJSON *v = query_member(o, "cache_control");

	if (!v)
		return 0;
	if (!foreign_is(foreign_member(v, "type"), "ephemeral"))
		return err_set(e, ERR_USAGE,
			"cache_control: {\"type\": \"ephemeral\", \"ttl\": \"5m\"} is "
			"what can be asked for");
	return read_ttl(query_member(v, "ttl"), ttl_ns, e) ? -1 : 1;
}

/* Of one prompt: so many tokens, or those of a text that it begins with. */
static int read_prefix(
	struct query *a, int32_t i, const cJSON *v, const struct serve *s, struct err *e)
{
	struct query_prompt stable = { 0 };
	const struct query_prompt *p = &a->prompt[i];

	if (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= (double)p->n &&
		v->valuedouble == floor(v->valuedouble)) {
		a->pin[i] = (int32_t)v->valuedouble;
		return 0;
	}
	if (cJSON_IsString(v) && *v->valuestring) {
		if (!query_encode(s->tokenizer, v->valuestring, &stable, e))
			a->pin[i] = ids_common(p->ids, (int64_t)p->n, stable.ids, (int64_t)stable.n);
		/* its last token may have merged with what follows */
		if (!e->code && (size_t)a->pin[i] + 4 < stable.n)
			a->pin[i] = 0;
		free(stable.ids);
	}
	return a->pin[i]
			   ? 0
			   : err_set(e, ERR_USAGE,
					 "cache_prefix: a number of tokens of the prompt, from 1 to %zu, or a text "
					 "that it begins with is needed",
					 p->n);
}

int query_pins(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *prefix = query_member(o, "cache_prefix");
	int64_t ttl_ns = 0;
	int whole = a->kind == QUERY_SCORE ? 0 : query_cache_control(o, &ttl_ns, e);

	if (whole < 0)
		return -1;
	if (a->kind == QUERY_PIN && !whole) {
		if (read_ttl(query_member(o, "ttl"), &ttl_ns, e))
			return -1;
		whole = 1;
	}
	if (a->kind != QUERY_TEXT)
		prefix = NULL;
	if (whole || (prefix && !a->pin_ttl_ns))
		a->pin_ttl_ns = ttl_ns ? ttl_ns : 300 * SECOND;
	for (int32_t i = 0; i < a->n_prompts; i++)
		if (prefix && read_prefix(a, i, prefix, s, e))
			return -1;
		else if (whole && !prefix && !a->pin[i])
			a->pin[i] = (int32_t)a->prompt[i].n;
	return 0;
}
