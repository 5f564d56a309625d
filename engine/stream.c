/* See stream.h. */
#include "engine/stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

int stream_open(struct stream *s, const struct tokenizer *t, struct err *e)
{
	memset(s, 0, sizeof *s);
	s->tokenizer = t;
	s->start_ns = now_ns();
	s->told = calloc(t ? (size_t)tokenizer_n_vocab(t) : 1, 1);
	return s->told ? 0 : err_set(e, ERR_MEMORY, "no memory for the event stream");
}

void stream_close(struct stream *s)
{
	free(s->told);
	memset(s, 0, sizeof *s);
}

int stream_add(struct stream *s, ev_sink *fn, void *arg)
{
	if (s->n_sinks == STREAM_SINKS)
		return -1;
	s->sink[s->n_sinks].fn = fn;
	s->sink[s->n_sinks++].arg = arg;
	return 0;
}

void stream_begin(struct stream *s)
{
	s->seq = 0;
	s->start_ns = now_ns();
	memset(s->told, 0, s->tokenizer ? (size_t)tokenizer_n_vocab(s->tokenizer) : 1);
}

int64_t stream_now(const struct stream *s)
{
	return now_ns() - s->start_ns;
}

void stream_emit(struct stream *s, struct event *ev)
{
	ev->seq = ++s->seq;
	ev->t_ns = stream_now(s);
	for (int i = 0; i < s->n_sinks; i++)
		s->sink[i].fn(s->sink[i].arg, ev);
}

void stream_vocab(struct stream *s, int64_t id)
{
	struct event ev;
	struct gguf_text text;

	if (!s->tokenizer || id < 0 || id >= tokenizer_n_vocab(s->tokenizer) || s->told[id])
		return;
	s->told[id] = 1;
	text = tokenizer_bytes(s->tokenizer, (int32_t)id);
	ev_init(&ev, EV_vocab);
	ev.u.vocab.id = id;
	ev.u.vocab.bytes = (struct ev_span){ text.data ? text.data : "", text.size };
	ev.u.vocab.special = tokenizer_is_special(s->tokenizer, (int32_t)id);
	stream_emit(s, &ev);
}
