/* See dialect.h. */
#include "serve/dialect.h"

/* ---- requests ---- */

static const struct dialect_field *field_of(const struct dialect *d, const char *name)
{
	for (size_t i = 0; i < d->n_fields; i++)
		if (!strcmp(d->field[i].name, name))
			return &d->field[i];
	return NULL;
}

static void add_field(const struct dialect *d, cJSON *chat, const cJSON *v, struct err *e)
{
	const struct dialect_field *f = field_of(d, v->string);
	const char *as = f ? f->as : v->string;

	if (cJSON_IsNull(v))
		return;
	if (f && f->refused && !cJSON_IsFalse(v))
		err_set(e, ERR_USAGE, "%s: it is not served here%s", f->name, f->refused);
	else if (f && f->read)
		f->read(chat, v, e);
	else if (as)
		dialect_copy(chat, as, v);
}

cJSON *dialect_chat(const struct dialect *d, const cJSON *o, struct err *e)
{
	cJSON *chat = cJSON_CreateObject();
	const char *twice;
	const cJSON *v;

	cJSON_ArrayForEach(v, o)
	{
		add_field(d, chat, v, e);
	}
	twice = foreign_json_twice(chat, e);
	if (twice)
		err_set(e, ERR_USAGE, "%s: another field says it already", twice);
	if (!e->code)
		d->messages(chat, o, e);
	if (!e->code)
		return chat;
	cJSON_Delete(chat);
	return NULL;
}

void dialect_name(const struct dialect *d, struct err *e)
{
	char text[sizeof e->text];

	for (size_t i = 0; i < d->n_fields; i++) {
		const char *as = d->field[i].as;
		const size_t n = as ? strlen(as) : 0;

		if (!n || strncmp(e->text, as, n) != 0 || (e->text[n] != ':' && e->text[n] != ' '))
			continue;
		snprintf(text, sizeof text, "%s%s", d->field[i].name, e->text + n);
		memcpy(e->text, text, sizeof text);
		return;
	}
}

/* ---- messages ---- */

void dialect_copy(cJSON *to, const char *name, const cJSON *v)
{
	if (v)
		cJSON_AddItemToObject(to, name, cJSON_Duplicate(v, true));
}

cJSON *dialect_message(cJSON *messages, const char *role)
{
	cJSON *m = cJSON_CreateObject();

	cJSON_AddStringToObject(m, "role", role);
	cJSON_AddItemToArray(messages, m);
	return m;
}

cJSON *dialect_answer(const cJSON *messages)
{
	cJSON *last = messages->child ? messages->child->prev : NULL; /* at hand, however many */

	return foreign_is(foreign_member(last, "role"), "assistant") ? last : NULL;
}

cJSON *dialect_assistant(cJSON *messages)
{
	cJSON *last = dialect_answer(messages);

	return last ? last : dialect_message(messages, "assistant");
}

cJSON *dialect_tool(cJSON *tools)
{
	cJSON *tool = cJSON_CreateObject();

	cJSON_AddItemToArray(tools, tool);
	cJSON_AddStringToObject(tool, "type", "function");
	return cJSON_AddObjectToObject(tool, "function");
}

void dialect_add_thought(cJSON *m, const cJSON *parts, const char *type, const char *name)
{
	char *all = NULL;
	size_t size;
	FILE *f = open_memstream(&all, &size);
	const cJSON *part;
	bool any = false;

	cJSON_ArrayForEach(part, parts)
	{
		const char *text = foreign_text(part, name);

		if (!f || !text || (type && !foreign_is(foreign_member(part, "type"), type)))
			continue;
		fputs(text, f);
		any = true;
	}
	if (f && !fclose(f) && any)
		cJSON_AddStringToObject(m, "reasoning_content", all);
	free(all);
}

