/* Settings. A row of the one table (settings.def) holds a setting's name, type, range, default,
 * unit, when it may change and what it does; from it are made its field in struct engine_options or
 * struct sample_params, its default there, its reading and range check, its command-line option
 * (--name), its slash command (/name), completion, help, the manual page, the setting events of the
 * log and what-if's overrides. To add one is to add its row, and the code that acts on it: see
 * docs/extend.md.
 *
 * Rows of the program's own options (cli/) and of commands that are no settings
 * (tui/app/commands.c) are of the same type. Thread: any; tables are constant, values belong to
 * the caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "kernels/format/kv.h"

enum setting_type {
	SETTING_NONE,   /* a command that takes nothing */
	SETTING_FLAG,   /* bool; true where it is named, without a value */
	SETTING_SWITCH, /* bool: on or off */
	SETTING_INT,    /* int32_t in low … high, a multiple of step */
	SETTING_U64,    /* uint64_t */
	SETTING_FLOAT,  /* float in low … high */
	SETTING_NUMBER, /* double, likewise: argument of a command; whole if step is 1 */
	/* const char *: one of words, and points to it; NULL as its default: chosen by the machine */
	SETTING_CHOICE,
	SETTING_TEXT, /* const char *, not copied */
	SETTING_FILE, /* const char *, not copied: the name of a file */
	/* const char *, kept for good: one of words, or a word up to its colon and any text; any other
	 * value is the name of a file, of which it is what it has (settings_spec.c) */
	SETTING_SPEC,
	SETTING_STOPS, /* struct setting_stops: each value adds one; off: none */
	SETTING_BIAS,  /* struct sample_bias: ID:BIAS,ID:BIAS …; off: none */
	SETTING_TYPES,
};

enum setting_when {
	SETTING_OPEN, /* when the engine is opened */
	/* while nothing runs or waits, in a chat by /set: its name is a view's, or another changes it
	 */
	SETTING_BY_SET,
	SETTING_IDLE, /* while nothing runs or waits */
	SETTING_ANY,
};

enum setting_effect {
	SETTING_LOSSLESS, /* the same logits and the same tokens, bit for bit */
	SETTING_DRAWS,    /* the same logits, other tokens drawn from them */
	SETTING_LOSSY,    /* other logits, unless it is at its default */
};

enum { SETTING_STOPS_MAX = 16 };
struct setting_stops { /* malloc'd; ends with NULL */
	char *text[SETTING_STOPS_MAX + 1];
};

/* Logit bias as in OpenAI's interface, whose limits these are. */
enum { SAMPLE_BIAS_MAX = 300, SAMPLE_BIAS_MOST = 100, SAMPLE_BIAS_TEXT = SAMPLE_BIAS_MAX * 32 };
struct sample_bias {
	int32_t n;
	struct ev_bias entry[SAMPLE_BIAS_MAX]; /* ascending ids, each once; within ± SAMPLE_BIAS_MOST */
};

struct setting {
	enum setting_type type;
	size_t at, size;   /* of its value in the struct that the table describes: offset, bytes */
	const char *name;  /* without dashes or slash */
	const char *group; /* heading in the help; a verb takes options by group or by name */
	const char *arg;   /* its value as shown in the help; NULL: its words */
	double low, high;
	int step;  /* 0: any */
	bool bare; /* as an option it may stand without a value: "" */
	enum setting_when when;
	enum setting_effect effect;
	bool recorded;     /* though it is fixed when the engine is opened: prompts depend on it */
	bool part;         /* of a lossy one: it says more of the one before it */
	const char *exact; /* of a lossy one: a value besides its default that is exact; or NULL */
	bool file;         /* a text that may name a file: see setting_names_file() */
	bool kept;         /* a text that is kept for good, not the caller's */
	const char *unit;  /* of a number, or NULL */
	/* Of a choice, all its values; else the values that completion offers. more(0), more(1) …
	 * follow; NULL ends them. */
	const char *const *words;
	const char *(*more)(int i);
	const char *(*listed)(int i); /* what the help lists behind doc, or NULL; likewise */
	const char *doc;
};

#define SETTING_WORDS(...)                                                                         \
	.words = (const char *const[])                                                                 \
	{                                                                                              \
		__VA_ARGS__, NULL                                                                          \
	}

#define SETTING_CACHE_WORD(name, ...) #name,
#define SETTING_ROUND_WORD(name, word, ...) word,

/* C types of the fields. */
#define SETTING_C_SWITCH bool
#define SETTING_C_FLAG bool
#define SETTING_C_INT int32_t
#define SETTING_C_U64 uint64_t
#define SETTING_C_FLOAT float
#define SETTING_C_CHOICE const char *
#define SETTING_C_TEXT const char *
#define SETTING_C_FILE const char *
#define SETTING_C_SPEC const char *
#define SETTING_C_STOPS struct setting_stops
#define SETTING_C_BIAS struct sample_bias
#define SETTING_FIELD(type, field, ...) SETTING_C_##type field;

struct sample_params {
#define SAMPLE SETTING_FIELD
#include "engine/settings/settings.def"
};

