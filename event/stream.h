/* The event stream: numbers events, adds the time, passes them to the sinks, and emits the text of
 * a token id (event vocab) when it first occurs. Thread: the engine's. */
#pragma once

#include "base/err.h"
#include "event/event.h"

enum { STREAM_SINKS = 8 };

/* Fills in the bytes and the `special` of a token id, 0 … n_vocab - 1. The bytes live as long as
 * the stream. */
typedef void stream_text(const void *arg, int64_t id, struct ev_vocab *out);

struct stream {
	struct {
		ev_sink *fn;
		void *arg;
	} sink[STREAM_SINKS];
	int n_sinks;
	int64_t seq;
	int64_t start_ns;
	stream_text *text;
	const void *text_arg;
	int64_t n_vocab;
	uint8_t *emitted; /* [n_vocab] 1: the text of this id is in the stream */
};

/* n_vocab 0: no texts are emitted, and text may be NULL. */
int stream_open(
	struct stream *s, int64_t n_vocab, stream_text *text, const void *text_arg, struct err *e);
void stream_close(struct stream *s);
int stream_add(struct stream *s, ev_sink *fn, void *arg);
/* Starts the clock and the numbering. */
void stream_begin(struct stream *s);
int64_t stream_now(const struct stream *s); /* ns since the session began */
void stream_emit(struct stream *s, struct event *ev);
/* An event of this kind with these fields, as .field = value: one that is not named is 0. */
#define STREAM_EMIT(s, name, ...)                                                                  \
	stream_emit(s, &(struct event){ .kind = EV_##name, .u.name = { __VA_ARGS__ } })
/* Makes sure that the text of an id is in the stream. */
void stream_vocab(struct stream *s, int64_t id);
