/* Focus and keys. In the prompt letters are always text; the global keys are those of debuggers.
 * See docs/design.md, "The screen". */

#include "tui/app/picture.h"

enum { CTRL_C = 3, CTRL_L = 12, CTRL_O = 15, CTRL_P = 16, CTRL_Z = 26, ESC = 27, WHEEL_LINES = 3 };

#define TWICE_NS 2000000000LL

static bool shown(const struct app *a, int view)
{
	return view >= 0 && view < VIEW_N && a->layout.view[view].h > 0;
}

void app_focus(struct app *a, int view)
{
	if (view >= VIEW_N)
		return;
	a->back = view >= 0 && shown(a, a->focus) && !shown(a, view) ? a->focus : -1;
	if (view >= 0)
		a->last_focus = view;
	/* A view that does not fit next to the others is shown alone. */
	if (a->zoom >= 0 || (view >= 0 && !shown(a, view)))
		a->zoom = view;
	a->focus = view;
	a->dirty = true;
}

void app_look(struct app *a, int view, bool zoom)
{
	if (a->focus >= 0 || a->prompt_hidden)
		app_focus(a, view);
	a->last_focus = view;
	if (zoom || a->zoom >= 0 || !shown(a, view))
		a->zoom = view;
	if (a->focus < 0)
		app_say(a, SAY_INFO, "%s · ^O gives it the keys%s", views[view]->name,
			a->zoom == view ? ", Esc goes back" : "; there Enter zooms");
	a->dirty = true;
}

void app_toggle_zoom(struct app *a)
{
	a->zoom = a->zoom >= 0 ? -1 : a->focus >= 0 ? a->focus : a->last_focus;
}

void app_projector(struct app *a, bool on)
{
	if (on != term_theme(a->term)->projector)
		term_set_projector(a->term, on);
	a->projector = on;
	a->dirty = true;
}

/* To the view before or after this one that has something to show, alone. The canvas is drawn anew
 * anyway. */
static void turn(struct app *a, int by)
{
	const int now = app_zoom(a) >= 0 ? app_zoom(a) : a->last_focus;
	int v = now;

	do {
		v = (v + by + VIEW_N) % VIEW_N;
		canvas_clear(&a->canvas);
		picture_draw(a, v);
	} while (v != now && a->canvas.nothing);
	a->zoom = a->last_focus = v;
	if (a->focus >= 0)
		a->focus = v;
	if (a->message_kind == SAY_INFO) /* it was of the view before */
		a->message_ns = 0;
	a->dirty = true;
}

/* F1: help on the view in focus or alone on the screen, or on the program. */
static void explain(struct app *a)
{
	int view = a->focus >= 0 ? a->focus : app_zoom(a);

	if (view >= 0)
		app_show(a, views[view]->name, views[view]->help);
	else
		app_show(a, "cutaway", a->mode->help);
}

/* Stops the answer; twice within two seconds quits. */
static void ctrl_c(struct app *a)
{
	int64_t now = now_ns();

	if (a->ctrl_c_ns && now - a->ctrl_c_ns < TWICE_NS) {
		a->quit = true;
		return;
	}
	a->ctrl_c_ns = now;
	if (breaks_searching(a->breaks)) {
		breaks_stop_search(a->breaks);
		app_say(a, SAY_INFO, "the search was stopped");
	} else {
		a->mode->stop(a);
	}
}

bool app_bound(struct app *a, const struct app_bind *b, int key)
{
	while (b->key && b->key != key)
		b++;
	if (!b->key)
		return false;
	if (!strchr("/ ", b->line[strlen(b->line) - 1])) {
		app_command(a, b->line);
		return true;
	}
	a->prompt_hidden = false;
	app_focus(a, FOCUS_PROMPT);
	prompt_set(b->line);
	return true;
}

