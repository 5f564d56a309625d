/* Prompts of a request as token ids: conversations through the model's chat template, texts, and
 * ids as they are. */
#include "base/ids.h"
#include "serve/serve_impl.h"

#include "base/text.h"

/* What a message declares stable: so many bytes of its text; 0: nothing. */
struct mark {
	size_t bytes;
	int64_t ttl_ns;
};

/* The text of a part, an assistant's refusal too, which may be declared stable up to its end. */
static void read_part(FILE *f, const cJSON *part, const char *name, const size_t *size,
	struct mark *mark, struct err *e)
{
	const bool refuses = foreign_is(foreign_member(part, "type"), "refusal");
	const char *t = foreign_text(part, refuses ? "refusal" : "text");

	if (!t)
		err_set(e, ERR_USAGE, "%s: only parts of type text can be read", name);
	else
		fputs(t, f);
	if (!e->code && query_cache_control(part, &mark->ttl_ns, e) > 0 && !fflush(f))
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
static void label(struct query *a, const char *text)
{
	const size_t n = text_fit(text, strnlen(text, sizeof a->label - 1));

	memcpy(a->label, text, n);
	a->label[n] = '\0';
}

int query_encode(const struct tokenizer *t, const char *text, struct query_prompt *p, struct err *e)
{
	return tokenizer_encode_prompt(t, text, strlen(text), &p->begun, &p->ids, &p->n, &p->cap, e);
}

/* ---- a conversation ---- */

struct talk {
	struct chat_input chat; /* its messages' texts are malloc'd */
	struct chat_message *message;
	struct mark *mark; /* [chat.n] */
	const char *own;   /* the server's own system text */
	bool has_system;
};

static void free_message(struct chat_message *m)
{
	free((void *)(uintptr_t)m->text);
	free((void *)(uintptr_t)m->calls);
	free((void *)(uintptr_t)m->calls_text);
}

static void talk_free(struct talk *t)
{
	for (size_t i = 0; i < t->chat.n; i++)
		free_message(&t->message[i]);
	free(t->message);
	free(t->mark);
}

/* Takes text. What calls and thoughts the message has lies in its JSON. */
static int push(struct talk *t, const cJSON *m, const char *role, struct gguf_text text,
	struct mark mark, struct err *e)
{
	const cJSON *calls = foreign_member(m, "tool_calls");
	const bool has = calls && calls->child && !strcmp(role, "assistant");
	const char *thought = foreign_text(m, "reasoning_content");
	struct chat_message *to = &t->message[t->chat.n];

