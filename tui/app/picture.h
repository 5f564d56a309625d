/* Pictures of views and of the whole screen, as SVG or PNG, and the recording that they are of.
 * Thread: main's, which is the UI's. */
#pragma once

#include "tui/app/app.h"
#include "tui/app/player.h"

/* /export FILE.svg|FILE.png [VIEW] [WxH]: the view named (or screen: all of it), else the one that
 * has the focus or had it last, at the step that is looked at. Never writes over a file. */
int app_picture(struct app *a, const char *text, struct err *e);

/* A recording on the screens of the replay, without a terminal: frames are canvases, drawn by
 * app_draw. What a terminal recording (cast.c) and a picture (picture.c) are made of. */
struct offscreen {
	struct app app; /* its timeline is the player's: player_go(o->player, &o->app.timeline, …) */
	struct player *player;
};

/* At first no step is shown. Close it even after an error. o stays where it is. */
int offscreen_open(struct offscreen *o, const char *path, int w, int h, struct err *e);
void offscreen_close(struct offscreen *o);

enum { PICTURE_SCREEN = -1 };

struct picture {
	int view; /* index, or PICTURE_SCREEN */
	int w, h; /* cells */
	bool light, mono, png;
};

/* Is it large enough for its view? ERR_USAGE with the size that is needed. */
int picture_check(const struct picture *p, struct err *e);
/* Draws the view, as it is when it fills the screen, on the app's canvas. */
void picture_draw(struct app *a, int view);
/* As SVG; the app's own canvas stays as it is. malloc'd; NULL: no memory. */
char *picture_svg(struct app *a, const struct picture *p, size_t *size);
/* Opens the recording at `at`: see struct tui_picture. Close it with picture_close(), also after an
 * error. */
int picture_open(
	struct offscreen **o, const char *path, const struct picture *p, const char *at, struct err *e);
void picture_close(struct offscreen *o);
/* Reads size, theme and format; w x h: the size if none is asked for. */
int picture_take(struct picture *p, const struct tui_picture *o, int w, int h, struct err *e);
