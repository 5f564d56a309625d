/* The examples of docs/arithmetic.md are what the rules give: each is computed here, in the words
 * of its rule on kernels/arith.h, and must stand in that page to the letter.
 *
 *     build/tests/test_arith_doc --print      prints them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/arith.h"
#include "kernels/format/cache.h"
#include "kernels/format/codes.h"
#include "kernels/kernels.h"
#include "kernels/op/round.h"
#include "kernels/op/scan.h"

#define DOC "docs/arithmetic.md"

static FILE *out; /* a line an example, with its rule's number in front */

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vfprintf(out, format, ap);
	va_end(ap);
	fputc('\n', out);
}

/* Rules 1 to 3: what an order and a fused operation change. */
static void sums(void)
{
	const volatile float a = 0x1.001p0f, small = 0x1p-126f;
	const volatile float big = 1e8f;
	float part[4] = { big, 1, -big, 1 };
	const float chain = ((big + 1) - big) + 1, product = a * a;

	say("2^-126 / 4 = 2^-128 = %a, not 0", (double)(small / 4));
	say("a = 1 + 2^-12: fmaf(a, a, -1) = %a; a*a - 1 = %a", (double)k_fma(a, a, -1),
		(double)(product - 1));
	say("1e8, 1, -1e8, 1: the chain gives %g, tree(4) gives %g", (double)chain,
		(double)k_tree_sum(part, 4));
}

static float x4[32] = { 1, -2.5f, 0.3f };
static int8_t q4[32];
static float d4, sx4;

/* Rules 4 to 6. */
static void products(void)
{
	const int32_t code[3] = { 3, 9, 15 };
	const float dw = k_f16_to_f32(k_f32_to_f16(0.02f)), mw = k_f16_to_f32(k_f32_to_f16(-0.1f));
	float t, acc, total = 0, one = 0;
	int32_t sum = 0;

	k_quantise_block(x4, q4, &d4, &sx4);
	say("1, -2.5, 0.3, 29 zeros: d = %.9g, q = %d, %d, %d, sx = %.9g", (double)d4, q4[0], q4[1],
		q4[2], (double)sx4);
	for (int32_t i = 0; i < 3; i++)
		sum += q4[i] * code[i];
	t = dw * (float)sum;
	acc = k_fma(mw, sx4, k_fma(d4, t, 0));
	say("Q4_1, dw = %.9g, mw = %.9g, codes 3, 9, 15: I = %d, t = %.9g, acc = %.9g", (double)dw,
		(double)mw, sum, (double)t, (double)acc);
	for (int32_t k = 0; k < 128; k += 64) {
		float segment = 0;

		for (int32_t i = k; i < k + 64; i++) {
			segment = k_fma(i ? 1 : 16777216.0f, 1, segment);
			one = k_fma(i ? 1 : 16777216.0f, 1, one);
		}
		total += segment;
	}
	say("2^24 and 127 ones, weights 1: two segments give %.9g, one chain would give %.9g",
		(double)total, (double)one);
}

/* Rules 7 and 8. */
static void functions(void)
{
	float lane[32] = { 1, 4, 9, 16 }, r;

	r = 1.0f / sqrtf(k_tree_sum(lane, 32) / 4 + 1e-5f);
	say("1, 2, 3, 4, eps 1e-5, w = 1: sum = 30, r = %.9g, y = %.9g, %.9g, %.9g, %.9g", (double)r,
		(double)(1 * r), (double)(2 * r), (double)(3 * r), (double)(4 * r));
	say("exp(1) = %a, log(10) = %a, silu(1) = %a, tanh(0.5) = %a", (double)k_exp(1),
		(double)k_log(10), (double)k_silu(1), (double)k_tanh(0.5f));
	say("gelu(1) = %.9g by tanh, %.9g by erf; softplus(-20) = %.9g; softcap(40, 30) = %.9g",
		(double)k_gelu(1), (double)k_gelu_erf(1), (double)k_softplus(-20),
		(double)k_softcap(40, 30));
}

