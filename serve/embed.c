/* POST /v1/embeddings: the vectors of texts. See serve_impl.h. */
#include "serve/serve_impl.h"

#include <nettle/base64.h>

enum { DIGITS = 9 /* tell one float from all others */ };

int query_embedding(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *format = foreign_member(o, "encoding_format");
	const cJSON *pooling = query_member(o, "pooling");
	const char *word = cJSON_GetStringValue(format);

	a->dimensions = s->info->dim;
	a->base64 = word && !strcmp(word, "base64");
	if (!query_nothing(format, "float") && !a->base64)
		return err_set(e, ERR_USAGE, "encoding_format: float or base64 is needed");
	if (query_int(o, "dimensions", 1, s->info->dim, &a->dimensions, e))
		return -1;
	if (!pooling)
		return 0;
	if (!cJSON_IsString(pooling))
		return err_set(e, ERR_USAGE, "pooling: a text is needed");
	return setting_put(&answer_settings[ANSWER_AT_pooling], &a->set, pooling->valuestring, e);
}

/* The first dimensions alone, of length 1 again: rule 25. */
static void shorten(float *v, int32_t n)
{
	double length = 0;

	for (int32_t i = 0; i < n; i++)
		length += (double)v[i] * (double)v[i];
	length = sqrt(length);
	for (int32_t i = 0; i < n; i++)
		v[i] = length > 0 ? (float)((double)v[i] / length) : 0;
}

static void put_base64(struct json *j, const float *v, size_t size)
{
	const size_t n = BASE64_ENCODE_RAW_LENGTH(size);
	char *text = malloc(n);

	if (text)
		base64_encode_raw(text, size, (const uint8_t *)v);
	j->failed |= !text;
	json_bytes(j, "embedding", text, text ? n : 0);
	free(text);
}

static void put_vector(struct json *j, const struct choice *c)
{
	const struct query *a = &c->job->query;

	if (a->dimensions < c->vector.n)
		shorten(c->vector.v, a->dimensions);
	json_put(j, "{'object': 'embedding', 'index': %d", c->index);
	if (a->base64) {
		put_base64(j, c->vector.v, (size_t)a->dimensions * sizeof *c->vector.v);
	} else {
		json_array(j, "embedding");
		for (int32_t i = 0; i < a->dimensions; i++)
			json_real(j, NULL, (double)c->vector.v[i], DIGITS);
		json_end(j);
	}
	json_put(j, "'hash': %lx, 'request': %ld", c->vector.hash, c->request);
	reply_replica(j, c->replica);
	json_end(j);
}

void reply_embeddings(struct job *job, struct json *j)
{
	reply_head(j, job, "list");
	json_put(j, "'data': [");
	for (int32_t i = 0; i < job->n_choices; i++)
		put_vector(j, &job->choice[i]);
	json_put(j, "], 'pooling': %s", ev_code_name("pooling", job->choice[0].vector.pooling));
	reply_usage(j, job);
}
