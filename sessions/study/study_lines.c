/* See study.h: a trainer's lines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign_json.h"
#include "sessions/study/study.h"

enum { LINE_MAX_BYTES = 1 << 16 };

#define LARGEST 9007199254740992.0 /* 2^53 */

/* The column that a key fills; "step" is the trainer's own number. NULL: there is none. */
static const struct ev_field *field_of(const struct event *ev, const char *key, size_t *at)
{
	const struct ev_info *info = &ev_info[ev->kind];

	*at = 0;
	if (ev->kind == EV_training && !strcmp(key, "training"))
		key = "name";
	else if (ev->kind == EV_trained)
		key = !strcmp(key, "step") ? "nth" : strcmp(key, "nth") ? key : "";
	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_field *f = &info->fields[i];

		if (!strcmp(f->name, key) && strcmp(key, "step"))
			return f;
		*at += ev_field_size(f->type);
	}
	return NULL;
}

static int take(struct event *ev, const cJSON *v, struct err *e)
{
	size_t at;
	const struct ev_field *f = field_of(ev, v->string, &at);
	char *to = (char *)&ev->u + at;
	struct ev_span span;
	int64_t whole;

	if (!f)
		return err_set(
			e, ERR_INPUT, "\"%.40s\" is not known; cutaway record --help names what is", v->string);
	if (cJSON_IsNull(v))
		return 0;
	if (f->type == EV_TYPE_T && cJSON_IsString(v)) {
		span = ev_text(v->valuestring);
		memcpy(to, &span, sizeof span);
	} else if (f->type == EV_TYPE_R && cJSON_IsNumber(v) && isfinite(v->valuedouble)) {
		memcpy(to, &v->valuedouble, sizeof v->valuedouble);
	} else if (f->type == EV_TYPE_I && cJSON_IsNumber(v) && v->valuedouble >= 0 &&
			   v->valuedouble < LARGEST) {
		whole = (int64_t)v->valuedouble;
		memcpy(to, &whole, sizeof whole);
	} else {
		return err_set(e, ERR_INPUT, "\"%.40s\" must be %s", v->string,
			f->type == EV_TYPE_T   ? "a text"
			: f->type == EV_TYPE_R ? "a number, or null for one that is none"
								   : "a whole number from 0 on");
	}
	return 0;
}

static int read_object(struct study *s, const cJSON *o, int64_t *tokens, struct err *e)
{
	const bool begins = foreign_member(o, "training");
	const int64_t before = *tokens;
	struct event ev;

	ev_init(&ev, begins ? EV_training : EV_trained);
	for (const cJSON *v = o->child; v; v = v->next)
		if (take(&ev, v, e))
			return -1;
	if (begins) {
		study_tell(s, &ev, EV_NULL_I);
		return 0;
	}
	if (ev.u.trained.nth == EV_NULL_I)
		return err_set(e, ERR_INPUT, "neither \"step\" nor \"training\" is there");
	if (ev.u.trained.tokens > *tokens)
		*tokens = ev.u.trained.tokens;
	study_tell(s, &ev, *tokens > before ? *tokens - before : EV_NULL_I);
	return 1;
}

/* 1: a step. */
static int read_line(struct study *s, const char *line, size_t size, int64_t *tokens, struct err *e)
{
	cJSON *o = foreign_json_read(line, size, e);
	int rc = -1;

	if (o && !cJSON_IsObject(o))
		err_set(e, ERR_INPUT, "it is no object");
	else if (o)
		rc = read_object(s, o, tokens, e);
	cJSON_Delete(o);
	return rc;
}

int study_lines(struct study *s, FILE *in, int64_t *n, struct err *e)
{
	char *line = malloc(LINE_MAX_BYTES);
	int64_t number = 0, tokens = 0;
	struct err why = { 0 };
	int got = 0;

	*n = 0;
	if (!line)
		return err_no_memory(e, "a line");
	while (got >= 0 && fgets(line, LINE_MAX_BYTES, in)) {
		const size_t size = strlen(line);

		number++;
		if (size == strspn(line, " \t\r\n"))
			continue;
		if (size == LINE_MAX_BYTES - 1 && line[size - 1] != '\n')
			got = err_set(&why, ERR_INPUT, "it is longer than %d bytes", LINE_MAX_BYTES);
		else
			got = read_line(s, line, size, &tokens, &why);
		*n += got > 0;
	}
	free(line);
	return got < 0 ? err_set(e, ERR_INPUT, "line %lld: %s", (long long)number, why.text) : 0;
}
