/* One request, submitted on the engine's thread between two steps. */
#pragma once

#include "engine/core/actor.h"

/* Its number, or -1. */
int64_t actor_submit(struct actor *a, const struct engine_request *r, struct err *err);
