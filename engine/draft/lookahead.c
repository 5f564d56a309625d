/* Lookahead decoding: n-grams are gathered by Jacobi iterations beside the text, and verified in
 * the same pass. (Fu, Bailis, Stoica and Zhang 2024, "Break the Sequential Dependency of LLM
 * Inference Using Lookahead Decoding".)
 *
 * The window has W columns and N - 1 levels. Level 0 is a chain from the newest token (its column
 * 0) on: the oldest iterate. Column j at level l follows level l - 1 of its column, so its position
 * is j + l after the newest token. The target's predictions after the last level are the new level;
 * a column read downwards, with that token, is an n-gram that the model generated, and enters the
 * pool. Then the levels move up by one. Beside the window at most G n-grams of the pool that begin
 * with the newest token are guessed. Both are nodes of one tree: one pass computes the window and
 * verifies, and the tree's paths replace the paper's mask.
 *
 * The original leaves the window's columns in place when a step accepts several tokens; here they
 * move with the text, so that each keeps its true position; new columns at the end, and the first
 * window, begin with pseudo-random tokens of the text. The text's own n-grams enter the pool too,
 * as its reference implementation can do with the prompt's. The pool is shared by the session.
 * Thread: the engine's. */
#include "engine/draft/draft.h"

#include <stdlib.h>
#include <string.h>

#include "engine/draft/owners.h"

enum { DEFAULT_W = 1, DEFAULT_N = 3, DEFAULT_G = 1, MAX_N = 8, MAX_W = DRAFT_LEAVES - 1, CUT = -2 };
enum { BUCKETS = 1 << 13 };

/* The pool: for a token, the most recent few n-grams that begin with it. Bounded: a token may evict
 * another one of the same bucket. */
struct bucket {
	int32_t id, n;
};

struct line {                          /* of a request */
	int32_t n, newest;                 /* the text that the window follows */
	int32_t fed;                       /* tokens whose n-grams are in the pool */
	int32_t cell[(MAX_N - 1) * MAX_W]; /* [levels][W] */
	/* the step that was learnt from */
	bool shown;
	int32_t pos, was[(MAX_N - 1) * MAX_W], next[MAX_W];
	int32_t n_entered, n_own, entered[DRAFT_ENTERED * MAX_N];
};

struct drafter {
	int32_t w, n, g, levels, width;
	int32_t n_grams;       /* in the pool */
	struct bucket *bucket; /* [BUCKETS] */
	int32_t *tails;        /* [BUCKETS][g][n - 1] */
	struct owners owners;  /* of struct line */
	struct draft_window window;
};

/* 0, or -1 if the arguments are wrong or the tree too large for the engine. */
static int parse(struct drafter *d, const char *args)
{
	int32_t given[3] = { DEFAULT_W, DEFAULT_N, DEFAULT_G };
	int n = draft_numbers(args, 1, DRAFT_NODES, given, 3);

	d->w = given[0];
	d->n = given[1];
	d->g = given[2];
	d->levels = d->n - 1;
	if (n < 0 || n == 1 || n == 2 || (args && !n) || d->w > MAX_W || d->n < 2 || d->n > MAX_N)
		return -1;
	d->width = d->w - 1 + d->w * (d->n - 2) + d->g * (d->n - 1);
	return d->w + d->g > DRAFT_LEAVES || d->width > DRAFT_NODES || d->w + d->n - 3 > DRAFT_MAX ? -1
																							   : 0;
}

static void lookahead_close(struct drafter *d)
{
	free(d->bucket);
	free(d->tails);
	owners_close(&d->owners);
}

