/* See listing.h. */
#include "base/listing.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "base/text.h"

void csv_text(FILE *out, const char *text, size_t size)
{
	putc('"', out);
	if (size && strchr("=+-@\t\r", text[0]))
		putc('\'', out);
	for (size_t i = 0; i < size;) {
		utf8proc_int32_t c;
		utf8proc_ssize_t n =
			utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(size - i), &c);

		if (n < 1) { /* a token may be part of a character */
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

int listing_open(struct listing *l, const struct listing_column *columns, int n, FILE *text,
	struct json *json, const char *csv, struct err *e)
{
	*l = (struct listing){ .column = columns, .n = n, .text = json ? NULL : text, .json = json };
	if (!csv)
		return 0;
	if (whole_file_open(&l->csv, csv, e))
		return -1;
	for (int i = 0, first = 1; i < n; i++)
		if (columns[i].key) {
			fprintf(l->csv.out, "%s%s", first ? "" : ",", columns[i].key);
			first = 0;
		}
	fputs("\r\n", l->csv.out);
	return 0;
}

int listing_close(struct listing *l, int failed, struct err *e)
{
	return l->csv.out ? whole_file_close(&l->csv, failed, e) : 0;
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
		fprintf(l->text, "%s%*s%.*s%*s", l->follows ? " " : "", w > 0 ? pad : 0, "", (int)n, shown,
			w < 0 ? pad : 0, "");
	l->follows = true;
	free(clean);
}

static void put_heads(struct listing *l)
{
	for (l->at = 0; l->at < l->n; l->at++)
		if (l->column[l->at].head)
			put(l, l->column[l->at].head);
	putc('\n', l->text);
	l->has_rows = true;
	l->follows = false;
	l->at = 0;
}

/* ---- values ---- */

/* Text that the value has; then the next column's turn. */
static void end_value(struct listing *l, const char *text)
{
	const struct listing_column *c = &l->column[l->at];

	if (l->text && !l->has_rows)
		put_heads(l);
	if (l->text && c->head)
		put(l, *l->shown ? l->shown : text);
	*l->shown = '\0';
	if (++l->at < l->n)
		return;
	if (l->text)
		putc('\n', l->text);
	if (l->json)
		json_end(l->json);
	if (l->csv.out)
		fputs("\r\n", l->csv.out);
	l->at = 0;
	l->follows = l->csv_follows = false;
}

/* The value's key where it goes to JSON, NULL where it does not; CSV gets its comma. */
static const char *begin_value(struct listing *l)
{
	const char *key = l->column[l->at].key;

	if (l->json && !l->at)
		json_object(l->json, NULL);
	if (key && l->csv.out && l->csv_follows)
		putc(',', l->csv.out);
	l->csv_follows |= key != NULL;
	return key;
}

static FILE *csv_of(const struct listing *l, const char *key)
{
	return key ? l->csv.out : NULL;
}

void listing_int(struct listing *l, int64_t value)
{
	const char *key = begin_value(l);
	char text[24];

	snprintf(text, sizeof text, "%lld", (long long)value);
	if (l->json && key)
		json_int(l->json, key, value);
	if (csv_of(l, key))
		fputs(text, l->csv.out);
	end_value(l, text);
}

void listing_real(struct listing *l, double value, int digits)
{
	const char *key = begin_value(l);
	char text[40] = "-";

	if (isfinite(value))
		snprintf(text, sizeof text, "%.*g", digits, value);
	if (l->json && key)
		json_real(l->json, key, value, digits);
	if (csv_of(l, key) && isfinite(value))
		fputs(text, l->csv.out);
	end_value(l, text);
}

void listing_bool(struct listing *l, bool value)
{
	const char *key = begin_value(l);

	if (l->json && key)
		json_bool(l->json, key, value);
	if (csv_of(l, key))
		putc(value ? '1' : '0', l->csv.out);
	end_value(l, value ? "yes" : "no");
}

void listing_text(struct listing *l, const char *value)
{
	const char *key = begin_value(l);

	if (l->json && key && value)
		json_text(l->json, key, value);
	else if (l->json && key)
		json_null(l->json, key);
	if (csv_of(l, key) && value)
		csv_text(l->csv.out, value, strlen(value));
	end_value(l, value ? value : "-");
}

void listing_as(struct listing *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(l->shown, sizeof l->shown, fmt, ap);
	va_end(ap);
}
