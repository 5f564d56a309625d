/* See listing.h. */
#include "base/listing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

void csv_text(FILE *out, const char *text, size_t size)
{
	putc('"', out);
	if (size && strchr("=+-@\t\r", text[0]))
		putc('\'', out);
	for (size_t i = 0; i < size;) {
		int32_t c;
		const size_t n = text_point(text + i, size - i, &c);

		if (c < 0) { /* a token may be part of a character */
			fprintf(out, "<%02X>", (unsigned char)text[i]);
			i++;
			continue;
		}
		if (c == '"')
			putc('"', out);
		if (c)
			fwrite(text + i, 1, (size_t)n, out);
		i += (size_t)n;
	}
	putc('"', out);
}

static bool is_end(const struct listing_column *c)
{
	return !c->key && !c->head;
}

int listing_open(struct listing *l, const struct listing_column *columns, FILE *text,
	struct json *json, const char *csv, struct err *e)
{
	*l = (struct listing){ .column = columns, .text = json ? NULL : text, .json = json };
	if (!csv)
		return 0;
	if (whole_file_open(&l->csv, csv, e)) {
		if (json)
			json_drop(json);
		return -1;
	}
	for (int i = 0; !is_end(&columns[i]); i++)
		if (columns[i].key)
			fprintf(l->csv.out, "%s%s", i ? "," : "", columns[i].key);
	fputs("\r\n", l->csv.out);
	return 0;
}

int listing_close(struct listing *l, int failed, struct err *e)
{
	return l->csv.out ? whole_file_close(&l->csv, failed, e) : 0;
}

int listing_end(struct listing *l, int failed, struct err *e)
{
	int rc = listing_close(l, failed, e) || failed ? -1 : 0;

	if (!rc && l->json)
		rc = json_print(l->json, e);
	if (l->json)
		json_drop(l->json);
	return rc;
}

/* ---- text ---- */

static void put(struct listing *l, const char *text)
{
	char *clean = text_clean(text, strlen(text), false, NULL);
	const char *shown = clean ? clean : "";
	const int w = l->column[l->at].width, room = abs(w);
	size_t next, n = w ? text_line(shown, room, false, &next) : strlen(shown);
	const int pad = w ? room - text_width(shown, n, false) : 0;

	if (w || n)
		fprintf(l->text, "%s%*s%.*s%*s", l->at ? " " : "", w > 0 ? pad : 0, "", (int)n, shown,
			w < 0 ? pad : 0, "");
	free(clean);
}

static void put_heads(struct listing *l)
{
	for (l->at = 0; !is_end(&l->column[l->at]); l->at++)
		if (l->column[l->at].head)
			put(l, l->column[l->at].head);
	putc('\n', l->text);
	l->has_rows = true;
	l->at = 0;
}

/* ---- values ---- */

/* The JSON that takes the next value; NULL: none. */
static struct json *json_next(const struct listing *l)
{
	if (l->json && !l->at)
		json_object(l->json, NULL);
	return l->column[l->at].key ? l->json : NULL;
}

/* The value as text, and in CSV (NULL: empty; quoted); then the next column's turn. */
static void put_value(struct listing *l, const char *text, const char *csv, bool quoted)
{
	FILE *out = l->column[l->at].key ? l->csv.out : NULL;

	if (out && l->at)
		putc(',', out);
	if (out && csv && quoted)
		csv_text(out, csv, strlen(csv));
	else if (out && csv)
		fputs(csv, out);
	if (l->text && !l->has_rows)
		put_heads(l);
	if (l->text && l->column[l->at].head)
		put(l, *l->shown ? l->shown : text);
	*l->shown = '\0';
	if (!is_end(&l->column[++l->at]))
		return;
	if (l->text)
		putc('\n', l->text);
	if (l->json)
		json_end(l->json);
	if (l->csv.out)
		fputs("\r\n", l->csv.out);
	l->at = 0;
}

void listing_int(struct listing *l, int64_t value)
{
	struct json *j = json_next(l);
	char text[24];

	snprintf(text, sizeof text, "%lld", (long long)value);
	if (j)
		json_int(j, l->column[l->at].key, value);
	put_value(l, text, text, false);
}

void listing_real(struct listing *l, double value, int digits)
{
	struct json *j = json_next(l);
	char text[40] = "-";

	if (isfinite(value))
		snprintf(text, sizeof text, "%.*g", digits, value);
	if (j)
		json_real(j, l->column[l->at].key, value, digits);
	put_value(l, text, isfinite(value) ? text : NULL, false);
}

void listing_bool(struct listing *l, bool value)
{
	struct json *j = json_next(l);

	if (j)
		json_bool(j, l->column[l->at].key, value);
	put_value(l, value ? "yes" : "no", value ? "1" : "0", false);
}

void listing_text(struct listing *l, const char *value)
{
	struct json *j = json_next(l);

	if (j && value)
		json_text(j, l->column[l->at].key, value);
	else if (j)
		json_null(j, l->column[l->at].key);
	put_value(l, value ? value : "-", value, true);
}

void listing_as(struct listing *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->shown, sizeof l->shown, fmt, ap);
	va_end(ap);
}

void listing_as_time(struct listing *l, int64_t seconds)
{
	const time_t t = (time_t)seconds;
	struct tm local;

	if (!localtime_r(&t, &local) || !strftime(l->shown, sizeof l->shown, "%Y-%m-%d %H:%M", &local))
		listing_as(l, "-");
}