static int lookahead_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	if (parse(d, args))
		return err_set(e, ERR_USAGE,
			"lookahead:%.40s is not lookahead:W,N,G with a window of W columns, n-grams of N "
			"tokens (2 to %d) and G candidates a step, where W + G is at most %d and W - 1 + W (N "
			"- 2) + G (N - 1) at most %d",
			args, MAX_N, DRAFT_LEAVES, DRAFT_NODES);
	d->bucket = calloc(BUCKETS, sizeof *d->bucket);
	d->tails = calloc(BUCKETS, (size_t)(d->g * (d->n - 1)) * sizeof *d->tails);
	return d->bucket && d->tails && owners_open(&d->owners, env->slots, sizeof(struct line))
			   ? 0
			   : err_no_memory(e, "the lookahead drafter");
}

/* ---- the pool ---- */

/* The bucket of a token; *tails: of its n-grams, one after the other, the most recent first. */
static struct bucket *bucket_of(const struct drafter *d, int32_t id, int32_t **tails)
{
	const size_t place = ((uint32_t)id * 0x9e3779b1u) >> 19;

	*tails = d->tails + place * (size_t)(d->g * (d->n - 1));
	return &d->bucket[place];
}

/* True if it is new; either way it becomes the first of its token's. */
static bool add_gram(struct drafter *d, const int32_t *gram)
{
	const int32_t tail = d->n - 1;
	const size_t size = (size_t)tail * sizeof *gram;
	int32_t *tails, at = 0;
	struct bucket *b = bucket_of(d, gram[0], &tails);
	bool is_new;

	if (b->id != gram[0]) { /* another token's */
		d->n_grams -= b->n;
		*b = (struct bucket){ gram[0], 0 };
	}
	while (at < b->n && memcmp(tails + at * tail, gram + 1, size))
		at++;
	is_new = at == b->n;
	if (is_new && b->n < d->g) {
		b->n++;
		d->n_grams++;
	}
	at = at == d->g ? at - 1 : at;
	memmove(tails + tail, tails, (size_t)at * size);
	memcpy(tails, gram + 1, size);
	return is_new;
}

/* ---- guessing ---- */

/* Begins a window after another text, or the first one. */
static void begin_window(const struct drafter *d, struct line *l, const int32_t *ids, int32_t n)
{
	for (int32_t i = 0; i < d->levels; i++)
		for (int32_t j = 0; j < d->w; j++)
			l->cell[i * d->w + j] = draft_random(ids, n, n + j + 64 * i);
	l->cell[0] = ids[n - 1];
	l->n = n;
	l->newest = ids[n - 1];
}

/* Candidates first: the first of two paths uses the request's own pages. */
static void guess(struct drafter *d, const struct draft_job *job)
{
	struct line *l = owners_take_place(&d->owners, job->request);
	int32_t above[MAX_W], *tails;
	const struct bucket *b;

	if (l->n != job->n || l->newest != job->ids[job->n - 1])
		begin_window(d, l, job->ids, job->n);
	job->out->n = 0;
	b = bucket_of(d, l->newest, &tails);
	for (int32_t i = 0; b->id == l->newest && i < b->n; i++)
		for (int32_t j = 0, at = -1; j < d->n - 1; j++)
			at = draft_follow(job->out, at, tails[i * (d->n - 1) + j]);
	above[0] = -1;
	for (int32_t j = 1; j < d->w; j++)
		above[j] = draft_follow(job->out, above[j - 1], l->cell[j]);
	for (int32_t i = 1; i < d->levels; i++)
		for (int32_t j = 0; j < d->w; j++)
			above[j] = draft_follow(job->out, above[j], l->cell[i * d->w + j]);
}

static int lookahead_propose(
	struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++)
		guess(d, &job[i]);
	return 0;
}

/* ---- learning ---- */

static void enter(struct drafter *d, struct line *l, const int32_t *gram)
{
	if (add_gram(d, gram) && l->n_entered < DRAFT_ENTERED)
		memcpy(l->entered + l->n_entered++ * d->n, gram, (size_t)d->n * sizeof *gram);
}

static int32_t below(const struct draft *t, int32_t node, int32_t id)
{
	int32_t child = node == CUT ? CUT : draft_child(t, node, id);

	return child < 0 ? CUT : child;
}

