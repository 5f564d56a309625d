/* See search_tree.h: by which numbers an answer won, waits or was pruned. */
#include "tui/views/search_tree.h"

enum { TEXT_MAX = 4000 };

const char *view_search_judge(char out[SEARCH_JUDGE_MAX], const struct tl_search *s, size_t most)
{
	size_t n = s->judge ? strlen(s->judge) : 0;

	most = at_most(most, SEARCH_JUDGE_MAX - 4);
	if (n > most)
		for (n = most - 1; n && ((unsigned char)s->judge[n] & 0xc0) == 0x80;)
			n--;
	snprintf(out, SEARCH_JUDGE_MAX, "%.*s%s", (int)n, s->judge ? s->judge : "",
		s->judge && s->judge[n] ? "…" : "");
	return out;
}

static struct view_text tree_words(const struct tl_search *s, const struct tl_node *k)
{
	struct search_uct u;

	if (s->least > s->most)
		return view_form("no simulation has ended yet");
	return search_uct(s, k, &u)
			   ? view_form(
					 "UCT %.3f = %.3f (mean value %.3f of %.3f … %.3f) + %.3f (seldom tried: %d of "
					 "%d)",
					 u.mean + u.bonus, u.mean, k->score, s->least, s->most, u.bonus, u.tries,
					 u.above)
			   : view_form("%d simulations; values from %.3f to %.3f, %.3f on average",
					 (int)at_least(k->visits, 0), s->least, s->most, k->score);
}

/* "log-probability -22.16 / 39 tokens ^ 1 = -0.568, length-normalised". */
static struct view_text score_words(const struct tl_search *s, double logp, int32_t n, double score)
{
	char name[SEARCH_JUDGE_MAX];
	const struct view_text judge =
		s->judge ? view_form("'%s'", view_search_judge(name, s, 40)) : view_form("%s", "");

	if (s->judge && isnan(score))
		return view_form(
			s->over ? "log-probability %.2f over %d tokens; it has no score from %s"
					: "log-probability %.2f over %d tokens by now; %s scores it when it has ended",
			logp, n, judge.text);
	if (s->judge)
		return view_form(
			"%s gave it %.4g; log-probability %.2f over %d tokens", judge.text, score, logp, n);
	if (n < 1)
		return view_form("it has no token yet");
	if (search_sort(s) == SEARCH_OF_BEAMS)
		return view_form("log-probability %.2f / %d tokens ^ %g = %.3f, length-normalised", logp, n,
			search_alpha(s), score);
	return view_form("log-probability %.2f / %d tokens = %.3f: on average a token had p %.3f", logp,
		n, score, n > 0 ? exp(logp / n) : (double)NAN);
}

static const char *simulation_words(const struct tl_search *s, const struct tl_member *m)
{
	if (!m->ended)
		return "a simulation: sampled from there to the end of the answer, whose value goes up the "
			   "tree";
	if (s->judge)
		return "a simulation that has ended: the command scores them one by one, in the order in "
			   "which they ended";
	return "a simulation that has ended: its value goes up when those before it have, so that the "
		   "tree can be repeated";
}

/* Before why: that it won. */
static struct view_text won_words(const struct tl_search *s, const struct search_row *r)
{
	if (r->m || !s->winner || r->k != search_leader(s))
		return (struct view_text){ "" };
	if (search_sort(s) != SEARCH_OF_TREE)
		return view_form("won: ");
	return s->judge ? view_form("the best answer, %.3f, begins so · ", s->won_score)
					: view_form("the best answer, %.3f = exp(score %.3f), begins so · ",
						  exp(s->won_score), s->won_score);
}

static struct view_text why_words(const struct tl_search *s, const struct search_row *r)
{
	const struct tl_node *k = r->k;
	char judge[SEARCH_JUDGE_MAX];

	if (r->m)
		return view_form("%s", simulation_words(s, r->m));
	if (k->visits >= 0)
		return tree_words(s, k);
	if (k->n_answers)
		return score_words(s, k->answer_logp, k->answer_tokens, k->answer_score);
	if (search_waits(s, k))
		return view_form("it has ended: '%s' scores one answer after the other",
			view_search_judge(judge, s, 40));
	if (k->state == TL_NODE_DROPPED)
		return view_form(
			s->over && k->last == s->last_step
				? "pruned in step %" PRId64 " at log-probability %.2f: no longer able to win"
				: "pruned in step %" PRId64 " at log-probability %.2f: others were more probable",
			k->last, k->logp);
	return score_words(s, k->logp, k->tokens, search_score(s, k));
}

void view_search_why(struct pen *p, int y, const struct timeline *t, const struct tl_search *s,
	const struct search_row *r)
{
	const struct view_text won = won_words(s, r);
	char text[TEXT_MAX];
	int top = y;
	size_t n;

	pen_hline(p, 0, y, p->r.w);
	snprintf(text, sizeof text, "%s%s", won.text, why_words(s, r).text);
	p->ink = r->won ? INK_BRIGHT : INK_TEXT;
	y += pen_wrap(p, 0, y + 1, p->r.w, 2, text);
	n = search_whole_text(t, s, r->k, text, sizeof text);
	if (r->m)
		search_member_text(t, r->m, r->k->tokens, text + n, sizeof text - n);
	p->ink = INK_DIM;
	pen_wrap(p, 0, y + 1, p->r.w, SEARCH_WHY_H - 1 - (y - top), text + (*text == ' '));
}
