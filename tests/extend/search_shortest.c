/* n samples of one prompt, of which the shortest is the answer. Thread: the engine's. */
#include "engine/search/search_impl.h"

static int shortest_open(struct search *s, const char *args, struct err *e)
{
	int32_t n = 4;

	if (draft_numbers(args, 1, SEARCH_WIDTH, &n, 1) < (args != NULL))
		return err_set(e, ERR_USAGE, "shortest:%.40s is not shortest:n with n from 1 to %d", args,
			SEARCH_WIDTH);
	s->width = n;
	return 0;
}

static int shortest_begin(struct search *s, struct err *e)
{
	for (int32_t i = 0; i < s->width; i++)
		if (!search_start(s, s->q.ids, s->q.n_ids, NULL, s->q.sample + i, i, e))
			return -1;
	return 0;
}

static double shortest_score(const struct search *s, double logp, int32_t n)
{
	(void)s;
	(void)logp;
	return -n;
}

const struct search_ops search_shortest = {
	.about = { "shortest", "n", "n samples, of which the shortest is the answer" },
	.open = shortest_open,
	.begin = shortest_begin,
	.score = shortest_score,
};
