/* Notes in the log whenever a step has more rows than any before it. Thread: the engine's. */
#include <stdio.h>

#include "engine/core/engine_impl.h"

struct widest {
	int64_t rows;
};

static void widest_emitted(struct engine *e, void *state, const struct ev_step *s)
{
	struct widest *w = state;
	char text[24];

	if (s->rows <= w->rows)
		return;
	w->rows = s->rows;
	snprintf(text, sizeof text, "%lld", (long long)s->rows);
	engine_note_setting(e, "widest-step", text);
}

const struct step_hooks widest_hooks = {
	.name = "widest",
	.size = sizeof(struct widest),
	.emitted = widest_emitted,
};