/* Settings of the next request, not of the engine. */
struct answer_settings {
	struct sample_params params;
#define ANSWER SETTING_FIELD
#include "engine/settings/settings.def"
};

/* The defaults of the tables. */
extern const struct engine_options engine_defaults;
extern const struct sample_params sample_defaults;
extern const struct answer_settings answer_defaults;
#define ENGINE_DEFAULTS engine_defaults
#define SAMPLE_DEFAULTS sample_defaults
#define ANSWER_DEFAULTS answer_defaults

/* Indexes into the tables: ENGINE_AT_budget, ANSWER_AT_seed. */
enum {
#define ENGINE(type, field, ...) ENGINE_AT_##field,
#include "engine/settings/settings.def"
	N_ENGINE_SETTINGS
};
enum {
#define SAMPLE(type, field, ...) ANSWER_AT_##field,
#define ANSWER(type, field, ...) ANSWER_AT_##field,
#include "engine/settings/settings.def"
	N_ANSWER_SETTINGS
};
extern const struct setting engine_settings[]; /* of struct engine_options; ends with name NULL */
extern const struct setting answer_settings[]; /* of struct answer_settings; ends with name NULL */

/* The row of this name, or NULL. */
const struct setting *setting_find(const struct setting *table, const char *name);
/* Reads value (NULL for flags) into the setting's field of the struct at base. -1 with ERR_USAGE:
 * "NAME VALUE: ", then the range; nothing is changed then. */
int setting_put(const struct setting *s, void *base, const char *value, struct err *e);
/* Copies the field from one struct to another of the same type; strings are not duplicated. Not of
 * stop texts: setting_stops_copy(). */
void setting_copy(const struct setting *s, void *to, const void *from);
/* Checks only that setting_put() could read the value. */
int setting_check(const struct setting *s, const char *value, struct err *e);
/* Whether the field is equal in two structs. */
bool setting_same(const struct setting *s, const void *a, const void *b);
/* Its value as text that setting_put() reads; "" for a text that is NULL; of a bias that does not
 * fit, how many it has. */
void setting_text(const struct setting *s, const void *base, char *buf, size_t cap);
/* Word i of its values or of what completion offers; NULL: there are no more. */
const char *setting_word(const struct setting *s, int i);
/* Whether the value makes the program open a file of its choosing: it is of a type that does, or
 * says so, and is neither a model's name (base/models.h) nor one of the words, alone or with a
 * model's name and numbers behind a colon ("draft:2,2"). What strangers wrote (a lesson, a
 * recording) may not choose files. Reads those folders; the main thread's. */
bool setting_names_file(const struct setting *s, const char *value);
/* Of a choice: the number of the word that is its value in the struct at base; of NULL, 0. */
int setting_choice(const struct setting *s, const void *base);
/* Its value in a line of help: "N", "on|off", "lru|fifo|lfu"; "" if it takes none. Returns buf. */
const char *setting_arg(const struct setting *s, char *buf, size_t cap);
/* What it does, the names that more() gives, the value in the struct at base (or NULL) and whether
 * other values are lossy. */
const char *setting_doc(const struct setting *s, const void *base, char *buf, size_t cap);

/* The parameters of a request in the log, and the reverse; spans point into *p. */
struct sample_params sample_params_of(const struct ev_request *q);
void sample_params_emit(const struct sample_params *p, struct ev_request *q);
/* "temp 0.7, top-k 0, …, seed 5" */
void sample_params_print(const struct sample_params *p, char *buf, size_t cap);
/* settings_spec.c. Whether it is one, and no file's name. */
bool setting_is_spec(const struct setting *s, const char *value);
/* head and text [size] as one, kept until the program ends; NULL: no memory. */
const char *setting_keep(const char *head, const char *text, size_t size);
int setting_spec_read(const struct setting *s, const char *value, const char **out, struct err *e);
/* settings_bias.c. Puts in one more; -1 with ERR_USAGE: it is out of range, there already, or too
 * many. */
int sample_bias_add(struct sample_bias *b, int64_t id, double bias, struct err *e);
/* "15:5,27:-100", or "off". */
int sample_bias_read(const char *text, struct sample_bias *out, struct err *e);
void sample_bias_text(const struct sample_bias *b, char *buf, size_t cap);
bool sample_bias_same(const struct sample_bias *a, const struct sample_bias *b);
/* Of the column of the log; what makes no sense there is left out. */
struct sample_bias sample_bias_of(struct ev_span packed);
/* The text that a conversation begins with; own: the model's, or NULL. */
const char *answer_system(const struct answer_settings *a, const char *own);
/* Whether the oldest turns of a conversation are left out of prompts that would not fit. */
bool answer_drops(const struct answer_settings *a);
/* Tokens of a context of ctx that a conversation's prompt leaves free for the answer. */
int32_t answer_room(const struct answer_settings *a, int32_t ctx);
/* As a list that ends with NULL. */
const char *const *setting_stops(const struct setting_stops *stops);
void setting_stops_free(struct setting_stops *stops);
/* Copies `from` to `to`, which had none: a list that ends with NULL; false: no memory. */
bool setting_stops_take(struct setting_stops *to, const char *const *from);
int setting_stops_copy(struct setting_stops *to, const struct setting_stops *from, struct err *e);
