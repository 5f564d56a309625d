/* The pages that matter to a query (Tang et al. 2024, "Quest: Query-Aware Sparsity for Efficient
 * Long-Context LLM Inference"): of the groups of 16 positions those with the greatest upper bound
 * of a score, by the range of each channel of their keys (rule 18), and the newest. The unit is a
 * group and not a page, since logits do not depend on the size of pages. Nothing is given back:
 * another query may read it again. */
#include "engine/visibility/visibility.h"

enum { LEAST = 4 }; /* groups: short texts are read whole */

static int32_t top_groups(const int32_t *arg, int32_t pos)
{
	const int32_t n = (arg[0] + K_GROUP - 1) / K_GROUP;

	(void)pos;
	return n < LEAST ? LEAST : n;
}

static int32_t share_groups(const int32_t *arg, int32_t pos)
{
	const int64_t all = pos / K_GROUP + 1, n = (all * arg[0] + 99) / 100;

	return n < LEAST ? LEAST : n < all ? (int32_t)n : (int32_t)all;
}

const struct visible_policy visible_top = { .name = "top",
	.part = { "top" },
	.doc = "of groups of 16 positions those that matter most to the query, N positions in all",
	.offer = "top:1024",
	.n_ranges = 1,
	.see = visible_see_all,
	.groups = top_groups };

const struct visible_policy visible_share = { .name = "share",
	.part = { "top" },
	.unit = "%",
	.doc = "the same, a share of all positions",
	.offer = "top:25%",
	.n_ranges = 1,
	.see = visible_see_all,
	.groups = share_groups };
