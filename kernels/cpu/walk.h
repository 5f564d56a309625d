/* One walk of the pool's threads over a program. Private to kernels/. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/pool.h"

void k_walk(struct k_pool *pool, const struct k_isa *isa, struct k_program *program);