/* Rules 9 and 10. */
static void positions(void)
{
	const double freq = 1;
	float c, s, low[3] = { 0.1f, 0.5f, 1 };
	int8_t code8[3];
	uint8_t code4[3];
	uint16_t scale, min;

	k_rope_rows(&freq, 1, 3, 4, &c, &s);
	say("position 3, freq 1: c = %.9g, s = %.9g; (1, 2) becomes (%.9g, %.9g)", (double)c, (double)s,
		(double)k_fma(1, c, -(2 * s)), (double)k_fma(1, s, 2 * c));
	say("0.1: f16 %04x = %.9g, bf16 %04x = %.9g, e4m3 %02x = %.9g", k_to_f16(0.1f),
		(double)k_of_f16(k_to_f16(0.1f)), k_to_bf16(0.1f), (double)k_of_bf16(k_to_bf16(0.1f)),
		k_to_e4m3(0.1f), (double)k_of_e4m3(k_to_e4m3(0.1f)));
	scale = k_q8_round(x4, 3, code8);
	say("q8 of 1, -2.5, 0.3: scale %.9g, codes %d, %d, %d", (double)k_f16_to_f32(scale), code8[0],
		code8[1], code8[2]);
	for (int32_t i = 0; i < 3; i++)
		low[i] = k_of_f16(k_to_f16(low[i]));
	k_codes_round(low, 3, 4, code4, &scale, &min);
	say("kivi4 of 0.1, 0.5, 1: scale %.9g, min %.9g, codes %d, %d, %d", (double)k_f16_to_f32(scale),
		(double)k_f16_to_f32(min), code4[0], code4[1], code4[2]);
}

/* Rule 11: two spans of one channel, scores 1 and 2 in the first, 3 in the second. */
static void attention(void)
{
	const float p0 = k_exp(1.0f - 2.0f), p1 = k_exp(0);
	float group[16] = { p0, p1 }, l = k_tree_sum(group, 16), o = k_fma(p1, 3, k_fma(p0, 1, 0));
	const float a = k_exp(2.0f - 3.0f), b = k_exp(0), sum = k_fma(a, l, b * 1),
				all = k_fma(a, o, b * 5);

	say("span 1: scores 1, 2, values 1, 3: m = 2, l = %.9g, o = %.9g", (double)l, (double)o);
	say("span 2: score 3, value 5: n = 3, A = %.9g, B = 1, L = %.9g, O = %.9g, result %.9g",
		(double)a, (double)sum, (double)all, (double)(all * (1.0f / sum) + 0.0f));
	say("a sink of score 1 in place of none: %.9g",
		(double)(all * k_sink_inverse(3, sum, 1) + 0.0f));
}

/* Rules 13 to 15. */
static void draws(void)
{
	const float l[3] = { 2, 1, 0 };
	const double mu = 1 + 0.1 * k_log64(40);
	uint64_t hash = k_hash_term(k_bits(1.5f), 0) + k_hash_term(k_bits(-2.0f), 1);
	float u[3], at[3];

	say("d_n = 128, n = 64, multiplier 0.1, s = 40: mu = %.7f, scale = %.9g", mu,
		(double)(float)(mu * mu / 13.856406460551018));
	say("logits 1.5, -2: hash %016llx", (unsigned long long)hash);
	for (uint32_t i = 0; i < 3; i++) {
		u[i] = k_draw_u(7, i, 5, 0, 0);
		at[i] = k_arrival(u[i], l[i], 2);
	}
	say("logits 2, 1, 0, seed 7, position 5: u = %.9g, %.9g, %.9g", (double)u[0], (double)u[1],
		(double)u[2]);
	say("they arrive at %.9g, %.9g, %.9g", (double)at[0], (double)at[1], (double)at[2]);
	say("masses %llu, %llu, %llu", (unsigned long long)k_mass(1),
		(unsigned long long)k_mass(k_exp(-1)), (unsigned long long)k_mass(k_exp(-2)));
}

