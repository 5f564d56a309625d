/* Part of timeline.h: another server that computes the answers. */
#ifndef CUTAWAY_FOLD_TL_ATTACHED_H
#define CUTAWAY_FOLD_TL_ATTACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

/* A session whose answers are another server's: what that said. */
enum { TL_SERVER_SLOTS = 256, TL_SERVER_VOCAB = 2 * EV_OWN_IDS };
struct tl_server_slot {
	int64_t slot, busy, task, ctx, tokens, generated; /* as in the event; EV_NULL_I: not told */
};
struct tl_attached {
	bool on;
	char *url, *server, *version, *model, *p; /* NULL: not told */
	int64_t slots, ctx, pages, page_size;     /* EV_NULL_I: not told */
	int64_t running, waiting, kv_tokens;      /* of the newest poll */
	int64_t prompt_tokens, generated, asked, hit, preempted;
	double kv_used;              /* NaN: not told */
	char *error;                 /* why it did not answer; NULL: it did */
	struct tl_server_slot *slot; /* by number */
	int32_t n_slots, cap_slots;
};

#endif
