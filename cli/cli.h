/* The command line: what was said on it, the verbs, and the options they take.
 *
 * Both tables (verbs.c, options.c) are the only source: parsing, --help, the man page and the
 * completion are made from them. Everything of a struct cli points into argv or into the
 * environment. Thread: main's. */
#ifndef CUTAWAY_CLI_CLI_H
#define CUTAWAY_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/engine.h"

enum { CLI_MAX_STOP = 16, CLI_MAX_OPERANDS = 8, CLI_MAX_OPTIONS = 128 };

struct cli {
	const struct verb *verb; /* NULL while none was named */
	const char *operand[CLI_MAX_OPERANDS];
	int n_operands;

	struct engine_options engine; /* .model stays NULL without --model: see model_find() */
	struct sample_params params;
	int32_t max_tokens;
	const char *system;					/* NULL: the model's own default */
	const char *stop[CLI_MAX_STOP + 1]; /* NULL-terminated */
	const char *record;					/* NULL: a new file under XDG data */
	bool no_record, no_prefix_cache;
	const char *rule, *full;
	const char *best_of, *beam, *mcts, *score; /* of run: searches, and who judges answers */
	bool json, raw, plain, quick;
	int32_t seconds; /* 0: as the verb likes */
	const char *commands, *theme;
	bool ascii;
	const char *only, *svg; /* of bench */
	const char *file;		/* of why: the recording */
	const char *to, *out, *table; /* of export */
	const char *batch;			  /* of run: a file of prompts */
	const char *cache;			  /* of whatif: on or off */
	bool verify;				  /* of whatif */
	bool follow;				  /* of replay */
	bool given[CLI_MAX_OPTIONS];  /* options that were said: see cli_given() */
	const char *range;		/* of verify: steps */
	bool view, deep;		/* of diff */
	const char *search; /* of bench: methods joined by +, or "" */
	bool roofline, profile, turns;
	bool help, version, man; /* instead of the verb */
	const char *completion;
};

enum verb_bit {
	VERB_CHAT = 1,
	VERB_RUN = 2,
	VERB_REPLAY = 4,
	VERB_TOKENIZE = 8,
	VERB_SCORE = 16,
	VERB_BENCH = 32,
	VERB_CERTIFY = 64,
	VERB_CACHE = 128,
	VERB_WHY = 256,
	VERB_EXPORT = 1 << 12,
	VERB_WHATIF = 1 << 13,
	VERB_VERIFY = 512,
	VERB_DIFF = 1024,
	VERB_DEVICES = 1 << 18,
	VERB_ALL = (1 << 20) - 1, /* those to come, too */
};

struct verb {
	const char *name, *operands; /* operands: for the usage line */
	const char *summary;		 /* one line */
	const char *doc;			 /* a paragraph */
	const char *example;
	enum verb_bit bit;
	int min_operands, max_operands;
	int (*run)(const struct cli *c, struct err *e); /* 0, or -1 with the error */
	const char *completes; /* operands: FILE for names of files, or words; NULL: nothing */
};
extern const struct verb verbs[]; /* ends with name NULL; the first is the default */

enum option_type {
	OPTION_FLAG,   /* bool */
	OPTION_ZERO,   /* float, set to 0 */
	OPTION_INT,	   /* int32_t in min … max, a multiple of step */
	OPTION_U64,	   /* uint64_t */
	OPTION_FLOAT,  /* float in min … max */
	OPTION_TEXT,   /* const char * */
	OPTION_FILE,   /* const char * */
	OPTION_CHOICE, /* const char *, one of arg's words between bars */
	OPTION_STOP,   /* one more stop string */
};

struct option {
	const char *group; /* heading in the help */
	const char *name;  /* without dashes */
	const char *arg;   /* NULL: takes none */
	const char *doc;
	size_t at; /* in struct cli */
	enum option_type type;
	unsigned verbs; /* enum verb_bit */
	bool hidden;
	double min, max;
	int step;
};
extern const struct option options[]; /* ends with name NULL */

/* Exit statuses, in order of their numbers; ends with doc NULL. */
struct exit_code {
	int code;
	const char *doc;
};
extern const struct exit_code exit_codes[];

void cli_init(struct cli *c);
/* -1 with ERR_USAGE. c->verb is then the default if none was named, but stays NULL where help,
 * version and the like are asked for. */
int cli_parse(struct cli *c, int argc, char **argv, struct err *e);
/* Was the option of this name said on the command line? */
bool cli_given(const struct cli *c, const char *name);
/* Default of an option as text, "" if it has none worth saying. */
const char *option_default(const struct option *o, char *buf, size_t cap);

/* Printed on standard output; v NULL: of the whole program. */
void help_print(const struct verb *v);
void help_man(void);
void help_completion(void);

int verb_chat(const struct cli *c, struct err *e);
int verb_run(const struct cli *c, struct err *e);
int verb_replay(const struct cli *c, struct err *e);
int verb_tokenize(const struct cli *c, struct err *e);
int verb_score(const struct cli *c, struct err *e);
int verb_bench(const struct cli *c, struct err *e);
int verb_certify(const struct cli *c, struct err *e);
int verb_cache(const struct cli *c, struct err *e);
int verb_devices(const struct cli *c, struct err *e);
int verb_why(const struct cli *c, struct err *e);
int verb_export(const struct cli *c, struct err *e);
int verb_whatif(const struct cli *c, struct err *e);
int verb_verify(const struct cli *c, struct err *e);
int verb_diff(const struct cli *c, struct err *e);

#endif
