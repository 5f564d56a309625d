/* Part of the timeline: experts and states at the newest watched row. */
#include "fold/timeline_fold.h"

float tl_share(struct ev_span s, size_t i)
{
	uint16_t share;

	return ev_item(s, i, &share, sizeof share) ? (float)share / 65535.0f : NAN;
}

static bool sizes_fit(const struct ev_experts *e, size_t layers)
{
	const size_t cells = layers * (size_t)e->experts;

	return layers && layers <= TL_MAX_LAYERS && e->entropy.size == layers * sizeof(float) &&
		   e->chosen.size == cells && e->load.size == 2 * cells && e->load_ema.size == 2 * cells &&
		   e->chosen.data && e->load.data && e->load_ema.data && e->entropy.data;
}

static void unpack_experts(float *value, const struct ev_experts *e, size_t layers)
{
	const size_t n = (size_t)e->experts;

	for (size_t l = 0; l < layers; l++, value += 3 * n + 1) {
		for (size_t i = 0; i < n; i++) {
			value[i] = (float)((const unsigned char *)e->chosen.data)[l * n + i] / 255.0f;
			value[n + i] = tl_share(e->load, l * n + i);
			value[2 * n + i] = tl_share(e->load_ema, l * n + i);
		}
		ev_item(e->entropy, l, &value[3 * n], sizeof *value);
	}
}

bool tl_fold_experts(struct timeline *t, const struct event *ev)
{
	const struct ev_experts *e = &ev->u.experts;
	struct tl_request *r = tl_request_find(t, e->request);
	const size_t layers = e->entropy.size / sizeof(float);
	struct tl_watched *w = r ? &r->experts : NULL;
	size_t n;

	if (!w || !tl_step_is_now(t, e->step) || e->experts < 1 || e->experts > TL_EXPERTS ||
		!sizes_fit(e, layers))
		return false;
	n = layers * (3 * (size_t)e->experts + 1);
	if (!tl_room(t, &w->value, n))
		return true;
	*w = (struct tl_watched){ e->step, e->pos, e->rows, e->read, e->whole, (int32_t)layers,
		(int32_t)e->experts, tl_int32(e->used), (int32_t)n, w->value };
	unpack_experts(w->value, e, layers);
	return true;
}

static void unpack_layer(float *value, const struct ev_state *e, size_t l)
{
	uint32_t heads = 0, taps = 0;

	ev_item(e->heads, l, &heads, sizeof heads);
	ev_item(e->taps, l, &taps, sizeof taps);
	value[TL_STATE_HEADS] = (float)heads;
	value[TL_STATE_TAPS] = (float)taps;
	ev_item(e->norm, l, &value[TL_STATE_NORM], sizeof *value);
	ev_item(e->half_life, l, &value[TL_STATE_HALF], TL_RANKS * sizeof *value);
}

static bool state_fits(const struct ev_state *e, size_t layers)
{
	return layers && layers <= TL_MAX_LAYERS && e->norm.size == 4 * layers && e->norm.data &&
		   e->heads.size == 4 * layers && e->heads.data && e->taps.size == 4 * layers &&
		   e->taps.data && e->half_life.size == 4 * TL_RANKS * layers && e->half_life.data &&
		   e->history.size <= 8 * TL_HISTORY && e->history.size % 8 == 0 && e->history.data;
}

bool tl_fold_state(struct timeline *t, const struct event *ev)
{
	const struct ev_state *e = &ev->u.state;
	struct tl_request *r = tl_request_find(t, e->request);
	const size_t layers = e->norm.size / 4, history = e->history.size / 8;
	struct tl_watched *w = r ? &r->states : NULL;

	if (!w || !tl_step_is_now(t, e->step) || !state_fits(e, layers))
		return false;
	if (!tl_room(t, &w->value, layers * TL_STATE + 2 * history))
		return true;
	*w = (struct tl_watched){ .step = e->step,
		.pos = e->pos,
		.n_layers = (int32_t)layers,
		.n = (int32_t)history,
		.n_values = (int32_t)(layers * TL_STATE + 2 * history),
		.value = w->value };
	for (size_t l = 0; l < layers; l++)
		unpack_layer(w->value + l * TL_STATE, e, l);
	ev_items(e->history, w->value + layers * TL_STATE, sizeof *w->value, 2 * history);
	return true;
}

static void drop(struct tl_watched *w, int64_t before)
{
	if (w->step > before)
		return;
	free(w->value);
	*w = (struct tl_watched){ .step = EV_NULL_I };
}

void tl_drop_watched(struct tl_request *r, int64_t before)
{
	drop(&r->experts, before);
	drop(&r->states, before);
}
