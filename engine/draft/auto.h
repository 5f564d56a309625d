/* What the drafter `auto` says beside its guesses. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_DRAFT_AUTO_H
#define CUTAWAY_ENGINE_DRAFT_AUTO_H

#include <stdbool.h>

#include "engine/draft.h"

extern const struct draft_ops draft_auto;

struct auto_choice {
	const char *spec, *before; /* "off": plain decoding. They live as long as the drafter */
	int32_t nodes;             /* tokens it lets it guess at most */
	double speed, speed_before; /* predicted, against plain decoding */
};

/* True once after each change of mind. */
bool auto_changed(struct drafter *d, struct auto_choice *out);
/* The drafters that it weighs. */
struct shadow *auto_shadow(struct drafter *d);

#endif
