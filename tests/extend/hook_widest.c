/* Notes in the log whenever a step has more rows than any before it. Thread: the engine's. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/core/engine_impl.h"

struct widest {
	int64_t rows;
};

static int widest_open(struct engine *e, void **state, struct err *err)
{
	(void)e;
	*state = calloc(1, sizeof(struct widest));
	return *state ? 0 : err_set(err, ERR_MEMORY, "no memory for a statistic");
}

static void widest_close(struct engine *e, void *state)
{
	(void)e;
	free(state);
}

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
	.open = widest_open,
	.close = widest_close,
	.emitted = widest_emitted,
};
