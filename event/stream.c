/* See stream.h. */
#include "event/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/clock.h"

int stream_open(
	struct stream *s, int64_t n_vocab, stream_text *text, const void *text_arg, struct err *e)
{
	*s = (struct stream){
		.start_ns = now_ns(), .text = text, .text_arg = text_arg, .n_vocab = n_vocab
	};
	s->emitted = calloc((size_t)n_vocab + 1, 1);
	return s->emitted ? 0 : err_no_memory(e, "the event stream");
}

void stream_close(struct stream *s)
{
	free(s->emitted);
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
	memset(s->emitted, 0, (size_t)s->n_vocab);
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

	if (id < 0 || id >= s->n_vocab || s->emitted[id])
		return;
	s->emitted[id] = 1;
	ev_init(&ev, EV_vocab);
	ev.u.vocab.id = id;
	s->text(s->text_arg, id, &ev.u.vocab);
	stream_emit(s, &ev);
}
