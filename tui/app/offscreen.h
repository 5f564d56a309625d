/* A recording on the screens of the replay, without a terminal: frames are canvases, drawn by
 * app_draw. What a terminal recording (cast.c) and a picture (picture.c) are made of. Thread:
 * main's. */
#ifndef CUTAWAY_TUI_OFFSCREEN_H
#define CUTAWAY_TUI_OFFSCREEN_H

#include "tui/app/app.h"
#include "tui/app/player.h"

struct offscreen {
	struct app app; /* its timeline is the player's: player_go(o->player, &o->app.timeline, …) */
	struct player *player;
};

/* At first no step is shown. Close it even after an error. o stays where it is. */
int offscreen_open(struct offscreen *o, const char *path, int w, int h, struct err *e);
void offscreen_close(struct offscreen *o);

#endif
