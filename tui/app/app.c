/* The loop: the only place where the UI's thread waits. See app.h.
 *
 * Signals arrive through a signalfd: they are blocked before any thread starts, so that no thread
 * is ever interrupted, and are handled between two frames like keys. Frames are drawn only when
 * something changed, at most 30 a second, and only when the terminal has accepted the last one. */
#include "tui/app/app.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tui/term/charset.h"
#include "tui/app/picture.h"
#include "tui/state/lens.h"

enum { INFO_SECONDS = 20, ERROR_SECONDS = 120 };

static const int caught[] = { SIGWINCH, SIGTSTP, SIGCONT, SIGTERM, SIGHUP, SIGINT, SIGQUIT };

static const int ends[] = { SIGTERM, SIGHUP, SIGINT, SIGQUIT };

static void mask_signals(int how, bool interrupt)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_N(caught); i++)
		if (interrupt || caught[i] != SIGINT)
			sigaddset(&set, caught[i]);
	pthread_sigmask(how, &set, NULL);
}

void app_block_signals(void)
{
	mask_signals(SIG_BLOCK, false);
}

int app_open_signals(struct err *e)
{
	sigset_t set;
	int fd;

	mask_signals(SIG_BLOCK, true);
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_N(caught); i++)
		sigaddset(&set, caught[i]);
	fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return fd < 0 ? err_set(e, ERR_IO, "signalfd: %s", strerror(errno)) : fd;
}

void app_close_signals(int fd)
{
	struct signalfd_siginfo info;

	while (read(fd, &info, sizeof info) > 0)
		; /* a signal that arrived at the end was handled already */
	close(fd);
	mask_signals(SIG_UNBLOCK, true);
}

static void resize(struct app *a)
{
	int w, h;

	term_resize(a->term);
	term_size(a->term, &w, &h);
	if (canvas_resize(&a->canvas, w, h, &a->fatal) < 0)
		a->quit = true;
	a->dirty = true;
}

void app_suspend(struct app *a)
{
	term_suspend(a->term);
	resize(a);
}

void app_init(struct app *a, const struct app_mode *mode)
{
	a->mode = mode;
	a->back = a->zoom = a->signal_fd = -1;
	a->focus = FOCUS_PROMPT;
	a->state.token = a->state.page = a->state.layer = a->state.head = -1;
	a->host.views = views;
	a->dirty = true;
	timeline_init(&a->timeline);
}

int app_open(struct app *a, const struct tui_options *o, struct err *e)
{
	struct prompt_options po = {
		.history = o->history, .complete = commands_complete, .arg = &a->host
	};
	int w, h;

	a->then = o->then;
	a->own = o->record;
	charset_open();
	signal(SIGPIPE, SIG_IGN);
	if (breaks_open(&a->breaks, e) < 0)
		return -1;
	a->state.breaks = a->breaks;
	if ((a->signal_fd = app_open_signals(e)) < 0 || prompt_open(&po, e) < 0 ||
		term_open(&a->term, &o->term, e) < 0)
		return -1;
	a->canvas.ascii = term_ascii(a->term);
	a->canvas.mono = term_theme(a->term)->depth == THEME_MONO;
	app_projector(a, o->projector);
	term_size(a->term, &w, &h);
	return canvas_resize(&a->canvas, w, h, e);
}

void app_end(struct app *a, const char *words)
{
	if (a->term) {
		app_say(a, SAY_INFO, "%s", words);
		app_draw(a);
		term_draw(a->term, &a->canvas);
	}
	lens_close(a->lens);
	a->lens = NULL;
}

void app_close(struct app *a)
{
	struct term_key late;

	lens_close(a->lens);
	while (a->term && term_key(a->term, &late))
		; /* keys pressed while the session was saved must not reach the shell */
	term_close(a->term);
	prompt_close();
	canvas_free(&a->canvas);
	timeline_free(&a->timeline);
	popup_free(&a->popup);
	app_sessions_close(a);
	palette_close(&a->palette);
	if (a->signal_fd < 0)
		return;
	/* the program ends and prints the recording's path: another signal must not interrupt that */
	for (size_t i = 0; i < ARRAY_N(ends); i++)
		signal(ends[i], SIG_IGN);
	app_close_signals(a->signal_fd);
}

/* --- messages, popups, commands --- */

void app_say(struct app *a, enum app_say kind, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(a->message, sizeof a->message, fmt, ap);
	va_end(ap);
	a->message_kind = kind;
	a->message_ns = now_ns();
	a->dirty = true;
}

void app_complain(struct app *a, const struct err *e)
{
	if (e->code)
		app_say(a, SAY_ERROR, "%s", e->text);
}

