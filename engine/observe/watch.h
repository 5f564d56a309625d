/* The two halves of watch.c: what routers chose, and what recurrent layers keep. Each has
 * room for n requests, whose places watch.c gives out. Thread: the engine's. */
#pragma once

#include "engine/core/engine_impl.h"

extern const struct step_hooks watch_hooks;

struct watched {
	int32_t place;
	const struct plan_item *item;
	int32_t row; /* the newest that is certain to stay */
};

/* watch_experts.c. NULL: no memory. */
struct watch_experts *watch_experts_open(struct engine *e, int32_t n);
void watch_experts_close(struct watch_experts *s); /* NULL is fine */
void watch_experts_forget(struct watch_experts *s, int32_t place);
/* Adds the item's rows up to w->row to what the request used. */
void watch_experts_count(struct engine *e, struct watch_experts *s, const struct watched *w);
/* Nothing where the model has no experts. */
void watch_experts_emit(struct engine *e, struct watch_experts *s, const struct watched *w);

/* watch_state.c, likewise. */
struct watch_states *watch_states_open(struct engine *e, int32_t n);
void watch_states_close(struct watch_states *s);
void watch_states_forget(struct watch_states *s, int32_t place);
void watch_states_emit(struct engine *e, struct watch_states *s, const struct watched *w);
