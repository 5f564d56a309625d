/* See chat_left.h. */
#include "tui/views/chat_left.h"

#include <stdlib.h>
#include <string.h>

#include "tui/views/chat_turn.h"

/* Whether a request is of the same turn as the one before it: another answer, or a part of one. */
static bool goes_on(
	const struct timeline *t, const struct tl_request *before, const struct tl_request *r)
{
	return timeline_within_answer(t, r) ||
		   (before && before->n_prompt == r->n_prompt &&
			   (!r->n_prompt ||
				   !memcmp(before->prompt, r->prompt, (size_t)r->n_prompt * sizeof *r->prompt)));
}

struct chat_left chat_left(const struct timeline *t, const bool *shown)
{
	int32_t *turn = calloc((size_t)t->n_requests + 1, sizeof *turn), n = 0, first = 0;
	struct chat_left left = { 0, 0 };
	const struct tl_request *before = NULL;

	for (int32_t i = 0; turn && shown && i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];

		if (!shown[i] || r->kind == EV_REQUEST_KIND_served || goes_on(t, before, r))
			continue;
		if (turn_begins_anew(t, r))
			n = first = 0;
		first += r->trimmed_turns;
		first = first < n ? first : n;
		turn[n++] = i;
		before = r;
	}
	if (first)
		left = (struct chat_left){ turn[0], turn[first] };
	free(turn);
	return left;
}
