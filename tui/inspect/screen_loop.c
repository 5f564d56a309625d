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

struct run {
	const struct screen *of;
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
		else if (code == KEY_EOF_ || !r->of->key(r->of->arg, code, r->canvas.w, r->canvas.h))
			r->quit = true;
	}
}

static int draw(struct run *r, struct err *e)
{
	int w, h;

	term_size(r->term, &w, &h);
	if ((w != r->canvas.w || h != r->canvas.h) && canvas_resize(&r->canvas, w, h, e))
		return -1;
	if (r->of->draw(r->of->arg, &r->canvas, e))
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
		n = poll(p, 3, r->of->wait_ms ? r->of->wait_ms(r->of->arg) : -1);
		if (n < 0 && errno != EINTR)
			return err_set(e, ERR_IO, "poll: %s", strerror(errno));
		r->dirty |= n == 0;
		if (p[0].revents & POLLIN)
			take_keys(r);
		else if (p[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			r->quit = true;
		if (p[1].revents)
			take_signals(r);
		if (term_flush(r->term) < 0)
			r->quit = true;
	}
	return 0;
}

int screen_loop(const struct screen *s, const struct tui_options *o, struct err *e)
{
	struct term_options to = {
		.ascii = o->ascii, .no_color = o->no_color, .light = o->light, .dark = o->dark
	};
	struct run r = { .of = s, .dirty = true };
	int rc = -1;

	charset_open();
	r.signal_fd = app_open_signals(e);
	if (r.signal_fd < 0)
		return -1;
	if (!term_open(&r.term, &to, e)) {
		r.canvas.ascii = term_ascii(r.term);
		r.canvas.mono = term_theme(r.term)->depth == THEME_MONO;
		rc = loop(&r, e);
		term_close(r.term);
	}
	app_close_signals(r.signal_fd);
	canvas_free(&r.canvas);
	return rc;
}
