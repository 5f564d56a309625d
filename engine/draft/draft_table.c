/* The table of drafters, in the order of help. See draft.h. Nothing else is here, so that a program
 * may link a table of its own. */

#include "engine/draft/draft.h"

extern const struct draft_ops draft_ngram;
extern const struct draft_ops draft_jacobi;
extern const struct draft_ops draft_lookahead;
extern const struct draft_ops draft_skip;
extern const struct draft_ops draft_model;
extern const struct draft_ops draft_beside;
extern const struct draft_ops draft_medusa;
extern const struct draft_ops draft_eagle;
extern const struct draft_ops draft_auto;

const struct draft_ops *const draft_table[] = {
	&draft_ngram,
	&draft_jacobi,
	&draft_lookahead,
	&draft_skip,
	&draft_model,
	&draft_beside,
	&draft_medusa,
	&draft_eagle,
	&draft_auto,
	NULL,
};
