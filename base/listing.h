/* A table of results, told once: as lines of text, as JSON objects, and as CSV (RFC 4180).
 *
 * Each column has a key for JSON and CSV, a heading and a width for text, or only one of the two.
 * The first column has a key, and a heading if any has one; a column of neither ends them. Values
 * are given in the order of the columns, row by row; what is not known is a value, too (NAN, NULL).
 * Texts may be untrusted: they are clipped to their column in text, and never left as they are.
 * Thread: any one. */
#pragma once

#include "base/json.h"
#include "base/whole_file.h"

struct listing_column {
	const char *key;  /* of JSON and CSV; NULL: in text alone */
	const char *head; /* of the text; NULL: in JSON and CSV alone */
	int width;        /* columns of text: right > 0, left < 0; 0: the last one, of any length */
};

struct listing {
	const struct listing_column *column;
	int at;                /* the column of the next value */
	FILE *text;            /* lines for people, or NULL */
	struct json *json;     /* rows, into the array that is open there, or NULL */
	struct whole_file csv; /* csv.out: NULL if none was asked for */
	bool has_rows;         /* the headings stand */
	char shown[512];       /* text of the next value, in place of its own */
};

/* Rows go to `text` unless `json` is given, and as CSV to the file `csv` unless it is NULL, whose
 * name must outlive the listing. Headings are written with the first row. On failure there is
 * nothing to close, and `json` is dropped. */
int listing_open(struct listing *l, const struct listing_column *columns, FILE *text,
	struct json *json, const char *csv, struct err *e);
/* The CSV file is complete with this, or not written if `failed`. */
int listing_close(struct listing *l, int failed, struct err *e);
/* The same where nothing follows: the JSON is printed, too, or dropped. -1 also if `failed`. */
int listing_end(struct listing *l, int failed, struct err *e);

void listing_int(struct listing *l, int64_t value);
/* digits: significant ones, also in text unless listing_as() was called; not finite: "-", null */
void listing_real(struct listing *l, double value, int digits);
void listing_bool(struct listing *l, bool value); /* in CSV 1 or 0 */
void listing_text(struct listing *l, const char *value /* NULL: unknown */);
/* What text shows in place of the next value. */
void listing_as(struct listing *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A local date and time, of seconds since 1970. */
void listing_as_time(struct listing *l, int64_t seconds);

/* A quoted field; one that a spreadsheet would compute begins with an apostrophe. Bytes of no UTF-8
 * are <XX>. */
void csv_text(FILE *out, const char *text, size_t size);
