/* Internal: what the player's files share. */
#ifndef CUTAWAY_TUI_PLAYER_IMPL_H
#define CUTAWAY_TUI_PLAYER_IMPL_H

#include "tui/app/player.h"

/* A keyframe made here, in the background, for a file without keyframes. */
struct player_key {
	struct key_row row; /* its spans are ours */
};

struct player {
	char *path;
	struct reader *reader;
	struct timeline *t;   /* the one at the reader's position */
	int64_t current, seq; /* its step, and seq of that event */
	bool at_end;          /* the events after the last step are folded, too */
	struct err *err;      /* of the call in progress; may be NULL */
	int64_t base_seq;     /* of the keyframe that it was restored from; 0: none */

	struct reader *scan; /* reads ahead for keyframes; NULL: not needed, or done */
	struct keyframer *keyframer;
	struct player_key *key; /* [n_keys] by step: KEY_STEPS, 2 * KEY_STEPS … */
	int64_t n_keys, cap_keys, n_scanned;

	struct player_mark *mark;
	int n_marks, cap_marks;
	bool coarse;                     /* a mark is the last step of its span */
	int64_t marked_seq, marked_step; /* marks of keyframes up to here are added */
};

/* Adds the marks of a keyframe, if it is newer than those added. */
bool player_add_marks(void *player, const struct key_row *row);
/* 1: the keyframe after a step; spans live until the next call. 0: there is none. */
int player_key_at(struct player *p, int64_t step, struct key_row *row, struct err *e);

/* Reads on to make keyframes. 1: there is more, 0: not needed or done, -1. */
int player_scan(struct player *p, int64_t budget_ns, struct err *e);
void player_scan_close(struct player *p);

#endif
