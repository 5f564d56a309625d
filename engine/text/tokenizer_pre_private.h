/* The compiled form of a pre-tokenizer, see tokenizer_pre.h. */
#ifndef CUTAWAY_ENGINE_TOKENIZER_PRE_PRIVATE_H
#define CUTAWAY_ENGINE_TOKENIZER_PRE_PRIVATE_H

#include <utf8proc.h>

#include "engine/text/tokenizer_pre.h"

enum pre_op {
	PRE_DONE,
	PRE_RUN,  /* `least` to `most` of the class, as many as there are, or fewer if the rest asks */
	PRE_NOT,  /* no character of the class follows */
	PRE_LAST, /* the end of the piece */
	PRE_TRY,  /* what follows; if that fails, what stands at `other` (-1: nothing) */
	PRE_GOTO, /* `other` */
};

struct pre_code {
	enum pre_op op;
	int32_t class, other;
	uint32_t least, most;
};

/* A set of characters: these sorts and ranges, or all others; and of `also`, if it is not -1. */
struct pre_class {
	uint64_t ascii[2];   /* the answer for each ASCII character */
	uint32_t categories; /* beyond ASCII only these can be in it */
	uint32_t sorts;
	bool negated;
	int16_t range, n_ranges, also;
};

#define PRE_CODE 256
#define PRE_CLASSES 96
#define PRE_RANGES 512
#define PRE_BRANCHES 16
#define PRE_CATEGORIES 32
#define PRE_NO_CHARACTER 31 /* the category of bytes that are not UTF-8 */

struct pre {
	struct pre_code code[PRE_CODE];
	struct pre_class class[PRE_CLASSES];
	struct {
		int32_t first, last;
	} range[PRE_RANGES];
	int n_code, n_classes, n_ranges, n_steps;
	struct pre_step {
		int32_t branch[PRE_BRANCHES]; /* where each alternative begins in code */
		int n_branches;
		int32_t skips; /* class: where one of them fails, so does each that follows it; or -1 */
		/* Bit b: branch b can begin with this ASCII, or beyond it, [128 + category], with this
		 * sort. */
		uint16_t first[128 + PRE_CATEGORIES];
	} step[PRE_STEPS];
};

#define PRE_SPACE (1u << 31)
#define PRE_SEPARATORS                                                                             \
	(1u << UTF8PROC_CATEGORY_ZS | 1u << UTF8PROC_CATEGORY_ZL | 1u << UTF8PROC_CATEGORY_ZP)

/* What sort of character: the bit of its utf8proc_category_t, and PRE_SPACE; 0 for point -1. */
uint32_t pre_sorts(int32_t point);
bool pre_class_has(const struct pre *p, const struct pre_class *c, int32_t point, uint32_t sorts);

#endif
