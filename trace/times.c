/* See times.h. */
#include "trace/times.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { HEAD = 3, NUMBERS = 3, STAGE_MAX = 255 };

/* Bytes that a number needs. */
static unsigned width(uint64_t value)
{
	unsigned n = 1;

	while (n < 8 && value >> 8 * n)
		n++;
	return n;
}

/* The smallest widths that fit all stages; false: this is not a list of stages. */
static bool measure(struct ev_span stages, unsigned char *head)
{
	uint64_t all[NUMBERS] = { 0 };
	struct ev_stage_time one;

	if (stages.size % sizeof one)
		return false;
	for (size_t i = 0; ev_item(stages, i, &one, sizeof one); i++) {
		if (one.stage > STAGE_MAX)
			return false;
		all[0] |= one.ns;
		all[1] |= one.bytes;
		all[2] |= one.ops;
	}
	for (int k = 0; k < NUMBERS; k++)
		head[k] = (unsigned char)width(all[k]);
	return true;
}

static unsigned char *put(unsigned char *to, uint64_t value, unsigned n)
{
	while (n--) {
		*to++ = (unsigned char)value;
		value >>= 8;
	}
	return to;
}

static uint64_t get(const unsigned char **from, unsigned n)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < n; i++)
		value |= (uint64_t)(*from)[i] << 8 * i;
	*from += n;
	return value;
}

int times_pack(struct times_buf *buf, struct ev_span stages, struct ev_span *out)
{
	unsigned char head[HEAD] = { 0 }, *to;
	struct ev_stage_time one;

	*out = (struct ev_span){ 0 };
	if (!stages.data)
		return 0;
	if (!ARRAY_ROOM(buf->data, buf->cap, HEAD + stages.size)) /* a packed stage: 25 bytes at most */
		return -1;
	to = buf->data + HEAD;
	if (measure(stages, head)) {
		for (size_t i = 0; ev_item(stages, i, &one, sizeof one); i++) {
			*to++ = (unsigned char)one.stage;
			to = put(put(put(to, one.ns, head[0]), one.bytes, head[1]), one.ops, head[2]);
		}
	} else {
		memcpy(to, stages.data, stages.size);
		to += stages.size;
	}
	memcpy(buf->data, head, HEAD);
	*out = (struct ev_span){ buf->data, (size_t)(to - buf->data) };
	return 0;
}

int times_unpack(struct times_buf *buf, struct ev_span packed, struct ev_span *out)
{
	static const unsigned char raw[HEAD];
	const unsigned char *head = packed.data, *from;
	size_t stride, n;

	*out = packed;
	if (!packed.data)
		return 0;
	*out = (struct ev_span){ "", 0 };
	if (packed.size < HEAD)
		return 0;
	from = head + HEAD;
	if (!memcmp(head, raw, HEAD)) {
		*out = (struct ev_span){ from, packed.size - HEAD };
		return 0;
	}
	for (int k = 0; k < NUMBERS; k++)
		if (head[k] < 1 || head[k] > 8)
			return 0;
	stride = 1 + (size_t)head[0] + head[1] + head[2];
	n = (packed.size - HEAD) / stride;
	if (!ARRAY_ROOM(buf->data, buf->cap, n * sizeof(struct ev_stage_time) + 1))
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct ev_stage_time one = { .stage = *from++ };

		one.ns = get(&from, head[0]);
		one.bytes = get(&from, head[1]);
		one.ops = get(&from, head[2]);
		memcpy(buf->data + i * sizeof one, &one, sizeof one);
	}
	*out = (struct ev_span){ buf->data, n * sizeof(struct ev_stage_time) };
	return 0;
}
