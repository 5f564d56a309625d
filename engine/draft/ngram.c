/* Prompt lookup: what followed these words last time? (Saxena 2023, "Prompt Lookup Decoding"; Yang
 * et al. 2023, "Inference with Reference".) The longest suffix of the text, of max down to min
 * tokens, that occurs earlier is searched, and among equals the most recent; what followed it is
 * the guess. Where the guess runs into the end of the text it goes on reading itself, as LZ77 does,
 * so that a loop of any period is drafted to the full width.
 *
 * One backward scan for the last token, four compares an instruction and no index to keep: about 1
 * us over 8,000 tokens. It stops at the first match of max tokens. Thread: the engine's. */
#include "engine/draft.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_K = 4, DEFAULT_MIN = 2, DEFAULT_MAX = 4, LONGEST = 64, SCAN = 16 };

struct drafter {
	int32_t k, min, max;
};

extern const struct draft_ops draft_ngram;

static int parse(struct drafter *d, const char *args)
{
	int32_t given[3] = {DEFAULT_K, DEFAULT_MIN, DEFAULT_MAX};
	int n = draft_numbers(args, 1, LONGEST, given, 3);

	*d = (struct drafter){given[0], given[1], given[2]};
	return n < 0 || n == 2 || (args && !n) || d->k > DRAFT_MAX || d->min > d->max ? -1 : 0;
}

static int ngram_open(struct drafter **out, const struct draft_env *env, const char *args, struct err *e)
{
	struct drafter *d = malloc(sizeof *d);

	(void)env;
	if (!d)
		return err_set(e, ERR_MEMORY, "no memory for the n-gram drafter");
	if (parse(d, args)) {
		free(d);
		return err_set(e, ERR_USAGE,
					   "ngram:%.40s is not ngram:k or ngram:k,min,max with k from 1 to %d tokens "
					   "drafted and matches of min to max tokens, 1 to %d",
					   args, DRAFT_MAX, LONGEST);
	}
	*out = d;
	return 0;
}

static void ngram_close(struct drafter *d)
{
	free(d);
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

/* How many tokens, at most max, agree reading backward from ids[a] and ids[b], a < b. */
static int32_t match_length(const int32_t *ids, int64_t a, int64_t b, int32_t max)
{
	int32_t n = 0;

	while (n < max && n <= a && ids[a - n] == ids[b - n])
		n++;
	return n;
}

/* The end of the best earlier match of the text's suffix, or -1. */
static int64_t find_match(const struct drafter *d, const int32_t *ids, int64_t n)
{
	int64_t best = -1;
	int32_t best_length = d->min - 1;

	for (int64_t j = n - 1; best_length < d->max;) {
		int32_t length;

		j = find_last(ids, j, ids[n - 1]);
		if (j < 0)
			break;
		length = match_length(ids, j, n - 1, d->max);
		if (length > best_length) {
			best = j;
			best_length = length;
		}
	}
	return best;
}

static void guess(const struct drafter *d, const struct draft_job *job)
{
	struct draft *out = job->out;
	int32_t k = job->depth < job->nodes ? job->depth : job->nodes;
	int64_t from;

	out->n = 0;
	if (k > d->k)
		k = d->k;
	if (job->n < 2 || k < 1)
		return;
	from = find_match(d, job->ids, job->n) + 1;
	if (!from)
		return;
	for (int32_t i = 0; i < k; i++) {
		int64_t at = from + i;

		draft_add(out, i - 1, at < job->n ? job->ids[at] : out->id[at - job->n], 1);
	}
}

static int ngram_propose(struct drafter *d, const struct draft_job *job, int32_t n, struct err *e)
{
	(void)e;
	for (int32_t i = 0; i < n; i++)
		guess(d, &job[i]);
	return 0;
}

static int32_t ngram_width(const struct drafter *d)
{
	return d->k;
}

const struct draft_ops draft_ngram = {
	.name = "ngram",
	.args = "k[,min,max]",
	.doc = "prompt lookup: what followed the longest earlier match of the last tokens",
	.open = ngram_open,
	.close = ngram_close,
	.propose = ngram_propose,
	.width = ngram_width,
};
