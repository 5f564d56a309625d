/* The parsed command line, the verbs, and the options they take.
 *
 * A verb is a file verb_x.c with its row, its help in help/x.txt, and its name in VERBS. Options
 * are rows of struct setting: the engine's and the sampler's settings (engine/settings/settings.h),
 * those of several verbs (options.c), and a verb's own. Parsing, --help, the manual page and the
 * completion are made from these rows. Everything of a struct cli but its stop texts and paths
 * points into argv or into the environment. Thread: main's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/err.h"
#include "engine/core/engine.h"

enum { CLI_MAX_OPERANDS = 512, CLI_MAX_GIVEN = 128, CLI_MAX_KEPT = 64 };

struct cli {
	const struct verb *verb; /* NULL until one was named */
	const char *operand[CLI_MAX_OPERANDS];
	char *path[CLI_MAX_OPERANDS]; /* of operands that name recordings; ours, or NULL */
	int n_operands;
	const char *given[CLI_MAX_GIVEN]; /* names of the options that were given: see cli_given() */
	int n_given;

	struct engine_options engine; /* .model stays NULL without --model: see model_find() */
	struct answer_settings answer;
	const char *record; /* NULL: a new file under XDG data, if the verb records unasked */
	char *new_record;   /* ours: where --record named a folder */
	bool no_record, json, raw, ascii;
	const char *preset;       /* name, or NULL */
	char *kept[CLI_MAX_KEPT]; /* ours: values of its settings */
	int n_kept;
	const char *csv;       /* file for the table of results, or NULL */
	const char *api_key;   /* see cli_api_key() */
	const char *calibrate; /* file of a calibration text, or NULL */
	const char *theme;
	bool projector;
	bool help, version, man; /* instead of the verb */
	const char *completion;
};

struct verb {
	const char *name, *operands; /* operands: for the usage line */
	/* a line; a paragraph, in lines of 78 columns at most; an example; with empty lines between */
	const char *help;
	const char *takes; /* shared options, by group or by name, between bars */
	int min_operands, max_operands;
	bool settings; /* operands may be settings: a word with a blank is one, even with dashes */
	/* 0, or -1 with the error; main writes out what it printed */
	int (*run)(const struct cli *c, struct err *e);
	/* operands: FILE for names of files, RECORDING for recordings, which reach run() as paths
	 * (base/recordings.h), or words; NULL: nothing */
	const char *completes;
	const struct setting *own; /* its own options; ends with name NULL. NULL: none */
	void *opts;                /* struct that their values are written to */
};

/* All verbs, in the order of the help; the first is the default. */
#define VERBS(X)                                                                                   \
	X(chat)                                                                                        \
	X(lesson)                                                                                      \
	X(run)                                                                                         \
	X(attach)                                                                                      \
	X(serve)                                                                                       \
	X(pin)                                                                                         \
	X(load)                                                                                        \
	X(simulate)                                                                                    \
	X(replay)                                                                                      \
	X(tokenize)                                                                                    \
	X(sessions)                                                                                    \
	X(score)                                                                                       \
	X(bench)                                                                                       \
	X(compare)                                                                                     \
	X(certify)                                                                                     \
	X(cache)                                                                                       \
	X(why)                                                                                         \
	X(export)                                                                                      \
	X(whatif)                                                                                      \
	X(verify)                                                                                      \
	X(diff)                                                                                        \
	X(devices)                                                                                     \
	X(formulas)                                                                                    \
	X(record)                                                                                      \
	X(quantize)                                                                                    \
	X(prune)                                                                                       \
	X(curve)                                                                                       \
	X(passkey)

extern const struct verb *const verbs[]; /* ends with NULL */
#define X(name)                                                                                    \
	extern const struct verb verb_##name;                                                          \
	extern const char verb_help_##name[]; /* cli/help/x.txt */
VERBS(X)
#undef X

/* The members that the verb x has by its name: x_verb(); verb_help_x; its own options x_own and
 * opts, or BARE: it has none, or by other names. */
#define VERB(x, operands_, takes_) VERB_BARE(x, operands_, takes_), .own = x##_own, .opts = &opts
#define VERB_BARE(x, operands_, takes_)                                                            \
	.name = #x, .operands = (operands_), .takes = (takes_), .run = x##_verb, .help = verb_help_##x
/* How many operands, and what completes them; without it: none. */
#define OPERANDS(least, most, completes_)                                                          \
	.min_operands = (least), .max_operands = (most), .completes = (completes_)

/* Rows of a verb's own options: OWN(INT, struct, field, name, group of the help, what it does, .arg
 * = …). */
#define OWN(type_, home, field, name_, group_, doc_, ...)                                          \
	{                                                                                              \
		.type = SETTING_##type_, .at = offsetof(struct home, field), .name = (name_),              \
		.group = (group_), .doc = (doc_), __VA_ARGS__                                              \
	}

/* An option, and the struct that its value is written to. */
struct option {
	const struct setting *s;
	void *base;
	const struct verb *own; /* of this verb alone, or NULL */
};
/* Option i of all tables; false: there are no more. */
bool option_at(struct cli *c, int i, struct option *out);
bool option_taken(const struct option *o, const struct verb *v);

/* Another name for a setting with a value: --greedy is --temp 0. */
struct option_alias {
	const char *name, *setting, *value; /* NULL: it takes one */
};
extern const struct option_alias option_aliases[]; /* ends with name NULL */

void cli_init(struct cli *c);
void cli_free(struct cli *c);
/* -1 with ERR_USAGE. c->verb is then the default if none was named, but stays NULL with --help,
 * --version and the like. */
int cli_parse(struct cli *c, int argc, char **argv, struct err *e);
/* Reads settings as on a command line, with or without dashes ("spec=ngram:3 --temp 0"), into c.
 * *words: malloc'd, also where it fails; c's values point into it. */
int cli_settings(struct cli *c, const char *text, char **words, struct err *e);
/* --api-key, or that of the environment; NULL: none. */
const char *cli_api_key(const struct cli *c);
/* Was the option of this name given on the command line? */
bool cli_given(const struct cli *c, const char *name);

/* The program as one of several processes, which mpirun started, or --ranks starts (ranks.c): rank
 * 0 runs the verb, the others follow its engines (engine/core/engine_follow.h) and print nothing.
 *
 * Joins those that were started with this process. True: this is not rank 0; all is over, and e has
 * its exit status. */
bool ranks_follow(struct err *e);
/* After the command line was read: starts the others that --ranks asks for, or sets it to how many
 * there are. */
int ranks_begin(struct cli *c, struct err *e);

/* Printed on standard output; v NULL: of the whole program. */
void help_print(const struct verb *v);
void help_man(void);
void help_completion(void);
