/* Inside kernels/: what k_open() makes. Thread: written by k_open() alone. */
#ifndef CUTAWAY_KERNELS_CONTEXT_H
#define CUTAWAY_KERNELS_CONTEXT_H

#include "kernels/isa.h"
#include "kernels/pool.h"

enum { K_LAYOUT_NAME = 48 };

struct k_ctx {
	const char *backend;
	const struct k_isa *isa;
	struct k_pool *pool;
	char layout[K_LAYOUT_NAME];
};

#endif
