/* See timeline_dump.h. Made from the tables of timeline_fields.c; items with nothing in them are
 * left out. */
#include "tests/support/timeline_dump.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fold/timeline_fields.h"

/* Most of a dump are names and integers: fprintf() would take most of the time of its tests. */
static void dump_name(FILE *f, const char *name)
{
	putc_unlocked(' ', f);
	fputs_unlocked(name, f);
	putc_unlocked('=', f);
}

static void dump_int(FILE *f, int64_t v)
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char text[24], *at = text + sizeof text;

	do
		*--at = (char)('0' + left % 10);
	while (left /= 10);
	if (v < 0)
		*--at = '-';
	fwrite_unlocked(at, 1, (size_t)(text + sizeof text - at), f);
}

/* Of a NaN only that it is one: its sign and payload mean nothing. */
static void dump_real(FILE *f, double v)
{
	fprintf(f, isnan(v) ? "nan" : "%a", v);
}

static void dump_text(FILE *f, const char *text)
{
	fputs(text ? "'" : "none", f);
	for (const char *p = text; p && *p; p++)
		if ((unsigned char)*p < 0x20)
			fprintf(f, "\\x%02x", (unsigned char)*p);
		else
			putc_unlocked(*p, f);
	if (text)
		fputc('\'', f);
}

/* Integers and reals of an event's struct; its spans are dumped where they were copied to. */
static void dump_event(FILE *f, enum ev_kind kind, const char *member)
{
	const struct ev_info *info = &ev_info[kind];

	for (int i = 0; i < info->n_fields; i++) {
		const struct ev_field *d = &info->fields[i];

		if (d->type < EV_TYPE_T)
			dump_name(f, d->name);
		if (d->type == EV_TYPE_I)
			dump_int(f, *(const int64_t *)(const void *)member);
		else if (d->type == EV_TYPE_R)
			dump_real(f, *(const double *)(const void *)member);
		member += ev_field_size(d->type);
	}
}

static bool is_zero(const char *item, size_t size)
{
	return !size || (!*item && !memcmp(item, item + 1, size - 1));
}

static void dump_struct(
	FILE *out, const struct timeline *t, const struct tl_shape *s, const void *of);

static void dump_items(
	FILE *out, const struct timeline *t, const struct tl_field *f, const void *of)
{
	int32_t n;
	const char *items = tl_items(f, of, &n);
	bool numbers = !f->of->field->name[0] && f->of->field->type != TL_EVENT;

	for (int32_t i = 0; i < n; i++) {
		const void *item = items + (size_t)i * f->of->size;

		if (numbers && !i)
			fprintf(out, "\n %s", f->name);
		if (numbers)
			fputc(' ', out);
		else if (is_zero(item, f->of->size))
			continue;
		else
			fprintf(out, "\n%s %d", f->name, i);
		dump_struct(out, t, f->of, f->of->whole ? f->of->whole(t, item) : item);
	}
}

static void dump_struct(
	FILE *out, const struct timeline *t, const struct tl_shape *s, const void *of)
{
	for (const struct tl_field *f = s->field; f->name; f++) {
		const char *at = (const char *)of + f->at;

		if (f->name[0] && f->type < TL_ITEMS)
			dump_name(out, f->name);
		switch (f->type) {
		case TL_F32: dump_real(out, (double)*(const float *)(const void *)at); break;
		case TL_F64: dump_real(out, *(const double *)(const void *)at); break;
		case TL_STRING: dump_text(out, *(char *const *)(const void *)at); break;
		case TL_CHARS: dump_text(out, at); break;
		case TL_EVENT: dump_event(out, f->event, at); break;
		case TL_ITEMS: dump_items(out, t, f, of); break;
		case TL_HIDDEN: break;
		default: dump_int(out, tl_number(f, of));
		}
	}
}

char *timeline_dump(const struct timeline *t)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	dump_struct(f, t, &tl_shape_timeline, t);
	fputc('\n', f);
	fclose(f);
	return text;
}
