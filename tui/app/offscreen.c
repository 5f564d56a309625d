/* See offscreen.h. */
#include "tui/app/offscreen.h"

#include <stdio.h>

#include "tui/term/prompt.h"

static void name(struct app *a, char *out, size_t cap)
{
	snprintf(out, cap, "%s", a->timeline.begun ? a->timeline.model_name : "");
}

static void status(struct app *a, struct app_status *s)
{
	struct offscreen *o = a->mode_data;

	app_field(s, INK_BRIGHT, "step %lld of %lld", (long long)player_at(o->player),
		(long long)player_n_steps(o->player));
}

static const struct hint no_hints[] = { { NULL, NULL } };
static const struct app_mode offscreen_mode = {
	.label = "", .hints = no_hints, .help = "", .status = status, .name = name
};

int offscreen_open(struct offscreen *o, const char *path, int w, int h, struct err *e)
{
	struct app *a = &o->app;
	struct prompt_options po = { .complete = commands_complete, .arg = &a->host };

	*o = (struct offscreen){ .player = NULL };
	a->mode = &offscreen_mode;
	a->mode_data = o;
	a->focus = FOCUS_PROMPT;
	a->zoom = -1;
	a->state.token = a->state.page = a->state.layer = a->state.head = -1;
	a->host.views = views;
	a->host.replay = true;
	a->prompt_hidden = true;
	timeline_init(&a->timeline);
	return prompt_open(&po, e) || canvas_resize(&a->canvas, w, h, e) ||
				   player_open(&o->player, path, e)
			   ? -1
			   : 0;
}

void offscreen_close(struct offscreen *o)
{
	if (o->player)
		player_close(o->player);
	prompt_close();
	canvas_free(&o->app.canvas);
	timeline_free(&o->app.timeline);
}
