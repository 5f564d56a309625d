/* Texts of tokens, as far as vocab events gave them. Thread: the owner's. */
#pragma once

#include "event/event.h"

struct ev_text {
	char *bytes; /* NULL: not known */
	uint32_t size;
};

struct ev_texts { /* all zero: none is known */
	struct ev_text *at;
	int32_t n;
};

/* False: there is no memory. An id that no vocabulary has is left out. */
bool ev_texts_keep(struct ev_texts *t, const struct ev_vocab *v);
/* NULL: not known. */
const struct ev_text *ev_texts_get(const struct ev_texts *t, int64_t id);
/* Whether both are known, and the same. */
bool ev_text_same(const struct ev_text *a, const struct ev_text *b);
/* Whether the ids that both have are of the same text; others decide nothing. */
bool ev_texts_agree(const struct ev_texts *a, const struct ev_texts *b);
/* An id and its text, of which `most` bytes of JSON, into buf, which is returned. */
const char *ev_texts_quoted(const struct ev_texts *t, int64_t id, int most, char *buf, size_t cap);
void ev_texts_free(struct ev_texts *t);
