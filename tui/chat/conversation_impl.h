/* Internal: what conversation.c and conversation_back.c share. See conversation.h. */
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tui/chat/conversation.h"

enum { ANSWERS_MAX = 64 };

struct turn {
	char *text;
	/* of the answer that the conversation went on with, without its end, once another turn follows
	 */
	int32_t *answer;
	size_t n_answer;
	bool after_text; /* see struct chat_message */
	int mark;        /* index in mark[]; -1: none */
};

/* The state of the conversation when a turn was submitted. */
struct mark {
	int32_t *ids;
	struct turn *turn; /* the last one is the submitted turn */
	int32_t n;
	int n_turns;
	int64_t sample;
};

struct asked {
	int64_t request;
	int mark; /* index in mark[] */
};

struct answer {
	int64_t request;
	int32_t *ids; /* after the opening of the answer, including those from a fork's prompt */
	int32_t n, cap;
	bool finished;
};

struct conversation {
	struct chat_input of; /* without messages */
	char *system;
	int32_t ctx;
	int32_t *ids; /* of the last prompt, and of its answer once it is closed */
	size_t n, cap;
	struct turn *turn;
	int n_turns;
	bool open; /* the last turn's answer is in answer[] yet */
	struct mark *mark;
	int n_marks, cap_marks;
	pthread_mutex_t lock; /* of everything below */
	int64_t sample;       /* the first sample number that no answer to the present turn has used */
	int marked;           /* the present turn's mark, or -1 */
	int32_t marked_n;
	struct asked *asked; /* by request */
	int n_asked, cap_asked;
	struct answer answer[ANSWERS_MAX];
	int n_answers, chosen;
	int32_t expected;
	bool lost; /* out of memory for an answer's ids: the conversation cannot continue with it */
};

/* conversation.c. Those of answers are called with the lock held. */
void conv_answers_clear(struct conversation *c);
void conv_turn_free(struct turn *t);
struct answer *conv_answer_of(struct conversation *c, int64_t request);
/* there is room in answer[] */
struct answer *conv_answer_begin(struct conversation *c, int64_t request);
void conv_answer_add(struct conversation *c, struct answer *a, int32_t id);
int conv_append(struct conversation *c, const int32_t *ids, size_t n, struct err *e);

/* Of a turn that ends with this answer, which has a token: its length and after_text. */
void conv_measure(const struct conversation *c, const struct answer *a, struct turn *t);

/* conversation_fit.c: the prompt of a new turn, without as many of the oldest turns as make room
 * for the answer. Nothing of c changes, and the lock is not needed. */
int conv_fitting(const struct conversation *c, const char *text, size_t size, int32_t room,
	bool drop, int32_t **ids, size_t *n, struct conversation_prompt *out, struct err *e);

/* conversation_back.c: saves the state at the turn being submitted. If that fails (memory), the
 * turn cannot be gone back to. */
void conv_make_mark(struct conversation *c);
/* Restores the state of the mark. Called with the lock held. */
int conv_take_mark(struct conversation *c, int mark, struct err *e);
void conv_marks_free(struct conversation *c);
