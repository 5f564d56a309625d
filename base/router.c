/* See router.h. */
#include "base/router.h"

#include <stdlib.h>
#include <string.h>

enum {
	BLOCK = 16,         /* tokens of a beginning that is remembered */
	BLOCKS = 1 << 20,   /* that are; a newer one takes the room of an older one */
	MATCH_PERCENT = 30, /* of a prompt that has to match: cache_threshold of SGLang's router */
};

struct router_block {
	uint64_t key; /* of all tokens up to its end; 0: none */
	int32_t replica;
};

static uint64_t mix(uint64_t x) /* splitmix64 */
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static int32_t draw(const struct router *r, const struct router_request *q, uint64_t which)
{
	return r->live[mix(mix(r->seed + which) ^ (uint64_t)q->number) % (uint64_t)r->n_live];
}

static bool less(const struct router *r, int32_t a, int32_t b)
{
	return r->requests[a] < r->requests[b] ||
		   (r->requests[a] == r->requests[b] && r->tokens[a] < r->tokens[b]);
}

static int32_t next_of_round(struct router *r)
{
	const int32_t at = r->next % r->n_live;

	r->next = (at + 1) % r->n_live;
	return r->live[at];
}

static int32_t pick_round(struct router *r, const struct router_request *q, struct router_why *why)
{
	(void)q;
	why->reason = "its turn";
	return next_of_round(r);
}

static int32_t pick_random(struct router *r, const struct router_request *q, struct router_why *why)
{
	why->reason = "drawn at random";
	return draw(r, q, 0);
}

static int32_t pick_two(struct router *r, const struct router_request *q, struct router_why *why)
{
	const int32_t a = draw(r, q, 0), b = draw(r, q, 1);

	why->reason = "the less loaded of two drawn at random";
	return less(r, b, a) ? b : a;
}

/* Among equals the next of the round, so that idle ones take turns. */
static int32_t pick_least(struct router *r, const struct router_request *q, struct router_why *why)
{
	int32_t best = next_of_round(r);

	(void)q;
	why->reason = "least loaded";
	for (int32_t i = 0; i < r->n_live; i++)
		if (less(r, r->live[i], best))
			best = r->live[i];
	return best;
}

static uint64_t key_after(uint64_t key, const int32_t *ids)
{
	for (int i = 0; i < BLOCK; i++)
		key = (key ^ (uint32_t)ids[i]) * 0x100000001b3u;
	return mix(key) | 1;
}

static bool takes(const struct router *r, int32_t replica)
{
	for (int32_t i = 0; i < r->n_live; i++)
		if (r->live[i] == replica)
			return true;
	return false;
}

/* Where the longest beginning of the prompt that is remembered went last. */
static void match(const struct router *r, const struct router_request *q, struct router_why *why)
{
	uint64_t key = 0;

	why->matched = 0;
	for (int32_t at = 0; at + BLOCK <= q->n_ids; at += BLOCK) {
		const struct router_block *b;

		key = key_after(key, q->ids + at);
		b = &r->block[key % BLOCKS];
		if (b->key != key || !takes(r, b->replica))
			break;
		why->last = b->replica;
		why->matched = at + BLOCK;
	}
}

static void remember(struct router *r, const struct router_request *q, int32_t replica)
{
	uint64_t key = 0;

	for (int32_t at = 0; at + BLOCK <= q->n_ids; at += BLOCK) {
		key = key_after(key, q->ids + at);
		r->block[key % BLOCKS] = (struct router_block){ key, replica };
	}
}

/* As the cache-aware policy of SGLang's router: the replica that got the longest matching
 * beginning, unless that is short, or the loads are out of balance; here: it has a batch more to do
 * than the least loaded one, which gets the request then. */
static int32_t pick_prefix(struct router *r, const struct router_request *q, struct router_why *why)
{
	const int32_t least = pick_least(r, q, why);
	int32_t best = least;

	match(r, q, why);
	if ((int64_t)why->matched * 100 <= (int64_t)q->n_ids * MATCH_PERCENT)
		why->reason = why->matched ? "least loaded, since the longest known beginning is too short"
								   : "least loaded, since no beginning is known";
	else if (r->requests[why->last] >= r->requests[least] + r->slots)
		why->reason = "least loaded, since the one with the longest beginning has a batch more";
	else {
		why->reason = "longest known beginning";
		best = why->last;
	}
	remember(r, q, best);
	return best;
}

/* Mitzenmacher 2001 has two choices. */
const struct router_kind router_kinds[] = { { "round-robin", pick_round },
	{ "random", pick_random }, { "two-choices", pick_two }, { "least-loaded", pick_least },
	{ "prefix", pick_prefix }, { 0 } };

const char *router_name(int i)
{
	return router_kinds[i].name;
}

int router_open(
	struct router *r, const char *name, int32_t n, int32_t slots, uint64_t seed, struct err *e)
{
	int k = 0;

	memset(r, 0, sizeof *r);
	while (router_kinds[k].name && strcmp(router_kinds[k].name, name))
		k++;
	if (!router_kinds[k].name)
		return err_set(e, ERR_USAGE, "there is no router \"%s\"", name);
	r->kind = &router_kinds[k];
	r->n = n;
	r->slots = slots;
	r->seed = seed;
	r->requests = calloc((size_t)n, sizeof *r->requests);
	r->tokens = calloc((size_t)n, sizeof *r->tokens);
	r->live = calloc((size_t)n, sizeof *r->live);
	if (r->kind->pick == pick_prefix)
		r->block = calloc(BLOCKS, sizeof *r->block);
	if (!r->requests || !r->tokens || !r->live || (r->kind->pick == pick_prefix && !r->block)) {
		router_close(r);
		return err_no_memory(e, "a router of %d replicas", n);
	}
	while (r->n_live < n) {
		r->live[r->n_live] = r->n_live;
		r->n_live++;
	}
	return 0;
}

void router_close(struct router *r)
{
	free(r->requests);
	free(r->tokens);
	free(r->live);
	free(r->block);
	memset(r, 0, sizeof *r);
}

int32_t router_send(struct router *r, const struct router_request *q, struct router_why *why)
{
	const int32_t answers = q->answers ? q->answers : 1;
	struct router_why own;
	int32_t i;

	why = why ? why : &own;
	*why = (struct router_why){ .matched = -1, .last = -1 };
	if (!r->n_live)
		return -1;
	i = r->kind->pick(r, q, why);
	r->requests[i] += answers;
	r->tokens[i] += (int64_t)answers * q->n_ids;
	return i;
}

void router_ended(struct router *r, int32_t replica, int32_t n_prompt)
{
	r->requests[replica]--;
	r->tokens[replica] -= n_prompt;
}

void router_leave_out(struct router *r, int32_t replica)
{
	int32_t n = 0;

	for (int32_t i = 0; i < r->n_live; i++)
		if (r->live[i] != replica)
			r->live[n++] = r->live[i];
	r->n_live = n;
}
