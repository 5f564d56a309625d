/* The price of bits: a model rounded in several ways, each scored on one text beside the model
 * itself (the exact twin), with true bits a weight and, for formats of files, the measured speed.
 * Thread: any one. */
#pragma once

#include <stdio.h>

#include "lab/quant.h"
#include "sessions/price/prices.h"

enum { CURVE_POINTS = 64 };

struct curve_point {
	/* what it is, by the caller */
	enum quant_method method;
	struct quant_form form;
	/* what it costs */
	bool done;
	double bits;          /* of a rounded weight, with its share of the scales */
	double error;         /* see struct quant_result */
	struct prices prices; /* of the text, beside the model itself */
	double tok_s;         /* decoding; 0: not measured (values of a grid are kept as floats) */
	double seconds;       /* of rounding */
};

struct curve_options {
	const char *model;
	const char *text; /* to score [size]; no calibration text */
	size_t size;
	struct change_options common;
};

/* Rounds into a temporary file (TMPDIR), scores and times it, and removes it. */
int curve_measure(struct curve_point *p, const struct curve_options *o, struct err *e);
/* KL over bits as characters, w x h; the methods by their letters. */
void curve_draw(const struct curve_point *p, int n, int w, int h, FILE *out);
void curve_svg(const struct curve_point *p, int n, const char *title, FILE *out);
