/* time.stages as it lies in a recording. An event has 32 bytes a kernel stage
 * (struct ev_stage_time), of which most are zeros; the file has
 *
 *     3 bytes: how many bytes n, b and o hold, each 1 to 8; then of each stage
 *     u8 stage, n bytes ns, b bytes bytes, o bytes operations, each lowest first
 *
 * with the smallest n, b and o that do for all stages of the row: 135 bytes for 11 stages of a
 * decode step. Bytes that are not a list of stages follow unchanged after 3 zeros, so that nothing
 * is lost.
 *
 * Thread: the buffer's owner's. */
#pragma once

#include "event/event.h"

/* All zero: empty. Its owner frees data. */
struct times_buf {
	unsigned char *data;
	size_t cap;
};

/* Packs an event's stages, or unpacks them to the event's form, into *buf, valid until its next
 * use. Bytes that are no packed form give an empty list. 0, or -1: no memory. */
int times_pack(struct times_buf *buf, struct ev_span stages, struct ev_span *out);
int times_unpack(struct times_buf *buf, struct ev_span packed, struct ev_span *out);
