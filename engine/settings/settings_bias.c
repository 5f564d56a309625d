/* Logit bias as a setting and as a column of the log. See settings.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/settings/settings.h"

int sample_bias_add(struct sample_bias *b, int64_t id, double bias, struct err *e)
{
	int32_t at = b->n;

	if (id < 0 || id > INT32_MAX)
		return err_set(
			e, ERR_USAGE, "logit-bias: %lld is no token id: see cutaway tokenize", (long long)id);
	if (!(bias >= -SAMPLE_BIAS_MOST && bias <= SAMPLE_BIAS_MOST))
		return err_set(e, ERR_USAGE, "logit-bias: a number from -%d to %d is needed for token %lld",
			SAMPLE_BIAS_MOST, SAMPLE_BIAS_MOST, (long long)id);
	if (b->n == SAMPLE_BIAS_MAX)
		return err_set(e, ERR_USAGE, "logit-bias: at most %d tokens can have one", SAMPLE_BIAS_MAX);
	while (at && b->entry[at - 1].id > (uint32_t)id)
		at--;
	if (at && b->entry[at - 1].id == (uint32_t)id)
		return err_set(e, ERR_USAGE, "logit-bias: token %lld has two", (long long)id);
	memmove(b->entry + at + 1, b->entry + at, (size_t)(b->n++ - at) * sizeof *b->entry);
	b->entry[at] = (struct ev_bias){ (uint32_t)id, (float)bias };
	return 0;
}

struct sample_bias sample_bias_of(struct ev_span packed)
{
	struct sample_bias out = { 0 };
	struct ev_bias one;

	for (size_t i = 0; packed.data && i < packed.size / sizeof one; i++) {
		memcpy(&one, (const char *)packed.data + i * sizeof one, sizeof one);
		sample_bias_add(&out, one.id, (double)one.bias, NULL);
	}
	return out;
}

/* "15:5,27:-100" */
int sample_bias_read(const char *text, struct sample_bias *out, struct err *e)
{
	struct sample_bias b = { 0 };
	char *end;

	if (!strcmp(text, "off")) {
		*out = b;
		return 0;
	}
	for (const char *at = text;; at = end + 1) {
		const long long id = strtoll(at, &end, 10);
		const char *colon = end;
		double bias;

		if (end == at || *colon != ':')
			break;
		bias = strtod(colon + 1, &end);
		if (end == colon + 1 || (*end && *end != ','))
			break;
		if (sample_bias_add(&b, id, bias, e))
			return -1;
		if (!*end) {
			*out = b;
			return 0;
		}
	}
	return err_set(
		e, ERR_USAGE, "logit-bias %.40s: ID:BIAS,ID:BIAS is needed, as in 15:5,27:-100", text);
}

void sample_bias_text(const struct sample_bias *b, char *buf, size_t cap)
{
	size_t n = 0;

	snprintf(buf, cap, "off");
	for (int32_t i = 0; i < b->n && n < cap; i++) {
		char bias[24];

		snprintf(bias, sizeof bias, "%g", (double)b->entry[i].bias);
		if (strtof(bias, NULL) != b->entry[i].bias)
			snprintf(bias, sizeof bias, "%.9g", (double)b->entry[i].bias);
		n += (size_t)snprintf(buf + n, cap - n, "%s%u:%s", i ? "," : "", b->entry[i].id, bias);
	}
	if (n >= cap)
		snprintf(buf, cap, "%d tokens", b->n);
}

bool sample_bias_same(const struct sample_bias *a, const struct sample_bias *b)
{
	return a->n == b->n && !memcmp(a->entry, b->entry, (size_t)a->n * sizeof *a->entry);
}
