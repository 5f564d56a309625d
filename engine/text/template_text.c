/* The text of a conversation, as the template renders it. See template.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "engine/text/jinja/jinja.h"
#include "engine/text/parts.h"
#include "engine/text/template_private.h"

/* Bytes that the template is not to see are written as characters of their own, U+10FE00 and on (of
 * private use), and are bytes again in what it made: those that are no UTF-8, which no string of
 * Jinja has; such characters themselves; and the first character of each control token that a
 * message spells out, so that it stays text. */
enum { HIDDEN = 0x10fe00, HIDDEN_BYTES = 4 };

static void hide(FILE *f, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const unsigned char b = (unsigned char)text[i];

		fprintf(f, "\xf4\x8f%c%c", 0xb8 | b >> 6, 0x80 | (b & 0x3f));
	}
}

static bool is_hidden(const char *text, size_t size)
{
	return size >= HIDDEN_BYTES && !memcmp(text, "\xf4\x8f", 2) &&
		   ((unsigned char)text[2] & 0xfc) == 0xb8;
}

size_t template_reveal(char *text, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < size; n++)
		if (is_hidden(text + i, size - i)) {
			text[n] =
				(char)(((unsigned char)text[i + 2] & 3) << 6 | ((unsigned char)text[i + 3] & 0x3f));
			i += HIDDEN_BYTES;
		} else {
			text[n] = text[i++];
		}
	return n;
}

/* Bytes at the beginning that a string of Jinja holds as they are. */
static size_t plain_bytes(const char *text, size_t size)
{
	int32_t c;
	size_t n = 0;

	while (n < size) {
		const size_t used = text_point(text + n, size - n, &c);

		if (c < 0 || (c >= HIDDEN && c < HIDDEN + 256))
			break;
		n += used;
	}
	return n;
}

static void write_plain(FILE *f, const char *text, size_t size)
{
	for (;;) {
		const size_t n = plain_bytes(text, size);

		fwrite(text, 1, n, f);
		if (n == size)
			return;
		hide(f, text + n, 1);
		text += n + 1;
		size -= n + 1;
	}
}

int32_t template_control(
	const struct tokenizer *t, const char *text, size_t size, size_t *at, size_t *used)
{
	int32_t id;

	for (size_t from = 0;; from = *at + *used) {
		id = tokenizer_find_special(t, text + from, size - from, at, used);
		*at += from;
		if (id < 0 || tokenizer_is_special(t, id))
			return id;
	}
}

/* Messages as they are written for the template. */
struct writer {
	const struct chat_input *of;
	bool spelled;           /* the control tokens of texts are hidden */
	bool answers;           /* also those of the answers that a client sends */
	bool as_text, as_empty; /* arguments are texts; an answer of calls alone has "", not null */
	bool undefined;         /* `tools`, where there are none */
	int n_spelled;
	FILE *f;
};

/* Bytes of the first character. */
static size_t first_of(const char *text, size_t size)
{
	size_t n = 1;

	while (n < size && ((unsigned char)text[n] & 0xc0) == 0x80)
		n++;
	return n;
}

static void write_text(struct writer *w, const char *text, size_t size, bool hidden)
{
	size_t at, used, n;

	while (template_control(w->of->t, text, size, &at, &used) >= 0) {
		n = first_of(text + at, size - at);
		write_plain(w->f, text, at);
		if (hidden)
			hide(w->f, text + at, n);
		else
			fwrite(text + at, 1, n, w->f);
		text += at + n;
		size -= at + n;
		w->n_spelled++;
	}
	write_plain(w->f, text, size);
}

/* Control tokens that were drawn are themselves, those that text tokens spell are text. */
static void write_drawn(struct writer *w, const struct chat_message *m)
{
	const int32_t *ids = m->ids;
	const size_t n = m->n_ids;
	const struct tokenizer *t = w->of->t;

	for (size_t i = 0, to; i < n; i = to) {
		char *run = NULL;
		size_t size = 0;
		FILE *f = open_memstream(&run, &size);

		for (to = i; f && to < n && !tokenizer_is_special(t, ids[to]); to++) {
			const struct gguf_text b = to > i || (!to && m->after_text)
										   ? tokenizer_bytes(t, ids[to])
										   : tokenizer_first_bytes(t, ids[to]);
			fwrite(b.data, 1, b.size, f);
		}
		if (f && !fclose(f))
			write_text(w, run, size, w->spelled);
		free(run);
		if (to < n) {
			const struct gguf_text b = tokenizer_bytes(t, ids[to++]);
			fwrite(b.data, 1, b.size, w->f);
		}
	}
}

static bool hides(const struct writer *w, const struct chat_message *m)
{
	return w->spelled && (w->answers || strcmp(m->role, "assistant") != 0);
}

/* What templates put beside their own words, as names and keys ('<' ~ key ~ '>'): no part of it may
 * become one of a control token, so the characters that all their names have are hidden, too. */
