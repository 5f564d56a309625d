/* Best of n: n samples of one prompt, of which the best by mean log-probability or by a command is
 * the answer (Stiennon et al. 2020, section 3; "self-certainty" aside). They share the prompt's
 * pages, and equal the answers that `sample` 0 … n - 1 give alone. Thread: the engine's. */
#include "engine/search/search_impl.h"

enum { DEFAULT_N = 8 };

static int best_open(struct search *s, const char *args, struct err *e)
{
	int32_t n = DEFAULT_N;

	if (draft_numbers(args, 1, SEARCH_WIDTH, &n, 1) < (args != NULL))
		return err_set(
			e, ERR_USAGE, "best:%.40s is not best:n with n from 1 to %d", args, SEARCH_WIDTH);
	s->width = n;
	return 0;
}

static int best_begin(struct search *s, struct err *e)
{
	for (int32_t i = 0; i < s->width; i++) {
		struct search_member *m =
			search_start(s, s->q.ids, s->q.n_ids, NULL, s->q.sample + i, i, e);

		if (!m)
			return -1;
		search_tell(m, EV_SEARCH_node, -1);
	}
	return 0;
}

const struct search_ops search_best = {
	.about = { "best", "n",
		"n samples, of which the one with the best mean log-probability is the answer" },
	.open = best_open,
	.begin = best_begin,
};
