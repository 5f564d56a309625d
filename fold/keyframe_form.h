/* The written form of the structs of the timeline: see keyframe.h. */
#pragma once

#include "fold/timeline_fields.h"

struct key_out {
	unsigned char *data;
	size_t size, cap;
	bool failed; /* no memory */
};
struct key_in {
	const unsigned char *at, *end;
	bool bad; /* what was read is not what was written; from then on all numbers are 0 */
};

void key_put(struct key_out *b, int64_t v);
void key_put_items(struct key_out *b, const struct tl_shape *s, const char *items, int32_t n);
void key_put_struct(
	struct key_out *b, const struct tl_shape *s, const void *of, const void *before);

int64_t key_get(struct key_in *in);
/* before: NULL, or the item before it. Sets what is kept, and allocates what it points to. */
void key_get_struct(struct key_in *in, const struct tl_shape *s, void *of, const void *before);