static void write_name(struct writer *w, const char *text, bool hidden)
{
	static const char marks[] = "<>|[]";
	size_t n;

	for (; *text; text += n + (text[n] != 0)) {
		n = strcspn(text, marks);
		write_text(w, text, n, hidden);
		if (text[n] && hidden)
			hide(w->f, text + n, 1);
		else if (text[n])
			fputc(text[n], w->f);
		w->n_spelled += text[n] != 0;
	}
}

static char *name_of(struct writer *w, const char *text, bool hidden)
{
	char *out = NULL;
	size_t n;

	w->f = open_memstream(&out, &n);
	if (w->f)
		write_name(w, text, hidden);
	return w->f && !fclose(w->f) ? out : NULL;
}

/* Depth as cJSON reads it: CJSON_NESTING_LIMIT. */
static bool guard(struct writer *w, cJSON *v, bool hidden)
{
	bool ok = true;
	char *text;

	if (v->string) {
		text = name_of(w, v->string, hidden);
		ok = text;
		cJSON_free(v->string);
		v->string = text;
	}
	if (ok && cJSON_IsString(v)) {
		text = name_of(w, v->valuestring, hidden);
		ok = text && cJSON_SetValuestring(v, text);
		free(text);
	}
	for (cJSON *one = v->child; ok && one; one = one->next)
		ok = guard(w, one, hidden);
	return ok;
}

/* JSON of a client's with its texts and keys as names; malloc'd, NULL without memory. */
static char *guarded(struct writer *w, const char *json, bool hidden)
{
	size_t end;
	cJSON *v = foreign_json_whole(json, strlen(json), &end);
	char *text = v && guard(w, v, hidden) ? foreign_json_print(v) : NULL;

	cJSON_Delete(v);
	return text;
}

/* NULL: it has none. */
static void write_member(
	struct writer *w, struct json *j, const char *key, const char *value, bool is_json, bool hidden)
{
	char *text = !value ? NULL : is_json ? guarded(w, value, hidden) : name_of(w, value, hidden);

	j->failed |= value && !text;
	if (text && is_json)
		json_raw(j, key, text, strlen(text));
	else if (text)
		json_bytes(j, key, text, strlen(text));
	free(text);
}

static void write_content(struct writer *w, struct json *j, const struct chat_message *m)
{
	char *text = NULL;
	size_t n = 0;

	w->f = open_memstream(&text, &n);
	if (w->f && m->ids)
		write_drawn(w, m);
	else if (w->f)
		write_text(w, m->text, m->size, hides(w, m));
	j->failed |= !w->f || fclose(w->f);
	if (m->calls && !m->size && !w->as_empty)
		json_null(j, "content");
	else
		json_bytes(j, "content", text ? text : "", text ? n : 0);
	free(text);
}

/* The messages as JSON, malloc'd. */
static char *messages_json(struct writer *w, size_t *size)
{
	struct json j = { 0 };

	json_array(&j, NULL);
	for (size_t i = 0; i < w->of->n; i++) {
		const struct chat_message *m = &w->of->message[i];

		json_object(&j, NULL);
		write_member(w, &j, "role", m->role, false, w->spelled);
		write_content(w, &j, m);
		write_member(w, &j, "tool_calls", w->as_text ? m->calls_text : m->calls, true, w->spelled);
		write_member(w, &j, "tool_call_id", m->call_id, false, w->spelled);
		write_member(w, &j, "name", m->name, false, w->spelled);
		write_member(w, &j, "reasoning_content", m->thought, false, hides(w, m));
		json_end(&j);
	}
	return json_take(&j, size);
}

static int set_token(
	struct jinja *j, const struct chat_input *of, const char *name, int32_t id, struct err *e)
{
	struct json text = { 0 };
	const struct gguf_text bytes = tokenizer_bytes(of->t, id);
	char *value;
	size_t size;
	int rc;

	json_bytes(&text, NULL, bytes.data, bytes.size);
	value = json_take(&text, &size);
	rc = value ? jinja_set(j, name, value, size, e) : err_set(e, ERR_MEMORY, "no memory");
	free(value);
	return rc;
}

/* A template's own words may hold anything. */
static void clean(struct err *e)
{
	char *text = text_clean(e->text, strlen(e->text), false, NULL);

	snprintf(e->text, sizeof e->text, "%s", text ? text : "the chat template failed");
	free(text);
}

static bool has_tools(const struct chat_input *of)
{
	for (size_t i = 0; i < of->n_variables; i++)
		if (!strcmp(of->variable[i].name, "tools"))
			return true;
	for (size_t i = 0; i < of->n; i++)
		if (of->message[i].calls || !strcmp(of->message[i].role, "tool"))
			return true;
	return false;
}

