/* RoPE's tables (rule 9), in double from + - * alone: libm's sin and cos differ in their last bits
 * between machines with and without FMA, and the tables are part of the arithmetic. Thread: any; no
 * state. */
#include "kernels/arith.h"
#include "kernels/kernels.h"

/* Taylor series of sin and cos on [-pi/4, pi/4]: the first terms left out are below 2^-54. */
static double sin_near_0(double x)
{
	double z = x * x, p = 1.0 / 355687428096000.0; /* 1/17! */

	p = p * z - 1.0 / 1307674368000.0;
	p = p * z + 1.0 / 6227020800.0;
	p = p * z - 1.0 / 39916800.0;
	p = p * z + 1.0 / 362880.0;
	p = p * z - 1.0 / 5040.0;
	p = p * z + 1.0 / 120.0;
	p = p * z - 1.0 / 6.0;
	return x + x * (z * p);
}

static double cos_near_0(double x)
{
	double z = x * x, p = 1.0 / 20922789888000.0; /* 1/16! */

	p = p * z - 1.0 / 87178291200.0;
	p = p * z + 1.0 / 479001600.0;
	p = p * z - 1.0 / 3628800.0;
	p = p * z + 1.0 / 40320.0;
	p = p * z - 1.0 / 720.0;
	p = p * z + 1.0 / 24.0;
	p = p * z - 0.5;
	return 1.0 + z * p;
}

/* |x| < 2^20: pi/2 in three parts of 33 bits, so that n times a part is exact (Cody and Waite). */
static void sin_cos(double x, double *sin_out, double *cos_out)
{
	double t = x * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = t - 0x1.8p52;
	double r = x - n * 0x1.921fb544p+0, s, c;

	r = r - n * 0x1.0b4611a6p-34;
	r = r - n * 0x1.3198a2e037073p-69;
	s = sin_near_0(r);
	c = cos_near_0(r);
	switch (k_bits64(t) & 3) {
	case 0: *sin_out = s, *cos_out = c; break;
	case 1: *sin_out = c, *cos_out = -s; break;
	case 2: *sin_out = -s, *cos_out = -c; break;
	default: *sin_out = -c, *cos_out = s; break;
	}
}

void k_rope_freqs(double theta, int32_t rope_dim, double *freq)
{
	double log_theta = k_log64(theta);

	for (int32_t i = 0; i < rope_dim / 2; i++)
		freq[i] = k_exp64(-((double)(2 * i) / (double)rope_dim * log_theta));
}

void k_rope_rows(
	const double *freq, int32_t n_freqs, int32_t first, int32_t end, float *cos_out, float *sin_out)
{
	for (int32_t pos = first; pos < end; pos++) {
		for (int32_t i = 0; i < n_freqs; i++) {
			size_t at = k_index(pos - first, n_freqs, i);
			double s, c;

			sin_cos((double)pos * freq[i], &s, &c);
			cos_out[at] = (float)c;
			sin_out[at] = (float)s;
		}
	}
}

void k_rope_table(
	const double *freq, int32_t n_freqs, int32_t n_pos, float *cos_out, float *sin_out)
{
	k_rope_rows(freq, n_freqs, 0, n_pos, cos_out, sin_out);
}
