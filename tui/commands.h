/* The / commands: one table, from which parsing, help and completion come.
 *
 * A command acts on a host: the person's own settings, the engine's settings, and a few acts of the program.
 * Nothing here knows screens or threads, so tests and fuzzers bring a host of their own. Thread: the UI's. */
#ifndef CUTAWAY_TUI_COMMANDS_H
#define CUTAWAY_TUI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/sampler.h"
#include "tui/view.h"

enum { SETTINGS_STOPS = 16 };

/* Settings that belong to the next request, not to the engine. */
struct settings {
	struct sample_params params;
	int max_tokens; /* 0: until the context is full */
	char *system;   /* NULL: the model's default; "": none */
	char *stop[SETTINGS_STOPS + 1]; /* ends with NULL */
	bool drop_turns;
};

void settings_free(struct settings *s);
/* -1: too many, or no memory. */
int settings_add_stop(struct settings *s, const char *text, struct err *e);

enum command_act {
	ACT_SAVE, ACT_NEW, ACT_RETRY, ACT_FORK, ACT_LOAD, ACT_VIEW, ACT_ZOOM, ACT_THEME, ACT_HELP, ACT_QUIT,
	ACT_PAUSE, ACT_STEP, ACT_GOTO, ACT_SPEED, ACT_SYSTEM, ACT_LAYER, ACT_HEAD, ACT_STOP_ANSWER, ACT_WHY, ACT_BREAK, ACT_WATCH, ACT_FIND, ACT_RFIND,
	ACT_TBREAK, ACT_CONTINUE, ACT_INFO, ACT_BACK, ACT_REWIND, ACT_TRY, ACT_UNDO, ACT_TREE, ACT_LENS,
	ACT_PRINT, ACT_SET,
};

struct command_host {
	struct settings *settings;
	bool replay; /* no engine: only the commands that make sense there */
	const struct view *const *views;
	void *arg;
	/* The engine's own settings. engine_set returns 1 if it was only told to: commands_say_set() or the error
	 * follows. engine_get returns -1 while there is no engine. */
	int (*engine_set)(void *arg, const char *name, const char *value, struct err *e);
	int (*engine_get)(void *arg, const char *name, char *buf, size_t cap);
	void (*note)(void *arg, const char *name, const char *value); /* a setting of the person's changed */
	void (*say)(void *arg, const char *text);
	/* text: the argument or ""; number: its value where the table asks for a number, else 0. */
	int (*act)(void *arg, enum command_act act, const char *text, double number, struct err *e);
};

enum command_kind {
	COMMAND_INT,    /* of settings.params or settings: int32 */
	COMMAND_FLOAT,
	COMMAND_SEED,
	COMMAND_CHOICE, /* full: stop or drop */
	COMMAND_TEXTS,  /* stop strings */
	COMMAND_ENGINE,
	COMMAND_ACT,        /* any argument */
	COMMAND_ACT_NUMBER, /* a number between min and max; absent: min */
	COMMAND_ACT_NUMBER_OR_POS, /* the same, or @ and a position, which is left to the act */
	COMMAND_ACT_FILE,
	COMMAND_ACT_VIEW,
	COMMAND_ACT_WORD, /* one of words */
};
enum { COMMAND_LIVE = 1, COMMAND_REPLAY = 2 };

struct command {
	const char *name; /* without the / */
	const char *args, *doc;
	enum command_kind kind;
	double min, max;
	size_t offset;        /* in struct settings */
	const char *engine;   /* name of the engine's setting; of others: in the log, if it differs */
	const char *words;    /* values to complete, parted by |; FILE: the names of files */
	enum command_act act;
	int where;            /* COMMAND_LIVE, COMMAND_REPLAY */
};
extern const struct command commands[]; /* ends with name NULL */

/* Another name, as debuggers and git have it: it calls `command` with `before` in front of its argument. */
struct command_alias {
	const char *name, *command, *before;
};
extern const struct command_alias command_aliases[]; /* ends with name NULL */
bool commands_usable(const struct command_host *h, const struct command *c); /* here: live, or in a replay */
/* The command that a line calls by its name, an alias or a unique beginning; NULL, with an error that says which may
 * be meant. *before: what an alias puts in front of the argument, or "". */
const struct command *commands_named(const struct command_host *h, const char *line, const char **before,
									 struct err *e);

/* Things that have names, for all of them one rule: one is called by its name (or its title, if it has one), or by a
 * beginning that no other has. */
enum { COMMAND_NAMES = 96 };
struct command_names {
	const char *name[COMMAND_NAMES], *title[COMMAND_NAMES];
	int n;
};
struct command_names commands_views(const struct command_host *h);
bool command_names_begin(const struct command_names *l, int i, const char *text, size_t n);
/* Its place, or -1; n_found: how many begin so. */
int command_names_find(const struct command_names *l, const char *text, size_t n, int *n_found);
/* Its name. NULL, with an error that says which it could be, or which there are; what: "/view". */
const char *command_names_choose(const struct command_names *l, const char *what, const char *text, struct err *e);

/* Runs "/name argument". A unique beginning of a name is enough. */
int commands_run(const struct command_host *h, const char *line, struct err *e);
/* The same without an error; NULL if none. */
const struct command *commands_find(const struct command_host *h, const char *line);
/* For prompt_options.complete; arg is the host. */
char **commands_complete(void *host, const char *line, int start, int end, bool *files);
/* One line about the command that is being typed, or of those that begin so; "" if none. */
void commands_hint(const struct command_host *h, const char *line, char *out, size_t cap);
/* Says what a setting of the engine, by the engine's name for it, is now. */
void commands_say_set(const struct command_host *h, const char *engine);
/* Current value as text; false if the command has none. */
bool commands_value(const struct command_host *h, const struct command *c, char *out, size_t cap);

#endif
