/* The roofline: points from counted work, the roof above them, and the two pictures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/roofline.h"

/* 10 GB/s and 100 G op/s: the ridge is at 10 operations a byte. */
static void fill(struct bench_report *r)
{
	memset(r, 0, sizeof *r);
	r->read_gb_s.median = 10;
	r->int_gmac_s.median = 50;
	r->profile[BENCH_DECODE].stage[EV_STAGE_down] = (struct bench_stage){1e9, 5e9, 10e9, 5e8};
	r->profile[BENCH_DEEP].stage[EV_STAGE_down] = (struct bench_stage){1e9, 5e9, 10e9, 5e8};
	r->profile[BENCH_PREFILL].stage[EV_STAGE_head] = (struct bench_stage){1e9, 1e9, 50e9, 6e8};
	r->profile[BENCH_PREFILL].stage[EV_STAGE_norm] = (struct bench_stage){0, 1e9, 50e9, 0};
}

static void test_points(void **state)
{
	struct bench_report r;
	struct roofline p;

	(void)state;
	fill(&r);
	roofline_of(&p, &r);
	assert_int_equal(p.n_points, 2); /* norm took no time; deep decode is not drawn */
	assert_string_equal(p.point[0].name, "down");
	assert_true(fabs(p.point[0].intensity - 2) < 1e-9);
	assert_true(fabs(p.point[0].rate - 10e9) < 1);
	assert_true(fabs(p.point[0].share - 0.5) < 1e-9);
	assert_true(fabs(p.point[1].share - 0.6) < 1e-9);
}

static char *drawn(bool svg)
{
	struct bench_report r;
	struct roofline p;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	assert_non_null(f);
	fill(&r);
	roofline_of(&p, &r);
	if (svg)
		roofline_svg(&p, f);
	else
		roofline_print(&p, true, f);
	fclose(f);
	return text;
}

static void test_terminal(void **state)
{
	char *text = drawn(false), *save = NULL;
	int marks = 0;

	(void)state;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		assert_true(strlen(line) <= 80);
		if (strchr(line, '|') || strchr(line, '+'))
			marks += strchr(line, 'a' + EV_STAGE_down) || strchr(line, 'A' + EV_STAGE_head);
	}
	assert_int_equal(marks, 2);
	free(text);
}

/* Two stages at the same place are both seen. */
static void test_side_by_side(void **state)
{
	struct bench_report r;
	struct roofline p;
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);
	const char pair[] = {'a' + EV_STAGE_out, 'a' + EV_STAGE_down, 0};

	(void)state;
	assert_non_null(f);
	fill(&r);
	r.profile[BENCH_DECODE].stage[EV_STAGE_out] = r.profile[BENCH_DECODE].stage[EV_STAGE_down];
	roofline_of(&p, &r);
	roofline_print(&p, true, f);
	fclose(f);
	assert_true(EV_STAGE_out < EV_STAGE_down);
	assert_non_null(strstr(text, pair));
	free(text);
}

static void test_svg(void **state)
{
	char *text = drawn(true);

	(void)state;
	assert_non_null(strstr(text, ">down</text>"));
	assert_non_null(strstr(text, ">head</text>"));
	assert_null(strstr(text, "nan"));
	assert_null(strstr(text, "inf"));
	free(text);
}

static int count(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)); text += strlen(what))
		n++;
	return n;
}

/* A name stands beside its point, or a line leads to it. The points of the text come in the order of their names. */
static void names_are_led_to(const char *svg)
{
	int moved = 0;

	for (const char *at = svg; (at = strstr(at, "<title>")); at++) {
		const char *name = strstr(at, "</circle>"), *point = at;
		double cy, y;

		while (strncmp(point, "cy='", 4) != 0)
			point--;
		assert_int_equal(sscanf(point, "cy='%lf'", &cy), 1);
		assert_int_equal(sscanf(strstr(name, " y='"), " y='%lf'", &y), 1);
		assert_true(fabs(y - 4 - cy) < 12 * 13.5);
		moved += fabs(y - 4 - cy) > 1.05;
	}
	assert_int_equal(count(svg, "stroke-opacity='0.5'"), moved);
}

/* However near to one another points are, each name finds a place near its own. */
static void test_svg_crowded(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct roofline p = {.read_rate = 40e9, .int_rate = 800e9};
		char *text;
		size_t size;
		FILE *f = open_memstream(&text, &size);

		assert_non_null(f);
		for (p.n_points = 0; p.n_points < 22; p.n_points++) {
			seed = seed * 1664525 + 1013904223;
			p.point[p.n_points] = (struct roofline_point){
				.name = "stage", .phase = p.n_points % 2 ? BENCH_DECODE : BENCH_PREFILL,
				.intensity = 1 + (seed >> 24) / 64.0, .rate = 1e9 * (1 + (seed >> 16 & 255) / 32.0)};
		}
		roofline_svg(&p, f);
		fclose(f);
		names_are_led_to(text);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_svg),
		cmocka_unit_test(test_svg_crowded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
