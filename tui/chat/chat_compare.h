/* /compare: the last turn, or a prompt, answered under two sets of settings by turns, as background
 * requests of this session; then the table. Internal to tui/.
 *
 * Each answer is begun on the engine's thread between two steps, when nothing runs: the settings of
 * its side are applied, the prefix cache emptied, the drafter opened anew. After the last one, and
 * after a stop, the settings are those of before. The table comes from the recording, where the
 * comparison is marked (sessions/compare/compare.h). Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_COMPARE_H
#define CUTAWAY_TUI_CHAT_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/settings/settings.h"
#include "sessions/compare/compare.h"

struct app;

enum { CHAT_COMPARE_SETTINGS = 16, CHAT_COMPARE_VALUE = 128 };

struct chat_compare {
	bool running, asked, stopping; /* asked: the engine's thread has it */
	char label[2][COMPARE_LABEL];
	struct {
		const struct setting *s;
		char value[3][CHAT_COMPARE_VALUE]; /* under A, under B, before */
	} set[CHAT_COMPARE_SETTINGS];          /* settings of the engine that a side names */
	int n_set;
	struct answer_settings answer[2];
	char *text;
	int32_t *ids, *scored; /* [n_ids] the prompt; [n_ids + n_scored] and A's answer */
	int32_t n_ids, n_scored;
	int turn;               /* of all answers, then of the two scores */
	int64_t request, first; /* the newest; A's first that counts */
	int64_t looked_ns;
	struct err err;
};

/* "'A' 'B' [PROMPT]": begins. */
int chat_compare(struct app *a, const char *typed, struct err *e);
/* Without waiting. False: none runs. */
bool chat_compare_cancel(struct app *a);
void chat_compare_work(struct app *a); /* after every wait */
void chat_compare_free(struct chat_compare *c);

#endif
