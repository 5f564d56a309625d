/* Rows of logits for tests of the sampler. Header only; each program has its own random numbers. */
#pragma once

#include <math.h>
#include <stdint.h>

#include "kernels/arith.h"
#include "kernels/kernels.h"

static uint32_t next(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 32);
}

static inline struct k_logit_stats stats_of(const float *l, int32_t n)
{
	struct k_logit_stats s = { .max = l[0] };

	for (int32_t i = 1; i < n; i++)
		if (l[i] > s.max) {
			s.max = l[i];
			s.argmax = i;
		}
	for (int32_t i = 0; i < n; i++)
		s.mass += k_mass(k_exp(k_logit_depth(l[i], s.max)));
	return s;
}

/* Rows of many shapes: ties, both zeros, -Inf, flat, steep, one above all. */
static void make_row(float *l, int32_t n, int shape)
{
	static const float few[] = { 0.0f, -0.0f, 1.5f, -INFINITY, 2.0f, 1.5f, -3.0f };
	float spread = shape % 3 == 0 ? 1.0f : shape % 3 == 1 ? 4.0f : 30.0f;

	for (int32_t i = 0; i < n; i++) {
		float g = 0;

		for (int k = 0; k < 6; k++)
			g += (float)(next() >> 8) * 0x1p-24f - 0.5f;
		if (shape == 3)
			l[i] = few[next() % 7];
		else if (shape == 4)
			l[i] = (float)(int)(g * 4); /* ties of all sizes */
		else
			l[i] = g * spread;
		if (shape > 6 && next() % 5 == 0)
			l[i] = -INFINITY;
	}
	if (shape == 5)
		l[next() % (uint32_t)n] += 40;
	if (shape == 6)
		for (int32_t i = 0; i < n; i++)
			l[i] = 1.25f;
	l[next() % (uint32_t)n] = 0.5f;
}
