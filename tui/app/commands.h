/* The / commands: parsing, help and completion come from one table.
 *
 * A command acts on a host: the user's settings, the engine's settings, and a few actions of the
 * program. Nothing here depends on screens or threads, so tests and fuzzers supply a host of their
 * own. Thread: the UI's. */
#pragma once

#include "engine/settings/settings.h"
#include "tui/views/view.h"

enum command_act {
	ACT_NONE,
	ACT_SYSTEM, /* a setting of the answers that does more than change */
#define ACT(type, act, ...) ACT_##act,
#include "tui/app/commands.def"
};

struct command_host {
	struct answer_settings *settings;
	/* no engine: only the commands that make sense there, which call `act` alone */
	bool replay;
	bool lesson; /* a stranger's lesson types: only what the table lets it */
	const struct view *const *views;
	int32_t vocab;                       /* of the model; 0: not known */
	const struct engine_options *opened; /* what the engine was asked for; NULL: none of this
											program's */
	const struct answer_settings *usual; /* NULL: answer_defaults */
	void *arg;
	/* The engine's own settings. engine_set returns 1 if the change is pending: commands_say_set()
	 * or the error follows. engine_get returns -1 while there is no engine. */
	int (*engine_set)(void *arg, const char *name, const char *value, struct err *e);
	int (*engine_get)(void *arg, const char *name, char *buf, size_t cap);
	/* NULL: none is. 0: the setting may be changed; else the error says why not */
	int (*refuses)(void *arg, const struct setting *s, const char *value, struct err *e);
	/* a setting of the user's changed */
	void (*note)(void *arg, const char *name, const char *value);
	void (*say)(void *arg, const char *text);
	/* text: the argument or ""; number: its value where the table specifies a number, else 0. */
	int (*act)(void *arg, enum command_act act, const char *text, double number, struct err *e);
};

enum command_kind {
	COMMAND_ANSWER, /* a setting of the next answer: of command_host.settings */
	COMMAND_ENGINE, /* set and read by engine_set and engine_get */
	COMMAND_ACT,    /* does something; its argument is described like a setting */
};
enum { COMMAND_LIVE = 1, COMMAND_REPLAY = 2, COMMAND_LESSON = 4 };

struct command {
	enum command_kind kind;
	enum command_act act;
	/* COMMAND_LIVE, COMMAND_REPLAY; COMMAND_LESSON: a lesson may type it, unless its argument names
	 * a file */
	int where;
	const struct setting *s; /* name, argument, help */
};
extern const struct command commands[]; /* ends with s NULL */

/* Another name, as in debuggers and git: it calls `command` with `before` in front of its
 * argument. */
struct command_alias {
	const char *name, *command, *before;
};
extern const struct command_alias command_aliases[]; /* ends with name NULL */
/* here: live, or in a replay */
bool commands_usable(const struct command_host *h, const struct command *c);
/* The command that a line names, by name, alias or unique prefix; NULL, with an error that suggests
 * names. *before: what an alias puts in front of the argument, or "". */
const struct command *commands_named(
	const struct command_host *h, const char *line, const char **before, struct err *e);

/* A list of names, all looked up by one rule: by the name (or title, if there is one), or by a
 * unique prefix. */
enum { COMMAND_NAMES = 128 };
struct command_names {
	const char *name[COMMAND_NAMES], *title[COMMAND_NAMES];
	int n;
};
struct command_names commands_views(const struct command_host *h);
/* What a picture can show: a view, or the screen. */
struct command_names commands_pictures(const struct command_host *h);
/* Bytes of the name that "FILE.svg [VIEW] [WxH]" begins with, up to its first word that ends in
 * .svg or .png; 0: there is none. */
size_t command_picture_file(const char *text);
bool command_names_begin(const struct command_names *l, int i, const char *text, size_t n);
/* Index of the entry, or -1; n_found: number of entries with this prefix. */
int command_names_find(const struct command_names *l, const char *text, size_t n, int *n_found);
/* Its name. NULL, with an error that lists the candidates, or all names; what: "/view". */
const char *command_names_choose(
	const struct command_names *l, const char *what, const char *text, struct err *e);

/* Is it one that alone turns over what it says, on or off? */
bool commands_switches(const struct command *c);

/* Runs "/name argument". A unique prefix of a name is enough. */
int commands_run(const struct command_host *h, const char *line, struct err *e);
/* The same without an error; NULL if none. */
const struct command *commands_find(const struct command_host *h, const char *line);
/* For prompt_options.complete; arg is the host. */
char **commands_complete(void *host, const char *line, int start, int end, bool *files);
/* One line about the command that is being typed, or about those with this prefix; "" if none. */
void commands_hint(const struct command_host *h, const char *line, char *out, size_t cap);
/* Prints the present value of an engine setting. */
void commands_say_set(const struct command_host *h, const char *name);
/* Reports the error of a setting as that of the command /name. Returns -1. */
int commands_refused(const char *name, const struct err *why, struct err *e);
/* Current value as text; false if the command has none. */
bool commands_value(const struct command_host *h, const struct command *c, char *out, size_t cap);
