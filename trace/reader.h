/* Reads a recording back as the same stream of events. Files are not trusted: trusted_schema=OFF,
 * defensive mode, cell_size_check, quick_check, limits on sizes and types of every value.
 *
 * Opens read-only; works for a file that is being written and on read-only media. Thread: any
 * one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "fold/keyframe.h"

struct reader;

int reader_open(struct reader **r, const char *path, struct err *e);
void reader_close(struct reader *r);
/* -1: its answers are another server's (event attached), so that there is nothing of ours in it to
 * compute again or to explain; the error says whose. */
int reader_ours(const struct reader *r, struct err *e);
/* The reader's connection, for queries between two of its calls. */
struct sqlite3 *reader_db(const struct reader *r);

enum { READER_STEPS_BITS = 50 };
struct reader_info {
	int64_t n_steps; /* number of the last step, 0 … 2^READER_STEPS_BITS whatever the file says */
	int64_t last_seq, last_t_ns;
	int closed;    /* 1: the session was closed properly */
	int live;      /* 1: it may still be growing (or was killed): more events may follow */
	int keyframes; /* 1: it has keyframes of this program's format (fold/keyframe.h) */
	int checked;   /* 1: all its pages were checked at the start; 0: too large, errors show when
					  reading */
};
/* Renewed when reader_next returns 0, and by reader_refresh. */
const struct reader_info *reader_info(const struct reader *r);

/* Next event in order of seq. 1, 0 at the end, -1 on an error. Spans live until the next call.
 * After 0 it may be called again: a file that is being written may have more by then. Events may be
 * missing (rows can be deleted to make a file smaller), but none comes twice. */
int reader_next(struct reader *r, struct event *ev, struct err *e);
/* Calls fn for all events of these kinds (bit k: kind k) from seq on. */
int reader_each(
	const char *path, uint64_t kinds, int64_t seq, ev_sink *fn, void *arg, struct err *e);
/* The next event will be the first with a seq >= this. */
int reader_seek(struct reader *r, int64_t seq, struct err *e);
/* Ends the read transaction between two events, and the life of all spans. Call it before a long
 * pause: a writer cannot reset its WAL while a reader uses it, and until then nothing new is seen.
 */
void reader_rest(struct reader *r);
/* seq of the `step` event of a step, or -1. */
int64_t reader_step_seq(struct reader *r, int64_t step);

void reader_refresh(struct reader *r);
/* Only events of these kinds (bit k: kind k) are read after the next reader_seek; UINT64_MAX: all
 * again. */
void reader_only(struct reader *r, uint64_t kinds);
/* The single event of a kind with this seq. 1, 0 or -1. Its spans live until the next call for the
 * kind. The position of reader_next does not change. */
int reader_one(struct reader *r, enum ev_kind kind, int64_t seq, struct event *ev, struct err *e);
/* The first `step` event with a seq >= this: 1, 0 or -1. */
int reader_step_from(struct reader *r, int64_t seq, struct event *ev, struct err *e);

/* The keyframe after the step event with this seq. 1, 0: none, -1. Spans live until the next
 * call. */
int reader_keyframe(struct reader *r, int64_t seq, struct key_row *row, struct err *e);
/* Calls fn for the keyframes with first_seq <= seq <= last_seq, in order; with_tokens: only their
 * tokens, else only their marks, which keyframes of an older format have, too. fn returns false to
 * stop. */
int reader_keyframes(struct reader *r, int64_t first_seq, int64_t last_seq, bool with_tokens,
	bool (*fn)(void *arg, const struct key_row *row), void *arg, struct err *e);
/* The newest events of a page with a seq < before, the newest first: fn for each, at most max. */
int reader_page_history(struct reader *r, int64_t page, int64_t before, int max,
	void (*fn)(void *arg, const struct event *ev, int64_t step), void *arg, struct err *e);

/* Marks for the scrubber: calls fn for each step in which a turn of the conversation began, a draft
 * was rejected, or a cached page was evicted: once per kind and step, in order of steps. Covers
 * events with first <= seq <= last. */
enum reader_mark { MARK_TURN, MARK_REJECTED, MARK_EVICTED };
int reader_marks(struct reader *r, int64_t first, int64_t last,
	void (*fn)(void *arg, enum reader_mark kind, int64_t step), void *arg, struct err *e);