bool app_letter(struct app *a, int key)
{
	static const struct app_bind binds[] = {
		{ ' ', "/pause" },
		{ KEY_RIGHT_, "/step" },
		{ KEY_LEFT_, "/back" },
		{ 'g', "/goto " },
		{ 't', "/tree" },
		{ 'l', "/lens" },
		{ '/', "/" },
		{ ':', "/" },
		{ 0 },
	};

	if (key == '?')
		explain(a);
	else if (key == 'w')
		app_why_here(a);
	else
		return app_bound(a, binds, key);
	return true;
}

/* Keys that act from everywhere, and their names. */
static const struct app_bind global_binds[] = { { KEY_F5_, "/pause" }, { KEY_F10_, "/step" },
	{ KEY_F9_, "/back" }, { 0 } };
static const char *const global_names[] = { "F5", "F10", "F9" };

const char *app_key_of(const char *line)
{
	const size_t n = strcspn(line, " ");

	for (int i = 0; global_binds[i].key; i++)
		if (strlen(global_binds[i].line) == n && !strncmp(global_binds[i].line, line, n))
			return global_names[i];
	return strcmp(line, "/cancel") ? NULL : "^C"; /* which ctrl_c() does */
}

static bool global_key(struct app *a, int key)
{
	switch (key) {
	case CTRL_C: ctrl_c(a); return true;
	case CTRL_L: term_refresh(a->term); return true;
	case CTRL_O:
		app_focus(a, a->focus >= 0 ? FOCUS_PROMPT : a->last_focus);
		if (a->focus < 0)
			a->zoom = -1;
		else if (a->message_kind == SAY_INFO)
			a->message_ns = 0;
		return true;
	case CTRL_Z: app_suspend(a); return true;
	case CTRL_P: app_palette(a, NULL, PALETTE_ALL, ""); return true;
	case KEY_F1_: explain(a); return true;
	case KEY_F7_: turn(a, -1); return true;
	case KEY_F8_: turn(a, 1); return true;
	}
	return app_bound(a, global_binds, key);
}

int app_view_at(const struct app *a, int x, int y)
{
	for (int i = 0; i < VIEW_N; i++) {
		struct rect r = a->layout.view[i];

		if (r.h > 0 && x >= r.x && x < r.x + r.w && y >= r.y && y < r.y + r.h)
			return i;
	}
	return FOCUS_PROMPT;
}

static bool to_view(struct app *a, int view, int key)
{
	bool used =
		view < VIEW_N && views[view]->key && views[view]->key(key, app_timeline(a), &a->state);
	struct view_action action = a->state.action;

	if (used && a->mode->moved)
		a->mode->moved(a);
	a->state.action.what = ACTION_NOTHING;
	if (action.what == ACTION_LENS)
		app_command(a, "/lens");
	else if (action.what != ACTION_NOTHING)
		a->mode->action(a, &action);
	return used;
}

static void mouse(struct app *a, const struct term_key *k)
{
	int view = app_view_at(a, k->x, k->y);

	if (k->button == MOUSE_CLICK) {
		a->state.click.on = view >= 0;
		a->state.click.x = k->x;
		a->state.click.y = k->y;
		if (view < 0)
			app_focus(a, view);
		return;
	}
	for (int i = 0; i < WHEEL_LINES && view >= 0; i++)
		to_view(a, view, k->button == MOUSE_WHEEL_UP ? KEY_UP_ : KEY_DOWN_);
}

/* Esc alone goes back, as in the views. Readline would take it for the beginning of an Alt key and
 * consume the next key, however late; only bytes read together with it are one. */
static void prompt_escape(struct app *a)
{
	struct term_key next;
	const bool more = term_key(a->term, &next), typing = *prompt_text() || prompt_busy(),
			   alt = more && next.code < KEY_F1_ && next.code != CTRL_C && next.code != CTRL_O &&
					 next.code != CTRL_P; /* those never reach readline, which would wait */

	/* with Alt: readline binds ASCII alone */
	if (more && (next.code == KEY_CHAR_ || next.code == KEY_PASTE_)) {
		app_key(a, &next);
		return;
	}
	if (!a->prompt_hidden && (alt || (typing && prompt_wants_escape())))
		prompt_feed("\033", 1);
	else if (a->mode->key(a, ESC))
		;
	else if (prompt_wants_escape())
		prompt_feed("\033", 1);
	else if (a->zoom >= 0)
		a->zoom = -1;
	else
		a->message_ns = 0;
	if (more)
		app_key(a, &next);
}

