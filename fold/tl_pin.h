/* Declared prefixes in the timeline: see timeline.h. */
#ifndef CUTAWAY_FOLD_TL_PIN_H
#define CUTAWAY_FOLD_TL_PIN_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

/* A declared prefix, live or ended; of those refused the log alone knows. */
struct tl_pin {
	int64_t pin;                  /* the request that asked for it */
	enum ev_code_pin_action last; /* what happened to it last; it lives up to `kept` */
	int64_t t_ns, ttl_ns;         /* asked for, the last time; EV_NULL_I: until it is removed */
	int64_t asked, tokens;        /* declared; kept, in whole pages */
	int64_t pages, bytes;         /* that it added to what pins keep */
	int64_t prompts, given;       /* that began with it; tokens that it gave them */
};

static inline bool timeline_pin_lives(const struct tl_pin *p)
{
	return p->last <= EV_PIN_kept;
}

#endif
