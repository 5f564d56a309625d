/* Made-up traffic for tests: requests of three users, classes and lengths, in bursts, under a real
 * policy of the real scheduler (sched_toy.h). Every event that screens need is told, on a clock
 * that is counted: 5 ms a step and half a millisecond a row. The same at every call. */
#pragma once

#include "event/event.h"

/* `steps` steps under a policy with four slots and few pages, to the sink. settings: names and
 * values in turn, that are told before the first request; ends with NULL; or NULL. */
void traffic_play(
	const char *policy, int steps, const char *const *settings, ev_sink *sink, void *arg);
