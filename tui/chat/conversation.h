/* A conversation: its turns' texts, which the chat template renders whole for each prompt, and the
 * ids of the last one, of which those stay that the template says again (tokenising drawn text
 * again could miss the prefix cache).
 *
 * The ids of answers come straight from the engine's events (conversation_sink is a sink), never
 * from the screen's ring, which may lose events when the terminal is slow. One turn may have
 * several answers (fork); the conversation continues with the chosen one.
 *
 * Thread: conversation_sink runs on the engine's, everything else on the UI's; a lock guards the
 * answers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "engine/text/template.h"
#include "engine/text/tokenizer.h"

struct conversation;

/* of: template, tokenizer and day, which must outlive it. ctx: longest sequence in tokens. system
 * as in template_takes. */
int conversation_open(struct conversation **c, const struct chat_input *of, int32_t ctx,
	const char *system, struct err *e);
void conversation_close(struct conversation *c); /* NULL is fine */

/* Collects the ids of answers. Added to the engine before it begins. */
void conversation_sink(void *conversation, const struct event *ev);

/* Begins anew; system as in template_takes. */
int conversation_new(struct conversation *c, const char *system, struct err *e);

/* A prompt ready to be submitted. ids belong to the conversation and are valid until its next
 * call. */
struct conversation_prompt {
	const int32_t *ids;
	int32_t n_ids;
	const char *text; /* what was typed */
	int64_t sample;
	int32_t trimmed_tokens, trimmed_turns; /* left out to make room */
	/* of what it has from before: tokens that stand where they stood, and others, which are
	 * computed again */
	int32_t same, moved;
};
/* A new turn. room: tokens to keep free for the answer. With drop, the oldest turns are dropped
 * until it fits; without, or if it can never fit, an error with the numbers. */
/* Whether the model is to think before the answers that follow: see template_think(). */
void conversation_think(struct conversation *c, const char *word);
int conversation_ask(struct conversation *c, const char *text, size_t size, int32_t room, bool drop,
	struct conversation_prompt *out, struct err *e);
/* What the next turn would be with an empty text, before it is asked: *left tokens are free for the
 * text; if there are none and turns are dropped, out has what of that costs. ids: NULL. -1, without
 * an error: an answer runs, or there is no turn; with one: memory, or what the template refuses. */
int conversation_ahead(struct conversation *c, int32_t room, bool drop,
	struct conversation_prompt *out, int32_t *left, struct err *e);
/* The last turn again, with the first sample number that no answer to it has used. Its answer is
 * followed until another has a token. */
int conversation_repeat(struct conversation *c, struct conversation_prompt *out, struct err *e);

/* A turn of an earlier session, with exactly the ids that its prompt had; its answer comes as an
 * event, like any (conversation_expect). */
int conversation_recall(
	struct conversation *c, const char *text, const int32_t *ids, int32_t n_ids, struct err *e);

/* The next n_requests of kind chat or fork are the answers of this turn. Call it before they are
 * submitted. */
void conversation_expect(struct conversation *c, int32_t n_requests);

/* Takes the conversation back to the turn that this request answered, however long ago (also before
 * /new), with ids [n_ids]: its prompt and a part of its answer, or of an abandoned one. Later turns
 * leave the conversation, but not the log. out: a prompt that continues from there, as a fork;
 * NULL: the answer stays as it is, and the next turn follows it. */
int conversation_resume(struct conversation *c, int64_t request, const int32_t *ids, int32_t n_ids,
	struct conversation_prompt *out, struct err *e);
/* The newest answer to the last turn; 0: it has none. */
int64_t conversation_newest(struct conversation *c);
/* Whether a request is an answer to the last turn. */
bool conversation_has(struct conversation *c, int64_t request);
/* Position at which the answers to the turn of this request begin; -1: it is not of this
 * conversation. */
int32_t conversation_open_pos(struct conversation *c, int64_t request);

/* Tokens so far, with the chosen answer to the last turn, *request; 0: none; -1: an answer runs. */
int32_t conversation_size(struct conversation *c, int64_t *request);
bool conversation_busy(struct conversation *c); /* an answer is not finished */
/* Requests that are not finished; returns how many, writes at most cap. */
int conversation_running(struct conversation *c, int64_t *request, int cap);
/* The answer that the conversation goes on with if this request is chosen; 0: there is none. One
 * that was stopped before its first token is not gone on with. other: there are several to the last
 * turn, or it is not the newest of all. */
int64_t conversation_goes_on(struct conversation *c, int64_t request, bool *other);
/* Continues the conversation with this request's answer, if it answers the last turn. */
void conversation_choose(struct conversation *c, int64_t request);

/* Turn i, the oldest first: what was typed, and the text of the answer that the conversation goes
 * on with, "" if there is none; malloc'd. 0: there is no such turn; -1: no memory. */
int conversation_turn(struct conversation *c, int i, char **text, char **answer, size_t *size);

/* Writes the turns as text; existing files are not overwritten. */
int conversation_save(struct conversation *c, const char *path, struct err *e);
