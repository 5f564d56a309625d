/* See term.h. ncurses finds the difference between two frames and knows the terminal's control
 * sequences.
 *
 * ncurses' own output goes to a memory file, not to the terminal: its writes would block as long as
 * the terminal does (Ctrl-S, a stopped pager, a dead ssh). This file therefore sets the terminal's
 * modes itself.
 *
 * Invariants: (1) bytes reach the terminal in the order ncurses made them, whole frames only (a
 * frame is begun when all of the last one is out); (2) while the program uses the screen, crash.c
 * can restore it. */
#include "tui/term/term.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <wchar.h>

#include "tui/term/term_impl.h"

enum { GIVE_UP_MS = 500, WIDEST = 2000, HIGHEST = 1000 };

static int crash_byte(int c)
{
	crash_add((char[]){ (char)c, '\0' });
	return c;
}

/* Prepares the bytes with which the crash handler restores the terminal without ncurses. */
static void arm_crash(const struct terminal *t)
{
	static const char *const names[] = { "sgr0", "op", "rmkx", "cnorm", "rmcup", "clear" };
	/* no rmcup: nothing else clears */
	size_t n = ARRAY_N(names) - (exit_ca_mode != NULL);

	crash_begin(t->out, &t->found);
	crash_add("\033[?2026l\033[?2004l\033[?1006l\033[?1000l");
	for (size_t i = 0; i < n; i++) {
		const char *text = tigetstr(names[i]);

		if (text && text != (char *)-1)
			tputs(text, 1, crash_byte); /* without the padding that is written in it */
	}
	if (t->kitty)
		crash_add("\033[<u");
	crash_arm();
}

/* --- bytes to the terminal --- */

/* Appends what ncurses wrote to the bytes not sent yet. */
static void frame_take(struct terminal *t)
{
	int fd = fileno(t->memory);
	off_t size;
	char *grown;
	ssize_t n;

	fflush(t->memory);
	size = lseek(fd, 0, SEEK_END);
	if (size <= 0)
		return;
	if (t->frame_sent)
		memmove(t->frame, t->frame + t->frame_sent, t->frame_size - t->frame_sent);
	t->frame_size -= t->frame_sent;
	t->frame_sent = 0;
	grown = realloc(t->frame, t->frame_size + (size_t)size);
	if (grown) {
		t->frame = grown;
		n = pread(fd, t->frame + t->frame_size, (size_t)size, 0);
		t->frame_size += n > 0 ? charset_encode(t->frame + t->frame_size, (size_t)n) : 0;
	} else {
		t->anew = true;
	}
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		t->gone = true;
}

/* meta() also sends smm to the terminal, after which Alt would set the 8th bit of letters. Removes
 * it from the output. */
static void cut_meta_on(struct terminal *t)
{
	const char *text = tigetstr("smm");
	size_t n = text && text != (char *)-1 ? strlen(text) : 0;
	char *at;

	frame_take(t);
	at = n ? memmem(t->frame, t->frame_size, text, n) : NULL;
	if (!at)
		return;
	t->frame_size -= n;
	memmove(at, at + n, t->frame_size - (size_t)(at - t->frame));
}

void term_send(struct terminal *t, const char *text)
{
	size_t n = strlen(text);
	char *grown;

	frame_take(t);
	grown = realloc(t->frame, t->frame_size + n);
	if (!grown)
		return;
	memcpy(grown + t->frame_size, text, n);
	t->frame = grown;
	t->frame_size += n;
}

bool term_pending(const struct terminal *t)
{
	return t->frame_sent < t->frame_size;
}

int term_out_fd(const struct terminal *t)
{
	return t->out;
}

int term_flush(struct terminal *t)
{
	while (term_pending(t) && !t->gone) {
		ssize_t n = write(t->out, t->frame + t->frame_sent, t->frame_size - t->frame_sent);

		if (n > 0)
			t->frame_sent += (size_t)n;
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n < 0 && errno != EINTR)
			t->gone = true;
	}
	return t->gone ? -1 : 0;
}

/* For the last bytes before the terminal changes hands: waits for the terminal, with a limit. */
static void flush_wait(struct terminal *t)
{
	for (int waited = 0; waited < GIVE_UP_MS; waited += 50) {
		struct pollfd p = { .fd = t->out, .events = POLLOUT };

		if (term_flush(t) < 0 || !term_pending(t))
			return;
		poll(&p, 1, 50);
	}
}

/* --- opening --- */

static int size_ask(int fd, int *w, int *h)
{
	struct winsize size = { 0 };

	if (ioctl(fd, TIOCGWINSZ, &size) < 0 || !size.ws_col || !size.ws_row) {
		*w = 80;
		*h = 24;
		return -1;
	}
	*w = size.ws_col < WIDEST ? size.ws_col : WIDEST;
	*h = size.ws_row < HIGHEST ? size.ws_row : HIGHEST;
	return 0;
}

static bool env_empty(const char *name)
{
	const char *value = getenv(name);

	return !value || !*value;
}

