/* See view_check.h. */
#include "tests/support/view_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/canvas_text.h"

const struct view_state fresh = { .token = -1, .page = -1, .layer = -1, .head = -1 };

static void fold_sink(void *arg, const struct event *ev)
{
	timeline_fold(arg, ev);
}

struct timeline demo_timeline(int steps)
{
	struct timeline t;

	timeline_init(&t);
	demo_play(fold_sink, &t, steps);
	return t;
}

struct canvas canvas_of(int w, int h, bool ascii)
{
	struct canvas c = { .ascii = ascii };
	struct err e = { 0 };

	assert_int_equal(canvas_resize(&c, w, h, &e), 0);
	return c;
}

char *text_of(
	const struct view *v, const struct timeline *t, struct view_state *s, int w, int h, bool ascii)
{
	struct canvas c = canvas_of(w, h, ascii);
	struct pen p = pen_of(&c, (struct rect){ 0, 0, w, h });
	char *text;

	v->draw(&p, t, s);
	text = canvas_to_text(&c);
	canvas_free(&c);
	assert_non_null(text);
	return text;
}

void assert_shows(const struct view *v, const struct timeline *t, const struct view_state *s, int w,
	int h, const char *expected, bool yes)
{
	struct view_state own = *s;
	char *text = text_of(v, t, &own, w, h, false);

	if (!!strstr(text, expected) != yes)
		fail_msg("%s %s '%s':\n%s", v->id, yes ? "lacks" : "must not have", expected, text);
	free(text);
}

void say_event(struct said *d, struct event *ev)
{
	ev->seq = ++d->seq;
	timeline_fold(&d->t, ev);
}

void say_begin(struct said *d, const char *text)
{
	struct event ev;

	memset(d, 0, sizeof *d);
	ev_init(&ev, EV_session);
	ev.u.session.vocab = 1000;
	say_event(d, &ev);
	ev_init(&ev, EV_request);
	ev.u.request.request = 1;
	ev.u.request.kind = EV_REQUEST_KIND_chat;
	ev.u.request.text = (struct ev_span){ text, strlen(text) };
	say_event(d, &ev);
	ev_init(&ev, EV_admit);
	ev.u.admit = (struct ev_admit){ 1, 0, 0, 0, 0 };
	say_event(d, &ev);
}

void say_token(struct said *d, const char *bytes)
{
	struct event ev;

	ev_init(&ev, EV_vocab);
	ev.u.vocab = (struct ev_vocab){ d->pos, { bytes, strlen(bytes) }, 0 };
	say_event(d, &ev);
	say_again(d, (int32_t)d->pos);
}

void say_again(struct said *d, int32_t id)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.request = 1;
	ev.u.token.id = id;
	ev.u.token.step = ev.u.token.pos = d->pos++;
	ev.u.token.source = EV_SOURCE_plain;
	say_event(d, &ev);
}

void say_finish(struct said *d, enum ev_code_finish reason, const char *why)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = 1;
	ev.u.finish.reason = reason;
	if (why)
		ev.u.finish.why = (struct ev_span){ why, strlen(why) };
	say_event(d, &ev);
}

static char *file_read(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = calloc(1, 1 << 16);

	assert_non_null(text);
	if (f) {
		text[fread(text, 1, (1 << 16) - 1, f)] = '\0';
		fclose(f);
	}
	return text;
}

static void file_write(const char *path, const char *text)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

int golden_differs(const char *name, char *text)
{
	char path[128], *expected;
	int result;

	snprintf(path, sizeof path, "tests/data/views/%s.txt", name);
	if (getenv("UPDATE_GOLDEN"))
		file_write(path, text);
	expected = file_read(path);
	result = strcmp(text, expected) != 0;
	if (result)
		print_error("%s: expected\n%s\nbut drawn is\n%s\n", path, expected, text);
	free(text);
	free(expected);
	return result;
}