static int set_variables(struct writer *w, struct jinja *j, struct err *e)
{
	if (!w->undefined && jinja_set(j, "tools", "none", 4, e))
		return -1;
	for (size_t i = 0; i < w->of->n_variables; i++) {
		const struct chat_variable *v = &w->of->variable[i];
		char *text = guarded(w, v->value, w->spelled);
		int rc = text ? jinja_set(j, v->name, text, strlen(text), e)
					  : err_set(e, ERR_MEMORY, "no memory");

		free(text);
		if (rc)
			return -1;
	}
	return 0;
}

/* The template, behind what tells of tools where it does not; malloc'd. */
static char *jinja_text(const struct chat_input *of)
{
	char *tells = of->c->tells && has_tools(of) ? parts_tell(of->c->jinja) : NULL, *text = NULL;

	if (asprintf(&text, "%s%s", tells ? tells : "", of->c->jinja) < 0)
		text = NULL;
	free(tells);
	return text;
}

static char *render_json(
	struct writer *w, const char *messages, size_t n, size_t *size, struct err *e)
{
	const struct chat_input *of = w->of;
	const struct jinja_options o = {
		.steps = 20000000, .bytes = 256 << 20, .output = 64 << 20, .now = of->now > 0 ? of->now : 1
	};
	char *text = jinja_text(of), *out = NULL;
	struct jinja *j = NULL;

	if (!text)
		err_no_memory(e, "the chat template");
	else if (!jinja_open(&j, text, strlen(text), &o, e) &&
			 !jinja_set(j, "messages", messages, n, e) &&
			 !jinja_set(
				 j, "add_generation_prompt", of->open ? "true" : "false", of->open ? 4 : 5, e) &&
			 !set_token(j, of, "bos_token", tokenizer_bos(of->t), e) &&
			 !set_token(j, of, "eos_token", tokenizer_eos(of->t), e) && !set_variables(w, j, e))
		jinja_render(j, &out, size, e);
	jinja_close(j);
	free(text);
	if (!out)
		clean(e);
	return out;
}

static char *render_once(struct writer *w, size_t *size, struct err *e)
{
	size_t n;
	char *messages, *out;

	w->n_spelled = 0;
	messages = messages_json(w, &n);
	if (!messages) {
		err_no_memory(e, "the conversation");
		return NULL;
	}
	out = render_json(w, messages, n, size, e);
	free(messages);
	return out;
}

static bool has_calls(const struct chat_input *of)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->message[i].calls)
			return true;
	return false;
}

/* Templates differ in what they take of an answer with calls: the first form that it takes; ""
 * comes late, since some leave out the calls of an answer that has a content. And where there are
 * no tools, `tools` is none, as transformers has it, unless the template goes through them all the
 * same. */
static char *render(struct writer *w, size_t *size, struct err *e)
{
	const int step = has_calls(w->of) ? 1 : 4;
	struct err other = { 0 };
	char *out;

	w->as_text = w->as_empty = w->undefined = false;
	out = render_once(w, size, e);
	for (int i = step; !out && i < 8 && e->code != ERR_MEMORY && !strstr(e->text, "steps");
		 i += step) {
		w->as_text = i & 1;
		w->as_empty = i & 2;
		w->undefined = i & 4;
		out = render_once(w, size, &other);
	}
	if (out)
		*e = (struct err){ 0 };
	return out;
}

/* Whether what is hidden changes what the template makes: it looks for a control token in a
 * message. */
static bool looks(const char *hidden, size_t size, char *plain, size_t n)
{
	char *copy = malloc(size + 1);
	bool same = false;

	if (copy) {
		memcpy(copy, hidden, size);
		size = template_reveal(copy, size);
		same = size == template_reveal(plain, n) && !memcmp(copy, plain, size);
	}
	free(copy);
	return !same;
}

/* The text with control tokens of messages hidden, in place of the one without. Where the template
 * takes an answer apart at them (a thought's end), those of answers are themselves. */
static int hide_spelled(struct writer *w, char **text, size_t *size, struct err *e)
{
	char *plain = *text;
	const size_t n = *size;

	w->spelled = w->answers = true;
	*text = render(w, size, e);
	if (*text && looks(*text, *size, plain, n)) {
		w->answers = false;
		free(*text);
		*text = render(w, size, e);
	}
	free(plain);
	return *text ? 0 : -1;
}

static const char thinking[] = "enable_thinking";

bool template_can_think(const struct chat_template *c)
{
	return strstr(c->jinja, thinking);
}

void template_think(struct chat_input *of, const char *word)
{
	static const struct chat_variable on = { thinking, "true" }, off = { thinking, "false" };

	of->variable = word && !strcmp(word, "off") ? &off : &on;
	of->n_variables = word && (!strcmp(word, "on") || !strcmp(word, "off"));
}

char *template_text(const struct chat_input *of, size_t *size, struct err *e)
{
	struct writer w = { .of = of };
	char *text = render(&w, size, e);

	return text && w.n_spelled && hide_spelled(&w, &text, size, e) ? NULL : text;
}
