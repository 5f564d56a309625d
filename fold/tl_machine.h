/* Part of the timeline (timeline.h): what was measured of the model and of the machine. Thread:
 * that of the timeline. */
#ifndef CUTAWAY_FOLD_TL_MACHINE_H
#define CUTAWAY_FOLD_TL_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

/* An input of products, as it was measured last: see the event outliers. */
enum { TL_TOP = 8, TL_MOST_OUTLIERS = 4096 };
struct tl_outliers {
	int32_t layer, stage, channels, above_six, n_top;
	double largest, median, smoothed;
	int32_t channel[TL_TOP]; /* [n_top] */
	float size[TL_TOP];
};

/* A layer, as it was measured last: see the event importance. */
enum { TL_IMPORTANT_HEADS = 64, TL_SIXTEENTHS = 16 };
struct tl_importance {
	int32_t layer, channels, n_heads, n_least;
	double influence;
	float head[TL_IMPORTANT_HEADS]; /* [n_heads] the first ones */
	float least[TL_SIXTEENTHS];     /* [n_least] */
};

/* Matrix products of the model, and readings of the machine: see the events. */
enum { TL_PRODUCTS = 64 };
struct tl_product {
	int32_t stage, inputs, outputs, n;
	double weights; /* of all n */
	int64_t bytes, row_bytes;
	bool each_row;
	char format[12];
};
struct ev_product;
/* False: it makes no sense. */
bool tl_product_of(struct tl_product *p, const struct ev_product *e);

struct tl_roof { /* the best of n readings; 0: not measured */
	double reads, least, ints, floats;
	int32_t n;
	int64_t t_ns; /* of the newest reading */
};

#endif