void dialect_add_call(cJSON *m, const cJSON *id, const cJSON *name, const cJSON *arguments)
{
	cJSON *calls = foreign_member(m, "tool_calls");
	cJSON *call = cJSON_CreateObject(), *function = cJSON_AddObjectToObject(call, "function");

	if (!calls)
		calls = cJSON_AddArrayToObject(m, "tool_calls");
	dialect_copy(call, "id", id);
	dialect_copy(function, "name", name);
	dialect_copy(function, "arguments", arguments);
	cJSON_AddItemToArray(calls, call);
}

/* ---- parts ---- */

/* Of the stage: 0 the thought, 1 the text, then the calls. Whether it is there. */
static bool part_at(const struct choice *c, size_t stage, struct part *p)
{
	const struct parts *a = &c->parts;
	const struct parts_text *t = stage == 0               ? &a->thoughts
								 : stage == 1             ? &a->text
								 : stage < a->n_calls + 2 ? &a->call[stage - 2].args
														  : NULL;

	*p = (struct part){ .kind = stage < 2 ? (enum part_kind)stage : PART_CALL };
	if (!t)
		return false;
	p->text = t->n ? t->text : "";
	p->n = t->n;
	if (stage < 2)
		return t->n;
	p->name = a->call[stage - 2].name.n ? a->call[stage - 2].name.text : "";
	reply_call_id(c, stage - 2, p->id);
	return a->call[stage - 2].name.n;
}

static bool is_empty(const struct choice *c)
{
	return !c->parts.thoughts.n && !c->parts.text.n && !c->parts.n_calls;
}

/* Whether a later part has begun. */
static bool is_over(const struct choice *c, size_t stage)
{
	struct part p;

	for (size_t i = stage + 1; i < c->parts.n_calls + 2; i++)
		if (part_at(c, i, &p))
			return true;
	return false;
}

/* Of an answer that has ended: its last part, unless it came to its end there. */
static bool is_cut(const struct choice *c, size_t stage)
{
	const char *reason = reply_reason(c);

	return !is_over(c, stage) && strcmp(reason, "stop") != 0 && strcmp(reason, "tool_calls") != 0;
}

bool dialect_part(const struct choice *c, int32_t i, struct part *p)
{
	int32_t n = 0;

	for (size_t stage = 0; stage < c->parts.n_calls + 2; stage++)
		if (part_at(c, stage, p) || (stage == 1 && is_empty(c))) {
			p->index = n;
			p->cut = is_cut(c, stage);
			if (n++ == i)
				return true;
		}
	return false;
}

/* ---- streams ---- */

void dialect_event(struct job *j, const char *name, struct json *o)
{
	j->failed |= stream_json(j, name, "", o, "\n\n") != 0;
}

/* Whether the next part is to be told now. */
static bool tell_part(struct job *j, struct choice *c, bool last, struct part *p)
{
	const struct dialect *d = j->query.dialect;
	const bool there = part_at(c, c->stage, p) || (last && c->stage == 1 && is_empty(c));
	struct part begun = *p;

	p->index = begun.index = c->n_told;
	begun.n = 0;
	if (there && !c->telling)
		d->part_begin(j, &begun);
	c->telling |= there;
	if (c->telling && p->n > c->told)
		d->part_more(j, p, p->text + c->told, p->n - c->told);
	c->told = p->n;
	if (!last && !is_over(c, c->stage))
		return false;
	p->cut = last && is_cut(c, c->stage);
	if (c->telling)
		d->part_end(j, p);
	c->n_told += c->telling;
	c->telling = false;
	c->told = 0;
	c->stage++;
	return true;
}

int dialect_grow(struct job *j, bool last)
{
	struct choice *c = &j->choice[0];
	struct part p;

	if (!j->greeted)
		j->query.dialect->begin(j);
	j->greeted = true;
	reply_grow(c, last);
	while (c->stage < c->parts.n_calls + 2 && tell_part(j, c, last, &p))
		;
	if (last && !j->done) {
		j->done = true;
		j->query.dialect->end(j);
	}
	return j->failed ? -1 : 0;
}
