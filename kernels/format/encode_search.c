/* See encode.h: formats whose scales are searched. Of each part (16 or 32 weights with a scale of
 * their own) several steps are tried around the one that the extremes give; for each, the codes are
 * the nearest, and scale and minimum those of least weighted squares for these codes. (The idea is
 * that of ggml's make_qx_quants and make_qkx2_quants.) Then the parts' scales are rounded, too, and
 * the codes are those nearest to the weights under the rounded scales. */
#include <math.h>
#include <string.h>

#include "kernels/format/encode_impl.h"

enum { TRIES = 9 /* steps on either side */, MOST_PARTS = 16 };

struct part {
	float scale, min; /* weight = scale * value - min, min >= 0 */
};

/* Errors of large weights count more: they meet the same activations, and move the sum further. */
static float importance(float x, float rms)
{
	return rms + fabsf(x);
}

static float rms_of(const float *x, int32_t n)
{
	float sum = 0;

	for (int32_t k = 0; k < n; k++)
		sum += x[k] * x[k];
	return sqrtf(sum / (float)n);
}

static float error_of(enum k_type type, const float *x, int32_t n, float rms, struct part p)
{
	float sum = 0;

	for (int32_t k = 0; k < n; k++) {
		const int32_t code = k_nearest_code(type, p.scale, x[k] + p.min);
		const float value = (float)k_code_value(type, code);
		const float d = p.scale * value - p.min - x[k];

		sum += importance(x[k], rms) * d * d;
	}
	return sum;
}

/* Least squares of scale and minimum for the codes that p gives; without a minimum, of the scale.
 */
static struct part refit(enum k_type type, const float *x, int32_t n, float rms, struct part p)
{
	double w = 0, wx = 0, wv = 0, wvv = 0, wvx = 0, det;

	for (int32_t k = 0; k < n; k++) {
		const int32_t code = k_nearest_code(type, p.scale, x[k] + p.min);
		const double value = k_code_value(type, code);
		const double weight = (double)importance(x[k], rms);

		w += weight;
		wx += weight * (double)x[k];
		wv += weight * value;
		wvv += weight * value * value;
		wvx += weight * value * (double)x[k];
	}
	det = w * wvv - wv * wv;
	if (k_has_min(type) && det > 0) {
		const struct part q = { (float)((w * wvx - wv * wx) / det),
			(float)((wv * wvx - wvv * wx) / det) };

		if (q.min >= 0)
			return q;
		p.min = 0;
	}
	if (wvv > 0)
		p.scale = (float)((wvx + (double)p.min * wv) / wvv);
	return p;
}

/* The scale that the extremes give, with `steps` in place of the number of steps. */
static struct part from_extremes(enum k_type type, const float *x, int32_t n, float steps)
{
	float low = 0, high = 0;

	for (int32_t k = 0; k < n; k++) {
		low = x[k] < low ? x[k] : low;
		high = x[k] > high ? x[k] : high;
	}
	if (k_has_min(type))
		return (struct part){ (high - low) / steps, -low };
	return (struct part){ (high > -low ? high : low) / -steps, 0 };
}

static struct part fit_part(enum k_type type, const float *x, int32_t n)
{
	const float steps = (float)(k_has_min(type) ? k_most(type) : -k_least(type));
	const float rms = rms_of(x, n);
	struct part best = from_extremes(type, x, n, steps);
	float least = error_of(type, x, n, rms, best);

	for (int i = -TRIES; i <= TRIES && least > 0; i++) {
		const struct part p =
			refit(type, x, n, rms, from_extremes(type, x, n, steps + 0.1f * (float)i));
		const float error = error_of(type, x, n, rms, p);

		if (error < least) {
			best = p;
			least = error;
		}
	}
	return best;
}

/* ---- a block's own scales ---- */

/* Stores sub-scale s and its minimum in zeroed bytes, the inverse of what formats.c reads. */
static void put_sub(int32_t subs, uint8_t *p, int32_t s, int32_t scale, int32_t min)
{
	const int32_t six = scale + 32;

	if (subs == K_SUBS_8X6) {
		p[2 + s / 2] |= (uint8_t)((six & 15) << s % 2 * 4);
		p[s / 4] |= (uint8_t)(six >> 4 << s % 4 * 2);
	} else if (subs == K_SUBS_16X6) {
		p[s % 8] |= (uint8_t)((six & 15) << s / 8 * 4);
		p[8 + s % 4] |= (uint8_t)(six >> 4 << s / 4 * 2);
	} else if (subs == K_SUBS_8X6M && s < 4) {
		p[s] |= (uint8_t)scale;
		p[s + 4] |= (uint8_t)min;
	} else if (subs == K_SUBS_8X6M) {
		p[s + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
		p[s - 4] |= (uint8_t)(scale >> 4 << 6);
		p[s] |= (uint8_t)(min >> 4 << 6);
	} else if (subs == K_SUBS_16X4M) {
		p[s] = (uint8_t)(scale | min << 4);
	} else {
		p[s] = (uint8_t)scale;
	}
}

/* The least and the most that a sub-scale may be. */
static int32_t sub_most(int32_t subs)
{
	return subs == K_SUBS_16X4M ? 15 : subs == K_SUBS_8X6M ? 63 : subs == K_SUBS_16X8 ? 127 : 31;
}
static int32_t sub_least(int32_t subs)
{
	return subs == K_SUBS_16X4M || subs == K_SUBS_8X6M ? 0 : -sub_most(subs) - 1;
}

/* Rounds the parts' scales and minima to multiples of the block's. A signed scale of the greatest
 * magnitude becomes the least multiple. */
static void put_scales(enum k_type type, const struct part *p, int32_t n, uint8_t *block)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t most = sub_most(f.subs), least = sub_least(f.subs);
	float scale = 0, min = 0, d, m;

	for (int32_t i = 0; i < n; i++) {
		scale = fabsf(p[i].scale) > fabsf(scale) ? p[i].scale : scale;
		min = p[i].min > min ? p[i].min : min;
	}
	d = k_put_half(block + f.at, scale / (float)(least ? least : most));
	m = k_has_min(type) ? k_put_half(block + f.min_at, min / (float)most) : 0;
	for (int32_t i = 0; i < n; i++)
		put_sub(f.subs, block + f.subs_at, i,
			d != 0 ? k_nearest_int(p[i].scale / d, least, most) : 0,
			m > 0 ? k_nearest_int(p[i].min / m, 0, most) : 0);
}

void k_encode_search(enum k_type type, const float *x, uint8_t *block)
{
	const struct k_facts f = k_facts_of(type);
	const int32_t per = !f.subs ? f.block : k_has_halves(type) ? 16 : 32, n = f.block / per;
	struct part part[MOST_PARTS];

	for (int32_t i = 0; i < n; i++)
		part[i] = fit_part(type, x + i * per, per);
	if (f.subs)
		put_scales(type, part, n, block);
	else
		k_put_half(block + f.at, part[0].scale);
	for (int32_t k = 0; k < f.block; k++)
		k_round_to(type, block, k, x[k]);
}
