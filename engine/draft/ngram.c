/* Prompt lookup: guesses what followed the same tokens earlier (Saxena 2023, "Prompt Lookup
 * Decoding"; Yang et al. 2023, "Inference with Reference".) The longest suffix of the text, of max
 * down to min tokens, that occurs earlier is searched, and among equals the most recent; what
 * followed it is the guess. A guess that reaches the end of the text continues with its own tokens,
 * as in LZ77, so that a loop of any period is drafted to the full length.
 *
 * With branches, different continuations are guessed at once, the best match's first, as a tree.
 * With "pool" the session's other texts are searched too (pool.h): other requests and earlier
 * turns.
 *
 * One backward scan for the last token, four compares an instruction and no index to keep: about 1
 * us over 8,000 tokens. The scan stops at the first match of max tokens. The pool has an index.
 * Thread: the engine's. */
#include "engine/draft/draft.h"

#include <stdlib.h>
#include <string.h>

#include "engine/draft/pool.h"

enum {
	DEFAULT_K = 4,
	DEFAULT_MIN = 2,
	DEFAULT_MAX = 4,
	LONGEST = 64,
	SCAN = 16,
	PLACES = 256, /* places compared, where more than one continuation is wanted, and in the pool */
};

struct drafter {
	int32_t k, min, max, branches, width;
	struct pool *pool; /* NULL: this text alone */
};

struct found {      /* a continuation */
	int32_t length; /* of the match before it */
	int32_t n, id[DRAFT_MAX];
};

struct search {
	const struct drafter *d;
	const struct draft_job *job;
	int32_t k, n, places;
	struct found best[DRAFT_LEAVES]; /* longest matches first; of equals the most recent */
};

/* "4,2,8,3,pool": the numbers, and whether the word follows them. */
static int parse(struct drafter *d, const char *args, bool *pool)
{
	static const char word[] = "pool";
	int32_t given[4] = { DEFAULT_K, DEFAULT_MIN, DEFAULT_MAX, 1 };
	size_t size = args ? strlen(args) : 0, tail = sizeof word - 1;
	char numbers[64];
	int n;

	*pool = size >= tail && !strcmp(args + size - tail, word) &&
			(size == tail || args[size - tail - 1] == ',');
	if (*pool && size > tail)
		size -= tail + 1;
	else if (*pool)
		args = NULL, size = 0;
	if (size >= sizeof numbers || (args && !size))
		return -1;
	memcpy(numbers, args ? args : "", size);
	numbers[size] = '\0';
	n = draft_numbers(numbers, 1, LONGEST, given, 4);
	*d = (struct drafter){ given[0], given[1], given[2], given[3], 0, NULL };
	return n < 0 || n == 2 || d->k > DRAFT_MAX || d->min > d->max || d->branches > DRAFT_LEAVES ? -1
																								: 0;
}

static int ngram_open(
	struct drafter *d, const struct draft_env *env, const char *args, struct err *e)
{
	bool pool;

	(void)env;
	if (parse(d, args, &pool))
		return err_set(e, ERR_USAGE,
			"ngram:%.40s is not ngram:k[,min,max[,branches]][,pool] with k from 1 to %d tokens "
			"drafted, matches of min to max tokens, 1 to %d, and 1 to %d branches",
			args, DRAFT_MAX, LONGEST, DRAFT_LEAVES);
	d->width = d->k * d->branches < DRAFT_NODES ? d->k * d->branches : DRAFT_NODES;
	return pool ? pool_open(&d->pool, d->min, e) : 0;
}

static void ngram_close(struct drafter *d)
{
	pool_close(d->pool);
}

/* Largest j < end with ids[j] == id, or -1. */
static int64_t find_last(const int32_t *ids, int64_t end, int32_t id)
{
	while (end >= SCAN) {
		const int32_t *at = ids + end - SCAN;
		int32_t found = 0;

		for (int i = 0; i < SCAN; i++)
			found |= at[i] == id;
		if (found)
			break;
		end -= SCAN;
	}
	while (end > 0 && ids[end - 1] != id)
		end--;
	return end - 1;
}

