/* See form.h. */
#include "engine/model/form.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "kernels/arith.h"
#include "kernels/format/cache.h"
#include "kernels/format/encode.h"

enum {
	TWICE = 256, /* scales that share one */
	STRIP = 128, /* columns stored at once */
};

#define E4M3_MOST 448.0f

/* bitsandbytes' table: quantiles of a normal distribution, scaled to -1 … 1, with a 0. */
static const float nf4[16] = { -1.0f, -0.6961928009986877f, -0.5250730514526367f,
	-0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f,
	0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
	0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f };

int32_t form_unit(const struct quant_form *f, int32_t n_cols)
{
	return !f->bits ? k_types[f->type].block : f->group > 0 ? f->group : n_cols;
}

double form_bits(const struct quant_form *f, int64_t rows, int64_t cols)
{
	const double n = (double)rows * (double)cols;
	const int32_t of_row = form_units(form_unit(f, (int32_t)cols), (int32_t)cols);
	const double units = f->group == FORM_TENSOR ? 1 : (double)rows * of_row;

	if (!f->bits)
		return 8.0 * k_types[f->type].block_bytes / k_types[f->type].block;
	if (f->twice) /* the mean of the tensor's scales, and a factor for each 256 of them */
		return f->bits + (8 * units + 32 * ceil(units / TWICE) + 32) / n;
	return f->bits + units * (16 + (f->zero_point ? f->bits : 0)) / n;
}

const char *form_name(const struct quant_form *f, char buf[32])
{
	char group[12], bits[12];

	if (!f->bits)
		return k_types[f->type].name;
	snprintf(group, sizeof group, "%d", f->group);
	snprintf(bits, sizeof bits, "%d-bit", f->bits);
	snprintf(buf, 32, "%s/%s%s%s",
		f->nf4    ? "nf4"
		: f->e4m3 ? "e4m3"
				  : bits,
		f->group == FORM_ROW      ? "row"
		: f->group == FORM_TENSOR ? "tensor"
								  : group,
		f->zero_point ? "z" : "", f->twice ? "d" : "");
	return buf;
}

bool form_type(const char *name, enum k_type *out)
{
	for (int t = 0; t < K_N_TYPES; t++)
		if (!strcasecmp(name, k_types[t].name)) {
			*out = (enum k_type)t;
			return true;
		}
	return false;
}

const char *form_group(const char *s, int32_t *out)
{
	char *end;
	const long n = strtol(s, &end, 10);

	*out = FORM_ROW;
	if (!strncmp(s, "row", 3))
		return s + 3;
	*out = FORM_TENSOR;
	if (!strncmp(s, "tensor", 6))
		return s + 6;
	*out = (int32_t)n;
	return n >= 1 && n <= 1 << 20 ? end : NULL;
}

/* "/32zd" or "": the group and its marks; false: not so. */
static bool parse_group(const char *s, struct quant_form *f)
{
	f->group = 128;
	if (!*s)
		return true;
	s = *s == '/' ? form_group(s + 1, &f->group) : NULL;
	if (!s)
		return false;
	f->zero_point = *s == 'z';
	s += f->zero_point;
	f->twice = *s == 'd';
	return !s[f->twice];
}

int form_parse(const char *text, struct quant_form *out, struct err *e)
{
	const char *s = text;
	char *end;

	*out = (struct quant_form){ 0 };
	if (form_type(text, &out->type))
		return 0;
	*out = (struct quant_form){ .type = K_F16,
		.bits = 4,
		.nf4 = !strncasecmp(text, "nf4", 3),
		.e4m3 = !strncasecmp(text, "e4m3", 4) };
	if (out->nf4) {
		s += 3;
	} else if (out->e4m3) {
		out->bits = 8;
		s += 4;
	} else {
		const long bits = strtol(text, &end, 10);

		out->bits = bits >= 2 && bits <= 8 ? (int32_t)bits : 0;
		s = end + (strncasecmp(end, "-bit", 4) ? 0 : 4);
	}
	if (!out->bits || !parse_group(s, out))
		return err_set(e, ERR_USAGE,
			"weights %.40s: a grid as 4/32 (2 to 8 bits; a group of columns, row or tensor; z: "
			"with a zero point), nf4/64, e4m3/row, or a format as q4_0 is needed",
			text);
	return form_check(out, e);
}

int form_check(const struct quant_form *f, struct err *e)
{
	if (!f->bits)
		return 0;
	if (f->type != K_F16 && f->type != K_F32)
		return err_set(e, ERR_USAGE, "a grid's values are kept as f16 or f32, not as %s",
			k_types[f->type].name);
	if (f->nf4 && (f->zero_point || f->bits != 4))
		return err_set(e, ERR_USAGE, "nf4 has 4 bits and no zero point");
	if (f->e4m3 && (f->zero_point || f->bits != 8 || f->nf4))
		return err_set(e, ERR_USAGE, "e4m3 has 8 bits and no zero point");
	if (f->twice && (f->zero_point || f->group <= 0))
		return err_set(e, ERR_USAGE,
			"double quantisation is for the scales of groups of columns, as 64, without a zero "
			"point");
	return 0;
}

/* ---- a unit ---- */

static float stored(const struct quant_form *f, float x)
{
	return f->type == K_F16 ? k_f16_to_f32(k_f32_to_f16(x)) : x;
}

