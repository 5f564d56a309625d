/* A stream of server-sent events (the HTML standard, section 9.2) as the interfaces of language
 * models use it: only `data` matters, and "[DONE]" is an event like any other. Thread: one at a
 * time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sse {
	char *line; /* what has come of a line */
	char *data; /* of the event whose blank line has not come; its lines are joined by newlines */
	size_t n_line, cap_line, n_data, cap_data, n_all;
	bool any; /* the event has data, which may be empty */
	bool cr;  /* the last byte was a carriage return: a newline is part of the same end of line */
};

/* Reads some bytes; event() gets each event's data, zero-terminated, its to change until it
 * returns, and may return false to end the stream. false: it did so, an event is longer than 1 MiB
 * or the stream than 1 GiB, or no memory. */
bool sse_feed(struct sse *s, const char *bytes, size_t size,
	bool (*event)(void *who, char *data, size_t size), void *who);
/* Frees what is held; *s is all zero. An event without its blank line is dropped, as the standard
 * has it. */
void sse_free(struct sse *s);