/* Rule 25. */
static void vectors(void)
{
	const double state[2][2] = { { 1, 2 }, { 2, 2 } };
	const double sum[2] = { state[0][0] + state[1][0], state[0][1] + state[1][1] };
	const double last = sqrt(state[1][0] * state[1][0] + state[1][1] * state[1][1]);
	const double mean = sqrt(sum[0] * sum[0] + sum[1] * sum[1]);

	say("states 1, 2 and 2, 2 of two tokens: last %.9g, %.9g, mean %.9g, %.9g",
		(double)(float)(state[1][0] / last), (double)(float)(state[1][1] / last),
		(double)(float)(sum[0] / mean), (double)(float)(sum[1] / mean));
}

/* Rules 16 to 18. */
static void layers(void)
{
	const float dt = k_softplus(0.5f), s = k_fma(k_exp(dt * -1), 2, (dt * 3) * 1),
				y = k_fma(s, 0.5f, 0);
	const float p = k_exp(2.0f - 3.0f), sum = 1 + p, w0 = 1 / sum, w1 = p / sum;
	const float lo = k_fma(2, 0.25f, -1), hi = k_fma(2, -0.25f, 1);
	float turned[2] = { 1, 2 };

	k_scan_turn((const float[]){ 0.5f, 0.5f }, 3, turned);
	say("delta 0.5, A = -1, S = 2, x = 3, B = 1, C = 0.5, D = 1, z = 1: dt = %.9g, "
		"S = %.9g, out = %.9g",
		(double)dt, (double)s, (double)(k_fma(1, 3, y) * k_silu(1)));
	say("A = 0.5 + 0.5i, S = 1 + 2i, x = 3: S = %g + %gi", (double)turned[0], (double)turned[1]);
	say("logits 1, 3, 2, k = 2: experts 1 and 2, w = %.9g, %.9g; outputs 4 and 8 give %.9g",
		(double)w0, (double)w1, (double)k_fma(w1, 8, k_fma(w0, 4, 0)));
	say("m = -1, M = 1: lo = %g, hi = %g; a query 2, -1 gives the group %g", (double)lo, (double)hi,
		(double)k_fma(-1, lo, k_fma(2, hi, 0)));
	say("a decoder of 32 buckets, r = 20: bucket %d",
		16 + (int)(k_log64(2 * 20 / 32.0) / k_log64(256 / 32.0) * 16 + 1e-9));
	say("0.3: bf16 %.9g, e4m3 %.9g, e5m2 %.9g", (double)k_round_float(0.3f, 7, -126, 0x1.fep127f),
		(double)k_round_float(0.3f, 3, -6, 448), (double)k_round_float(0.3f, 2, -14, 57344));
}

/* Rule 26. */
static void adapters(void)
{
	const float t = k_fma(2, 1, k_fma(1, 1, 0)), u = k_fma(3, t, 0);

	say("y = 1, A = 1 2, B = 3, x = 1 1, s = 0.5: t = %g, y = %g", (double)t,
		(double)k_fma(0.5f, u, 1));
}

/* malloc'd: all lines. */
static char *examples(void)
{
	char *text = NULL;
	size_t size;

	out = open_memstream(&text, &size);
	sums();
	products();
	functions();
	positions();
	attention();
	draws();
	layers();
	vectors();
	adapters();
	fclose(out);
	return text;
}

static void the_page_has_what_the_rules_give(void **state)
{
	static char page[1 << 17];
	char *text = examples();
	FILE *f = fopen(DOC, "r");

	(void)state;
	assert_non_null(f);
	assert_true(fread(page, 1, sizeof page - 1, f) > 0);
	fclose(f);
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strstr(page, line))
			fail_msg("%s lacks: %s", DOC, line);
	free(text);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(the_page_has_what_the_rules_give) };

	if (argc > 1 && !strcmp(argv[1], "--print")) {
		char *text = examples();

		fputs(text, stdout);
		free(text);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
