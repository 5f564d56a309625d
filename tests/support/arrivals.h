/* Arrivals of a load (load/workload.h) for its tests. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "load/workload_impl.h"

static inline struct workload *opened(const struct workload_options *o)
{
	struct workload *w;
	struct err e = { 0 };

	if (workload_open(&w, o, &e))
		fail_msg("%s", e.text);
	return w;
}

static inline struct arrival next(struct workload *w)
{
	struct arrival a;
	struct err e = { 0 };

	assert_int_equal(workload_next(w, &a, &e), 1);
	return a;
}

static inline struct arrival *all_of(const struct workload_options *o)
{
	struct arrival *a = calloc((size_t)o->n, sizeof *a);
	struct workload *w = opened(o);
	struct arrival more;
	struct err e = { 0 };

	assert_non_null(a);
	for (int64_t i = 0; i < o->n; i++)
		a[i] = next(w);
	assert_int_equal(workload_next(w, &more, &e), 0);
	assert_true(isinf(workload_when(w)));
	workload_close(w);
	return a;
}
