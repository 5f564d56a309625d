/* What the structs of the timeline hold, as tables: dump, free and keyframes are made from them. A
 * member that a keyframe holds is K(), any other F(); test_fold finds one that no table has.
 *
 * To add a member: its line in the table of its struct. To add a struct: a table, and a line in
 * that of whoever holds it. Thread: any one; the tables never change. */
#pragma once

#include <stddef.h>

#include "fold/timeline.h"

enum tl_type {
	TL_I64,
	TL_I32,
	TL_U32,
	TL_U8,
	TL_FLAG,
	TL_F32,
	TL_F64,    /* U32: enums too */
	TL_STRING, /* char *, ours; may be NULL */
	TL_CHARS,  /* char [size], ends with a NUL */
	TL_EVENT,  /* struct ev_x of kind `event`; its spans are not valid */
	TL_ITEMS,  /* an array that a pointer of ours points to, or within the struct */
	TL_HIDDEN, /* follows from other members: neither dumped nor kept */
};

struct tl_shape;
struct tl_field {
	const char *name; /* "": of an array of plain numbers; NULL: after the last */
	enum tl_type type;
	uint32_t at, size; /* bytes; size of the whole member */
	bool kept;         /* in a keyframe */
	enum ev_kind event;
	const struct tl_shape *of; /* of items */
	bool pointed;              /* the items lie where a pointer points to */
	uint32_t at_n, size_n;     /* their number; size_n 0: as many as the member has room for */
	uint32_t at_cap;           /* of an array that may grow; 0: it may not */
	int32_t (*count)(const void *of); /* their number, where it is no member */
};

struct tl_shape {
	const struct tl_field *field;
	uint32_t size;
	int32_t most; /* items there can be */
	bool sparse;  /* most items have nothing in them */
	bool counts;  /* its numbers that a keyframe holds are 0 or more, and never absent */
	/* The item with all that is known of it; NULL: as it is. */
	const void *(*whole)(const struct timeline *t, const void *item);
	/* Completes an item that was read from a keyframe; false: it is not sound. NULL: nothing to do.
	 * Of a sparse array those with nothing in them are not touched. */
	bool (*read)(void *item);
};

extern const struct tl_shape tl_shape_timeline, tl_shape_request, tl_shape_abandoned,
	tl_shape_token, tl_shape_search;

/* Items of a field in the struct at `of`: where, and how many. */
const char *tl_items(const struct tl_field *f, const void *of, int32_t *n);
/* An integer of any size. */
int64_t tl_number(const struct tl_field *f, const void *of);
/* Frees what the struct points to, all the way down; not the struct. */
void tl_free(const struct tl_shape *s, void *of);
