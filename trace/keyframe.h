/* Keyframes of a recording: what holds at every KEY_STEPS-th step and cannot be seen in the events near it, so
 * that going to a step is reading one keyframe and folding a few hundred events, in a recording of any length.
 *
 * A keyframe is no event but an index: derived from the events alone, so that a file without them is complete,
 * and one made again from the events is the same, byte for byte. It holds the page table, the requests that are
 * kept (below) and the counters; of requests their rows' numbers, because the rows lie in the file already; and
 * of tokens, only those since the keyframe before, a dozen bytes each.
 *
 * What is kept (the timeline keeps the same, fold/timeline_window.c): at a step that KEY_STEPS divides, steps,
 * batches, drafts and rows of attention KEY_WINDOW steps old are let go of, and so is a request that has ended,
 * if KEY_REQUESTS newer ones of its sort (the conversation's, the others) are there or they have KEY_TOKENS
 * tokens.
 *
 * Layout of the packed columns: integers, each zigzag (n << 1 ^ n >> 63) in groups of 7 bits, lowest first, the
 * high bit set on all but the last (as in Protocol Buffers, "sint64"). `tokens`: for each token 2 * request + 0,
 * seq since the entry before, step since the step before, pos, id, source + 8 * is_end, and 4 bytes: p as
 * little-endian float; for each rewind 2 * request + 1, seq since the entry before, kept. `state`: see
 * key_pack_state.
 *
 * No input is trusted in unpacking. Thread: any one. */
#ifndef CUTAWAY_TRACE_KEYFRAME_H
#define CUTAWAY_TRACE_KEYFRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "event/event.h"

enum { KEY_STEPS = 128, KEY_WINDOW = 256, KEY_REQUESTS = 48, KEY_TOKENS = 8192 };
enum { KEY_PAGES_MAX = 1 << 18, KEY_REQUESTS_MAX = 1 << 16 };

enum key_state { KEY_WAITING, KEY_RUNNING, KEY_PREEMPTED, KEY_FINISHED };

struct key_request {
	int64_t id, kind;
	int64_t request_seq, fork_seq, trim_seq, lookup_seq, finish_seq; /* of the newest such row; 0: none */
	int64_t first_seq;									 /* of its first token; 0: none */
	int64_t admitted_ns, first_token_ns;				 /* EV_NULL_I: not yet */
	int64_t state, slot, computed, prompt, n_tokens;
	int64_t n_drafted, n_accepted, n_preempted, n_rewinds;
	int32_t *pages; /* block table, -1: not known */
	int64_t n_pages, cap_pages;
	int32_t *pos; /* [n_tokens] of its tokens; not in the packed form */
	int64_t cap_pos;
};

struct key_page {
	int64_t refs, cached, owner, block, last_used_step, n_story;
};

struct key_counts {
	int64_t step, seq, t_ns, n_lost;
	int64_t n_tokens, n_drafted, n_accepted, n_rejected, n_evicted, n_prompt_tokens, n_hit_tokens;
	int64_t page_size, pages;
};

struct keyframe {
	struct key_counts counts;
	struct key_request *request; /* by id */
	int64_t n_requests, cap_requests;
	struct key_page *page; /* [counts.pages] */
};

/* What happened since the keyframe before: for the marks of a scrubber. */
struct key_marks {
	int64_t turns, rejected, evicted;
};

struct key_row {
	int64_t seq, step; /* of the step it stands behind */
	struct key_marks marks;
	struct ev_span tokens, state;
};

struct keyframer;

struct keyframer *keyframer_open(void); /* NULL: no memory */
void keyframer_close(struct keyframer *k);
/* Takes the next event. true: a keyframe stands behind it; its spans live until the next call. Where memory
 * runs out no more keyframes come. */
bool keyframer_add(struct keyframer *k, const struct event *ev, struct key_row *row);

/* 0, or -1: not what key_pack_state wrote, or no memory; *key is empty then. */
int keyframe_unpack(struct keyframe *key, struct ev_span state);
void keyframe_free(struct keyframe *key);
const struct key_request *keyframe_request(const struct keyframe *key, int64_t id);

struct key_token {
	int64_t request, seq;
	bool is_rewind;
	int64_t step, pos, id, source; /* of a token; pos of a rewind: tokens kept */
	bool is_end;
	float p;
};
struct key_tokens { /* a cursor over the tokens of one keyframe */
	const unsigned char *at, *end;
	int64_t seq, step;
};
struct key_tokens key_tokens_of(const struct key_row *row, int64_t seq_before, int64_t step_before);
/* 1, 0 at the end, -1: damaged. */
int key_tokens_next(struct key_tokens *c, struct key_token *out);

#endif
