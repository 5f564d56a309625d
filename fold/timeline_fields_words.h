/* The words of which timeline_fields.c makes its tables: for that file alone. STRUCT is the struct
 * of the table. */
#ifndef CUTAWAY_FOLD_TIMELINE_FIELDS_WORDS_H
#define CUTAWAY_FOLD_TIMELINE_FIELDS_WORDS_H

/* clang-format off */
#define TYPE_OF(x)                                                                                 \
	_Generic((x), int64_t: TL_I64, int32_t: TL_I32, uint32_t: TL_U32, uint8_t: TL_U8,              \
			 bool: TL_FLAG, float: TL_F32, double: TL_F64, char *: TL_STRING)
#define M(m) ((STRUCT *)0)->m
#define FIELD(m, t) .name = #m, .type = t, .at = offsetof(STRUCT, m), .size = sizeof M(m)
#define F(m) { FIELD(m, TYPE_OF(M(m))) }
#define K(m) { FIELD(m, TYPE_OF(M(m))), .kept = true }
#define HIDDEN(m) { FIELD(m, TL_HIDDEN) }
#define CHARS(m) { FIELD(m, TL_CHARS) }
#define EVENT(m, kind) { FIELD(m, TL_EVENT), .event = EV_##kind }
#define FIELDS(shape, ...) static const struct tl_field shape##_fields[] = { __VA_ARGS__, END }
#define COUNT(n) .at_n = offsetof(STRUCT, n), .size_n = sizeof M(n)
#define ITEMS_OF(m, shape) FIELD(m, TL_ITEMS), .of = &tl_shape_##shape
/* Where a pointer points to: so many, with room for so many; or as a function says. */
#define ARRAY(m, shape, n) ITEMS_OF(m, shape), .pointed = true, COUNT(n)
#define GROWING(m, shape, n, cap) ARRAY(m, shape, n), .at_cap = offsetof(STRUCT, cap)
#define COUNTED(m, shape, fn) ITEMS_OF(m, shape), .pointed = true, .count = fn
/* Within the struct. */
#define INLINE(m, shape, n) ITEMS_OF(m, shape), COUNT(n)
#define KEPT .kept = true
#define END { .name = NULL }

#define SHAPE(shape, ...)                                                                          \
	const struct tl_shape tl_shape_##shape = { .field = shape##_fields, .size = sizeof(STRUCT),    \
											   .most = __VA_ARGS__ }
#define ANY (1 << 30)
/* clang-format on */

#endif
