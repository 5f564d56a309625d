/* Monte Carlo tree search over sentences or runs of tokens: a node is a prefix of an answer, and
 * its children extend it by one sentence. Each simulation walks down by UCT (Kocsis and Szepesvari
 * 2006), continues from that node by plain sampling to the end of the answer, adds the first
 * sentence of the continuation as a child, and backs the answer's value up the path. A node with
 * few visits gets no more than width children, one more each time the square root of its visits
 * grows by one (progressive widening, Coulom 2007). Several simulations run at once in the batch;
 * those under way count as visits without value ("virtual loss", Chaslot et al. 2008). Their values
 * are backed up in the order in which they began, and simulation i begins when that of i - width
 * has been backed up: so the tree depends on the seed and the number of slots, and not on the
 * drafter, other requests or pages.
 *
 * The value of an answer is the geometric mean of its tokens' probabilities, exp(mean
 * log-probability), or a command's score. Simulation i has sample number q.sample + i, so a search
 * can be repeated bit for bit. Thread: the engine's. */
#include <ctype.h>

#include "base/array.h"
#include "engine/search/search_impl.h"

enum { DEFAULT_SIMULATIONS = 32, DEFAULT_WIDTH = 3, MOST = 4096 };

/* The tokens of nodes and results are those of answers, which the search keeps to its end. */
struct node {
	int32_t parent;                   /* -1: the root */
	int32_t n;                        /* tokens after the prompt */
	const int32_t *ids;               /* [n] */
	const struct search_token *token; /* [n] */
	int32_t n_children, visits, under_way;
	double value; /* sum over visits */
	bool over;    /* the answer ends here */
};

struct result { /* of a simulation that has ended, kept until those before it have */
	bool ready;
	int32_t from;
	int64_t request;
	double value;
	int32_t n;                        /* 0: there was no answer */
	const int32_t *ids;               /* [n] */
	const struct search_token *token; /* [n] */
};

struct mcts {
	int32_t simulations, width, segment; /* segment: tokens of a child; 0: a sentence */
	int32_t n_started, n_nodes, cap_nodes;
	struct node *node;
	int32_t n_up;          /* simulations whose value was backed up */
	struct result *result; /* [width of the search], simulation i in i modulo that */
	double least, most;    /* of the values seen: the scale of a command's scores is unknown */
};

static struct mcts *mcts_of(const struct search *s)
{
	return s->state;
}

static int mcts_open(struct search *s, const char *args, struct err *e)
{
	struct mcts *t = calloc(1, sizeof *t);
	int32_t given[3] = { DEFAULT_SIMULATIONS, DEFAULT_WIDTH, 0 };
	int n = draft_numbers(args, 0, MOST, given, 3);

	if (!t)
		return err_no_memory(e, "a tree search");
	s->state = t;
	if (n < (args != NULL) || given[0] < 1 || given[1] < 1)
		return err_set(e, ERR_USAGE,
			"mcts:%.40s is not mcts:simulations[,children[,tokens]], the first two from 1 to %d, "
			"tokens of a branch 0 for a sentence",
			args ? args : "", MOST);
	t->simulations = given[0];
	t->width = given[1];
	t->segment = given[2];
	t->least = INFINITY;
	t->most = -INFINITY;
	s->width = s->engine->info.slots < SEARCH_WIDTH ? s->engine->info.slots : SEARCH_WIDTH;
	t->result = calloc((size_t)s->width, sizeof *t->result);
	return t->result ? 0 : err_no_memory(e, "a tree search");
}

static void mcts_close(struct search *s)
{
	free(mcts_of(s)->result);
	free(mcts_of(s)->node);
}

static void emit_node(
	struct search *s, enum ev_code_search_action action, int32_t i, int64_t request)
{
	struct event ev;
	struct ev_search *out = search_event(s, action, &ev);
	const struct node *n = &mcts_of(s)->node[i];
	double logp = 0;

	for (int32_t k = 0; k < n->n; k++)
		logp += (double)n->token[k].logp;
	out->request = request;
	out->node = i;
	if (n->parent >= 0)
		out->parent = n->parent;
	out->tokens = n->n;
	out->visits = n->visits;
	out->logp = logp;
	if (n->visits)
		out->score = n->value / n->visits;
	search_emit(s, &ev);
}

/* A child of parent with these tokens; -1: no memory. */
static int32_t add_node(struct search *s, int32_t parent, const int32_t *ids,
	const struct search_token *token, int32_t n)
{
	struct mcts *t = mcts_of(s);

	if (!ARRAY_ROOM(t->node, t->cap_nodes, t->n_nodes + 1))
		return -1;
	t->node[t->n_nodes] = (struct node){ .parent = parent, .n = n, .ids = ids, .token = token };
	if (parent >= 0)
		t->node[parent].n_children++;
	return t->n_nodes++;
}

/* ---- down ---- */

/* UCT: the mean value, scaled to the values seen, and a term for how seldom the node was tried. */
static double promise(const struct mcts *t, const struct node *n)
{
	int32_t tries = n->visits + n->under_way;
	double above = t->node[n->parent].visits + t->node[n->parent].under_way;
	double spread = t->most > t->least ? t->most - t->least : 1;
	double mean = n->visits ? (n->value / n->visits - t->least) / spread : 0;

	mean *= tries ? (double)n->visits / tries : 0; /* simulations under way count as lost */
	return mean + SEARCH_EXPLORE * sqrt(log(above + 1) / (tries + 1e-9));
}

static bool may_grow(const struct mcts *t, const struct node *n)
{
	int32_t tries = n->visits + n->under_way;

	return n->n_children + n->under_way < t->width + (int32_t)sqrt((double)tries) - 1;
}

