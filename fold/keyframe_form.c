/* See keyframe_form.h. */
#include "fold/keyframe_form.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { LONGEST = 10 };

/* For one number, of whatever length. */
static bool has_room(struct key_out *b)
{
	b->failed = b->failed || !ARRAY_ROOM(b->data, b->cap, b->size + LONGEST);
	return !b->failed;
}

void key_put(struct key_out *b, int64_t v)
{
	uint64_t u = (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);

	if (!has_room(b))
		return;
	for (; u > 127; u >>= 7)
		b->data[b->size++] = (unsigned char)(u | 128);
	b->data[b->size++] = (unsigned char)u;
}

int64_t key_get(struct key_in *in)
{
	uint64_t u = 0;

	for (int shift = 0; shift < 64 && in->at < in->end && !in->bad; shift += 7) {
		unsigned char c = *in->at++;

		u |= (uint64_t)(c & 127) << shift;
		if (c < 128)
			return (int64_t)(u >> 1 ^ (0 - (u & 1)));
	}
	in->bad = true;
	return 0;
}

static void put_float(struct key_out *b, float f)
{
	uint32_t bits;

	memcpy(&bits, &f, 4);
	if (!has_room(b))
		return;
	for (int i = 0; i < 4; i++)
		b->data[b->size++] = (unsigned char)(bits >> 8 * i);
}

static float get_float(struct key_in *in)
{
	uint32_t bits = 0;
	float f;

	in->bad |= in->end - in->at < 4;
	for (int i = 0; i < 4 && !in->bad; i++)
		bits |= (uint32_t)*in->at++ << 8 * i;
	memcpy(&f, &bits, 4);
	return f;
}

/* A struct within the struct. */
static bool is_part(const struct tl_field *f)
{
	return !f->pointed && !f->size_n && f->size == f->of->size;
}

static const void *part_of(const struct tl_field *f, const void *of)
{
	return of ? (const char *)of + f->at : NULL;
}

/* The first member of what has nothing in it is 0. */
static bool is_empty(const struct tl_shape *s, const void *item)
{
	return s->sparse && !tl_number(s->field, item);
}

void key_put_items(struct key_out *b, const struct tl_shape *s, const char *items, int32_t n)
{
	const char *before = NULL;
	int32_t last = -1;

	key_put(b, n);
	for (int32_t i = 0; i < n; i++) {
		const char *item = items + (size_t)i * s->size;

		if (is_empty(s, item))
			continue;
		if (s->sparse)
			key_put(b, i - last);
		key_put_struct(b, s, item, before);
		before = item;
		last = i;
	}
	if (s->sparse)
		key_put(b, 0);
}

void key_put_struct(struct key_out *b, const struct tl_shape *s, const void *of, const void *before)
{
	for (const struct tl_field *f = s->field; f->name; f++) {
		const char *items;
		int32_t n;

		if (!f->kept)
			continue;
		if (f->type == TL_ITEMS && is_part(f)) {
			key_put_struct(b, f->of, part_of(f, of), part_of(f, before));
		} else if (f->type == TL_ITEMS) {
			items = tl_items(f, of, &n);
			key_put_items(b, f->of, items, n);
		} else if (f->type == TL_F32) {
			put_float(b, *(const float *)(const void *)((const char *)of + f->at));
		} else {
			key_put(b, (int64_t)((uint64_t)tl_number(f, of) -
								 (before ? (uint64_t)tl_number(f, before) : 0)));
		}
	}
}

static int64_t most_of(enum tl_type type)
{
	return type == TL_I64   ? TL_INT_MAX
		   : type == TL_I32 ? INT32_MAX
		   : type == TL_U32 ? UINT32_MAX
		   : type == TL_U8  ? UINT8_MAX
							: 1;
}

static void get_number(struct key_in *in, const struct tl_shape *s, const struct tl_field *f,
	char *of, const void *before)
{
	const bool is_signed = (f->type == TL_I64 || f->type == TL_I32) && !s->counts;
	int64_t v = (int64_t)((uint64_t)key_get(in) + (before ? (uint64_t)tl_number(f, before) : 0));
	uint8_t small = (uint8_t)v;
	int32_t middle = (int32_t)(uint32_t)(uint64_t)v;

	in->bad |= (v < (is_signed ? -1 : 0) || v > most_of(f->type)) &&
			   (!is_signed || f->type != TL_I64 || v != EV_NULL_I);
	if (!in->bad)
		memcpy(of + f->at, f->size == 1 ? &small : f->size == 4 ? (void *)&middle : &v, f->size);
}

/* Room for n items of a field, all zeros. NULL: there are none, or too many to be true. */
static char *make_items(struct key_in *in, const struct tl_field *f, char *of, int64_t n)
{
	int32_t count = (int32_t)n;
	char *items = of + f->at;

	in->bad |= n < 0 || n > f->of->most || (!f->pointed && n > f->size / (int64_t)f->of->size) ||
			   (!f->of->sparse && n > in->end - in->at); /* an item has a byte at least */
	if (in->bad)
		return NULL;
	if (f->pointed) {
		memcpy(&items, of + f->at, sizeof items);
		free(items);
		items = n ? calloc((size_t)n, f->of->size) : NULL;
		in->bad = n && !items;
		count = items ? count : 0;
		memcpy(of + f->at, &items, sizeof items);
	}
	if (f->size_n)
		memcpy(of + f->at_n, &count, sizeof count);
	if (f->at_cap)
		memcpy(of + f->at_cap, &count, sizeof count);
	return items;
}

static void get_items(struct key_in *in, const struct tl_field *f, char *of)
{
	int64_t n = key_get(in), i = -1;
	char *items = make_items(in, f, of, n), *before = NULL;

	while (!in->bad) {
		int64_t by = f->of->sparse ? key_get(in) : i + 1 < n;

		in->bad |= by < 0 || by > n - 1 - i;
		if (in->bad || !by)
			return;
		i += by;
		key_get_struct(in, f->of, items + (size_t)i * f->of->size, before);
		before = items + (size_t)i * f->of->size;
		in->bad |= f->of->read && !f->of->read(before);
	}
}

void key_get_struct(struct key_in *in, const struct tl_shape *s, void *of, const void *before)
{
	for (const struct tl_field *f = s->field; f->name && !in->bad; f++) {
		if (!f->kept)
			continue;
		if (f->type == TL_ITEMS && is_part(f))
			key_get_struct(in, f->of, (char *)of + f->at, part_of(f, before));
		else if (f->type == TL_ITEMS)
			get_items(in, f, of);
		else if (f->type == TL_F32)
			*(float *)(void *)((char *)of + f->at) = get_float(in);
		else
			get_number(in, s, f, of, before);
	}
}
