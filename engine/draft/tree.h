/* Draft trees in terms of pages: branches have pages of their own, beside those of the sequence,
 * and the one that is kept becomes the sequence's. Thread: the engine's. */
#pragma once

#include "engine/draft/draft.h"
#include "engine/memory/memory.h"

/* Spare pages that are left in the step. */
struct draft_room draft_room_of(const struct memory *m);

/* Tables for a branch of a tree whose newest token is at pos and which reaches so many tokens
 * further: the request's up to the newest token's block, which is copied, then scratch pages.
 * Groups of states have none: theirs is not written. False: too few are left, and none was taken.
 */
bool draft_branch(struct memory *m, const struct memory_table *t, int32_t pos, int32_t reach,
	struct memory_table *out);
/* The path that the branch's tables are of becomes the sequence's own, from the block of pos to
 * that of `last`. */
void draft_keep_branch(struct memory *m, const struct memory_table *t,
	const struct memory_table *branch, int32_t pos, int32_t last);

/* The rows of a draft, after the newest token's row[-1]: each goes on from its parent's and has a
 * scratch page. */
void draft_states(struct memory *m, int32_t g, const struct draft *draft, struct k_state_row *row);
/* The states on the path to `node` become the sequence's; row as above. */
void draft_keep_states(struct memory *m, int32_t g, const struct memory_table *t,
	const struct draft *draft, int32_t node, int32_t pos, const struct k_state_row *row);