void app_tell(void *app, const char *text)
{
	app_say(app, SAY_INFO, "%s", text);
}

void app_follow_newest(struct app *a)
{
	a->state.request = a->state.branch = 0;
	a->state.token = -1;
}

void app_show(struct app *a, const char *title, const char *text)
{
	popup_show(&a->popup, title, text);
	a->dirty = true;
}

FILE *app_write(struct app *a, struct err *e)
{
	a->writing.out = open_memstream(&a->writing.text, &a->writing.size);
	if (!a->writing.out)
		err_no_memory(e, "a text");
	return a->writing.out;
}

int app_show_written(struct app *a, const char *title, struct err *e)
{
	const int rc = fclose(a->writing.out) ? err_no_memory(e, "a text") : 0;

	if (!rc)
		app_show(a, title, a->writing.text);
	free(a->writing.text);
	return rc;
}

void app_command(struct app *a, const char *line)
{
	struct err e = { 0 };

	a->message_ns = 0; /* a notice is about the command before */
	if (*line == '/' && !line[1 + strspn(line + 1, " ")])
		app_palette(a, NULL, PALETTE_ALL, "");
	else
		commands_run(&a->host, line, &e);
	app_complain(a, &e);
	a->dirty = true;
}

/* Layer and head: a number, or the mean of all. */
static int choose_mean(int32_t *out, const char *what, const char *text, int64_t n, struct err *e)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (!strcmp(text, "mean") || !strcmp(text, "-1")) {
		*out = -1;
		return 0;
	}
	if (!*text || *end || value < 0 || (n > 0 && value >= n))
		return err_set(e, ERR_USAGE, "/%s %.40s: mean or a number from 0 to %lld is needed", what,
			text, (long long)(n > 0 ? n - 1 : 0));
	*out = (int32_t)value;
	return 0;
}

static int choose_head(struct app *a, const char *text, struct err *e)
{
	if (view_no_attention(&a->timeline))
		return err_set(e, ERR_USAGE, "/head %.40s: %s", text, VIEW_NO_ATTENTION);
	return choose_mean(&a->state.head, "head", text, a->timeline.session.n_heads, e);
}

static void look(struct app *a, const char *name)
{
	if (!*name)
		app_palette(a, "views", PALETTE_VIEWS, "");
	if (view_by_id(name) >= 0)
		app_look(a, view_by_id(name), false);
}

/* "on", "off", or "" for the other of the two. */
static bool turned(const char *text, bool on)
{
	return *text ? !strcmp(text, "on") : !on;
}

/* *to == as means on. */
static int switch_look(struct app *a, const char *what, const char *text, bool *to, bool as)
{
	const bool on = turned(text, *to == as);

	*to = on == as;
	app_say(a, SAY_INFO, "%s: %s", what, on ? "on" : "off");
	return 0;
}

int app_act(struct app *a, enum command_act act, const char *text, struct err *e)
{
	a->dirty = true;
	switch (act) {
	case ACT_VIEW: look(a, text); return 0;
	case ACT_ZOOM: app_toggle_zoom(a); return 0;
	case ACT_MARKDOWN: return switch_look(a, "Markdown", text, &a->state.marks, false);
	case ACT_THOUGHTS: return switch_look(a, "thoughts", text, &a->state.thoughts, true);
	case ACT_TOKENS: return switch_look(a, "tokens", text, &a->state.pieces, true);
	case ACT_TINT: return switch_look(a, "tint", text, &a->state.plain, false);
	case ACT_PROJECTOR: app_projector(a, turned(text, a->projector)); return 0;
	case ACT_THEME:
		term_set_theme(a->term, text);
		a->canvas.mono = term_theme(a->term)->depth == THEME_MONO;
		return 0;
	case ACT_HELP: app_palette(a, NULL, PALETTE_ALL, text); return 0;
	case ACT_SETTINGS:
		app_palette(a, "settings that differ from their defaults", PALETTE_CHANGED, "");
		return 0;
	case ACT_BREAK:
	case ACT_TBREAK:
	case ACT_WATCH:
	case ACT_FIND:
	case ACT_RFIND:
	case ACT_PRINT: return app_break(a, act, text, e);
	case ACT_PRESET: return app_preset(a, text, e);
	case ACT_SESSIONS: return app_sessions(a, text, e);
	case ACT_SESSION: return app_session(a, text, e);
	case ACT_GREP: return app_grep(a, text, e);
	case ACT_EXPORT: return app_picture(a, text, e);
	case ACT_INFO: return app_info(a, text, e);
	case ACT_WHY: return app_why(a, text, e);
	case ACT_LENS: return app_lens(a, text, e);
	case ACT_LAYER:
		return choose_mean(&a->state.layer, "layer", text, a->timeline.session.n_layers, e);
	case ACT_HEAD: return choose_head(a, text, e);
	case ACT_TREE: app_look(a, VIEW_TREE, true); return 0;
	case ACT_QUIT: a->quit = true; return 0;
	default: return 1;
	}
}

