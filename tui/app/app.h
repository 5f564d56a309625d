/* The terminal program: what chat and replay share. Internal to tui/.
 *
 * One thread, one blocking place (app_run). A mode (chat.c, replay.c) supplies its events, its
 * commands and the ends of the status line. Thread: the UI's. */
#pragma once

#include <stdarg.h>
#include <sys/poll.h>

#include "base/clock.h"
#include "tui/app/commands.h"
#include "tui/app/layout.h"
#include "tui/app/palette.h"
#include "tui/app/popup.h"
#include "tui/app/tui.h"
#include "tui/state/breaks.h"
#include "tui/term/prompt.h"
#include "tui/views/view_util.h"

enum { FOCUS_PROMPT = -1, APP_FDS = 4, FRAME_NS = 33000000 };

enum app_say { SAY_INFO, SAY_ERROR };

struct app;
struct app_sessions;
struct lens;

/* Fields of the status line, most wanted first. */
enum { STATUS_FIELDS = 8 };
struct app_status {
	char text[STATUS_FIELDS][48];
	enum ink ink[STATUS_FIELDS];
	int n, n_kept; /* n_kept: the first ones, which stay if there is room for little else */
};

struct app_mode {
	const char *label; /* of the prompt */
	/* Shown dim in an empty prompt; valid until the next call. NULL, or returns NULL: nothing. */
	const char *(*empty)(struct app *a);
	const struct hint *hints, *past_hints; /* end with key NULL */
	const char *help;                      /* the text of F1 in the prompt */
	bool scrubber;
	/* Adds its fds; returns how many. */
	int (*fds)(struct app *a, struct pollfd *p);
	int (*timeout_ms)(struct app *a); /* until work() must be called anyway; -1: never */
	void (*work)(struct app *a);      /* after every wait: folds new events */
	void (*line)(struct app *a, const char *line);
	/* keys of its own while no view has the focus of letters */
	bool (*key)(struct app *a, int key);
	void (*stop)(struct app *a);  /* Ctrl-C */
	void (*moved)(struct app *a); /* a view changed the view_state */
	/* A view requested an action (view_state.action), which is cleared already. */
	void (*action)(struct app *a, const struct view_action *w);
	bool (*reads)(const struct app *a); /* a lesson is read; may be NULL */
	void (*status)(struct app *a, struct app_status *s);
	struct view_text (*name)(struct app *a); /* at the left of the status line */
	void (*scrub)(struct app *a, struct pen *p);
	/* Path of the recording, with all events so far committed; NULL, with the error: there is
	 * none. */
	const char *(*recording)(struct app *a, struct err *e);
	void (*breaks_changed)(struct app *a); /* a breakpoint or a watch was added or removed; may be
											  NULL */
	/* called at the first deep look */
	int (*open_lens)(struct app *a, struct lens **l, struct err *e);
};

struct app {
	const struct app_mode *mode;
	union { /* whose the mode is */
		void *mode_data;
		struct chat *chat;
		struct replay *replay;
		struct attached *attached;
	};
	struct terminal *term;
	struct canvas canvas;
	struct layout layout;
	struct timeline timeline;
	/* the earlier step that the views show; NULL: the present */
	const struct timeline *past;
	struct view_state state;
	struct command_host host;
	struct breaks *breaks;
	struct popup popup;
	struct {
		FILE *out;
		char *text;
		size_t size;
	} writing;              /* see app_write() */
	struct palette palette; /* below a popup */
	struct lens *lens;      /* NULL: no deep look yet */
	int focus;              /* index of a view, or FOCUS_PROMPT */
	int last_focus;
	int back; /* the view that had the keys before one without a place beside the others; -1: none
			   */
	int zoom; /* asked for: app_zoom() */
	int signal_fd;
	bool dirty, quit;
	bool projector;               /* one view fills the screen, but for a lesson */
	bool prompt_hidden;           /* replay: no prompt until / is typed */
	int64_t drawn_ns, drawing_ns; /* the last frame: its end, and what it took */
	int64_t ctrl_c_ns;
	struct {
		char words[80];
		int64_t request;
		int32_t token;
	} grep;          /* what /grep looked for last, and found */
	const char *own; /* path of the recording that this process writes, or NULL */
	char offer[64];  /* the command that would fill the view in focus, which is empty; or "" */
	struct app_sessions *sessions; /* being listed, or NULL */
	struct tui_then *then;         /* or NULL: nothing can follow */
	char message[512];
	enum app_say message_kind;
	int64_t message_ns; /* 0: none */
	struct err fatal;
};

/* What the views show. */
static inline const struct timeline *app_timeline(const struct app *a)
{
	return a->past ? a->past : &a->timeline;
}

/* The view that fills the screen, or -1. */
static inline int app_zoom(const struct app *a)
{
	if (a->zoom >= 0 || !a->projector || app_timeline(a)->lesson.text)
		return a->zoom;
	return a->focus >= 0 ? a->focus : a->last_focus;
}

/* app.c */
void app_init(struct app *a, const struct app_mode *mode); /* of one that is zero but for its host
															*/