static int check_terminal(struct err *e)
{
	const char *name = getenv("TERM");
	bool able;
	int status;

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(e, ERR_USAGE,
			"the screens need a terminal on standard input and output; run, diff and others work "
			"without one");
	if (!name || !*name || !strcmp(name, "dumb"))
		return err_set(e, ERR_USAGE, "TERM=%s cannot show screens: run, diff and others work there",
			name && *name ? name : "(unset)");
	if (setupterm(NULL, STDOUT_FILENO, &status) != OK)
		return err_set(e, ERR_USAGE,
			"the terminal type TERM=%s is not known to this machine: "
			"try TERM=xterm-256color",
			name);
	able = cursor_address && clear_screen;
	del_curterm(cur_term);
	if (!able)
		return err_set(
			e, ERR_USAGE, "TERM=%s cannot place its cursor: run, diff and others work there", name);
	return 0;
}

static int open_out(struct terminal *t, struct err *e)
{
	const char *name = ttyname(STDOUT_FILENO);
	int memory = memfd_create("cutaway-frame", MFD_CLOEXEC);

	t->memory = memory >= 0 ? fdopen(memory, "w+") : NULL;
	if (!t->memory)
		return err_set(e, ERR_IO, "no memory file for the screen: %s", strerror(errno));
	/* A new open file description: O_NONBLOCK on the inherited one would affect the shell, too. */
	t->out = name ? open(name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;
	if (t->out < 0)
		t->out = dup(STDOUT_FILENO);
	if (t->out < 0 || tcgetattr(STDIN_FILENO, &t->found) < 0)
		return err_set(e, ERR_IO, "the terminal cannot be used: %s", strerror(errno));
	t->ours = t->found;
	cfmakeraw(&t->ours);
	return 0;
}

static void choose_colours(struct terminal *t)
{
	t->depth = THEME_MONO;
	if (!env_empty("NO_COLOR") || !has_colors() || start_color() != OK)
		return;
	use_default_colors();
	t->depth = COLORS < 256 ? THEME_16 : tigetflag("RGB") > 0 ? THEME_TRUE : THEME_256;
}

static void choose_modes(void)
{
	/* ncurses installed handlers for these; this file handles stop and end itself. */
	signal(SIGTSTP, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	noecho();
	raw();
	nonl();
}

static void modes_begin(struct terminal *t)
{
	term_send(t, "\033[?2004h");
	kitty_begin(t);
}

int term_open(struct terminal **out, const struct term_options *o, struct err *e)
{
	struct terminal *t;

	*out = NULL;
	if (check_terminal(e) < 0)
		return -1;
	t = calloc(1, sizeof *t);
	if (!t)
		return err_no_memory(e, "the screen");
	t->out = -1;
	t->ascii = o->ascii || !charset_is_utf8();
	if (open_out(t, e) < 0) {
		term_close(t);
		return -1;
	}
	size_ask(STDOUT_FILENO, &t->w, &t->h);
	/* Some types have no size in terminfo (linux); ncurses then begins with a size of its own. One
	 * that no terminal has is not for it. */
	if (t->w == WIDEST || t->h == HIGHEST)
		use_env(FALSE);
	t->screen = newterm(NULL, t->memory, stdin);
	if (!t->screen || canvas_resize(&t->shown, t->w, t->h, e) < 0) {
		err_set(e, ERR_IO, "ncurses cannot use the terminal TERM=%s", getenv("TERM"));
		term_close(t);
		return -1;
	}
	resizeterm(t->h, t->w);
	choose_colours(t);
	term_set_theme(t, o->theme ? o->theme : "auto");
	choose_modes();
	term_keys_open(t);
	cut_meta_on(t);
	arm_crash(t);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &t->ours);
	modes_begin(t);
	*out = t;
	return 0;
}

/* Leaves the screen to other programs. */
static void screen_leave(struct terminal *t)
{
	term_send(t, "\033[?2004l");
	kitty_end(t);
	if (!exit_ca_mode) { /* without an alternate screen: leave an empty one to the shell */
		erase();
		refresh();
	}
	endwin();
	frame_take(t);
	flush_wait(t);
	tcsetattr(STDIN_FILENO, TCSANOW, &t->found);
}

void term_close(struct terminal *t)
{
	if (!t)
		return;
	if (t->screen) {
		if (!t->away)
			screen_leave(t);
		crash_disarm();
		delwin(t->keys);
		delscreen(t->screen);
	}
	if (t->memory)
		fclose(t->memory);
	if (t->out >= 0)
		close(t->out);
	canvas_free(&t->shown);
	free(t->frame);
	free(t);
}

/* --- frames --- */

void term_size(const struct terminal *t, int *w, int *h)
{
	*w = t->w;
	*h = t->h;
}

bool term_ascii(const struct terminal *t)
{
	return t->ascii;
}

const struct theme *term_theme(const struct terminal *t)
{
	return &t->theme;
}

static void paint_anew(struct terminal *t)
{
	memset(t->pair, 0, sizeof t->pair);
	t->anew = true;
}

void term_set_theme(struct terminal *t, const char *theme)
{
	t->theme.light =
		!strcmp(theme, "light") || (strcmp(theme, "dark") != 0 && theme_env_is_light());
	t->theme.depth = strcmp(theme, "mono") != 0 ? t->depth : THEME_MONO;
	paint_anew(t);
}

void term_set_projector(struct terminal *t, bool on)
{
	t->theme.projector = on;
	paint_anew(t);
}

void term_refresh(struct terminal *t)
{
	t->anew = true;
}

/* With 8 colours the other 8 are bold or dim. */
static attr_t fold_colour(int *colour)
{
	attr_t attr = 0;

	if (COLORS < 16 && *colour >= 8 && *colour < 16) {
		attr = *colour == 8 ? A_DIM : A_BOLD;
		*colour = *colour == 8 ? -1 : *colour - 8;
	}
	return attr;
}

attr_t term_attr(struct terminal *t, const struct cell *c, short *pair)
{
	struct theme_style s = theme_style(&t->theme, c->ink, c->paper, c->attr);
	attr_t attr = (s.bold ? A_BOLD : 0) | (s.dim ? A_DIM : 0) | (s.reverse ? A_REVERSE : 0) |
				  (s.underline ? A_UNDERLINE : 0);
	short *known = &t->pair[(c->ink % INK_N) * INK_N + c->paper % INK_N];

	*pair = 0;
	if (t->theme.depth == THEME_MONO)
		return attr;
	attr |= fold_colour(&s.fg);
	if (COLORS < 16 && s.bg >= 8)
		s.bg -= 8;
	if (!*known && (s.fg != -1 || s.bg != -1)) {
		int made = alloc_pair(s.fg, s.bg);

		*known = made > 0 && made < 32767 ? (short)made : 0;
	}
	*pair = *known;
	return attr;
}

static void draw_cell(struct terminal *t, int x, int y, const struct cell *c)
{
	wchar_t wide[CCHARW_MAX + 1] = { 0 };
	mbstate_t state = { 0 };
	const char *text = c->text;
	short pair;
	attr_t attr = term_attr(t, c, &pair);
	cchar_t out;

	if (mbsrtowcs(wide, &text, CCHARW_MAX, &state) == (size_t)-1 || !wide[0])
		wide[0] = L'?', wide[1] = 0;
	if (setcchar(&out, wide, attr, pair, NULL) == OK)
		mvadd_wch(y, x, &out);
}

static bool cell_equal(const struct cell *a, const struct cell *b)
{
	return a->ink == b->ink && a->paper == b->paper && a->attr == b->attr &&
		   !strcmp(a->text, b->text);
}

static void draw_cells(struct terminal *t, const struct canvas *c)
{
	for (int y = 0; y < t->h; y++)
		for (int x = 0; x < t->w; x++) {
			size_t i = (size_t)y * (size_t)t->w + (size_t)x;
			/* The right half of a wide character is drawn with its left half. */
			bool half = !c->cell[i].text[0];

			if (!half && (t->anew || !cell_equal(&c->cell[i], &t->shown.cell[i])))
				draw_cell(t, x, y, &c->cell[i]);
		}
	memcpy(t->shown.cell, c->cell, (size_t)t->w * (size_t)t->h * sizeof *c->cell);
}

bool term_draw(struct terminal *t, const struct canvas *c)
{
	bool cursor = c->cursor_x >= 0 && c->cursor_y >= 0;
	size_t begun;

	term_flush(t);
	if (term_pending(t) || t->gone || c->w != t->w || c->h != t->h)
		return false;
	term_send(t, "\033[?2026h"); /* shown at once where a terminal can; others pass it over */
	begun = t->frame_size - t->frame_sent;
	if (t->anew)
		clear();
	draw_cells(t, c);
	t->anew = false;
	curs_set(cursor);
	if (cursor)
		move(c->cursor_y < t->h ? c->cursor_y : t->h - 1,
			c->cursor_x < t->w ? c->cursor_x : t->w - 1);
	refresh();
	frame_take(t);
	if (t->frame_size - t->frame_sent == begun) { /* nothing has changed */
		t->frame_size = t->frame_sent;
	} else {
		links_draw(t, c);
		term_send(t, "\033[?2026l");
	}
	term_flush(t);
	return true;
}

void term_resize(struct terminal *t)
{
	struct err ignored = { 0 };

	if (size_ask(STDOUT_FILENO, &t->w, &t->h) < 0 ||
		canvas_resize(&t->shown, t->w, t->h, &ignored) < 0)
		return;
	t->w = t->shown.w;
	t->h = t->shown.h;
	resizeterm(t->h, t->w);
	t->anew = true;
}

void term_suspend(struct terminal *t)
{
	screen_leave(t);
	crash_disarm();
	if (!away_until_ours()) {
		t->away = t->gone = true;
		return;
	}
	tcgetattr(STDIN_FILENO, &t->found);
	arm_crash(t);
	tcsetattr(STDIN_FILENO, TCSADRAIN, &t->ours);
	modes_begin(t);
	term_resize(t);
}