/* --- the loop --- */

static void take_signal(struct app *a, int number)
{
	if (number == SIGWINCH) {
		resize(a);
	} else if (number == SIGTSTP) {
		app_suspend(a);
	} else if (number == SIGCONT) {
		term_refresh(a->term);
		a->dirty = true;
	} else {
		a->quit = true; /* the session is closed properly, whatever the reason */
	}
}

static void take_signals(struct app *a)
{
	struct signalfd_siginfo info;

	while (read(a->signal_fd, &info, sizeof info) == sizeof info)
		take_signal(a, (int)info.ssi_signo);
}

static void take_keys(struct app *a)
{
	struct term_key k;
	char *line;

	while (!a->quit && term_key(a->term, &k)) {
		app_key(a, &k);
		a->dirty = true;
		while ((line = prompt_take())) {
			a->message_ns = 0;
			a->mode->line(a, line);
			free(line);
		}
		if (prompt_take_eof())
			a->quit = true;
	}
}

/* A message that is shown changes once a second: its age. */
static int message_timeout(struct app *a, int64_t now)
{
	int64_t age = now - a->message_ns;
	int64_t life = a->message_kind == SAY_ERROR ? ERROR_SECONDS : INFO_SECONDS;

	if (!a->message_ns)
		return -1;
	if (age > life * 1000000000) {
		a->message_ns = 0;
		a->dirty = true;
		return -1;
	}
	if (now - a->drawn_ns > 1000000000)
		a->dirty = true;
	return 1000;
}

static int sooner(int a, int b)
{
	return a < 0 ? b : b < 0 ? a : a < b ? a : b;
}

/* From one frame to the next. Of what is long to draw (megabytes in the prompt) at most a
 * quarter of the time is spent on drawing. */
static int64_t frame_ns(const struct app *a)
{
	return 3 * a->drawing_ns > FRAME_NS ? 3 * a->drawing_ns : FRAME_NS;
}

static int wait_ms(struct app *a)
{
	int64_t now = now_ns(), due = a->drawn_ns + frame_ns(a) - now;
	int ms = sooner(sooner(message_timeout(a, now), app_breaks_timeout(a)), a->mode->timeout_ms(a));

	if (a->sessions)
		return 0;
	if (a->dirty && !term_pending(a->term))
		ms = sooner(ms, due > 0 ? (int)(due / 1000000) + 1 : 0);
	return ms;
}

static void draw_if_due(struct app *a)
{
	int64_t now = now_ns();

	if (!a->dirty || now - a->drawn_ns < frame_ns(a) || term_pending(a->term))
		return;
	app_draw(a);
	if (term_draw(a->term, &a->canvas)) {
		a->dirty = false;
		a->drawn_ns = now_ns();
		a->drawing_ns = a->drawn_ns - now;
	}
}

int app_run(struct app *a, struct err *e)
{
	while (!a->quit) {
		struct pollfd p[4 + APP_FDS] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = a->signal_fd, .events = POLLIN },
			{ .fd = term_out_fd(a->term), .events = term_pending(a->term) ? POLLOUT : 0 },
		};
		int n = 3 + a->mode->fds(a, p + 3);

		if (a->lens)
			p[n++] = (struct pollfd){ .fd = lens_fd(a->lens), .events = POLLIN };

		draw_if_due(a);
		p[2].events = term_pending(a->term) ? POLLOUT : 0;
		if (poll(p, (nfds_t)n, wait_ms(a)) < 0 && errno != EINTR)
			return err_set(e, ERR_IO, "poll: %s", strerror(errno));
		if (p[0].revents & POLLIN)
			take_keys(a);
		if (p[0].revents & (POLLHUP | POLLERR | POLLNVAL))
			a->quit = true; /* a terminal that was closed is always readable, too */
		if (p[1].revents)
			take_signals(a);
		if (term_flush(a->term) < 0)
			a->quit = true;
		if (a->lens && lens_feed(a->lens))
			a->dirty = true;
		a->mode->work(a);
		app_breaks_work(a);
		app_sessions_work(a);
	}
	return a->fatal.code ? err_set(e, a->fatal.code, "%s", a->fatal.text) : 0;
}