int app_open(struct app *a, const struct tui_options *o, struct err *e);
/* Draws the last frame, with a text on what happens until app_close(); keys and signals are
 * ignored. */
void app_end(struct app *a, const char *words);
void app_close(struct app *a);
int app_run(struct app *a, struct err *e);
void app_say(struct app *a, enum app_say kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Says the error, if there is one. */
void app_complain(struct app *a, const struct err *e);
/* opens a popup; copies the text */
void app_show(struct app *a, const char *title, const char *text);
/* The same with what is written to the stream; it is one at a time. NULL, with the error: no
 * memory. */
FILE *app_write(struct app *a, struct err *e);
int app_show_written(struct app *a, const char *title, struct err *e);
void app_command(struct app *a, const char *line);
void app_suspend(struct app *a); /* Ctrl-Z */
/* Commands that are the same in chat and replay; 0: done, 1: not one of them, -1: error. */
int app_act(struct app *a, enum command_act act, const char *text, struct err *e);

/* app_why.c: /why WHAT [WHERE], answered in a popup. */
int app_why(struct app *a, const char *question, struct err *e);
/* Moves the focus and the cursor to a token, whose words it gives; "": there is none. */
struct view_text app_look_at(struct app *a, const struct watch_hit *hit);
void app_why_here(struct app *a); /* the question that fits the view in focus */

/* app_info.c: the lossy settings in use as a title, "LOSSY window:512 ", or "". */
struct view_text app_lossy_title(const struct timeline *t);
/* How full the context is after a request (NULL: there is none), "ctx 52 of 8,192". anew: the
 * request after which a conversation was begun, or 0. */
void app_context(
	const struct timeline *t, const struct tl_request *r, int64_t anew, struct app_status *s);
/* /info, and in gdb's words "/info break", "/info watch". */
int app_info(struct app *a, const char *what, struct err *e);

/* app_palette.c: opens the palette with these parts of it. */
enum {
	PALETTE_COMMANDS = 1,
	PALETTE_VIEWS = 2,
	PALETTE_LESSONS = 4,
	PALETTE_MODELS = 8,
	PALETTE_SETTINGS = 16,
	PALETTE_CHANGED = 32, /* settings that differ from their defaults */
	PALETTE_ALL = 31,
};
/* title NULL: of all that there is. */
void app_palette(struct app *a, const char *title, unsigned parts, const char *filter);
/* Whether it is a setting that differs from its default, and can be changed. */
bool app_is_changed(struct app *a, const struct command *c);
bool app_palette_key(struct app *a, const struct term_key *k);

/* app_preset.c: /preset [[save|delete] NAME]. */
int app_preset(struct app *a, const char *text, struct err *e);

/* app_sessions.c: /sessions [WORDS] lists, /session [VERB] FILE … does something with one. */
int app_sessions(struct app *a, const char *words, struct err *e);
int app_session(struct app *a, const char *text, struct err *e);
void app_sessions_work(struct app *a); /* reads on, for a short while */
void app_sessions_close(struct app *a);

/* app_grep.c: /grep [WORDS]. */
int app_grep(struct app *a, const char *words, struct err *e);

/* app_breaks.c: /break, /watch, /find, /rfind. */
int app_break(struct app *a, enum command_act act, const char *text, struct err *e);
/* after every wait: reports the breakpoint that stopped, goes to the step found */
void app_breaks_work(struct app *a);
int app_breaks_timeout(struct app *a);

/* app_lens.c: /lens [POS], on the screen of the view; where "" is the token under the cursor. */
int app_lens(struct app *a, const char *where, struct err *e);

/* app_keys.c */
/* A key bound to a command; an incomplete one ("/", "/goto ") is put into the prompt to be
 * completed. */
struct app_bind {
	int key;
	const char *line;
};
/* The key that does from everywhere what the command does; NULL: none. */
const char *app_key_of(const char *line);
/* binds end with key 0; false: key is not bound */
bool app_bound(struct app *a, const struct app_bind *binds, int key);
/* the keys that chat and replay share where letters are not text */
bool app_letter(struct app *a, int key);
void app_key(struct app *a, const struct term_key *k);
void app_focus(struct app *a, int view);
/* The view that a cell of the screen is of, or FOCUS_PROMPT. */
int app_view_at(const struct app *a, int x, int y);
/* A view that a command names is shown, alone (zoom) or if it has no place beside the others. What
 * has the keys keeps them: the prompt, or the views. */
void app_look(struct app *a, int view, bool zoom);
void app_toggle_zoom(struct app *a);
/* For a class room: one view fills the screen, in strong colours. */
void app_projector(struct app *a, bool on);

/* app_draw.c */
void app_field(struct app_status *s, enum ink ink, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void app_draw(struct app *a);

/* The signals of a screen, blocked for all threads: a descriptor that is readable when one came;
 * -1 with the error. */
int app_open_signals(struct err *e);
void app_close_signals(int fd); /* they have their usual effect again */
/* Blocks them, but for SIGINT, for a caller that starts threads before its screen. */
void app_block_signals(void);
/* Nothing is chosen: what is new is followed. */
void app_follow_newest(struct app *a);
/* For struct command_host. */
void app_tell(void *app, const char *text);
