/* Keyframes of a recording: the timeline at every KEY_STEPS-th step, written down, so that going to
 * a step is reading one and folding a few hundred events, in a recording of any length.
 *
 * A keyframe is no event but an index: derived from the events alone, so that a file without them
 * is complete, and one made again from the events is the same, byte for byte. It holds what
 * timeline_fields.c marks as kept. What the timeline lets go of after TL_WINDOW steps is not in it:
 * whoever wants the step S takes the keyframe TL_WINDOW steps before, rounded down, and folds what
 * follows. Nor is what one row of the file says (a prompt, a token's candidates), but the number of
 * that row. Of tokens it holds those since the keyframe before.
 *
 * Form: numbers, each zigzag (n << 1 ^ n >> 63) in groups of 7 bits, lowest first, the high bit set
 * on all but the last (as in Protocol Buffers, "sint64"); a float is its 4 bytes, lowest first. A
 * struct is its kept members, a number as the difference from that of the item before it. Items
 * follow their number; of pages, each follows its distance from the one before, after the last 0.
 *   state: KEY_FORMAT, seq of the oldest token that is kept, the timeline.
 *   tokens: for each future left since the keyframe before its seq, and for each request that has
 * not ended since then its id; each with how many of its first tokens are older, and the others as
 * items; 0 after the last of both.
 *
 * No input is trusted in restoring. Thread: any one. */
#pragma once

#include "fold/timeline.h"

/* Format: to be raised when a table of timeline_fields.c gets or loses a kept member. Keyframes of
 * another one count for nothing, and whoever shows the recording makes new ones in memory. */
enum { KEY_STEPS = TL_SLIDE, KEY_WINDOW = TL_WINDOW, KEY_FORMAT = 10 };

/* What happened since the keyframe before: for the marks of a scrubber. */
struct key_marks {
	int64_t turns, rejected, evicted;
};

struct key_row {
	int64_t seq, step; /* of the step after which it holds */
	struct key_marks marks;
	struct ev_span tokens, state;
};

struct keyframer;

struct keyframer *keyframer_open(void); /* NULL: no memory */
void keyframer_close(struct keyframer *k);
/* Takes the next event. true: a keyframe follows it; its spans live until the next call. Where
 * memory runs out no more keyframes come. */
bool keyframer_add(struct keyframer *k, const struct event *ev, struct key_row *row);

bool keyframe_is_known(struct ev_span state);
/* Makes the timeline what it was at a keyframe, asking t->older for the rest. 1; 0: the keyframe is
 * not sound, and the timeline is empty; -1: t->older failed. */
int timeline_restore(struct timeline *t, const struct key_row *row);
