/* Inside of the player: what its files share. */
#ifndef CUTAWAY_TUI_PLAYER_IMPL_H
#define CUTAWAY_TUI_PLAYER_IMPL_H

#include "tui/player.h"

/* Of a file without them: made here, in the background. */
struct player_key {
	struct key_row row; /* its spans are ours */
};

struct player {
	char *path;
	struct reader *reader;
	struct timeline *t;		 /* the one that stands where the reader does */
	int64_t current, seq;	 /* step that it stands at, and seq of its event */
	int64_t vocab_seq;		 /* texts of tokens are known up to here */
	bool at_end;			 /* what follows the last step is folded, too */
	struct key_row base;	 /* keyframe that it was made from; only seq is valid */

	struct reader *scan; /* reads ahead for keyframes; NULL: not needed, or done */
	struct keyframer *keyframer;
	struct player_key *key; /* [n_keys] by step: KEY_STEPS, 2 * KEY_STEPS … */
	int64_t n_keys, cap_keys, n_scanned;

	struct player_mark *mark;
	int n_marks, cap_marks;
	bool coarse;			/* a mark is the last step of the span it lies in */
	int64_t marked_seq, marked_step; /* marks of keyframes up to here are in */
};

void player_add_mark(struct player *p, enum reader_mark kind, int64_t step);
/* 1: the keyframe behind a step; spans live until the next call. 0: there is none. */
int player_key_at(struct player *p, int64_t step, struct key_row *row, struct err *e);
/* Makes the timeline anew from a keyframe. 1; 0: it is not sound, and the timeline is empty; -1. */
int player_restore(struct player *p, struct timeline *t, const struct key_row *row, struct err *e);
/* Empties a timeline but for the texts of tokens. */
void player_empty(struct timeline *t);

/* Reads on for keyframes of our own. 1: there is more, 0: not needed or done, -1. */
int player_scan(struct player *p, int64_t budget_ns, struct err *e);
void player_scan_close(struct player *p);

#endif
