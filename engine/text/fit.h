/* A conversation that has outgrown the context: its oldest turns are left out of the prompt. Which
 * ones depends on the messages and the limit alone. Thread: any. */
#pragma once

#include "engine/text/template.h"

/* What a prompt leaves out: whole turns, each a user's message and what follows it up to the next;
 * what stands before the first is of the first. */
struct fit_left {
	size_t turns, messages;
	size_t before; /* the messages before this one, but for those that stay */
	size_t tokens; /* by which the prompt is shorter */
};

/* Whether a message is never left out: it is a system's text. */
bool fit_stays(const struct chat_message *m);
/* As template_ids(), into *ids [*n], which is malloc'd anew; without the fewest of the oldest turns
 * that leave at most `most` tokens. The last turn stays: if it alone is too long, all others are
 * left out, and *n is more. -1: as template_ids(), *ids is NULL. */
int fit_ids(const struct chat_input *of, size_t most, const int32_t *kept, size_t n_kept,
	int32_t **ids, size_t *n, struct fit_left *left, struct err *e);
