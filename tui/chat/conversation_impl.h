/* Internal: what conversation.c and conversation_fit.c share. See conversation.h. */
#pragma once

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tui/chat/conversation.h"

enum { ANSWERS_MAX = 64 };

/* An answer that another turn follows. */
struct said {
	int32_t *ids;
	size_t n;        /* without its end */
	bool after_text; /* see struct chat_message */
};

/* A turn that was submitted. It stays as it is, so that one can go back to it, and branches share
 * what they have in common. */
struct turn {
	struct turn *before; /* that it follows, or NULL */
	struct said said;    /* the answer to that one */
	char *text;
	int32_t *ids, n;    /* its prompt */
	int n_turns;        /* that the conversation has with it: those before them were left out */
	int64_t sample;     /* the first number that no answer to it has used */
	struct turn *older; /* submitted before it, in whichever branch */
};

struct asked {
	int64_t request;
	struct turn *turn;
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
	struct turn *newest;  /* of all that were submitted */
	pthread_mutex_t lock; /* of everything below */
	struct turn *turn;    /* the last one; NULL: none */
	struct asked *asked;  /* by request */
	int n_asked, cap_asked;
	struct answer answer[ANSWERS_MAX]; /* to the last turn */
	int n_answers, chosen;
	struct answer kept; /* to it, before it was answered again; followed until there is another */
	int32_t expected;
	bool lost; /* out of memory for an answer's ids: the conversation cannot continue with it */
};

/* What the next turn follows. */
struct followed {
	struct turn *turn; /* NULL: nothing */
	int n_turns;
	struct said said; /* the answer to it */
	/* malloc'd: the last prompt and the answer to it, a hint of what may be found again */
	int32_t *ids;
	size_t n;
};

/* The answer that is followed: the chosen one, but if that was stopped before its first token the
 * newest that has some. NULL: none. Called with the lock held. */
struct answer *conv_answer(struct conversation *c);
/* That answer, where it stands; a turn that was never answered is not followed. Called with the
 * lock held. f->ids is the caller's to free, also after an error. */
int conv_follow(struct conversation *c, struct followed *f, struct err *e);
/* The prompt of a new turn, without as many of the oldest turns as make room for the answer.
 * Nothing of c changes, and the lock is not needed. */
int conv_fitting(const struct conversation *c, const struct followed *f, const char *text,
	size_t size, int32_t room, bool drop, int32_t **ids, size_t *n, struct conversation_prompt *out,
	struct err *e);
