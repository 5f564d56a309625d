/* The terminal program's interface for the command line. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "engine/core/engine.h"
#include "sessions/history/resumed.h"
#include "tui/term/term.h"

/* Somebody else who uses the session of a chat: a server. */
struct session;
struct tui_says {
	char where[80];    /* stays in the status line */
	char warning[160]; /* "": none; else the status line has `mark`, too */
	const char *mark;
};
struct tui_guest {
	ev_sink *sink;
	void *sink_arg;
	/* The session has begun: it may be used, from any thread. says: for the screen. */
	int (*begin)(void *arg, struct session *s, struct tui_says *says, struct err *e);
	void (*end)(void *arg); /* the session is about to be closed */
	void *arg;
};

enum { TUI_CHAT_TOKENS = 1000 /* longest answer of a chat, where none is asked for */ };

/* What the user chose to follow when this has ended: the chat of a recording, or its replay. */
struct tui_then {
	bool replay;
	char *path; /* malloc'd; NULL: nothing */
};

struct tui_options {
	struct engine_options engine;
	struct answer_settings answer;
	const struct resumed *resumed; /* chat: the conversation that goes on, or NULL */
	const char *record;            /* path of the recording, or NULL: none */
	bool record_named;        /* the user named it; those that continue it then lie beside it */
	const char *first_record; /* of those that it continues in this chat; NULL: it is the first */
	bool newest;              /* replay: the recording was chosen by default, so show its name */
	const char *commands;     /* file of / commands and turns to begin with, or NULL */
	const char *lesson;       /* to begin with (sessions/lesson/lesson.h), or NULL */
	const char *reader;       /* name for its report, or NULL */
	bool loops_run;           /* an answer that repeats itself is not held */
	bool lesson_test;         /* it is read to its end without a reader; then the chat ends */
	const struct tui_guest *guest; /* or NULL */
	const char *history;           /* readline history file, or NULL */
	const char *not_recorded;      /* why recording failed, or NULL */
	struct term_options term;
	bool projector;    /* chat, replay: begins with /projector on */
	size_t ring_bytes; /* size of the event ring; 0: RING_BYTES. Tests let a small one overflow */
	/* A replay computes only for a deep look: with engine.model if it is given, else with the file
	 * the recording names, else with this one (may be NULL), whichever has the recorded SHA-256. */
	const char *model_else;
	struct tui_then *then; /* or NULL: nothing can follow */
	bool follow;           /* replay: stays at the end of a recording that is being written */
};

struct tui_end {
	bool recorded; /* o->record holds this session */
	char **more;   /* recordings that /model began after that; all malloc'd */
	int n_more, cap_more;
	int unsent; /* turns that still waited; o->history has those that were typed */
};

/* Runs until the user quits. Returns 0, or -1 with the error; the terminal is restored. */
int tui_chat(const struct tui_options *o, struct tui_end *end, struct err *e);
/* Plays a recording on the same screens. Needs no model. Uses only term, follow, and for deep
 * looks engine.model and model_else. */
int tui_replay(const char *path, const struct tui_options *o, struct err *e);
/* Writes a recording as a terminal recording of w x h (asciicast v2): the replay's screens, at the
 * recorded pace. progress may be NULL; false stops. */
int tui_cast(const char *path, int w, int h, FILE *out,
	bool (*progress)(void *arg, int64_t done, int64_t all), void *arg, struct err *e);
/* A picture of a recording: a view, or the replay's whole screen, at a step. PNG is drawn by
 * rsvg-convert, which must be installed. */
struct tui_picture {
	const char *view; /* tui_picture_name(i) */
	const char *size; /* see tui_size; NULL: 120x40 for the screen, 80x24 for a view */
	const char *at;   /* a step, an expression that holds after it (sessions/watch), or "end" */
	bool light, mono /* black on white, for print */, png;
};
int tui_picture(const char *path, const struct tui_picture *o, FILE *out, struct err *e);
/* All views that have something to show, with captions, as one HTML page. o: view and png are not
 * looked at; at NULL: each view where it shows much. */
int tui_slides(const char *path, const struct tui_picture *o, FILE *out, struct err *e);
const char *tui_picture_name(int i); /* NULL: no more */
/* Reads "WIDTHxHEIGHT", in cells. */
int tui_size(const char *text, int *w, int *h, struct err *e);
/* Two recordings side by side, until the user quits. The same options. */
struct diff;
int tui_diff(struct diff *d, const struct tui_options *o, struct err *e);
/* A comparison while it runs, and afterwards, until the user quits. The same options. */
struct compare;
struct tui_compare {
	const struct compare *compare;
	pthread_mutex_t *lock; /* of it */
	int n_prompts, repeat;
	void (*work)(void *arg, struct err *e); /* runs it, on a thread of its own */
	void *arg;
	atomic_bool *stop; /* set when the user quits: work() is to end */
};
/* The error of the screen or of the work. Signals but SIGINT should be blocked before other threads
 * are started: see app_block_signals(). */
int tui_compare(const struct tui_compare *t, const struct tui_options *o, struct err *e);

/* The shipped prompts for /load (base/prompts.h). */
int load_n_prompts(void);
/* Prompt i modulo their number, with its passage before it; malloc'd, NULL if memory ran out.
 * *label: where the prompt's own words begin in it. */
char *load_prompt(int i, const char **label);
