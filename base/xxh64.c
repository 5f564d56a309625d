/* See xxh64.h. Words are read as they lie: little-endian machines give the published values. */
#include "base/xxh64.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
					  P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

static inline uint64_t rotate(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline uint64_t round_of(uint64_t acc, uint64_t input)
{
	return rotate(acc + input * P2, 31) * P1;
}

/* Whole stripes of 32 bytes, one word a lane. */
static uint64_t hash_stripes(const uint8_t *p, size_t n, uint64_t seed)
{
	uint64_t lane[4] = {seed + P1 + P2, seed + P2, seed, seed - P1}, h;

	for (; n; n--, p += 32)
		for (int i = 0; i < 4; i++)
			lane[i] = round_of(lane[i], word(p + 8 * i));
	h = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
	for (int i = 0; i < 4; i++)
		h = (h ^ round_of(0, lane[i])) * P1 + P4;
	return h;
}

uint64_t xxh64(const void *data, size_t size, uint64_t seed)
{
	const uint8_t *p = data, *end = p + size;
	uint64_t h = size < 32 ? seed + P5 : hash_stripes(p, size / 32, seed);
	uint32_t four;

	p += size / 32 * 32;
	h += size;
	for (; end - p >= 8; p += 8)
		h = rotate(h ^ round_of(0, word(p)), 27) * P1 + P4;
	if (end - p >= 4) {
		memcpy(&four, p, sizeof four);
		h = rotate(h ^ four * P1, 23) * P2 + P3;
		p += 4;
	}
	for (; p < end; p++)
		h = rotate(h ^ *p * P5, 11) * P1;
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}
