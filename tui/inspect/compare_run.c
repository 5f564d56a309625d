/* The screen of `cutaway compare`: what it shows is computed on a thread of its own. Thread: the
 * UI's. */
#include <string.h>

#include "tui/app/tui.h"
#include "tui/inspect/compare_screen.h"
#include "tui/inspect/screen_loop.h"

enum { FRAME_MS = 100 };

struct run {
	struct compare_screen screen;
	const struct tui_compare *of;
	struct err err; /* of the work */
	atomic_bool over;
};

static void *work(void *arg)
{
	struct run *r = arg;

	r->of->work(r->of->arg, &r->err);
	atomic_store(&r->over, true);
	return NULL;
}

/* A frame is due while something changes, and one after it has ended. */
static int wait_ms(void *arg)
{
	const struct compare_screen *s = arg;

	return atomic_load(s->over) ? 10 * FRAME_MS : FRAME_MS;
}

int tui_compare(const struct tui_compare *t, const struct tui_options *o, struct err *e)
{
	struct run r = { .of = t,
		.screen = {
			.c = t->compare, .lock = t->lock, .n_prompts = t->n_prompts, .repeat = t->repeat } };
	const struct screen screen = {
		.draw = compare_screen_draw, .key = compare_screen_key, .wait_ms = wait_ms, .arg = &r.screen
	};
	pthread_t thread;
	int rc;

	r.screen.over = &r.over;
	if (pthread_create(&thread, NULL, work, &r))
		return err_set(e, ERR_IO, "the system refused a thread");
	rc = screen_loop(&screen, o, e);
	atomic_store(t->stop, true);
	pthread_join(thread, NULL);
	compare_screen_free(&r.screen);
	return rc || r.err.code ? err_set(e, r.err.code, "%s", r.err.text) : 0;
}