	*to = (struct chat_message){ .role = role,
		.text = text.data,
		.size = text.size,
		.call_id = foreign_text(m, "tool_call_id"),
		.name = foreign_text(m, "name"),
		.thought = thought ? thought : foreign_text(m, "reasoning") };
	t->mark[t->chat.n++] = mark;
	if (has)
		to->calls = query_calls(calls, false, e);
	if (to->calls)
		to->calls_text = query_calls(calls, true, e);
	return e->code ? -1 : 0;
}

/* A developer is the system where the template does not know of one. */
static int read_role(const struct talk *t, const cJSON *m, const char **role, struct err *e)
{
	*role = foreign_text(m, "role");
	if (!*role)
		return err_set(e, ERR_USAGE, "messages: a role is needed");
	if (!strcmp(*role, "function"))
		return err_set(e, ERR_USAGE, "messages: the role function is called tool");
	if (!strcmp(*role, "developer") && !strstr(t->chat.c->jinja, "developer"))
		*role = "system";
	return 0;
}

static int read_message(struct query *a, struct talk *t, const cJSON *m, struct err *e)
{
	const cJSON *content = foreign_member(m, "content");
	struct mark mark = { 0 };
	const char *role;
	size_t size = 0;
	char *text;

	if (read_role(t, m, &role, e))
		return -1;
	if (!content && strcmp(role, "assistant"))
		return err_set(e, ERR_USAGE, "messages: content: a text is needed");
	text = content && !cJSON_IsNull(content) ? read_text(content, "content", &size, &mark, e)
											 : strdup("");
	if (!text)
		return err_set(e, ERR_MEMORY, "out of memory for the text");
	if (query_cache_control(m, &mark.ttl_ns, e) > 0)
		mark.bytes = size;
	if (mark.bytes)
		a->pin_ttl_ns = mark.ttl_ns;
	if (!strcmp(role, "user"))
		label(a, text);
	t->has_system |= !strcmp(role, "system") || !strcmp(role, "developer");
	return push(t, m, role, (struct gguf_text){ text, size }, mark, e) || e->code ? -1 : 0;
}

static int read_list(struct query *a, struct talk *t, const cJSON *list, struct err *e)
{
	const size_t n = (size_t)cJSON_GetArraySize(list);
	const cJSON *m;
	char *own;

	t->message = calloc(n + 1, sizeof *t->message);
	t->mark = calloc(n + 1, sizeof *t->mark);
	if (!t->message || !t->mark)
		return err_set(e, ERR_MEMORY, "out of memory for the messages");
	cJSON_ArrayForEach(m, list) if (read_message(a, t, m, e)) return -1;
	if (t->has_system || !template_takes(t->chat.c, t->own))
		return 0;
	if (!(own = strdup(t->own)))
		return err_set(e, ERR_MEMORY, "out of memory for the messages");
	memmove(t->message + 1, t->message, t->chat.n * sizeof *t->message);
	memmove(t->mark + 1, t->mark, t->chat.n * sizeof *t->mark);
	t->message[0] = (struct chat_message){ .role = "system", .text = own, .size = strlen(own) };
	t->mark[0] = (struct mark){ 0 };
	t->chat.n++;
	return 0;
}

/* ---- what of it is stable ---- */

/* The conversation up to the first bytes of message i, closed as the template closes it, or before
 * another turn. A template that refuses such a beginning leaves nothing stable. */
static int32_t pin_at(const struct talk *t, size_t i, const struct query_prompt *p)
{
	struct chat_message *m = calloc(i + 2, sizeof *m);
	struct chat_input begun = t->chat;
	struct query_prompt to = { 0 };
	struct err ignored = { 0 };
	int32_t n = 0;

	if (!m)
		return 0;
	memcpy(m, t->message, (i + 1) * sizeof *m);
	m[i].size = t->mark[i].bytes;
	begun.message = m;
	begun.n = i + 1;
	if (strcmp(m[i].role, "user"))
		m[begun.n++] = (struct chat_message){ .role = "user", .text = "…", .size = strlen("…") };
	if (!template_ids(&begun, NULL, 0, &to.ids, &to.n, &to.cap, &ignored))
		n = ids_common(to.ids, (int64_t)to.n, p->ids, (int64_t)p->n);
	free(to.ids);
	free(m);
	return n;
}

/* A pin ends where its last message might go on. */
static int pin_all(const struct talk *t, const struct query_prompt *p, int32_t *n, struct err *e)
{
	static const char more[] = "\n\nMore";
	struct chat_message *last = &t->message[t->chat.n - 1], was = *last;
	struct query_prompt to = { 0 };
	char *longer = malloc(last->size + sizeof more);
	int rc = longer ? 0 : err_set(e, ERR_MEMORY, "out of memory for the prompt");

	if (!rc) {
		memcpy(longer, was.text, was.size);
		memcpy(longer + was.size, more, sizeof more);
		last->text = longer;
		last->size += sizeof more - 1;
		rc = template_ids(&t->chat, NULL, 0, &to.ids, &to.n, &to.cap, e);
		*last = was;
		*n = rc ? 0 : ids_common(to.ids, (int64_t)to.n, p->ids, (int64_t)p->n);
	}
	free(to.ids);
	free(longer);
	return rc;
}

/* The prompt of the whole conversation, or of what of it fits: then the talk has that alone. */
static int render(struct query *a, struct talk *t, const struct serve *s, struct err *e)
{
	const int32_t room = answer_room(&a->set, s->info->ctx);
	const bool drops = a->kind == QUERY_CHAT && answer_drops(&a->set);
	struct query_prompt *p = &a->prompt[0];
	size_t n = 0;

	t->chat.message = t->message;
	if (fit_ids(&t->chat, drops ? (size_t)(s->info->ctx - room) : SIZE_MAX, NULL, 0, &p->ids, &p->n,
			&a->left, e))
		return -1;
	for (size_t i = 0; i < t->chat.n; i++)
		if (i < a->left.before && !fit_stays(&t->message[i])) {
			free_message(&t->message[i]);
		} else {
			t->message[n] = t->message[i];
			t->mark[n++] = t->mark[i];
		}
	t->chat.n = n;
	return 0;
}

static int read_messages(struct query *a, const cJSON *list, const struct serve *s, struct err *e)
{
	struct talk t = { .chat = { .c = s->info->chat,
						  .t = s->tokenizer,
						  .now = s->info->now,
						  .open = true,
						  .variable = a->variable,
						  .n_variables = (size_t)a->n_variables },
		.own = answer_system(s->o.answer, NULL) };
	struct query_prompt *p = &a->prompt[0];
	struct err why = { 0 };
	int rc;

	a->n_prompts = 1;
	if (!cJSON_IsArray(list) || !list->child)
		return err_set(e, ERR_USAGE, "messages: a list of messages is needed");
	rc = read_list(a, &t, list, e);
	if (!rc && render(a, &t, s, &why))
		rc = err_set(e, why.code == ERR_INPUT ? ERR_USAGE : why.code, "messages: %s", why.text);
	if (!rc && a->kind == QUERY_PIN) {
		rc = pin_all(&t, p, &a->pin[0], e);
		p->n = (size_t)a->pin[0];
	}
	a->begun = !rc && parts_is_begun(t.chat.c->thought, s->tokenizer, p->ids, p->n);
	for (size_t i = t.chat.n; !rc && a->kind != QUERY_PIN && !a->pin[0] && i-- > 0;)
		if (t.mark[i].bytes)
			a->pin[0] = pin_at(&t, i, p);
	talk_free(&t);
	return rc;
}

/* ---- texts and ids ---- */

int query_ids(struct query_prompt *p, const cJSON *list, const char *field, const struct serve *s,
	struct err *e)
{
	const cJSON *id;

