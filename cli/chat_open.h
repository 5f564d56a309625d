/* The chat as verbs open it (verb_chat.c). Thread: main's. */
#pragma once

#include "cli/cli.h"
#include "tui/app/tui.h"

/* What a verb adds to the options of the command line; all zero: nothing. */
struct chat_extra {
	const char *lesson, *reader; /* see struct tui_options */
	bool lesson_test;
	const char *record; /* in place of --record, or NULL */
	const struct tui_guest *guest;
};
/* What the command line says of the screen. */
struct tui_options chat_screen(const struct cli *c);
/* Until the user quits; then it prints where the session was recorded. */
int chat_open(const struct cli *c, const struct chat_extra *extra, struct err *e);
/* Prints how many turns were not sent, the path of the recording (NULL: none), how to replay it
 * and, if it goes_on, to continue it, after the terminal was restored. */
void chat_report_end(const char *record, const struct tui_end *end, bool goes_on);