static void fit_grid(const struct quant_form *f, struct form_unit *u, const float *x, int64_t n)
{
	const float most = (float)((1 << f->bits) - 1);
	float low = 0, high = 0;

	for (int64_t k = 0; k < n; k++) {
		low = x[k] < low ? x[k] : low;
		high = x[k] > high ? x[k] : high;
	}
	if (!f->zero_point) {
		high = high > -low ? high : -low;
		low = -high;
	}
	u->scale = k_f16_to_f32(k_f32_to_f16(f->nf4    ? high
										 : f->e4m3 ? high / E4M3_MOST
												   : (high - low) / most));
	u->zero = !f->zero_point ? (most + 1) / 2 : u->scale > 0 ? rintf(-low / u->scale) : 0;
}

void form_fit(const struct quant_form *f, struct form_unit *u, const float *x, int64_t n)
{
	if (f->bits)
		fit_grid(f, u, x, n);
	else
		k_encode(f->type, x, n, u->block);
}

static float nearest_nf4(float x)
{
	float best = nf4[0];

	for (int i = 1; i < 16; i++)
		best = fabsf(nf4[i] - x) < fabsf(best - x) ? nf4[i] : best;
	return best;
}

float form_round(const struct quant_form *f, const struct form_unit *u, int32_t k, float x)
{
	const float most = (float)((1 << f->bits) - 1);
	float q;

	if (!f->bits)
		return k_round_to(f->type, u->block, k, x);
	if (!(u->scale > 0))
		return 0;
	if (f->nf4)
		return stored(f, u->scale * nearest_nf4(x / u->scale));
	if (f->e4m3)
		return stored(f, u->scale * k_of_e4m3(k_to_e4m3(x / u->scale)));
	q = rintf(x / u->scale) + u->zero;
	q = q > 0 ? q < most ? q : most : 0;
	return stored(f, u->scale * (q - u->zero));
}

/* ---- scales of more than a row ---- */

/* 8 bits each: e4m3 of what separates a scale from the mean of all, by the greatest of 256. */
static void round_scales(struct form_unit *u, int64_t n)
{
	double sum = 0;
	float mean;

	for (int64_t i = 0; i < n; i++)
		sum += (double)u[i].scale;
	mean = (float)(sum / (double)n);
	for (int64_t at = 0; at < n; at += TWICE) {
		const int64_t end = at + TWICE < n ? at + TWICE : n;
		float most = 0;

		for (int64_t i = at; i < end; i++)
			most = fabsf(u[i].scale - mean) > most ? fabsf(u[i].scale - mean) : most;
		for (int64_t i = at; i < end && most > 0; i++)
			u[i].scale = mean + most / E4M3_MOST *
									k_of_e4m3(k_to_e4m3((u[i].scale - mean) / most * E4M3_MOST));
	}
}

int form_scales_make(const struct quant_form *f, struct form_scales *s, const float *x,
	int64_t rows, int64_t cols, struct err *e)
{
	const bool one = f->group == FORM_TENSOR;
	const int64_t unit = one ? rows * cols : form_unit(f, (int32_t)cols);
	const int64_t of_row = one ? 1 : form_units((int32_t)unit, (int32_t)cols);

	*s = (struct form_scales){ 0 };
	if (!form_needs_all(f))
		return 0;
	s->n = one ? 1 : rows * of_row;
	s->unit = calloc((size_t)s->n, sizeof *s->unit);
	if (!s->unit)
		return err_no_memory(e, "%lld scales", (long long)s->n);
	for (int64_t i = 0; i < s->n; i++) {
		const int64_t at = i % of_row * unit, left = one ? unit : cols - at;

		form_fit(f, &s->unit[i], x + i / of_row * cols + at, left < unit ? left : unit);
	}
	if (f->twice)
		round_scales(s->unit, s->n);
	return 0;
}

/* ---- a row ---- */

static void grid_row(const struct quant_form *f, const struct form_scales *s, int64_t r,
	const float *x, int32_t cols, uint8_t *out)
{
	const int32_t unit = form_unit(f, cols);
	const size_t bytes = (size_t)k_types[f->type].block_bytes;
	float value[STRIP];

	for (int32_t at = 0; at < cols; at += unit) {
		const int32_t end = at + unit < cols ? at + unit : cols;
		struct form_unit u = { 0 };

		if (s->n)
			u = s->unit[s->n == 1 ? 0 : r * form_units(unit, cols) + at / unit];
		else
			form_fit(f, &u, x + at, end - at);
		for (int32_t from = at, n; from < end; from += n) {
			n = end - from < STRIP ? end - from : STRIP;
			for (int32_t k = 0; k < n; k++)
				value[k] = form_round(f, &u, from - at + k, x[from + k]);
			k_encode(f->type, value, n, out + (size_t)from * bytes);
		}
	}
}

void form_row(const struct quant_form *f, const struct form_scales *s, int64_t r, const float *x,
	int32_t cols, uint8_t *out)
{
	if (f->bits)
		grid_row(f, s, r, x, cols, out);
	else
		k_encode(f->type, x, cols, out);
}

void form_row_apart(const struct quant_form *f, const bool *apart, const float *w, int32_t cols,
	float *x, uint8_t *out)
{
	const size_t bytes = (size_t)k_types[f->type].block_bytes;

	for (int32_t c = 0; c < cols; c++)
		x[c] = apart[c] ? 0 : w[c];
	form_row(f, &(struct form_scales){ 0 }, 0, x, cols, out);
	for (int32_t c = 0; c < cols; c++)
		if (apart[c])
			k_encode(f->type, &w[c], 1, out + (size_t)c * bytes);
}