	cJSON_ArrayForEach(id, list)
	{
		if (!cJSON_IsNumber(id) || id->valuedouble < 0 || id->valuedouble >= s->info->vocab ||
			id->valuedouble != (int32_t)id->valuedouble)
			return err_set(e, ERR_USAGE, "%s: token ids are whole numbers from 0 to %d", field,
				s->info->vocab - 1);
		if (query_append(p, &(int32_t){ (int32_t)id->valuedouble }, 1, e))
			return -1;
	}
	return 0;
}

/* Nothing follows a text whose vector is asked for, so it ends as the model's file says. */
static int read_plain(struct query *a, const char *text, struct query_prompt *p,
	const struct tokenizer *t, struct err *e)
{
	const int32_t eos = tokenizer_eos(t);

	label(a, text);
	if (query_encode(t, text, p, e))
		return -1;
	if (a->kind != QUERY_EMBED || !tokenizer_adds_eos(t) || (p->n && p->ids[p->n - 1] == eos))
		return 0;
	return query_append(p, &eos, 1, e);
}

static int read_prompt(
	struct query *a, const cJSON *v, const char *field, const struct serve *s, struct err *e)
{
	struct query_prompt *p = &a->prompt[a->n_prompts];

	if (a->n_prompts == QUERY_PROMPTS)
		return err_set(e, ERR_USAGE, "%s: at most %d at once are answered", field, QUERY_PROMPTS);
	a->n_prompts++;
	if (cJSON_IsString(v)) {
		if (read_plain(a, v->valuestring, p, s->tokenizer, e))
			return -1;
	} else if (!cJSON_IsArray(v)) {
		return err_set(
			e, ERR_USAGE, "%s: a text, a list of token ids, or a list of these is needed", field);
	} else if (query_ids(p, v, field, s, e)) {
		return -1;
	}
	return p->n ? 0
				: err_set(
					  e, ERR_USAGE, "%s: it is empty, and a token is needed to go on from", field);
}

int query_prompts(struct query *a, const cJSON *o, const struct serve *s, struct err *e)
{
	const char *field = a->kind == QUERY_EMBED ? "input" : "prompt";
	const cJSON *prompt = foreign_member(o, field), *v;

	if (a->kind == QUERY_INFILL)
		return query_infill(a, o, s, e);
	if (a->kind == QUERY_CHAT || (a->kind == QUERY_PIN && !prompt))
		return read_messages(a, foreign_member(o, "messages"), s, e);
	if (!prompt)
		return err_set(e, ERR_USAGE, "%s: it is missing", field);
	if ((a->kind == QUERY_PIN || a->kind == QUERY_SCORE || a->kind == QUERY_TOKENIZE) &&
		cJSON_IsArray(prompt) && prompt->child && !cJSON_IsNumber(prompt->child))
		return err_set(e, ERR_USAGE, "prompt: one text, or a list of token ids, is taken here");
	if (!cJSON_IsArray(prompt) || !prompt->child || cJSON_IsNumber(prompt->child))
		return read_prompt(a, prompt, field, s, e);
	cJSON_ArrayForEach(v, prompt) if (read_prompt(a, v, field, s, e)) return -1;
	return 0;
}
