/* Heavy hitters (Zhang et al. 2023, "H2O: Heavy-Hitter Oracle for Efficient Generative Inference of
 * Large Language Models"): beside the newest positions each head keeps those groups of 16 that got
 * most attention so far, and forgets the others for good (rule 22). The newest are those of a row's
 * own span of 128 and the one before. What one head forgets another keeps, so no page goes back. */
#include "engine/visibility/visibility.h"

enum { NEWEST = 2 * K_SPAN / K_GROUP };

/* Of so many groups in all. */
static int32_t beside_newest(int64_t groups)
{
	return groups > NEWEST ? (int32_t)groups - NEWEST : 1;
}

static int32_t h2o_keeps(const int32_t *arg, int32_t span)
{
	(void)span;
	return beside_newest((arg[0] + K_GROUP - 1) / K_GROUP);
}

static int32_t share_keeps(const int32_t *arg, int32_t span)
{
	const int64_t all = ((int64_t)span + 1) * K_SPAN / K_GROUP;
	const int64_t n = (all * arg[0] + 99) / 100;

	return beside_newest(n < all ? n : all);
}

const struct visible_policy visible_h2o = { .name = "h2o",
	.part = { "h2o" },
	.doc =
		"the newest and the groups of 16 positions with most attention so far, N positions in all, "
		"at least 272",
	.offer = "h2o:512",
	.n_ranges = 1,
	.see = visible_see_all,
	.keeps = h2o_keeps };

const struct visible_policy visible_h2o_share = { .name = "h2o-share",
	.part = { "h2o" },
	.unit = "%",
	.doc = "the same, a share of all positions",
	.offer = "h2o:20%",
	.n_ranges = 1,
	.see = visible_see_all,
	.keeps = share_keeps };
