/* Texts of tokens, as far as vocab events gave them. Thread: the owner's. */
#pragma once

#include <stdbool.h>

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
void ev_texts_free(struct ev_texts *t);