static void prompt_key(struct app *a, const struct term_key *k)
{
	if (k->code == KEY_PASTE_)
		prompt_paste(k->text, k->size);
	/* no UTF-8: readline would wait for the rest of it */
	else if (k->code == KEY_CHAR_ && !k->seq[1])
		prompt_paste(k->seq, 1);
	/* it scrolls while the prompt has the focus */
	else if ((k->code == KEY_PAGE_UP || k->code == KEY_PAGE_DOWN) && !prompt_busy())
		to_view(a, app_zoom(a) >= 0 ? app_zoom(a) : 0, k->code);
	else if (k->code == KEY_INSERT_)
		prompt_sequence(k->seq);
	else
		prompt_feed(k->seq, strlen(k->seq));
}

static void say_views_have_keys(struct app *a, int key)
{
	if (key == KEY_PASTE_ || (key > ' ' && key < 256 && key != 127))
		app_say(a, SAY_INFO, "%s",
			a->host.replay
				? "this key means nothing here: F1 says which do"
				: "the views have the keys, and this one means nothing to them: ^O to type");
}

/* With letters of less and vim that nothing here uses; g asks for a step. */
static int view_key_of(int key)
{
	return key == '\r' || key == '\n' ? KEY_ENTER_
		   : key == ESC               ? KEY_ESC
		   : key == '\t'              ? KEY_TAB_
		   : key == 'j'               ? KEY_DOWN_
		   : key == 'k'               ? KEY_UP_
		   : key == 'G'               ? KEY_END_
									  : key;
}

static void views_key(struct app *a, int key)
{
	if (view_of_digit(key, a->focus) >= 0)
		app_focus(a, view_of_digit(key, a->focus));
	else if (key == KEY_ENTER_ && *a->offer)
		a->mode->line(a, a->offer);
	else if (key == KEY_ENTER_ && app_zoom(a) < 0)
		app_toggle_zoom(a); /* a view handles Enter itself only when it is zoomed */
	else if (to_view(a, a->focus, key) || app_letter(a, key))
		;
	else if (key == KEY_TAB_ || key == KEY_BACKTAB)
		app_focus(a, (a->focus + (key == KEY_TAB_ ? 1 : VIEW_N - 1)) % VIEW_N);
	else if (key == KEY_ENTER_)
		app_toggle_zoom(a);
	else if (key == KEY_ESC && a->zoom >= 0 && !a->projector)
		a->zoom = -1;
	else if (key == KEY_ESC)
		app_focus(a, FOCUS_PROMPT);
	else
		say_views_have_keys(a, key);
}

void app_key(struct app *a, const struct term_key *k)
{
	const bool over = k->code != CTRL_C && k->code != CTRL_Z && k->code != CTRL_L;

	if (a->popup.open && over &&
		popup_key(&a->popup, k->code == ESC ? KEY_ESC : k->code, a->focus < 0 && !a->prompt_hidden))
		return;
	if (a->palette.open && over && app_palette_key(a, k))
		return;
	if (k->code == KEY_MOUSE_) {
		mouse(a, k);
		return;
	}
	if (k->code != CTRL_C)
		a->ctrl_c_ns = 0;
	/* An incremental search in the prompt handles Ctrl-C and the like itself, but not the function
	 * keys. */
	if (global_key(a, k->code))
		return;
	if (k->code == ESC && a->focus < 0)
		prompt_escape(a);
	else if (a->mode->key(a, k->code))
		;
	else if (a->focus >= 0)
		views_key(a, view_key_of(k->code));
	else
		prompt_key(a, k);
}
