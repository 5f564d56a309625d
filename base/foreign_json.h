/* JSON of others, as cJSON reads it, without what cJSON takes in silence: its texts are C strings,
 * so a NUL would cut one; of a key that comes twice some readers would take the first value and
 * some the last; what follows the value would be dropped; control characters and numbers that RFC
 * 8259 does not have would be read. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/err.h"

/* What a client sends: one value in UTF-8, of at most CJSON_NESTING_LIMIT levels. The caller frees
 * it with cJSON_Delete(). NULL with ERR_USAGE: what is wrong, and at which byte. */
cJSON *foreign_json_read(const char *text, size_t size, struct err *e);
/* The parts of it, for JSON that is checked otherwise. One value and blanks after it, numbers
 * with their text as valuestring, where a double would print another; NULL: there is no such, and
 * *end is where what is wrong begins. A key that an object has twice, or NULL; ERR_MEMORY. */
cJSON *foreign_json_whole(const char *text, size_t size, size_t *end);
const char *foreign_json_twice(const cJSON *o, struct err *e);
/* What a server sends. text is changed: a NUL in a string (\u0000) becomes U+FFFD. NULL: it is no
 * JSON. */
cJSON *foreign_json_parse(char *text, size_t size);
/* As text, malloc'd, NULL without memory: without white space, and numbers as they were sent, for
 * whose digits a double has no room. */
char *foreign_json_print(const cJSON *v);

/* The member of an object, or NULL; its text, or NULL; whether a value is a text. */
static inline cJSON *foreign_member(const cJSON *o, const char *name)
{
	return cJSON_GetObjectItemCaseSensitive(o, name);
}

static inline const char *foreign_text(const cJSON *o, const char *name)
{
	return cJSON_GetStringValue(foreign_member(o, name));
}

static inline bool foreign_is(const cJSON *v, const char *text)
{
	return cJSON_IsString(v) && !strcmp(v->valuestring, text);
}
