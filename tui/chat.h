/* What chat.c and chat_acts.c share. Internal to tui/. Thread: the UI's. */
#ifndef CUTAWAY_TUI_CHAT_H
#define CUTAWAY_TUI_CHAT_H

#include <stdio.h>

#include "tui/app.h"
#include "tui/live.h"

enum { CHAT_WAITING = 16 };

struct chat {
	const struct tui_options *options;
	struct live live;
	struct settings settings;
	char *waiting[CHAT_WAITING]; /* turns to ask, oldest first */
	int n_waiting;
	FILE *script;
	char *copy_to; /* /save FILE.db: where the recording is copied when it is whole */
	int next_load;
	int32_t told_layer, told_head; /* plus one; what the engine was told to observe */
	bool record_failed, stop_said;
	int64_t began_ns;
};

void chat_ask(struct app *a, const char *text);
/* Stops answers, and with all also the background requests. Returns how many. */
int chat_cancel(struct app *a, bool all);
void chat_observe(struct app *a);
/* After the session is closed. */
int chat_copy_recording(struct chat *c, struct err *e);

/* For struct command_host; arg is the app. */
int chat_engine_set(void *arg, const char *name, const char *value, struct err *e);
int chat_engine_get(void *arg, const char *name, char *buf, size_t cap);
void chat_note(void *arg, const char *name, const char *value);
void chat_say(void *arg, const char *text);
int chat_act(void *arg, enum command_act act, const char *text, double number, struct err *e);

#endif