/* Reads the target's predictions after the last level of each column: the tree may have been cut,
 * so cells are found by their path. */
static void read_window(const struct drafter *d, struct line *l, const struct draft_seen *s)
{
	int32_t above[MAX_W] = { -1 };

	for (int32_t j = 1; j < d->w; j++)
		above[j] = below(s->draft, above[j - 1], l->cell[j]);
	for (int32_t j = 0; j < d->w; j++) {
		int32_t at = above[j];

		for (int32_t i = 1; i < d->levels; i++)
			at = below(s->draft, at, l->cell[i * d->w + j]);
		l->next[j] = at == CUT ? -1 : s->top[at + 1];
	}
}

static void enter_columns(struct drafter *d, struct line *l)
{
	int32_t gram[MAX_N];

	for (int32_t j = 0; j < d->w; j++) {
		if (l->next[j] < 0)
			continue;
		for (int32_t i = 0; i < d->levels; i++)
			gram[i] = l->cell[i * d->w + j];
		gram[d->levels] = l->next[j];
		enter(d, l, gram);
	}
	l->n_own = l->n_entered;
}

static void enter_text(struct drafter *d, struct line *l, const struct draft_seen *s)
{
	if (l->fed > s->n) /* it was rewound */
		l->fed = s->n;
	for (int32_t end = l->fed < d->n ? d->n : l->fed + 1; end <= s->n; end++)
		enter(d, l, s->ids + end - d->n);
	l->fed = s->n;
}

/* Moves levels up by one, and columns by the tokens that the text gained. */
static void move_window(const struct drafter *d, struct line *l, const struct draft_seen *s)
{
	for (int32_t i = 0; i < d->levels; i++)
		for (int32_t j = 0; j < d->w; j++) {
			int32_t from = j + s->n_kept, id = -1;

			if (from < d->w)
				id = i + 1 < d->levels ? l->was[(i + 1) * d->w + from] : l->next[from];
			l->cell[i * d->w + j] = id >= 0 ? id : draft_random(s->ids, s->n, s->n + j + 64 * i);
		}
	l->cell[0] = s->ids[s->n - 1];
	l->n = s->n;
	l->newest = s->ids[s->n - 1];
}

static void learn(struct drafter *d, const struct draft_seen *s)
{
	struct line *l = owners_take_place(&d->owners, s->request);

	l->n_entered = l->n_own = 0;
	l->shown = s->draft && l->n == s->pos + 1; /* the window was guessed for this step */
	if (l->shown) {
		l->pos = s->pos;
		read_window(d, l, s);
		enter_columns(d, l);
		memcpy(l->was, l->cell, sizeof l->was);
		move_window(d, l, s);
	}
	enter_text(d, l, s);
}

static int lookahead_learn(
	struct drafter *d, const struct draft_seen *seen, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++)
		learn(d, &seen[i]);
	return 0;
}

static void lookahead_forget(struct drafter *d, int64_t request)
{
	owners_drop(&d->owners, request);
}

static const struct draft_window *lookahead_window(struct drafter *d, int64_t request)
{
	const struct line *l = owners_place(&d->owners, request);

	if (!l || !l->shown)
		return NULL;
	d->window = (struct draft_window){ .levels = d->levels,
		.columns = d->w,
		.pos = l->pos,
		.cell = l->was,
		.next = l->next,
		.gram = d->n,
		.n_entered = l->n_entered,
		.entered = l->entered,
		.n_own = l->n_own,
		.pool = d->n_grams };
	return &d->window;
}

const struct draft_ops draft_lookahead = {
	DRAFTER(lookahead, "lookahead", "W,N,G",
		"a window of the model's own iterations makes n-grams, a pool of which is verified"),
	.variants =
		(const struct draft_variant[]){ { "lookahead", "lookahead:4,3,4", true, 0.1 }, { 0 } },
	.alone = "gathers the model's own predictions: it needs the model",
	.learn = lookahead_learn,
	.forget = lookahead_forget,
	.window = lookahead_window,
};
