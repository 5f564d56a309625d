/* A text over the screen: F1, /help, /why. Thread: the UI's. */
#pragma once

#include "tui/term/canvas.h"

struct popup {
	bool open;
	char title[80];
	char *text;               /* lines; a line that begins with / has its command bright */
	int scroll, lines, shown; /* lines and shown: as last drawn */
};

void popup_show(struct popup *p, const char *title, const char *text); /* copies the text */
void popup_free(struct popup *p);
void popup_draw(struct popup *p, struct canvas *c); /* nothing if it is not open */
/* Scrolls, or closes it. typing: letters go into a prompt. False: it is closed, and the key has its
 * normal effect, so that typed text is not lost. */
bool popup_key(struct popup *p, int key, bool typing);
