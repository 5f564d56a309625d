/* Which requests the chat shows, now that a session has branches. See view_util.h. */
#include <stdlib.h>

#include "tui/view_util.h"

/* The first request of each one's conversation. */
static void find_roots(const struct timeline *t, int64_t *root)
{
	for (int32_t i = 0; i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];
		const struct tl_request *from = timeline_request(t, r->stem.request);

		root[i] = from && from < r ? root[from - t->request] : r->id;
	}
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
		   a->stem.pos == b->stem.pos && !timeline_within_answer(t, a) && !timeline_within_answer(t, b);
}

static bool beside_path(const struct timeline *t, const struct tl_request *r, const bool *on_path)
{
	for (int32_t i = 0; i < t->n_requests; i++)
		if (on_path[i] && beside(t, r, &t->request[i]))
			return true;
	return false;
}

bool *view_shown(const struct timeline *t, const struct view_state *s, int *n_left)
{
	const struct view_state newest = { .branch = s->branch, .token = -1 };
	const struct tl_request *active = view_request(t, &newest);
	size_t n = (size_t)t->n_requests + 1;
	int64_t *root = malloc(n * sizeof *root);
	bool *shown = calloc(n, sizeof *shown), *on_path = calloc(n, sizeof *on_path);

	*n_left = 0;
	if (root && shown && on_path) {
		find_roots(t, root);
		mark_path(t, active, on_path);
		for (int32_t i = 0; i < t->n_requests; i++) {
			const struct tl_request *r = &t->request[i];

			if (!view_is_chat(r))
				continue;
			shown[i] = on_path[i] || !r->finished || root[i] != root[active - t->request] ||
					   beside_path(t, r, on_path);
			*n_left += !shown[i];
		}
	}
	free(root);
	free(on_path);
	return shown;
}
