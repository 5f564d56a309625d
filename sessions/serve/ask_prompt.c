/* Prompts of a request as token ids: conversations through the model's chat template, texts, and
 * ids as they are. */
#include "sessions/serve/serve_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* What a message declares stable: so many bytes of its text; 0: nothing. */
struct mark {
	size_t bytes;
	int64_t ttl_ns;
};

/* The text of a part, which may be declared stable up to its end. */
static void read_part(FILE *f, const cJSON *part, const char *name, const size_t *size,
	struct mark *mark, struct err *e)
{
	const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "text"));

	if (!t)
		err_set(e, ERR_USAGE, "%s: only parts of type text can be read", name);
	else
		fputs(t, f);
	if (!e->code && ask_cache_control(part, &mark->ttl_ns, e) > 0 && !fflush(f))
		mark->bytes = *size;
}

/* Of a string, or of a list of text parts; malloc'd. */
static char *read_text(
	const cJSON *value, const char *name, size_t *size, struct mark *mark, struct err *e)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, size);
	const cJSON *part;

	if (!f) {
		err_set(e, ERR_MEMORY, "out of memory for the text");
		return NULL;
	}
	if (cJSON_IsString(value))
		fputs(value->valuestring, f);
	else if (!cJSON_IsArray(value))
		err_set(e, ERR_USAGE, "%s: a text is needed", name);
	else
		cJSON_ArrayForEach(part, value) read_part(f, part, name, size, mark, e);
	if (fclose(f) || e->code) {
		err_set(e, ERR_MEMORY, "out of memory for the text");
		free(text);
		return NULL;
	}
	return text;
}

/* The label begins with a prompt's first words, in whole characters. */
static void label(struct ask *a, const char *text)
{
	size_t n = strnlen(text, sizeof a->label - 1);

	while (text[n] && n && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	memcpy(a->label, text, n);
	a->label[n] = '\0';
}

int ask_encode(const struct tokenizer *t, const char *text, struct ask_prompt *p, struct err *e)
{
	if (!ARRAY_ROOM(p->ids, p->cap, p->n + 1))
		return err_set(e, ERR_MEMORY, "out of memory for the prompt");
	if (!p->n && tokenizer_adds_bos(t) && tokenizer_bos(t) >= 0)
		p->ids[p->n++] = tokenizer_bos(t), p->begun = true;
	return tokenizer_encode(t, text, strlen(text), true, &p->ids, &p->n, &p->cap, e);
}

/* ---- a conversation ---- */

struct talk {
	const struct serve *s;
	struct ask_prompt *p;
	bool begun, asked; /* asked: the last turn is the user's */
};

static int begin(struct talk *t, const char *system, struct err *e)
{
	t->begun = true;
	return template_begin(
		t->s->info->chat, t->s->tokenizer, system, &t->p->ids, &t->p->n, &t->p->cap, e);
}

static int add_answer(struct talk *t, const char *text, struct err *e)
{
	struct ask_prompt *p = t->p;

	if (tokenizer_encode(t->s->tokenizer, text, strlen(text), false, &p->ids, &p->n, &p->cap, e))
		return -1;
	return template_close(t->s->info->chat, t->s->tokenizer, &p->ids, &p->n, &p->cap, e);
}

static int add_message(struct talk *t, const char *role, const char *text, struct err *e)
{
	const bool system = !strcmp(role, "system") || !strcmp(role, "developer");
	const bool user = !strcmp(role, "user");

	if (system)
		return t->begun ? err_set(e, ERR_USAGE, "messages: a system text comes first, and once")
						: begin(t, text, e);
	if (!user && strcmp(role, "assistant"))
		return err_set(e, ERR_USAGE, "messages: role %.40s is not served here%s", role,
			strcmp(role, "tool") ? "" : SERVE_NO_TOOLS);
	if (t->asked == user)
		return err_set(e, ERR_USAGE,
			"messages: the user's and the assistant's turns alternate, the user's first");
	if (!t->begun && begin(t, answer_system(t->s->o.answer, t->s->info->default_system), e))
		return -1;
	t->asked = user;
	return user ? template_user(t->s->info->chat, t->s->tokenizer, text, strlen(text), &t->p->ids,
					  &t->p->n, &t->p->cap, e)
				: add_answer(t, text, e);
}

/* The conversation with this message, of which only the first bytes are known, to *to: what it has
 * in common with the whole is stable. */
static int add_beginning(const struct talk *t, const char *role, const char *text, size_t bytes,
	struct ask_prompt *to, struct err *e)
{
	struct talk begun = *t;
	char *known = strndup(text, bytes);
	int rc;

	to->n = 0;
	begun.p = to;
	if (!known || !ARRAY_ROOM(to->ids, to->cap, t->p->n + 1)) {
		free(known);
		return err_set(e, ERR_MEMORY, "out of memory for the prompt");
	}
	if (t->p->n)
		memcpy(to->ids, t->p->ids, t->p->n * sizeof *to->ids);
	to->n = t->p->n;
	rc = add_message(&begun, role, known, e);
	free(known);
	return rc;
}

/* A pin ends where its last message might go on. */
static int add_longer(
	struct talk *t, const char *role, const char *text, struct ask_prompt *to, struct err *e)
{
	static const char more[] = "\n\nMore";
	const size_t n = strlen(text);
	char *longer = malloc(n + sizeof more);
	int rc;

	if (!longer)
		return err_set(e, ERR_MEMORY, "out of memory for the prompt");
	memcpy(longer, text, n);
	memcpy(longer + n, more, sizeof more);
	rc = add_beginning(t, role, longer, n + sizeof more - 1, to, e);
	free(longer);
	return rc;
}

static int read_message(
	struct ask *a, struct talk *t, const cJSON *m, struct ask_prompt *stable, struct err *e)
{
	const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "role"));
	const cJSON *calls = cJSON_GetObjectItemCaseSensitive(m, "tool_calls");
	struct mark mark = { 0 };
	size_t size = 0;

	if (calls && calls->child)
		return err_set(e, ERR_USAGE, "messages: tool_calls are not served here%s", SERVE_NO_TOOLS);
	char *text = !role ? NULL
					   : read_text(cJSON_GetObjectItemCaseSensitive(m, "content"), "content", &size,
							 &mark, e);
	int rc = text ? 0 : err_set(e, ERR_USAGE, "messages: role and content are needed");

	if (!rc && ask_cache_control(m, &mark.ttl_ns, e) > 0)
		mark.bytes = size;
	rc = rc || e->code ? -1 : 0;
	if (!rc && a->kind == ASK_PIN && !m->next)
		rc = add_longer(t, role, text, stable, e);
	else if (!rc && mark.bytes) {
		a->pin_ttl_ns = mark.ttl_ns;
		rc = add_beginning(t, role, text, mark.bytes, stable, e);
	}
	if (!rc)
		rc = add_message(t, role, text, e);
	if (!rc && (t->asked || a->kind == ASK_PIN))
		label(a, text);
	free(text);
	return rc;
}

