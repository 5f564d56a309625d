/* The settings as they stood when a lesson began: they are put back when it ends. Texts (system,
 * stop, user) are the reader's own and stay. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_KEPT_H
#define CUTAWAY_TUI_CHAT_KEPT_H

#include "engine/settings/settings.h"

struct app;

struct chat_kept {
	bool on;
	char *engine[N_ENGINE_SETTINGS]; /* NULL: not kept */
	struct answer_settings answer;
	char search[64];
};

void chat_kept_take(struct chat_kept *k, struct app *a);
/* Puts back what differs, says it on one line, and forgets. */
void chat_kept_put_back(struct chat_kept *k, struct app *a);
void chat_kept_free(struct chat_kept *k);

#endif
