/* Which instruction set is chosen: what the processor says it has, and no other by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "kernels/kernels.h"

#ifdef __x86_64__
static bool has_avxvnni(void)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1 << 4);
}
#endif

static const char *expected(void)
{
#ifdef EMULATED_PROGRAM
	return "avx512";
#elif defined(__x86_64__)
	if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"))
		return "avx512";
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_avxvnni())
		return "avxvnni";
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "avx2" : "scalar";
#elif defined(__aarch64__)
	if (!(getauxval(AT_HWCAP) & HWCAP_ASIMDDP))
		return "scalar";
	return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? "i8mm" : "neon";
#else
	return "scalar";
#endif
}

static void the_best_is_chosen(void **state)
{
	(void)state;
	printf("# the best kernels here: %s\n", k_isas()[0]);
	if (getenv("CUTAWAY_ISA"))
		skip();
	assert_string_equal(k_isas()[0], expected());
}

static void others_are_refused(void **state)
{
	static const char *const all[] = { "avx512", "avxvnni", "avx2", "i8mm", "neon", "scalar" };

	(void)state;
	for (int i = 0; i < 6; i++) {
		struct err e = { 0 };
		struct k_ctx *ctx;
		bool here = false;

		for (const char *const *isa = k_isas(); *isa; isa++)
			here = here || !strcmp(*isa, all[i]);
		assert_int_equal(k_open(&ctx, "cpu", all[i], 1, &e), here ? 0 : -1);
		if (here)
			assert_string_equal(k_isa_name(ctx), all[i]);
		else /* says what there is instead */
			assert_true(strstr(e.text, all[i]) && strstr(e.text, k_isas()[0]));
		k_close(ctx);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_best_is_chosen),
		cmocka_unit_test(others_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