static int read_messages(struct ask *a, const cJSON *list, const struct serve *s, struct err *e)
{
	struct talk t = { .s = s, .p = &a->prompt[0] };
	struct ask_prompt stable = { 0 };
	const cJSON *m;
	int rc = 0;

	a->n_prompts = 1;
	if (!cJSON_IsArray(list) || !list->child)
		return err_set(e, ERR_USAGE, "messages: a list of messages is needed");
	cJSON_ArrayForEach(m, list)
	{
		rc = read_message(a, &t, m, &stable, e);
		if (rc)
			break;
	}
	if (!rc)
		a->pin[0] = ask_common(&stable, t.p);
	if (!rc && a->kind == ASK_PIN)
		t.p->n = (size_t)a->pin[0];
	free(stable.ids);
	if (rc || t.asked || a->kind == ASK_PIN)
		return rc;
	return err_set(e, ERR_USAGE, "messages: the last one must be the user's");
}

/* ---- texts and ids ---- */

int ask_ids(struct ask_prompt *p, const cJSON *list, const struct serve *s, struct err *e)
{
	const cJSON *id;

	cJSON_ArrayForEach(id, list)
	{
		if (!cJSON_IsNumber(id) || id->valuedouble < 0 || id->valuedouble >= s->info->vocab ||
			id->valuedouble != (int32_t)id->valuedouble)
			return err_set(e, ERR_USAGE, "prompt: token ids are whole numbers from 0 to %d",
				s->info->vocab - 1);
		if (!ARRAY_ROOM(p->ids, p->cap, p->n + 1))
			return err_set(e, ERR_MEMORY, "out of memory for the prompt");
		p->ids[p->n++] = (int32_t)id->valuedouble;
	}
	return 0;
}

static int read_prompt(struct ask *a, const cJSON *v, const struct serve *s, struct err *e)
{
	struct ask_prompt *p = &a->prompt[a->n_prompts];

	if (a->n_prompts == ASK_PROMPTS)
		return err_set(e, ERR_USAGE, "prompt: at most %d at once are answered", ASK_PROMPTS);
	a->n_prompts++;
	if (cJSON_IsString(v)) {
		label(a, v->valuestring);
		if (ask_encode(s->tokenizer, v->valuestring, p, e))
			return -1;
	} else if (!cJSON_IsArray(v)) {
		return err_set(
			e, ERR_USAGE, "prompt: a text, a list of token ids, or a list of these is needed");
	} else if (ask_ids(p, v, s, e)) {
		return -1;
	}
	return p->n ? 0
				: err_set(e, ERR_USAGE, "prompt: it is empty, and a token is needed to go on from");
}

int ask_prompts(struct ask *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const cJSON *prompt = cJSON_GetObjectItemCaseSensitive(o, "prompt"), *v;

	if (a->kind == ASK_CHAT || (a->kind == ASK_PIN && !prompt))
		return read_messages(a, cJSON_GetObjectItemCaseSensitive(o, "messages"), s, e);
	if (!prompt)
		return err_set(e, ERR_USAGE, "prompt: it is missing");
	if (a->kind == ASK_PIN && cJSON_IsArray(prompt) && !cJSON_IsNumber(prompt->child))
		return err_set(e, ERR_USAGE, "prompt: one text, or a list of token ids, can be pinned");
	if (!cJSON_IsArray(prompt) || !prompt->child || cJSON_IsNumber(prompt->child))
		return read_prompt(a, prompt, s, e);
	cJSON_ArrayForEach(v, prompt) if (read_prompt(a, v, s, e)) return -1;
	return 0;
}
