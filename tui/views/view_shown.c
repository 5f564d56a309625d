/* Which requests the chat shows, now that a session has branches. See view_util.h. */
#include <stdlib.h>
#include <string.h>

#include "tui/views/view_util.h"

/* The first request of its conversation. */
static const struct tl_request *root_of(const struct timeline *t, const struct tl_request *r)
{
	const struct tl_request *from;

	while (r && (from = timeline_request(t, r->stem.request)) && from < r)
		r = from;
	return r;
}

/* From the active request back, turn by turn. */
static void mark_path(const struct timeline *t, const struct tl_request *active, bool *on_path)
{
	for (const struct tl_request *r = active; r; r = timeline_request(t, timeline_turn_before(t, r->id)))
		on_path[r - t->request] = true;
}

/* The same question, asked again beside it. */
static bool beside(const struct timeline *t, const struct tl_request *a, const struct tl_request *b)
{
	return a->n_prompt == b->n_prompt && a->stem.request == b->stem.request && a->stem.future == b->stem.future &&
		   a->stem.pos == b->stem.pos && !timeline_within_answer(t, a) && !timeline_within_answer(t, b) &&
		   (!a->n_prompt || !memcmp(a->prompt, b->prompt, (size_t)a->n_prompt * sizeof *a->prompt));
}

static bool beside_path(const struct timeline *t, const struct tl_request *r, const bool *on_path)
{
	for (int32_t i = 0; i < t->n_requests; i++)
		if (on_path[i] && beside(t, r, &t->request[i]))
			return true;
	return false;
}

/* The conversation as it stands, the conversations before it, and what runs. What began later, elsewhere, was left. */
bool *view_shown(const struct timeline *t, const struct view_state *s, int *n_left)
{
	const struct view_state newest = { .branch = s->branch, .token = -1 };
	const struct tl_request *active = view_request(t, &newest), *root = root_of(t, active);
	size_t n = (size_t)t->n_requests + 1;
	bool *shown = calloc(n, sizeof *shown), *on_path = calloc(n, sizeof *on_path);

	*n_left = 0;
	if (shown && on_path) {
		mark_path(t, active, on_path);
		for (int32_t i = 0; i < t->n_requests; i++) {
			const struct tl_request *r = &t->request[i];

			if (!view_is_chat(r))
				continue;
			shown[i] = on_path[i] || !r->finished || r < root || beside_path(t, r, on_path);
			*n_left += !shown[i];
		}
	}
	free(on_path);
	return shown;
}
