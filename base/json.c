/* See json.h. */
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* Writes the comma and the key before a value. False: out of memory. */
static bool json_begin(struct json *j, const char *key)
{
	if (!j->out && !j->failed)
		j->failed = !(j->out = open_memstream(&j->text, &j->size));
	if (j->failed)
		return false;
	if (j->follows)
		putc(',', j->out);
	if (key)
		fprintf(j->out, "\"%s\":", key);
	j->follows = true;
	return true;
}

static void json_open(struct json *j, const char *key, const char *brackets)
{
	if (!json_begin(j, key))
		return;
	putc(brackets[0], j->out);
	j->close[j->depth++] = brackets[1];
	j->follows = false;
}

void json_object(struct json *j, const char *key)
{
	json_open(j, key, "{}");
}

void json_array(struct json *j, const char *key)
{
	json_open(j, key, "[]");
}

void json_end(struct json *j)
{
	if (!j->failed)
		putc(j->close[--j->depth], j->out);
	j->follows = true;
}

void json_bytes(struct json *j, const char *key, const char *text, size_t size)
{
	char *escaped = text_json(text, size);

	if (json_begin(j, key) && escaped)
		fputs(escaped, j->out);
	j->failed |= !escaped;
	free(escaped);
}

void json_text(struct json *j, const char *key, const char *text)
{
	json_bytes(j, key, text, strlen(text));
}

void json_int(struct json *j, const char *key, int64_t value)
{
	if (json_begin(j, key))
		fprintf(j->out, "%" PRId64, value);
}

void json_real(struct json *j, const char *key, double value, int digits)
{
	if (!json_begin(j, key))
		return;
	if (isfinite(value))
		fprintf(j->out, "%.*g", digits, value);
	else
		fputs("null", j->out);
}

void json_bool(struct json *j, const char *key, bool value)
{
	if (json_begin(j, key))
		fputs(value ? "true" : "false", j->out);
}

void json_hash(struct json *j, const char *key, uint64_t value)
{
	if (json_begin(j, key))
		fprintf(j->out, "\"%016" PRIx64 "\"", value);
}

void json_null(struct json *j, const char *key)
{
	if (json_begin(j, key))
		fputs("null", j->out);
}

void json_named(struct json *j, const char *key, size_t size)
{
	json_bytes(j, NULL, key, size);
	if (!j->failed)
		putc(':', j->out);
	j->follows = false;
}

void json_ids(struct json *j, const char *key, const int32_t *ids, size_t n)
{
	json_array(j, key);
	for (size_t i = 0; i < n; i++)
		json_int(j, NULL, ids[i]);
	json_end(j);
}

/* True: all of it is in j->text. */
static bool json_finish(struct json *j)
{
	while (j->depth && !j->failed)
		json_end(j);
	if (j->out && fclose(j->out))
		j->failed = true;
	return !j->failed && j->text;
}

int json_print(struct json *j, struct err *e)
{
	bool whole = json_finish(j);

	if (whole)
		puts(j->text);
	free(j->text);
	*j = (struct json){ 0 };
	return whole ? 0 : err_set(e, ERR_MEMORY, "no memory for the JSON");
}

char *json_take(struct json *j, size_t *size)
{
	char *text = json_finish(j) ? j->text : NULL;

	*size = text ? j->size : 0;
	if (!text)
		free(j->text);
	*j = (struct json){ 0 };
	return text;
}

void json_drop(struct json *j)
{
	json_finish(j);
	free(j->text);
	*j = (struct json){ 0 };
}
