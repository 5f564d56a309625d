/* The op route: each kind of router against a plain one in double precision that sorts, equals and
 * numbers that are none among its logits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/op/route.h"
#include "tests/support/isa_rig.h"

enum { MOST = 64, ROWS = 40 };

static double worth[MOST], share[MOST];
static bool is_open[MOST];

static int by_worth(const void *a, const void *b)
{
	const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;

	if (is_open[i] != is_open[j])
		return is_open[i] ? -1 : 1;
	return worth[i] > worth[j] ? -1 : worth[i] < worth[j] ? 1 : i - j;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x > y ? -1 : x < y;
}

static int by_id(const void *a, const void *b)
{
	return *(const int32_t *)a - *(const int32_t *)b;
}

/* Marks the experts of the groups of greatest worth. */
static void open_groups(const struct k_route *a)
{
	const int32_t size = a->n_groups ? a->n_experts / a->n_groups : 0;
	double best[MOST];

	for (int32_t i = 0; i < a->n_experts; i++)
		is_open[i] = true;
	for (int32_t g = 0; g < a->n_groups; g++) {
		double sorted[MOST];

		memcpy(sorted, worth + g * size, (size_t)size * sizeof *sorted);
		qsort(sorted, (size_t)size, sizeof *sorted, by_value);
		best[g] = sorted[0] + (size > 1 ? sorted[1] : 0);
	}
	for (int32_t g = 0; g < a->n_groups; g++) {
		int32_t better = 0;

		for (int32_t h = 0; h < a->n_groups; h++)
			better += best[h] > best[g] || (best[h] == best[g] && h < g);
		for (int32_t i = g * size; i < (g + 1) * size; i++)
			is_open[i] = better < a->used_groups;
	}
}

static void plain_route(const struct k_route *a, const float *l, int32_t *ids, double *weights)
{
	double sum = 0, max = -INFINITY, chosen = 0;
	int32_t order[MOST];

	for (int32_t i = 0; i < a->n_experts; i++)
		max = fmax(max, (double)l[i]);
	for (int32_t i = 0; i < a->n_experts; i++)
		sum += exp((double)l[i] - max);
	for (int32_t i = 0; i < a->n_experts; i++) {
		share[i] = a->kind == K_ROUTE_sigmoid ? 1 / (1 + exp(-(double)l[i]))
											  : exp((double)l[i] - max) / sum;
		worth[i] = a->kind == K_ROUTE_chosen ? (double)l[i] : share[i];
		worth[i] += a->bias ? (double)a->bias[i] : 0;
		order[i] = i;
	}
	open_groups(a);
	qsort(order, (size_t)a->n_experts, sizeof *order, by_worth);
	memcpy(ids, order, (size_t)a->k * sizeof *ids);
	qsort(ids, (size_t)a->k, sizeof *ids, by_id);
	for (int32_t s = 0; s < a->k; s++)
		chosen += share[ids[s]];
	for (int32_t s = 0; s < a->k; s++)
		weights[s] = share[ids[s]] / (a->norm || a->kind == K_ROUTE_chosen ? chosen : 1) *
					 (a->scale != 0 ? (double)a->scale : 1);
}

static void check(struct k_route *a, const float *logits)
{
	static float l[ROWS * MOST], weights[ROWS * MOST];
	static int32_t ids[ROWS * MOST];
	struct k_op op = { .kind = K_OP_route };

	memcpy(l, logits, sizeof l);
	a->logits = l;
	a->ids = ids;
	a->weights = weights;
	op.u.route = *a;
	rig_run(ref, &op);
	for (int32_t r = 0; r < a->n; r++) {
		int32_t want[MOST];
		double weight[MOST];

		plain_route(a, logits + r * a->n_experts, want, weight);
		assert_memory_equal(ids + r * a->k, want, (size_t)a->k * sizeof *want);
		for (int32_t s = 0; s < a->k; s++)
			assert_true(fabs((double)weights[r * a->k + s] - weight[s]) <= 1e-5 * weight[s]);
	}
}

static void test_kinds(void **state)
{
	static const int32_t experts[] = { 1, 4, 6, 24, 64 };
	static float l[ROWS * MOST], bias[MOST];

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct k_route a = { .n_experts = experts[rig_next() % 5],
			.n = ROWS,
			.kind = (enum k_route_kind)(rig_next() % 3),
			.norm = rig_next() % 2,
			.scale = rig_next() % 2 ? 2.5f : 0,
			.bias = rig_next() % 2 ? bias : NULL };

		a.k = 1 + (int32_t)(rig_next() % (uint32_t)a.n_experts);
		a.n_groups = a.n_experts % 2 || rig_next() % 2 ? 0 : a.n_experts / 2;
		if (a.n_groups)
			a.used_groups = (a.k + 1) / 2 + (int32_t)(rig_next() % 2 && a.k < a.n_experts - 1);
		rig_fill(l, ROWS * MOST, 4);
		rig_fill(bias, MOST, 1);
		if (a.kind == K_ROUTE_chosen) /* else equals are those that round alike */
			for (int i = 0; i < ROWS * MOST; i += 3)
				l[i] = 0.5f;
		if (a.kind == K_ROUTE_chosen)
			a.n_groups = 0, a.bias = NULL;
		check(&a, l);
	}
}

/* Whatever the logits are, the experts are k of them, ascending. */
static void test_no_numbers(void **state)
{
	static float l[ROWS * MOST], weights[ROWS * MOST], bias[MOST];
	static int32_t ids[ROWS * MOST];

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct k_op op = { .kind = K_OP_route,
			.u.route = { .logits = l,
				.ids = ids,
				.weights = weights,
				.n_experts = 24,
				.k = 1 + (int32_t)(rig_next() % 12),
				.n = ROWS,
				.kind = (enum k_route_kind)(rig_next() % 3),
				.bias = rig_next() % 2 ? bias : NULL,
				.n_groups = rig_next() % 2 ? 4 : 0,
				.used_groups = 2 } };
		const int32_t k = op.u.route.k;

		rig_fill(l, ROWS * MOST, 4);
		rig_fill(bias, MOST, 1);
		for (int i = 0; i < ROWS * MOST; i += 1 + (int)(rig_next() % 9))
			l[i] = rig_next() % 2 ? NAN : rig_next() % 2 ? INFINITY : -INFINITY;
		bias[rig_next() % 24] = NAN;
		rig_run(ref, &op);
		for (int32_t i = 0; i < ROWS * k; i++) {
			assert_in_range(ids[i], 0, 23);
			assert_true(i % k == 0 || ids[i] > ids[i - 1]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_no_numbers),
	};

	return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
