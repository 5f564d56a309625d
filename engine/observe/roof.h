/* The roof that steps are compared with (roof.c): plain reads, bytes a second, as the state of
 * roof_hooks. Thread: the engine's. */
#pragma once

#include "engine/core/step_hooks.h"

struct engine_roof {
	double best, least;  /* of all passes of n measurements */
	double read, worst;  /* of the newest alone */
	double ints, floats; /* the newest: operations a second; 0: not measured */
	int32_t n;           /* 0: not measured */
	int64_t step;        /* step count at the last measurement */
	bool due;            /* not read yet, or kernels have read faster since */
	char words[96];      /* text of the setting `roof` */
};

extern const struct step_hooks roof_hooks;
