/* See keyframe.h: how they are made. */
#include "fold/keyframe.h"

#include <stdlib.h>

#include "fold/keyframe_form.h"

struct keyframer {
	struct timeline t;
	struct key_out tokens, state;
	struct {
		int64_t seq, step, turns, rejected, evicted;
	} last; /* what the newest keyframe had */
};

struct keyframer *keyframer_open(void)
{
	return calloc(1, sizeof(struct keyframer));
}

void keyframer_close(struct keyframer *k)
{
	if (!k)
		return;
	timeline_free(&k->t);
	free(k->tokens.data);
	free(k->state.data);
	free(k);
}

static int64_t oldest_seq(const struct timeline *t)
{
	int64_t oldest = INT64_MAX;

	for (int32_t i = 0; i < t->n_requests; i++)
		if (t->request[i].n_tokens && t->request[i].token[0].seq < oldest)
			oldest = t->request[i].token[0].seq;
	for (int32_t i = 0; i < t->n_abandoned; i++)
		if (t->abandoned[i].token[0].seq < oldest)
			oldest = t->abandoned[i].token[0].seq;
	return oldest;
}

static void put_tokens(struct key_out *b, const struct tl_token *k, int32_t n, int64_t since)
{
	int32_t older = n;

	while (older && k[older - 1].seq > since)
		older--;
	key_put(b, older);
	key_put_items(b, &tl_shape_token, n > older ? (const char *)(k + older) : NULL, n - older);
}

/* What became of tokens since the keyframe before. A request that had ended by then has what it
 * had. */
static void put_all_tokens(struct key_out *b, const struct timeline *t, int64_t since)
{
	for (int32_t i = 0; i < t->n_abandoned; i++)
		if (t->abandoned[i].seq > since) {
			key_put(b, t->abandoned[i].seq);
			put_tokens(b, t->abandoned[i].token, t->abandoned[i].n_tokens, since);
		}
	key_put(b, 0);
	for (int32_t i = 0; i < t->n_requests; i++)
		if (t->request[i].state != TL_FINISHED || t->request[i].finish_seq > since) {
			key_put(b, t->request[i].id);
			put_tokens(b, t->request[i].token, t->request[i].n_tokens, since);
		}
	key_put(b, 0);
}

static void put_state(struct key_out *b, const struct timeline *t)
{
	key_put(b, KEY_FORMAT);
	key_put(b, oldest_seq(t));
	key_put_struct(b, &tl_shape_timeline, t, NULL);
}

bool keyframer_add(struct keyframer *k, const struct event *ev, struct key_row *row)
{
	const struct timeline *t = &k->t;

	timeline_fold(&k->t, ev);
	if (ev->kind != EV_step || t->last_step != ev->u.step.step || t->last_step % KEY_STEPS ||
		t->last_step == k->last.step)
		return false;
	k->tokens.size = k->state.size = 0;
	put_all_tokens(&k->tokens, t, k->last.seq);
	put_state(&k->state, t);
	*row = (struct key_row){ .seq = ev->seq,
		.step = t->last_step,
		.marks = { t->n_turns - k->last.turns, t->n_rejected - k->last.rejected,
			t->n_evicted - k->last.evicted },
		.tokens = { k->tokens.data, k->tokens.size },
		.state = { k->state.data, k->state.size } };
	k->last.seq = ev->seq;
	k->last.step = t->last_step;
	k->last.turns = t->n_turns;
	k->last.rejected = t->n_rejected;
	k->last.evicted = t->n_evicted;
	return !t->full && !k->tokens.failed && !k->state.failed;
}
