/* Prompts of a request as token ids: conversations through the model's chat template, texts, and
 * ids as they are. */
#include "sessions/serve/serve_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

/* Of a string, or of a list of text parts; malloc'd. */
static char *read_text(const cJSON *value, const char *name, size_t *size, struct err *e)
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
		cJSON_ArrayForEach(part, value)
		{
			const char *t = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(part, "text"));

			if (t)
				fputs(t, f);
			else
				err_set(e, ERR_USAGE, "%s: only parts of type text can be read", name);
		}
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
		p->ids[p->n++] = tokenizer_bos(t);
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
		return err_set(e, ERR_USAGE, "messages: role %.40s is not served here", role);
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

static int read_messages(struct ask *a, const cJSON *list, const struct serve *s, struct err *e)
{
	struct talk t = { .s = s, .p = &a->prompt[0] };
	const cJSON *m;

	a->n_prompts = 1;
	if (!cJSON_IsArray(list) || !list->child)
		return err_set(e, ERR_USAGE, "messages: a list of messages is needed");
	cJSON_ArrayForEach(m, list)
	{
		const char *role = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(m, "role"));
		size_t size;
		char *text =
			role ? read_text(cJSON_GetObjectItemCaseSensitive(m, "content"), "content", &size, e)
				 : NULL;
		int rc = text ? add_message(&t, role, text, e)
					  : err_set(e, ERR_USAGE, "messages: role and content are needed");

		if (!rc && t.asked)
			label(a, text);
		free(text);
		if (rc)
			return -1;
	}
	return t.asked ? 0 : err_set(e, ERR_USAGE, "messages: the last one must be the user's");
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

	if (a->kind == ASK_CHAT)
		return read_messages(a, cJSON_GetObjectItemCaseSensitive(o, "messages"), s, e);
	if (!prompt)
		return err_set(e, ERR_USAGE, "prompt: it is missing");
	if (!cJSON_IsArray(prompt) || !prompt->child || cJSON_IsNumber(prompt->child))
		return read_prompt(a, prompt, s, e);
	cJSON_ArrayForEach(v, prompt) if (read_prompt(a, v, s, e)) return -1;
	return 0;
}
