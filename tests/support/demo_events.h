/* Test data: a made-up but consistent session as events. A conversation of two turns, background
 * requests that share its system prompt, two forks, drafts, a preemption, evictions, a queue, a
 * refused request. Nothing is computed: numbers come from a small generator with a fixed seed, so
 * it is the same always. */
#pragma once

#include "event/event.h"

enum { DEMO_CHAT_STEPS = 48, DEMO_STEPS = 150 };

/* Sends the events of the first n_steps steps (at most DEMO_STEPS, which also close the session).
 * At DEMO_CHAT_STEPS the second turn is being answered while three background requests run beside
 * it. */
void demo_play(ev_sink *sink, void *arg, int n_steps);
