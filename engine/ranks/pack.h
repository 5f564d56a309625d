/* Bytes into a message, or out of it. Thread: any; no state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* From `at` to data (pack), or back; data NULL: counts alone. Returns n. */
static inline size_t pack_bytes(void *at, uint8_t *data, size_t n, bool pack)
{
	if (data)
		memcpy(pack ? (void *)data : at, pack ? at : (void *)data, n);
	return n;
}
