/* Lessons: Markdown with fenced blocks that act on the session in front of the reader.
 *
 *     ```do                        lines that are typed for the reader: commands, turns
 *     ```look VIEW [all]           opens a view; each line names a text in it that is pointed at;
 *                                  all: it has the chat's place, too, and shows the whole run
 *     ```predict                   asked before a run, answered by SQL over what was logged then
 *     ? the question
 *     = number, 10 %               the answer's form and tolerance; or: = one of yes, no
 *     SELECT …                     its first column of the first row is the answer; NULL: not yet;
 *                                  a second is shown after it
 *     ```model                     the lesson's own model: a line, a name of base/models.h
 *     ```start                     options that are fixed when the engine opens, a line each:
 *                                  tensor-parallel 2, likewise pipeline-parallel,
 *                                  sequence-parallel, prefill-ranks
 *     ```check                     what must hold afterwards: the query gives a number other than 0
 *     ? the statement
 *     SELECT …
 *
 * A thematic break (---) ends a page. The text is a stranger's: it runs no shell, and a query only
 * reads the recording, within bounds of time and size. Thread: any; nothing is shared. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/listing.h"
#include "engine/settings/options.h"
#include "event/event.h"

enum lesson_kind {
	LESSON_HEADING,
	LESSON_PROSE,
	LESSON_ITEM, /* of a list */
	LESSON_CODE,
	LESSON_MODEL, /* which file is read with it */
	LESSON_START, /* how many ranks it is read with, or which adapter */
	LESSON_PAGE,  /* the reader goes on by Enter */
	LESSON_DO,
	LESSON_LOOK,
	LESSON_PREDICT,
	LESSON_CHECK,
};

/* Bytes in the text of prose: each turns a style on or off. */
enum { LESSON_STRONG = 1, LESSON_MONO = 2, LESSON_SLANTED = 3 };

enum { LESSON_BYTES = 1 << 18, LESSON_CHOICES = 8 };

struct lesson_part {
	enum lesson_kind kind;
	int level;  /* of a heading from 1, of a list from 0 */
	int number; /* of an item in an ordered list; 0: a bullet */
	int line;   /* of the file, from 1 */
	/* prose with its styles; the lines of do, look and code; the question */
	char *text;
	char *sql;                    /* predict, check */
	char *view;                   /* look: its id */
	bool all;                     /* look: as much as there is of it */
	char *choice[LESSON_CHOICES]; /* predict; none: a number */
	int n_choices;
	double tolerance; /* of a number, as a share of what is measured */
};

struct lesson {
	char *title;       /* of the first heading; NULL: it has none */
	const char *model; /* of its part; NULL: any will do */
	const char *start; /* likewise; NULL: however many ranks */
	struct lesson_part *part;
	int32_t n, cap;
};

/* ERR_INPUT with the line: a block that is not as it must be. name: for errors. */
int lesson_parse(
	struct lesson **out, const char *name, const char *text, size_t size, struct err *e);
void lesson_free(struct lesson *l);

/* Where the reader stands once the parts before `part` are shown: the next part at which something
 * is done, or the end. */
int32_t lesson_stop(const struct lesson *l, int32_t part);

/* ---- queries: lesson_ask.c ---- */

struct lesson_found {
	bool known; /* false: the query gave no row, or NULL */
	char text[64];
	char shown[160]; /* the text, and what the second column has */
	double value;    /* NaN: not a number */
};
/* What all queries of one stop may take together: the program waits for them. */
#define LESSON_ASK_NS INT64_C(3000000000)
/* Asks the recording at this path. *left_ns: what it may take, less what it took. ERR_INPUT: the
 * query is wrong, wants more than to read, or takes too long. */
int lesson_ask(
	const char *path, const char *sql, int64_t *left_ns, struct lesson_found *out, struct err *e);

/* Reads what the reader typed: a number (12, 1,5k, 30 %) or one of the choices. *value: NaN for a
 * choice. -1 with ERR_USAGE: what is expected. */
int lesson_read_answer(const struct lesson_part *p, const char *typed, char *predicted, size_t cap,
	double *value, struct err *e);
