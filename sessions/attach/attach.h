/* A server that is not ours as the source of events: chat turns go to it by the OpenAI interface,
 * and what it tells of them and of itself becomes the events that an engine would emit, for the
 * same recording and the same screens. What it does not tell is absent, never guessed;
 * docs/attach.md has who tells what.
 *
 * A thread of its own speaks to the server and emits. Steps are what arrived together: tokens of
 * one piece of the stream, or the figures of a poll that changed. Positions count from the first
 * token of an answer, since the ids of prompts are not told; token ids are the server's, or from
 * EV_OWN_IDS on numbers of texts. Hashes are absent: nothing here can be verified.
 *
 * Thread: one opens, asks and closes; attach_busy() any. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "engine/settings/settings.h"
#include "event/event.h"
#include "trace/ring.h"
#include "trace/writer.h"

struct attach;

struct attach_options {
	const char *url, *api_key; /* key: NULL: none */
	const char *model;         /* its name there; NULL: the first that the server names */
	int idle_s;                /* an answer is given up after so long without a byte */
	int poll_ms; /* from asking for the server's figures to asking again; 0: at the start alone */
	const char *record; /* path of the recording, or NULL: none */
	const char *system; /* text that a conversation begins with, or NULL */
	/* what comes of an answer's text; on the thread of the server */
	void (*text)(void *arg, const char *bytes, size_t size);
	void *arg;
};

/* Asks the server who it is, which takes a round trip or five, then begins the recording and the
 * thread. -1: nothing is left open. */
int attach_open(struct attach **a, const struct attach_options *o, struct err *e);
/* Ends what runs; NULL is fine. -1: the recording had failed. */
int attach_close(struct attach *a, struct err *e);

/* For a viewer; they live as long as the attach. writer: NULL: not recorded. */
struct ring *attach_ring(struct attach *a);
struct ring_cursor *attach_viewer(struct attach *a);
struct writer *attach_writer(struct attach *a);
/* "llama-server b1-0c1e570", for messages. */
const char *attach_says(const struct attach *a);

/* Whether a setting travels with a request to this server; no: the error says who decides. */
int attach_takes(const struct attach *a, const struct setting *s, struct err *e);

/* A turn of the conversation, answered when those before it are. Settings are copied. */
int attach_ask(struct attach *a, const char *text, enum ev_code_request_kind kind,
	const struct answer_settings *settings, struct err *e);
/* The last turn again. */
int attach_retry(struct attach *a, const struct answer_settings *settings, struct err *e);
/* Forgets the conversation. system: the text that the next begins with; NULL: none. */
int attach_new(struct attach *a, const char *system, struct err *e);
/* Ends the answer that runs; those that wait are dropped. */
int attach_stop(struct attach *a, struct err *e);
/* A setting of the next answers was changed: for the recording. */
int attach_note(struct attach *a, const char *name, const char *value, struct err *e);
/* Something that was asked is not done yet. */
bool attach_busy(struct attach *a);
/* How the newest answer ended; -1: none has. */
int attach_ended(struct attach *a, char *why, size_t cap);
