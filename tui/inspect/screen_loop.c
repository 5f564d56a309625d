/* See inspect.h. */
#include "tui/inspect/inspect.h"

#include <errno.h>
#include <signal.h>
#include <sys/poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tui/app/app.h"
#include "tui/term/charset.h"
#include "tui/term/term.h"

enum { CTRL_C = 3, CTRL_D = 4, ESCAPE = 27 };

/* ---- what they have in common ---- */

int screen_draw(struct screen *s, struct canvas *c, struct err *e)
{
	int rc;

	canvas_clear(c);
	rc = s->kind->draw(s, c, e);
	popup_draw(&s->popup, c);
	return rc;
}

bool screen_key(struct screen *s, int code, int w, int h)
{
	if (s->popup.open && code != CTRL_C && code != CTRL_D &&
		popup_key(&s->popup, code == ESCAPE ? KEY_ESC : code, false))
		return true;
	switch (code) {
	case 'q':
	case ESCAPE:
	case CTRL_C:
	case CTRL_D: return false;
	case KEY_F1_:
	case '?':
	case 'h': popup_show(&s->popup, s->kind->name, s->kind->help); return true;
	default: s->kind->key(s, code, w, h); return true;
	}
}

void screen_free(struct screen *s)
{
	text_column_free(&s->column[0]);
	text_column_free(&s->column[1]);
	popup_free(&s->popup);
}

struct pen screen_side(struct canvas *c, int side, int y, int rows)
{
	const int left = (c->w - 1) / 2;

	return pen_of(c, (struct rect){ side ? left + 2 : 1, y, left - 2, rows });
}

struct pen screen_title(struct canvas *c, int side, const char *name)
{
	struct pen p = screen_side(c, side, 0, 2);
	int x;

	p.ink = INK_BRIGHT;
	p.attr = ATTR_BOLD;
	x = pen_printf(&p, 0, 0, "%c ", 'A' + side);
	pen_clip(&p, x, 0, p.r.w - x, name, -1);
	p.ink = INK_DIM;
	p.attr = 0;
	return p;
}

struct pen screen_status(struct canvas *c)
{
	struct pen p = pen_of(c, (struct rect){ 0, c->h - 1, c->w, 1 });

	p.paper = INK_BAND;
	pen_fill(&p, (struct rect){ 0, 0, c->w, 1 });
	p.ink = INK_BRIGHT;
	return p;
}

/* ---- the loop ---- */

struct run {
	struct screen *of;
	struct terminal *term;
	struct canvas canvas;
	int signal_fd;
	bool dirty, quit;
};

static void take_signals(struct run *r)
{
	struct signalfd_siginfo info;

	while (read(r->signal_fd, &info, sizeof info) == sizeof info) {
		int number = (int)info.ssi_signo;

		r->dirty = true;
		if (number == SIGWINCH)
			term_resize(r->term);
		else if (number == SIGTSTP)
			term_suspend(r->term);
		else if (number == SIGCONT)
			term_refresh(r->term);
		else
			r->quit = true;
	}
}

static void take_keys(struct run *r)
{
	struct term_key k;

	while (!r->quit && term_key(r->term, &k)) {
		int code = k.code;

		r->dirty = true;
		if (code == KEY_MOUSE_ && k.button != MOUSE_CLICK)
			code = k.button == MOUSE_WHEEL_UP ? KEY_UP_ : KEY_DOWN_;
		if (code == ('Z' & 0x1f))
			term_suspend(r->term);
		else if (code == KEY_EOF_ || !screen_key(r->of, code, r->canvas.w, r->canvas.h))
			r->quit = true;
	}
}

static int draw(struct run *r, struct err *e)
{
	int w, h;

	term_size(r->term, &w, &h);
	if ((w != r->canvas.w || h != r->canvas.h) && canvas_resize(&r->canvas, w, h, e))
		return -1;
	if (screen_draw(r->of, &r->canvas, e))
		return -1;
	r->dirty = !term_draw(r->term, &r->canvas);
	return 0;
}

static int loop(struct run *r, struct err *e)
{
	int n;

	while (!r->quit) {
		struct pollfd p[3] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = r->signal_fd, .events = POLLIN },
			{ .fd = term_out_fd(r->term) },
		};

		if (r->dirty && !term_pending(r->term) && draw(r, e))
			return -1;
		p[2].events = term_pending(r->term) ? POLLOUT : 0;
		n = poll(p, 3, r->of->kind->wait_ms ? r->of->kind->wait_ms(r->of) : -1);
		if (n < 0 && errno != EINTR)
			return err_set(e, ERR_IO, "poll: %s", strerror(errno));
		r->dirty |= n == 0;
		if (p[0].revents & POLLIN)
			take_keys(r);
		if (p[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			r->quit = true; /* a terminal that was closed is always readable, too */
		if (p[1].revents)
			take_signals(r);
		if (term_flush(r->term) < 0)
			r->quit = true;
	}
	return 0;
}

int screen_loop(struct screen *s, const struct tui_options *o, struct err *e)
{
	struct run r = { .of = s, .dirty = true };
	int rc = -1;

	charset_open();
	r.signal_fd = app_open_signals(e);
	if (r.signal_fd < 0)
		return -1;
	if (!term_open(&r.term, &o->term, e)) {
		r.canvas.ascii = term_ascii(r.term);
		r.canvas.mono = term_theme(r.term)->depth == THEME_MONO;
		rc = loop(&r, e);
		term_close(r.term);
	}
	app_close_signals(r.signal_fd);
	canvas_free(&r.canvas);
	return rc;
}
