/* Distributions from counted draws: see workload_impl.h. */
#include "kernels/arith.h"
#include "load/workload_impl.h"

double workload_u(uint64_t seed, enum workload_draw what, int64_t a, int32_t b, uint32_t c)
{
	uint32_t w[4];

	k_draw_words(seed, c, (uint32_t)b, (uint32_t)a, (uint32_t)what | (uint32_t)(a >> 32) << 8, w);
	return ((double)((uint64_t)w[0] << 20 ^ w[1] >> 12) + 0.5) * 0x1p-52;
}

/* exp(x), x any number up to 700; 0 far below. */
static double workload_exp(double x)
{
	return x < -700 ? 0 : k_exp64(fmin(x, 700));
}

/* Horner's rule, the highest power first. */
static double polynomial(const double *c, int n, double x)
{
	double y = c[0];

	for (int i = 1; i < n; i++)
		y = y * x + c[i];
	return y;
}

double workload_normal(double u)
{
	static const double a[] = { -3.969683028665376e+01, 2.209460984245205e+02,
		-2.759285104469687e+02, 1.383577518672690e+02, -3.066479806614716e+01,
		2.506628277459239e+00 };
	static const double b[] = { -5.447609879822406e+01, 1.615858368580409e+02,
		-1.556989798598866e+02, 6.680131188771972e+01, -1.328068155288572e+01, 1 };
	static const double c[] = { -7.784894002430293e-03, -3.223964580411365e-01,
		-2.400758277161838e+00, -2.549732539343734e+00, 4.374664141464968e+00,
		2.938163982698783e+00 };
	static const double d[] = { 7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
		3.754408661907416e+00, 1 };
	const double tail = fmin(u, 1 - u);
	double q, r;

	if (tail < 0.02425) {
		q = sqrt(-2 * k_log64(tail));
		q = polynomial(c, 6, q) / polynomial(d, 5, q);
		return u < 0.5 ? q : -q;
	}
	q = u - 0.5;
	r = q * q;
	return polynomial(a, 6, r) * q / polynomial(b, 6, r);
}

double workload_gamma(uint64_t seed, enum workload_draw what, int64_t a, double shape)
{
	const double whole = shape < 1 ? shape + 1 : shape, d = whole - 1.0 / 3;
	const double c = 1 / sqrt(9 * d);
	double v, x, u = 0;

	for (uint32_t i = 1;; i += 2) {
		x = workload_normal(workload_u(seed, what, a, 0, i));
		u = workload_u(seed, what, a, 0, i + 1);
		v = 1 + c * x;
		v = v * v * v;
		if (v > 0 && k_log64(u) < 0.5 * x * x + d - d * v + d * k_log64(v))
			break;
	}
	if (shape < 1) /* a Gamma of shape + 1 times u^(1/shape) is one of shape */
		v *= workload_exp(k_log64(workload_u(seed, what, a, 0, 0)) / shape);
	return d * v / shape;
}

static int32_t draw_length(const struct workload_options *o, const struct workload_length *l,
	enum workload_draw what, int64_t stream, int32_t turn)
{
	const double square = k_log64(1 + l->cv * l->cv);
	const double z = workload_normal(workload_u(o->seed, what, stream, turn, 0));
	const double x =
		l->mean * (o->scale > 0 ? o->scale : 1) * workload_exp(sqrt(square) * z - square / 2);

	if (!(l->mean > 0))
		return 0;
	return x < 1 ? 1 : x < 1 << 24 ? (int32_t)(x + 0.5) : 1 << 24;
}

static int32_t at_most(int32_t n, int32_t most, bool *cut)
{
	*cut |= n > most;
	return n > most ? most : n;
}

struct workload_lengths workload_lengths(const struct workload_options *o, enum workload_kind kind,
	int64_t stream, int32_t turn, bool *cut)
{
	const struct workload_kind_row *k = &workload_kinds[kind];
	const int32_t limit = workload_limit(o);
	/* of what shares nothing all but the output */
	const int32_t most_own = kind == WORKLOAD_EDIT ? limit - limit / 4 : limit / 4;

	return (struct workload_lengths){
		.shared = at_most(draw_length(o, &k->shared, DRAW_SHARED, stream, 0), limit / 2, cut),
		.own = at_most(draw_length(o, &k->own, DRAW_OWN, stream, turn), most_own, cut),
		.output = at_most(
			draw_length(o, &k->output, DRAW_OUTPUT, stream, turn), workload_most_output(o), cut),
	};
}
