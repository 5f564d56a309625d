/* Distributions of loads (load/workload.h): gaps and lengths against closed forms. Seeds
 * are fixed, so each bound holds or does not for good. */
#include "base/median.h"
#include "tests/support/arrivals.h"

enum { N = 40000 };

struct moments {
	double mean, cv;
};

static struct moments moments_of(const double *x, int n)
{
	double sum = 0, squares = 0;

	for (int i = 0; i < n; i++)
		sum += x[i];
	for (int i = 0; i < n; i++)
		squares += (x[i] - sum / n) * (x[i] - sum / n);
	return (struct moments){ sum / n, sqrt(squares / n) / (sum / n) };
}

static double *gaps_of(struct workload_options o)
{
	double *gap = calloc(N, sizeof *gap), before = 0;
	struct workload *w;

	assert_non_null(gap);
	o.n = N;
	o.seed = 11;
	w = opened(&o);
	for (int i = 0; i < N; i++) {
		const struct arrival a = next(w);

		assert_true(a.at_s >= before);
		assert_int_equal(a.number, i);
		gap[i] = a.at_s - before;
		before = a.at_s;
	}
	workload_close(w);
	return gap;
}

/* The largest distance of a sample from a distribution is below 1.95 / sqrt(n) in 99.9 % of samples
 * of it (Kolmogorov). */
static void near_distribution(double *x, int n, double (*cdf)(double x))
{
	double most = 0;

	sorted_of(x, n);
	for (int i = 0; i < n; i++)
		most = fmax(most, fmax(fabs(cdf(x[i]) - (double)i / n), fabs(cdf(x[i]) - (i + 1.0) / n)));
	assert_true(most < 1.95 / sqrt(n));
}

static double exponential_cdf(double x)
{
	return 1 - exp(-5 * x);
}

/* Gamma of shape 2 and mean 1/5. */
static double gamma2_cdf(double x)
{
	return 1 - exp(-10 * x) * (1 + 10 * x);
}

/* Of shape 1/2: the square of a normal. */
static double gamma_half_cdf(double x)
{
	return erf(sqrt(5 * x / 2));
}

static double normal_cdf(double x)
{
	return erfc(-x / sqrt(2)) / 2;
}

static void test_gaps(void **state)
{
	const struct {
		struct workload_options o;
		double (*cdf)(double x);
		double cv;
	} way[] = {
		{ { .arrivals = WORKLOAD_POISSON }, exponential_cdf, 1 },
		{ { .arrivals = WORKLOAD_GAMMA, .cv = sqrt(0.5) }, gamma2_cdf, sqrt(0.5) },
		{ { .arrivals = WORKLOAD_GAMMA, .cv = sqrt(2) }, gamma_half_cdf, sqrt(2) },
		{ { .arrivals = WORKLOAD_GAMMA, .cv = 4 }, NULL, 4 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		struct workload_options o = way[i].o;
		struct moments m;
		double *gap;

		o.rate = 5;
		gap = gaps_of(o);
		m = moments_of(gap, N);
		assert_true(fabs(m.mean * 5 - 1) < 4 * way[i].cv / sqrt(N));
		assert_true(fabs(m.cv / way[i].cv - 1) < 0.06);
		if (way[i].cdf)
			near_distribution(gap, N, way[i].cdf);
		free(gap);
	}
}

static void test_uniform(void **state)
{
	double *gap = gaps_of((struct workload_options){ .arrivals = WORKLOAD_UNIFORM, .rate = 8 });

	(void)state;
	for (int i = 0; i < N; i++)
		assert_true(gap[i] == 0.125);
	free(gap);
}

/* An interrupted Poisson process: its gaps are hyperexponential, of squared coefficient of
 * variation 1 + 2 lambda a / (a + b)^2, a and b the rates at which on and off end (Kuczura 1973).
 */
static void test_onoff(void **state)
{
	const double on = 2, off = 6, lambda = 5 * (on + off) / on, sum = 1 / on + 1 / off;
	const double cv = sqrt(1 + 2 * lambda / on / (sum * sum));
	double *gap = gaps_of((struct workload_options){
		.arrivals = WORKLOAD_ONOFF, .rate = 5, .on_s = on, .off_s = off });
	const struct moments m = moments_of(gap, N);

	(void)state;
	assert_true(fabs(m.mean * 5 - 1) < 4 * cv / sqrt(N));
	assert_true(fabs(m.cv / cv - 1) < 0.05);
	free(gap);
}

static void test_normal(void **state)
{
	static double x[N];

	(void)state;
	for (int i = 1; i < 100000; i++)
		assert_true(fabs(normal_cdf(workload_normal(i / 1e5)) - i / 1e5) < 1e-8);
	assert_true(fabs(workload_normal(1e-12) + 7.034484) < 1e-5);
	for (int i = 0; i < N; i++)
		x[i] = workload_normal(workload_u(3, DRAW_OWN, i, 0, 0));
	near_distribution(x, N, normal_cdf);
}

/* Of each kind as its row says; n_prefix of a stream counts once. */
static void test_lengths(void **state)
{
	static double own[N], output[N];

	(void)state;
	for (int k = 0; k < WORKLOAD_KINDS; k++) {
		const struct workload_kind_row *row = &workload_kinds[k];
		struct workload_options o = { .rate = 1, .n = N, .kinds = 1u << k, .scale = 3, .seed = 5 };
		struct arrival *a = all_of(&o);
		int64_t streams = 0;
		struct moments m;

		for (int i = 0; i < N; i++) {
			own[i] = a[i].n_prompt - a[i].n_prefix;
			output[i] = a[i].n_output;
			streams += a[i].turn == 0;
			assert_int_equal(a[i].kind, k);
			assert_int_equal(a[i].priority, row->priority);
		}
		m = moments_of(own, N);
		assert_true(fabs(m.mean / 3 / row->own.mean - 1) < 5 * row->own.cv / sqrt(N));
		assert_true(fabs(m.cv / row->own.cv - 1) < 0.05);
		m = moments_of(output, N);
		assert_true(fabs(m.mean / 3 / row->output.mean - 1) < 5 * row->output.cv / sqrt(N));
		assert_true(fabs(m.cv / row->output.cv - 1) < 0.2);
		assert_true(fabs((double)N / (double)streams / row->uses - 1) < 0.12);
		free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gaps),
		cmocka_unit_test(test_uniform),
		cmocka_unit_test(test_onoff),
		cmocka_unit_test(test_normal),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