/* What the answer may be, in words: "a number; within 10 % is right". */
void lesson_form(const struct lesson_part *p, char *out, size_t cap);
/* said NULL: nothing was predicted. */
enum ev_code_answer_verdict lesson_judge(
	const struct lesson_part *p, const char *predicted, double value, const struct lesson_found *f);

/* ---- files: lesson_files.c ---- */

/* Those that are part of the program (lesson_shipped.c), in the order of a course; ends with name
 * NULL. */
struct lesson_file {
	const char *name, *text, *topic;
};
extern const struct lesson_file lessons_shipped[];

/* The text of a lesson: of the reader's folder, else a shipped one; or of a path with a slash or
 * ".md". malloc'd. ERR_USAGE says what comes near. */
int lesson_load(const char *name, char **text, size_t *size, struct err *e);
/* Both in one, parsed; NULL: as their errors say. */
struct lesson *lesson_open(const char *name, struct err *e);
/* The i-th name, shipped ones first; NULL: there are no more. Valid until the next call. */
const char *lesson_name(int i);
/* Whether it can be read with the model of this path (NULL: not known) on the ranks of an engine
 * with these options (NULL: on any). */
bool lesson_fits(const struct lesson *l, const char *model_path, const struct engine_options *now);
/* Puts the options that it begins with into those of an engine. */
int lesson_options(const struct lesson *l, struct engine_options *to, struct err *e);
/* The next one of the list that fits, on the model of this path (NULL: on any) with these options
 * (NULL: with any); false: there is none. */
bool lesson_next(const char *name, const char *model_path, const struct engine_options *now,
	char *out, size_t cap);
const char *lesson_topic(const char *name);
/* Of somebody who reads to understand. A question takes a minute, too. */
enum { LESSON_WORDS_A_MINUTE = 200 };
/* Words of its prose, code, questions and statements. */
int lesson_words(const struct lesson *l);
/* Its parts of a kind; of NULL, 0. */
int lesson_count(const struct lesson *l, enum lesson_kind kind);
/* Number i of the list, by topic; false: there are no more. */
struct lesson_entry {
	const char *topic;
	char name[64], title[200], read[16]; /* read: how far the reader came, "40 %", "done", "" */
	int pages, questions;
	int minutes; /* to read it, without what it runs */
};
bool lesson_entry(int i, struct lesson_entry *out);
void lesson_list(FILE *out); /* all of them */
/* Writes a commented beginning into the reader's folder; *path malloc'd. ERR_USAGE: it is there, or
 * is shipped. */
int lesson_new(const char *name, char **path, struct err *e);

struct lesson_progress {
	int32_t part, parts; /* 0 of 0: not begun */
	int64_t unix_s;
};
void lesson_progress_get(const char *name, struct lesson_progress *p);
/* The furthest counts, as long as the lesson has as many parts. Best effort: a full disk costs only
 * the mark in the list. */
void lesson_progress_put(const char *name, int32_t part, int32_t parts);

/* ---- a class: lesson_report.c, lesson_sheet.c ---- */

/* The answers in recordings as a table: per question what was measured, how many predicted, their
 * spread, how many were right. A reader has the name that was given, or else that of the
 * recording. */
struct lesson_report_to {
	bool json;        /* rows to standard output in place of the table */
	const char *csv;  /* a file that gets a row for each answer, or NULL */
	const char *html; /* a file that gets a page for people: distributions and readers, or NULL */
	FILE *out;        /* the table */
};
int lesson_report(char *const *path, int n, const struct lesson_report_to *to, struct err *e);
/* What a run of a lesson logged, a line a question: "ok lesson: question (found)". Returns how many
 * did not hold or were never measured; -1. */
int lesson_verdicts(const char *path, const char *name, FILE *out, struct err *e);
/* The teacher's sheet: what a lesson needs, types, shows and asks, and the answers that its run in
 * `record` measured. Lines for people to `out`, or rows of these columns if `rows` is given. */
extern const struct listing_column lesson_sheet_columns[];
int lesson_sheet(
	const char *name, const char *record, struct listing *rows, FILE *out, struct err *e);
