/* What layers do beside attention (events experts and state), while the setting watch-layers is on:
 * read after a step from what its ops wrote (engine/run/layer_watch.h) and from the states
 * themselves. Told of each row whose logits are wanted; of a prompt's other rows experts are
 * counted. Thread: the engine's. */
#include "engine/observe/watch.h"
#include "engine/run/layer_watch.h"

struct watching {
	struct layer_watch room;
	struct watch_experts *experts;
	struct watch_states *states;
	int64_t *request; /* [slots] 0: free */
	int32_t n, next;
};

static void watch_end(struct watching *s)
{
	layer_watch_close(&s->room);
	watch_experts_close(s->experts);
	watch_states_close(s->states);
	free(s->request);
	memset(s, 0, sizeof *s);
}

static int watch_begin(struct engine *e, struct watching *s, struct err *err)
{
	watch_end(s);
	s->n = e->set.slots;
	s->request = calloc((size_t)s->n, sizeof *s->request);
	if (!s->request || layer_watch_open(&s->room, &e->forward, err) ||
		!(s->experts = watch_experts_open(e, s->n)) || !(s->states = watch_states_open(e, s->n))) {
		watch_end(s);
		return err->code ? -1 : err_set(err, ERR_MEMORY, "no memory to watch layers");
	}
	return 0;
}

static void watching_close(struct engine *e, void *state)
{
	(void)e;
	watch_end(state);
}

int engine_apply_watch(struct engine *e, struct engine_options *to, struct err *err)
{
	struct watching *s = engine_hook_state(e, &watch_hooks);

	if (!e->model || !s || to->watch_layers == !!s->request)
		return 0;
	if (!to->watch_layers) {
		layer_watch_use(&e->forward, NULL);
		watch_end(s);
		return 0;
	}
	if (to->pipeline_parallel > 1 || to->sequence_parallel > 1)
		return err_set(err, ERR_USAGE,
			"watch-layers: other ranks compute some layers or rows; not with pipeline-parallel or "
			"sequence-parallel");
	if (watch_begin(e, s, err))
		return -1;
	layer_watch_use(&e->forward, &s->room);
	return 0;
}

/* The place of a request; the oldest is given to another if more wait than run. */
static int32_t place_of(struct watching *s, int64_t request)
{
	int32_t at = -1;

	for (int32_t i = s->n; i-- > 0;)
		if (s->request[i] == request)
			return i;
		else if (!s->request[i])
			at = i;
	if (at < 0)
		at = s->next = (s->next + 1) % s->n;
	s->request[at] = request;
	watch_experts_forget(s->experts, at);
	watch_states_forget(s->states, at);
	return at;
}

static void watching_computed(struct engine *e, void *state)
{
	struct watching *s = state;
	const bool told = s->request && e->forward.n_rows <= s->room.rows;

	for (int32_t i = 0; told && i < e->plan.n_items; i++) {
		const struct plan_item *item = &e->plan.item[i];
		const bool prompt = item->work == EV_WORK_prefill;
		struct watched w = { .place = place_of(s, item->r->id), .item = item };

		w.row = prompt ? item->row + item->n_rows - 1 : item->row;
		watch_experts_count(e, s->experts, &w);
		if (item->n_out && !item->r->how->given) {
			watch_experts_emit(e, s->experts, &w);
			watch_states_emit(e, s->states, &w);
		}
	}
}

static void watching_forget(struct engine *e, void *state, int64_t request)
{
	struct watching *s = state;

	(void)e;
	for (int32_t i = 0; i < s->n; i++)
		if (s->request[i] == request)
			s->request[i] = 0;
}

const struct step_hooks watch_hooks = {
	.name = "watch",
	.size = sizeof(struct watching),
	.close = watching_close,
	.computed = watching_computed,
	.forget = watching_forget,
};
