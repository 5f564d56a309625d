/* The table of drafters, in the order of help. See draft.h. Nothing else is here, so that a program
 * may link a table of its own. */
#include <stddef.h>

#include "engine/draft/draft.h"

extern const struct draft_ops draft_auto, draft_eagle, draft_jacobi, draft_lookahead, draft_medusa,
	draft_model, draft_ngram, draft_skip;

const struct draft_ops *const draft_table[] = {
	&draft_ngram,
	&draft_jacobi,
	&draft_lookahead,
	&draft_skip,
	&draft_model,
	&draft_medusa,
	&draft_eagle,
	&draft_auto,
	NULL,
};
