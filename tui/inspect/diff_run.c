/* The screen of `cutaway diff --view`. Thread: the UI's. */
#include "tui/app/tui.h"
#include "tui/inspect/diff_screen.h"
#include "tui/inspect/screen_loop.h"

static int draw(void *arg, struct canvas *c, struct err *e)
{
	return diff_screen_draw(arg, c, e);
}

static bool key(void *arg, int code, int w, int h)
{
	return diff_screen_key(arg, code, w, h);
}

int tui_diff(struct diff *d, const struct tui_options *o, struct err *e)
{
	struct diff_screen s;
	const struct screen screen = { .draw = draw, .key = key, .arg = &s };
	int rc;

	diff_screen_init(&s, d);
	rc = screen_loop(&screen, o, e);
	diff_screen_free(&s);
	return rc;
}
