/* Where events leave the engine: numbers them, stamps them, hands them to the sinks, and tells the text of
 * a token id when it first occurs. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_STREAM_H
#define CUTAWAY_ENGINE_STREAM_H

#include <stdint.h>

#include "base/err.h"
#include "engine/event.h"
#include "engine/tokenizer.h"

enum { STREAM_SINKS = 8 };

struct stream {
	struct {
		ev_sink *fn;
		void *arg;
	} sink[STREAM_SINKS];
	int n_sinks;
	int64_t seq;
	int64_t start_ns;
	const struct tokenizer *tokenizer;
	uint8_t *told; /* [n_vocab] 1: the text of this id is in the stream */
};

/* t NULL: no texts are told. */
int stream_open(struct stream *s, const struct tokenizer *t, struct err *e);
void stream_close(struct stream *s);
int stream_add(struct stream *s, ev_sink *fn, void *arg);
/* Starts the clock and the numbering. */
void stream_begin(struct stream *s);
int64_t stream_now(const struct stream *s); /* ns since the session began */
void stream_emit(struct stream *s, struct event *ev);
/* Makes sure that the text of an id is in the stream. */
void stream_vocab(struct stream *s, int64_t id);

#endif