/* Number of tokens, at most max, that agree reading backward from ids[a] and ids[b], a < b. */
static int32_t match_length(const int32_t *ids, int64_t a, int64_t b, int32_t max)
{
	int32_t n = 0;

	while (n < max && n <= a && ids[a - n] == ids[b - n])
		n++;
	return n;
}

/* ---- the list of continuations ---- */

static bool is_full(const struct search *s, int32_t length)
{
	return s->n == s->d->branches && s->best[s->n - 1].length >= length;
}

/* Whether two continuations agree, as far as both are known. */
static bool is_same(const struct found *a, const struct found *b)
{
	int32_t n = a->n < b->n ? a->n : b->n;

	return !memcmp(a->id, b->id, (size_t)n * sizeof *a->id);
}

static void keep(struct search *s, const struct found *f)
{
	int32_t at, i;

	for (i = 0; i < s->n && !is_same(&s->best[i], f); i++)
		;
	if (i < s->n && s->best[i].length >= f->length)
		return;
	if (i == s->n) /* there is room, or the last one is dropped */
		i = s->n < s->d->branches ? s->n++ : s->n - 1;
	for (at = i; at > 0 && s->best[at - 1].length < f->length; at--)
		s->best[at] = s->best[at - 1];
	s->best[at] = *f;
}

/* ---- places ---- */

/* What follows ids[at - 1]; past the end of the text it continues with its own tokens. */
static void follow(const struct search *s, int64_t at, struct found *f)
{
	for (f->n = 0; f->n < s->k; f->n++, at++)
		f->id[f->n] = at < s->job->n ? s->job->ids[at] : f->id[at - s->job->n];
}

static void search_text(struct search *s)
{
	const int32_t *ids = s->job->ids;
	int32_t n = s->job->n;

	for (int64_t j = n - 1; !is_full(s, s->d->max); s->places++) {
		struct found f;

		if (s->d->branches > 1 && s->places == PLACES)
			break;
		j = find_last(ids, j, ids[n - 1]);
		if (j < 0)
			break;
		f.length = match_length(ids, j, n - 1, s->d->max);
		if (f.length < s->d->min || is_full(s, f.length))
			continue;
		follow(s, j + 1, &f);
		keep(s, &f);
	}
}

static void search_pool(struct search *s)
{
	const struct draft_job *job = s->job;
	int32_t place = -1;

	for (int i = 0; i < PLACES && !is_full(s, s->d->max); i++) {
		struct found f;

		place = pool_find(s->d->pool, job->ids, job->n, place);
		if (place < 0)
			break;
		f.length = pool_match(s->d->pool, place, job->ids, job->n, s->d->max);
		if (f.length < s->d->min || is_full(s, f.length))
			continue;
		f.n = pool_read(s->d->pool, place, s->k, f.id);
		if (f.n)
			keep(s, &f);
	}
}

/* ---- the tree ---- */

static void add_path(struct draft *t, const struct found *f)
{
	int32_t at = -1;

	for (int32_t i = 0; i < f->n; i++) {
		at = draft_follow(t, at, f->id[i]);
		if (at < 0)
			return;
	}
}

static void guess(const struct drafter *d, const struct draft_job *job)
{
	struct search s = {
		.d = d, .job = job, .k = job->depth < job->nodes ? job->depth : job->nodes
	};

	job->out->n = 0;
	if (s.k > d->k)
		s.k = d->k;
	if (job->n < 2 || s.k < 1)
		return;
	search_text(&s);
	if (d->pool)
		search_pool(&s);
	for (int32_t i = 0; i < s.n; i++)
		add_path(job->out, &s.best[i]);
}

static int ngram_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; d->pool && i < n; i++)
		pool_add(d->pool, job[i].request, job[i].ids, job[i].n);
	for (int32_t i = 0; i < n; i++)
		guess(d, &job[i]);
	return 0;
}

const struct draft_ops draft_ngram = {
	DRAFTER(ngram, "ngram", "k[,min,max[,branches]][,pool]",
		"prompt lookup: what followed the longest earlier match of the last tokens"),
	.variants = (const struct draft_variant[]){ { "ngram", "ngram:$n,1,4", false, 0.1 },
		{ "ngram tree", "ngram:$n,1,4,4,pool", true, 0.1 }, { 0 } },
	.offer = (const char *const[]){ "ngram", "ngram:4", "ngram:8", NULL },
};
