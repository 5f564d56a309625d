/* Any bytes as the body of a request: an error in words for the client, or a request within its
 * bounds. The first byte says of which path. FUZZ_OPTIONS: -max_len=4096 */
#include <string.h>

#include "serve/dialect.h"
#include "tests/fuzz/serve_fixture.h"

static void check_settings(const struct query *a)
{
	FUZZ_CHECK(a->n >= 1 && a->best_of >= a->n && a->n_prompts * a->best_of <= QUERY_CHOICES);
	FUZZ_CHECK(a->top >= 0 && a->top <= QUERY_TOP && a->set.params.temperature >= 0);
	FUZZ_CHECK(a->set.params.top_p >= 0 && a->set.params.top_p <= 1);
	FUZZ_CHECK(memchr(a->label, 0, sizeof a->label) && memchr(a->user, 0, sizeof a->user));
	for (int i = 0; i < SETTING_STOPS_MAX; i++)
		FUZZ_CHECK(!a->set.stop.text[i] || *a->set.stop.text[i]);
}

static void read_query(
	struct serve *s, enum query_kind kind, const struct dialect *d, const char *body, size_t size)
{
	struct query a = { 0 };
	struct err e = { 0 };

	if (query_read(&a, kind, d, s, body, size, &e)) {
		FUZZ_CHECK(e.code == ERR_USAGE && *e.text);
	} else {
		FUZZ_CHECK(!e.code && a.n_prompts >= 1);
		check_settings(&a);
		for (int32_t i = 0; i < a.n_prompts; i++) {
			FUZZ_CHECK(a.prompt[i].n);
			for (size_t k = 0; k < a.prompt[i].n; k++)
				FUZZ_CHECK(a.prompt[i].ids[k] >= 0 && a.prompt[i].ids[k] < s->info->vocab);
		}
	}
	query_free(&a);
}

/* /tokenize and /detokenize: what they answer is JSON. */
static void read_at_once(struct serve *s, const char *path, const char *body, size_t size)
{
	const char *rest;
	char allow[ROUTE_ALLOW];
	const struct route *r = route_find("POST", path, allow, &rest);
	struct job j = { .s = s, .route = r, .body = (char *)body, .n_body = size };
	struct json out = { 0 };
	char *text;
	cJSON *o;
	size_t n;

	r->at_once(&j, &out);
	text = json_take(&out, &n);
	o = text ? cJSON_ParseWithLength(text, n) : NULL;
	FUZZ_CHECK(text ? o && !j.error.code : j.error.code == ERR_USAGE && *j.error.text);
	cJSON_Delete(o);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct serve *s;
	char *body;

	if (!s)
		s = fuzz_serve(NULL);
	if (!size)
		return 0;
	body = malloc(size); /* its own, so that a byte beyond it is found */
	FUZZ_CHECK(body);
	memcpy(body, data + 1, --size);
	switch (*data % 7) {
	case 3: read_at_once(s, "/tokenize", body, size); break;
	case 4: read_at_once(s, "/detokenize", body, size); break;
	case 5: read_query(s, QUERY_CHAT, &dialect_responses, body, size); break;
	case 6: read_query(s, QUERY_CHAT, &dialect_messages, body, size); break;
	default: read_query(s, (enum query_kind)(*data % 7), NULL, body, size);
	}
	free(body);
	return 0;
}
