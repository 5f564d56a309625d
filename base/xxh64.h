/* XXH64: a fast hash against accidents, not against forgers (Collet, xxhash_spec.md, section "XXH64",
 * github.com/Cyan4973/xxHash). Thread: any; no state. */
#ifndef CUTAWAY_BASE_XXH64_H
#define CUTAWAY_BASE_XXH64_H

#include <stddef.h>
#include <stdint.h>

uint64_t xxh64(const void *data, size_t size, uint64_t seed);

#endif