/* The node to go on from. */
static int32_t walk_down(const struct mcts *t)
{
	int32_t at = 0;

	while (t->node[at].n_children && !may_grow(t, &t->node[at])) {
		int32_t best = -1;
		double most = -INFINITY;

		for (int32_t i = at + 1; i < t->n_nodes; i++)
			if (t->node[i].parent == at && !t->node[i].over && promise(t, &t->node[i]) > most) {
				most = promise(t, &t->node[i]);
				best = i;
			}
		if (best < 0)
			break; /* all children are whole answers: try another sentence here */
		at = best;
	}
	return at;
}

static void count_under_way(struct mcts *t, int32_t at, int32_t by)
{
	for (; at >= 0; at = t->node[at].parent)
		t->node[at].under_way += by;
}

static int simulate(struct search *s, struct err *e)
{
	struct mcts *t = mcts_of(s);
	int32_t at = walk_down(t), n = s->q.n_ids + t->node[at].n;
	int32_t *ids = malloc((size_t)n * sizeof *ids);
	struct search_member *m;

	if (!ids)
		return err_no_memory(e, "a simulation");
	memcpy(ids, s->q.ids, (size_t)s->q.n_ids * sizeof *ids);
	if (t->node[at].n)
		memcpy(ids + s->q.n_ids, t->node[at].ids, (size_t)t->node[at].n * sizeof *ids);
	m = search_start(s, ids, n, t->node[at].token, s->q.sample + t->n_started, at, e);
	free(ids);
	if (!m)
		return -1;
	t->n_started++;
	count_under_way(t, at, 1);
	emit_node(s, EV_SEARCH_visit, at, m->r->id);
	return 0;
}

/* ---- up ---- */

/* Whether a sentence ends with this token. *said: it has more than blanks; a line break alone is no
 * sentence. */
static bool ends_sentence(const struct search *s, int32_t id, bool *said)
{
	struct gguf_text b = tokenizer_bytes(s->engine->tokenizer, id);
	const char *text = (const char *)b.data;
	bool ends = false;

	for (size_t i = 0; i < b.size; i++) {
		*said |= !isspace((unsigned char)text[i]);
		ends |= text[i] && strchr(".!?\n", text[i]);
	}
	return ends && *said;
}

static int32_t end_of_segment(const struct search *s, const struct result *a, int32_t from)
{
	int32_t segment = mcts_of(s)->segment, i = from;
	bool said = false;

	if (segment)
		return from + segment < a->n ? from + segment : a->n;
	while (i < a->n && !ends_sentence(s, a->ids[i], &said))
		i++;
	/* the end-of-turn token belongs to the last sentence */
	return i + 2 < a->n ? i + 1 : a->n;
}

static int32_t find_child(const struct mcts *t, int32_t parent, const int32_t *ids, int32_t n)
{
	for (int32_t i = parent + 1; i < t->n_nodes; i++)
		if (t->node[i].parent == parent && t->node[i].n == n &&
			!memcmp(t->node[i].ids, ids, (size_t)n * sizeof *ids))
			return i;
	return -1;
}

/* Adds the answer's first sentence as a child of the node it began at, and backs the value up from
 * there. */
static int hand_up(struct search *s, const struct result *a, struct err *e)
{
	struct mcts *t = mcts_of(s);
	int32_t n, child;

	count_under_way(t, a->from, -1);
	if (a->n <= t->node[a->from].n)
		return 0;
	n = end_of_segment(s, a, t->node[a->from].n);
	child = find_child(t, a->from, a->ids, n);
	if (child < 0) {
		child = add_node(s, a->from, a->ids, a->token, n);
		if (child < 0)
			return err_no_memory(e, "another node of the search");
	}
	t->node[child].over = n == a->n;
	t->least = fmin(t->least, a->value);
	t->most = fmax(t->most, a->value);
	for (int32_t at = child; at >= 0; at = t->node[at].parent) {
		t->node[at].visits++;
		t->node[at].value += a->value;
		emit_node(s, at == child ? EV_SEARCH_node : EV_SEARCH_visit, at, a->request);
	}
	return 0;
}

static int mcts_ended(struct search *s, const struct search_end *end, struct err *e)
{
	struct mcts *t = mcts_of(s);
	const struct search_answer *a = end->answer;
	struct result *r = &t->result[(end->sample - s->q.sample) % s->width];

	(void)e;
	*r = (struct result){ .ready = true, .from = end->node, .request = end->request };
	if (a) {
		r->n = a->n;
		r->ids = a->ids;
		r->token = a->token;
		r->value = s->options.score ? a->score : exp(a->score);
	}
	return 0;
}

static int mcts_step(struct search *s, struct err *e)
{
	struct mcts *t = mcts_of(s);

	for (;;) {
		struct result *r = &t->result[t->n_up % s->width];

		while (t->n_started < t->simulations && t->n_started - t->n_up < s->width)
			if (simulate(s, e))
				return -1;
		/* one by one: the next to begin sees the same tree as if the others had taken longer */
		if (!r->ready)
			return 0;
		if (hand_up(s, r, e))
			return -1;
		r->ready = false;
		t->n_up++;
	}
}

static int mcts_begin(struct search *s, struct err *e)
{
	if (add_node(s, -1, NULL, NULL, 0) < 0)
		return err_no_memory(e, "a tree search");
	return mcts_step(s, e);
}

const struct search_ops search_mcts = {
	.about = { "mcts", "simulations[,children[,tokens]]",
		"a tree of sentences (or of so many tokens), walked by UCT; each leaf is sampled to its "
		"end" },
	.open = mcts_open,
	.close = mcts_close,
	.begin = mcts_begin,
	.step = mcts_step,
	.ended = mcts_ended,
};
