/* Other interfaces in front of conversations: OpenAI's Responses (responses.c) and Anthropic's
 * Messages (messages.c). A request becomes one of /v1/chat/completions; its answer is told as parts
 * in order: a thought, a text, calls. See serve_impl.h. */
#pragma once

#include "serve/serve_impl.h"

enum part_kind { PART_THOUGHT, PART_TEXT, PART_CALL };

/* A part of an answer, as far as it has come. */
struct part {
	enum part_kind kind;
	const char *text; /* [n]; of a call its arguments */
	size_t n;
	const char *name;       /* of a call */
	char id[REPLY_CALL_ID]; /* of a call */
	int32_t index;          /* among the parts that there are */
	bool cut;               /* the answer broke off within it */
};

/* What becomes of a field of a request. */
struct dialect_field {
	const char *name;
	const char *as; /* the chat's name for it; NULL: left out */
	/* In place of the value itself. */
	void (*read)(cJSON *chat, const cJSON *v, struct err *e);
	const char *refused; /* why any value but null and false is */
};

struct dialect {
	const struct dialect_field *field;
	size_t n_fields;
	/* The conversation of the whole request. */
	void (*messages)(cJSON *chat, const cJSON *o, struct err *e);
	/* Of a stream: its head; parts as they begin, grow by [n] bytes and end; its end. */
	void (*begin)(struct job *j);
	void (*part_begin)(struct job *j, const struct part *p);
	void (*part_more)(struct job *j, const struct part *p, const char *text, size_t n);
	void (*part_end)(struct job *j, const struct part *p);
	void (*end)(struct job *j);
	bool types_errors; /* an error's object begins with its type */
};

extern const struct dialect dialect_responses, dialect_messages;
reply_fn reply_response, reply_message; /* as a whole */

/* The same request for /v1/chat/completions. Other fields stay as they are. */
cJSON *dialect_chat(const struct dialect *d, const cJSON *o, struct err *e);
/* An error of the chat's words begins with the name of the field that was sent. */
void dialect_name(const struct dialect *d, struct err *e);

/* The parts of an answer that has ended: part i, from 0; false: there is none. A text is there
 * where nothing else is. */
bool dialect_part(const struct choice *c, int32_t i, struct part *p);
int dialect_grow(struct job *j, bool last);
/* Whether the answer has ended, so that what the engine's thread writes of it may be read. */
static inline bool dialect_ended(const struct job *j)
{
	return j->done || !j->query.stream;
}
/* Appends an event to the stream. Takes the object. */
void dialect_event(struct job *j, const char *name, struct json *o);

/* A new message of these; the last one, if it is an assistant's, or NULL; that, or a new one. */
cJSON *dialect_message(cJSON *messages, const char *role);
cJSON *dialect_answer(const cJSON *messages);
cJSON *dialect_assistant(cJSON *messages);
/* Adds a copy of a value, if there is one. */
void dialect_copy(cJSON *to, const char *name, const cJSON *v);
/* A tool of the chat's: its function, to be filled. */
cJSON *dialect_tool(cJSON *tools);
/* A message's thought: the texts of that name of all parts of a type (NULL: of any). */
void dialect_add_thought(cJSON *message, const cJSON *parts, const char *type, const char *name);
/* Adds a call to a message; arguments: a text of JSON, or JSON. */
void dialect_add_call(cJSON *message, const cJSON *id, const cJSON *name, const cJSON *arguments);
