/* What the made-up session of demo_events.c is about: who asks what when, and what is answered. */
#pragma once

#include "event/event.h"

enum { DEMO_REQUESTS = 9 };

struct demo_script {
	int64_t id, parent, sample;
	enum ev_code_request_kind kind;
	int at_step;
	const char *text, *prompt, *answer; /* prompt and answer: tokens parted by '|' */
	double accept;                      /* how often the drafter is right */
};
extern const struct demo_script demo_script[DEMO_REQUESTS];
