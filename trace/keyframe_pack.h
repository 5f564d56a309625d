/* Inside of keyframes: their integers, packed. */
#ifndef CUTAWAY_TRACE_KEYFRAME_PACK_H
#define CUTAWAY_TRACE_KEYFRAME_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/keyframe.h"

struct key_buf {
	unsigned char *data;
	size_t size, cap;
	bool failed; /* no memory */
};

void key_put(struct key_buf *b, int64_t v);
void key_put_float(struct key_buf *b, float f);
/* false: the bytes end before the integer does, or it is none. */
bool key_get(const unsigned char **at, const unsigned char *end, int64_t *v);
bool key_get_float(const unsigned char **at, const unsigned char *end, float *f);
void key_pack_state(struct key_buf *b, const struct keyframe *key);

#endif
