/* See open_chat.h. */
#include "tests/support/open_chat.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <poll.h>

enum { PATIENCE_MS = 20000 };

void open_chat(struct app *a, struct chat *c, struct tui_options *o)
{
	struct pollfd p;
	struct err e = { 0 };

	c->options = o;
	a->mode_data = c;
	a->host = (struct command_host){ .settings = &c->settings,
		.arg = a,
		.engine_set = chat_engine_set,
		.engine_get = chat_engine_get,
		.note = chat_note,
		.say = app_tell };
	a->state.token = a->state.layer = a->state.head = -1;
	timeline_init(&a->timeline);
	if (live_open(&c->live, o, NULL, &e))
		fail_msg("%s", e.text);
	p = (struct pollfd){ .fd = c->live.fd, .events = POLLIN };
	while (!live_ready(&c->live))
		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}
