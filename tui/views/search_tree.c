/* See search_tree.h. */
#include "tui/views/search_tree.h"

#include "engine/search/search.h"

enum search_sort search_sort(const struct tl_search *s)
{
	const char *m = s->method ? s->method : "";

	return !strncmp(m, "beam", 4)   ? SEARCH_OF_BEAMS
		   : !strncmp(m, "mcts", 4) ? SEARCH_OF_TREE
									: SEARCH_OF_SAMPLES;
}

double search_alpha(const struct tl_search *s)
{
	const char *comma = s->method ? strchr(s->method, ',') : NULL;

	return search_sort(s) == SEARCH_OF_BEAMS && comma ? strtod(comma + 1, NULL) : 1;
}

int search_running(const struct tl_search *s)
{
	int n = 0;

	for (int32_t i = 0; i < s->n_members; i++)
		n += !s->member[i].ended;
	return n;
}

bool search_waits(const struct tl_search *s, const struct tl_node *k)
{
	return s->judge && !s->over && k->visits < 0 && k->state == TL_NODE_ENDED && !k->n_answers;
}

int search_waiting(const struct tl_search *s)
{
	int n = 0;

	for (int32_t i = 0; i < s->n_nodes; i++)
		n += search_waits(s, &s->node[i]);
	for (int32_t i = 0; s->judge && i < s->n_members; i++)
		n += s->member[i].ended;
	return n;
}

/* ---- scores ---- */

static double score_of(const struct tl_search *s, double logp, int32_t n)
{
	return n > 0 ? logp / pow(n, search_alpha(s)) : (double)NAN;
}

double search_score(const struct tl_search *s, const struct tl_node *k)
{
	if (search_sort(s) == SEARCH_OF_TREE)
		return k->score;
	if (k->n_answers)
		return k->answer_score;
	return s->judge ? (double)NAN : score_of(s, k->logp, k->tokens);
}

static const struct tl_node *node_of_request(const struct tl_search *s, int64_t request)
{
	const struct tl_node *found = NULL;

	for (int32_t i = 0; request && i < s->n_nodes; i++) {
		if (s->node[i].request == request && s->node[i].visits >= 0 && s->node[i].node > 0)
			return &s->node[i]; /* the branch that this simulation added */
		if (s->node[i].answer == request)
			found = &s->node[i];
	}
	return found;
}

const struct tl_node *search_leader(const struct tl_search *s)
{
	const struct tl_node *best = node_of_request(s, s->winner);
	bool tree = search_sort(s) == SEARCH_OF_TREE;

	for (int32_t i = 0; !s->winner && i < s->n_nodes; i++) {
		const struct tl_node *k = &s->node[i];
		double score = search_score(s, k);

		if (k->state == TL_NODE_DROPPED || isnan(score) || (tree && !k->node))
			continue;
		if (!best || (!!k->n_answers > !!best->n_answers && !tree) ||
			((tree || !!k->n_answers == !!best->n_answers) && score > search_score(s, best)))
			best = k;
	}
	return best;
}

/* ---- UCT ---- */

static const struct tl_node *node_above(const struct tl_search *s, const struct tl_node *k)
{
	return k->parent >= 0 && k->parent < k->node ? timeline_search_node(s, k->parent) : NULL;
}

/* Simulations that run from a node or from below it. */
static int32_t under_way(const struct tl_search *s, const struct tl_node *k)
{
	int32_t n = 0;

	for (int32_t i = 0; i < s->n_members; i++) {
		const struct tl_node *at = timeline_search_node(s, s->member[i].node);

		while (at && at != k)
			at = node_above(s, at);
		n += at == k;
	}
	return n;
}

bool search_uct(const struct tl_search *s, const struct tl_node *k, struct search_uct *out)
{
	const struct tl_node *parent = node_above(s, k);
	double spread = s->most > s->least ? s->most - s->least : 1;

	if (!parent || k->visits < 0)
		return false;
	out->tries = k->visits + under_way(s, k);
	out->above = parent->visits + under_way(s, parent);
	out->mean = k->visits ? (k->score - s->least) / spread : 0;
	out->mean *= out->tries ? (double)k->visits / out->tries : 0;
	out->bonus = SEARCH_EXPLORE * sqrt(log(out->above + 1.0) / (out->tries + 1e-9));
	return true;
}

/* ---- rows ---- */

struct maker {
	const struct tl_search *s;
	struct search_rows *g;
	int32_t *order; /* nodes by parent, then in the order of the screen */
	int32_t *first; /* [n + 1] in order[]: first child of a node; n: the roots */
	bool *keep, *won;
	int32_t *lead; /* on the winning path: own tokens before the next node on it branches off */
	bool by_visits, all;
};

static int32_t index_above(const struct tl_search *s, const struct tl_node *k)
{
	const struct tl_node *up = node_above(s, k);

	return up ? (int32_t)(up - s->node) : s->n_nodes;
}

/* Nodes without a score come last; of equal ones the winner, which was scored first, comes
 * first. */
static int by_score(const struct tl_search *s, const struct tl_node *x, const struct tl_node *y)
{
	double a = search_score(s, x), b = search_score(s, y);

	a = isnan(a) ? -INFINITY : a;
	b = isnan(b) ? -INFINITY : b;
	return a != b ? (a < b) - (a > b) : (y->request == s->winner) - (x->request == s->winner);
}

static int by_place(const void *a, const void *b, void *arg)
{
	const struct maker *m = arg;
	const struct tl_node *x = &m->s->node[*(const int32_t *)a],
						 *y = &m->s->node[*(const int32_t *)b];
	int32_t p = index_above(m->s, x), q = index_above(m->s, y);
	int order = m->by_visits && x->visits < 0 && y->visits < 0 ? by_score(m->s, x, y) : 0;

	if (p != q)
		return p < q ? -1 : 1;
	if (m->by_visits && x->visits != y->visits)
		return x->visits > y->visits ? -1 : 1;
	if (order)
		return order;
	if (x->from != y->from)
		return x->from - y->from;
	return (x->node > y->node) - (x->node < y->node);
}

/* Marks nodes that are always shown, and all their ancestors. */
static void mark(struct maker *m)
{
	const struct tl_search *s = m->s;
	const struct tl_node *won = s->over ? search_leader(s) : NULL;

	for (int32_t i = s->n_nodes; i-- > 0;) {
		const struct tl_node *k = &s->node[i];
		int32_t above = index_above(s, k);

		if (k == won) {
			m->won[i] = true;
			m->lead[i] = search_own_tokens(k);
		}
		m->keep[i] |= m->all || m->won[i] ||
					  (k->visits < 0 ? k->state != TL_NODE_DROPPED || k->n_answers : k->visits > 1);
		m->g->n_hidden += !m->keep[i];
		if (above < s->n_nodes) {
			m->keep[above] |= m->keep[i];
			if (m->won[i]) {
				m->won[above] = true;
				m->lead[above] = k->from - s->node[above].from;
			}
		}
	}
}

static void put(struct maker *m, const struct tl_node *k, const struct tl_member *run, int depth)
{
	m->g->row[m->g->n++] = (struct search_row){ k, run, { .depth = depth },
		!run && m->won[k - m->s->node], m->lead[k - m->s->node] };
}

static void put_below(struct maker *m, int32_t at, int depth)
{
	const struct tl_search *s = m->s;

	for (int32_t i = m->first[at]; i < s->n_nodes && index_above(s, &s->node[m->order[i]]) == at;
		 i++) {
		if (!m->keep[m->order[i]])
			continue;
		put(m, &s->node[m->order[i]], NULL, depth);
		put_below(m, m->order[i], (int)at_most(depth + 1, SEARCH_DEEPEST));
	}
	for (int32_t i = 0; at < s->n_nodes && s->node[at].visits >= 0 && i < s->n_members; i++)
		if (s->member[i].node == s->node[at].node)
			put(m, &s->node[at], &s->member[i], depth);
}

bool search_rows_make(struct search_rows *g, const struct tl_search *s, bool all)
{
	int32_t n = s->n_nodes;
	uint64_t below = 0;
	struct maker m = {
		.s = s, .g = g, .all = all, .by_visits = s->over && search_sort(s) != SEARCH_OF_BEAMS
	};

	*g = (struct search_rows){ .row = calloc((size_t)n + TL_MEMBERS + 1, sizeof *g->row) };
	m.order = malloc(((size_t)n + 1) * sizeof *m.order);
	m.first = malloc(((size_t)n + 1) * sizeof *m.first);
	m.keep = calloc(2 * (size_t)n + 2, sizeof *m.keep);
	m.lead = calloc((size_t)n + 1, sizeof *m.lead);
	if (g->row && m.order && m.first && m.keep && m.lead) {
		m.won = m.keep + n + 1;
		for (int32_t i = 0; i < n; i++)
			m.order[i] = i;
		for (int32_t i = 0; i <= n; i++)
			m.first[i] = n;
		qsort_r(m.order, (size_t)n, sizeof *m.order, by_place, &m);
		for (int32_t i = n; i-- > 0;)
			m.first[index_above(s, &s->node[m.order[i]])] = i;
		mark(&m);
		put_below(&m, n, 0);
	}
	for (int i = g->n; i-- > 0;)
		below = view_rail(&g->row[i].rail, below);
	free(m.order);
	free(m.first);
	free(m.keep);
	free(m.lead);
	return g->row != NULL;
}

void search_rows_free(struct search_rows *g)
{
	free(g->row);
	g->row = NULL;
	g->n = 0;
}

/* ---- text ---- */

static size_t add_text(
	const struct timeline *t, const int32_t *id, int32_t n, char *out, size_t cap, size_t used)
{
	for (int32_t i = 0; i < n; i++)
		used = view_add_token(t, id[i], out, cap, used);
	return used;
}

int32_t search_own_tokens(const struct tl_node *k)
{
	bool cut =
		k->visits < 0 && k->n_answers && k->state == TL_NODE_DROPPED && k->answer_own >= k->from;

	return (cut ? k->answer_own : k->tokens) - k->from;
}

size_t search_own_text(const struct timeline *t, const struct tl_node *k, int32_t from, int32_t to,
	char *out, size_t cap)
{
	int32_t n = search_own_tokens(k);

	out[0] = '\0';
	from = at_least(from, 0);
	to = at_most(to, n);
	return from < to ? add_text(t, k->id + from, to - from, out, cap, 0) : 0;
}

size_t search_member_text(
	const struct timeline *t, const struct tl_member *m, int32_t from, char *out, size_t cap)
{
	out[0] = '\0';
	return from < m->n ? add_text(t, m->id + from, m->n - from, out, cap, 0) : 0;
}

size_t search_whole_text(const struct timeline *t, const struct tl_search *s,
	const struct tl_node *k, char *out, size_t cap)
{
	const struct tl_node *way[256];
	int n = 0;
	size_t used = 0;

	out[0] = '\0';
	for (; k && n < 256; k = node_above(s, k))
		way[n++] = k;
	while (n--) {
		/* of an ancestor only the tokens before its child branches off */
		int32_t end = n                                         ? way[n - 1]->from
					  : way[n]->n_answers && way[n]->visits < 0 ? way[n]->answer_own
																: way[n]->tokens;

		end = at_most(end, way[n]->tokens);
		if (end > way[n]->from)
			used = add_text(t, way[n]->id, end - way[n]->from, out, cap, used);
	}
	return used;
}
