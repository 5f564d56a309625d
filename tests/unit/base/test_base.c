/* base/: repeated text, paths after XDG, the remembered SHA-256, the clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/cycle.h"
#include "base/paths.h"
#include "base/sha256.h"

/* FIPS 180-2, B.1 */
#define ABC_REST "16bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABC "ba78" ABC_REST
#define NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static char folder[64]; /* everything happens below it */

static const char *below(const char *rest)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", folder, rest);
	return path;
}

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/cutaway-base-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	setenv("HOME", folder, 1);
	setenv("XDG_CACHE_HOME", below("cache"), 1);
	unsetenv("XDG_DATA_HOME");
	unsetenv("XDG_STATE_HOME");
	return 0;
}

static int tear_down(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void expect_path(
	int (*function)(const char *, char **, struct err *), const char *rest, const char *want)
{
	struct err e = { 0 };
	struct stat st;
	char *path;

	assert_int_equal(function(rest, &path, &e), 0);
	assert_string_equal(path, below(want));
	*strrchr(path, '/') = '\0';
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	free(path);
}

static void test_paths(void **state)
{
	(void)state;
	expect_path(paths_data, "", ".local/share/cutaway/");
	expect_path(paths_data, "models/x.gguf", ".local/share/cutaway/models/x.gguf");
	expect_path(paths_state, "history", ".local/state/cutaway/history");
	expect_path(paths_cache, "sha256", "cache/cutaway/sha256");
	setenv("XDG_DATA_HOME", "relative", 1); /* does not count */
	expect_path(paths_data, "x", ".local/share/cutaway/x");
	unsetenv("XDG_DATA_HOME");
}

static void test_path_in_the_way(void **state)
{
	struct err e = { 0 };
	char *path;

	(void)state;
	write_file(below("file"), "");
	setenv("XDG_DATA_HOME", below("file"), 1);
	assert_int_equal(paths_data("x", &path, &e), -1);
	assert_null(path);
	assert_int_equal(e.code, ERR_IO);
	assert_non_null(strstr(e.text, "file"));
	unsetenv("XDG_DATA_HOME");
}

static void test_recordings(void **state)
{
	struct err e = { 0 };
	char *first, *second;

	(void)state;
	assert_int_equal(paths_new_recording(NULL, &first, &e), 0);
	assert_non_null(strstr(first, "/cutaway/sessions/20"));
	assert_string_equal(first + strlen(first) - 3, ".db");
	assert_int_equal(access(first, F_OK), 0); /* taken, though nobody has written to it yet */
	assert_int_equal(paths_new_recording(NULL, &second, &e), 0);
	assert_string_not_equal(first, second);
	free(first);
	free(second);
	assert_int_equal(paths_new_recording(below("."), &first, &e), 0);
	assert_int_equal(strncmp(first, below("./20"), strlen(below("./20"))), 0);
	assert_int_equal(access(first, F_OK), 0);
	free(first);
}

static void test_sha256(void **state)
{
	struct err e = { 0 };
	char hash[SHA256_HEX];

	(void)state;
	write_file(below("abc"), "abc");
	write_file(below("nothing"), "");
	assert_int_equal(file_sha256(below("abc"), hash, &e), 0);
	assert_string_equal(hash, ABC);
	assert_int_equal(file_sha256(below("nothing"), hash, &e), 0);
	assert_string_equal(hash, NOTHING);
	assert_int_equal(file_sha256(below("absent"), hash, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	e.code = 0;
	assert_int_equal(file_sha256(folder, hash, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	e.code = 0;
	assert_int_equal(file_sha256("/dev/zero", hash, &e), -1); /* it has no end */
	assert_int_equal(e.code, ERR_IO);
}

/* By the name of one part the hash is that of all; one that changes makes it another file. */
static void test_sha256_of_parts(void **state)
{
	struct err e = { 0 };
	char hash[SHA256_HEX], first[512], second[512];

	(void)state;
	snprintf(first, sizeof first, "%s", below("p-00001-of-00002.gguf"));
	snprintf(second, sizeof second, "%s", below("p-00002-of-00002.gguf"));
	write_file(first, "a");
	assert_int_equal(file_sha256_cached(first, hash, &e), -1);
	assert_int_equal(e.code, ERR_IO);
	e.code = 0;
	write_file(second, "bc");
	assert_int_equal(file_sha256_cached(second, hash, &e), 0);
	assert_string_equal(hash, ABC);
	memset(hash, 0, sizeof hash);
	assert_true(file_sha256_known_of(first, NULL, hash));
	assert_string_equal(hash, ABC);
	write_file(second, "bcd");
	assert_false(file_sha256_known_of(first, NULL, hash));
}

static void test_remembered(void **state)
{
	struct err e = { 0 };
	char hash[SHA256_HEX] = "", name[32];
	char path[128];

	(void)state;
	snprintf(path, sizeof path, "%s", below("model"));
	write_file(path, "abc");
	assert_false(file_sha256_known_of(path, NULL, hash));
	assert_int_equal(file_sha256_cached(path, hash, &e), 0);
	assert_string_equal(hash, ABC);
	memset(hash, 0, sizeof hash);
	assert_true(file_sha256_known_of(path, NULL, hash));
	assert_string_equal(hash, ABC);

	/* it is remembered and not computed */
	FILE *memory = fopen(below("cache/cutaway/sha256"), "r+");
	assert_non_null(memory);
	fputs("0000", memory);
	assert_int_equal(fclose(memory), 0);
	assert_int_equal(file_sha256_cached(path, hash, &e), 0);
	assert_string_equal(hash, "0000" ABC_REST);

	/* another file of that size, time and inode */
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	write_file(path, "xyz");
	struct timespec times[2] = { st.st_atim, st.st_mtim };
	assert_int_equal(utimensat(0, path, times, 0), 0);
	assert_false(file_sha256_known_of(path, NULL, hash));
	assert_int_equal(file_sha256_cached(path, hash, &e), 0);
	assert_string_equal(hash, "3608bca1e44ea6c4d268eb6db02260269892c0b42b86bbf1e77a6fa16c3c9282");

	/* a change of time or size is seen */
	times[1].tv_nsec = (times[1].tv_nsec + 1) % 1000000000;
	assert_int_equal(utimensat(0, path, times, 0), 0);
	assert_false(file_sha256_known_of(path, NULL, hash));
	write_file(path, "");
	assert_false(file_sha256_known_of(path, NULL, hash));
	assert_int_equal(file_sha256_cached(path, hash, &e), 0);
	assert_string_equal(hash, NOTHING);

	/* other files do not push it out, until there are many */
	for (int i = 0; i < 80; i++) {
		char other[128];

		snprintf(name, sizeof name, "other%d", i);
		snprintf(other, sizeof other, "%s", below(name));
		write_file(other, "abc");
		assert_int_equal(file_sha256_cached(other, hash, &e), 0);
		assert_true(file_sha256_known_of(other, NULL, hash));
		assert_int_equal(file_sha256_known_of(path, NULL, hash), i < 63);
	}
}

static void test_broken_memory(void **state)
{
	static const char *const memories[] = {
		"",
		"\n\n",
		"x",
		ABC,
		ABC "\n",
		ABC " \n",
		ABC " 3 1 1 1 /\n",
		"zz7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 3 0 0 0 /x\n",
	};
	struct err e = { 0 };
	char hash[SHA256_HEX], path[128];

	(void)state;
	snprintf(path, sizeof path, "%s", below("abc"));
	write_file(path, "abc");
	for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
		write_file(below("cache/cutaway/sha256"), memories[i]);
		assert_false(file_sha256_known_of(path, NULL, hash));
		assert_int_equal(file_sha256_cached(path, hash, &e), 0);
		assert_string_equal(hash, ABC);
		assert_true(file_sha256_known_of(path, NULL, hash));
	}
	/* where nothing can be remembered, it is computed each time */
	setenv("XDG_CACHE_HOME", "/proc/nowhere", 1);
	assert_int_equal(file_sha256_cached(path, hash, &e), 0);
	assert_string_equal(hash, ABC);
	assert_false(file_sha256_known_of(path, NULL, hash));
	setenv("XDG_CACHE_HOME", below("cache"), 1);
}

static void test_clock(void **state)
{
	int64_t before = now_ns();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		int64_t now = now_ns();

		assert_true(now >= before);
		before = now;
	}
}

/* What `period` tokens repeat is told from the least length on and until it ends; what does not
 * repeat never is. */
static void test_cycle(void **state)
{
	(void)state;
	for (int period = 1; period <= CYCLE_MAX; period++) {
		int least = period * CYCLE_TIMES > CYCLE_LEAST ? period * CYCLE_TIMES : CYCLE_LEAST;
		struct cycle c = { 0 };

		for (int i = 0; i < 100; i++)
			assert_int_equal(cycle_add(&c, 1000 + i), 0);
		for (int i = 0; i < 3 * least; i++)
			assert_int_equal(cycle_add(&c, i % period), i >= period + least - 1 ? period : 0);
		assert_int_equal(cycle_add(&c, -1), 0);
	}
}

/* An array that cannot be had is NULL under AddressSanitizer, too. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

/* What is there stays, whatever the integer that counts it; what cannot be had changes nothing. */
static void test_array(void **state)
{
	int32_t *small = NULL, cap = 0;
	uint64_t *large = NULL;
	size_t room = 0;

	(void)state;
	for (int32_t i = 0; i < 1000; i++) {
		const int32_t had = cap;

		assert_true(ARRAY_ROOM(small, cap, i + 1));
		assert_true(cap == had ? i < cap : cap >= 2 * had && cap >= 16);
		small[i] = i;
	}
	for (int32_t i = 0; i < 1000; i++)
		assert_int_equal(small[i], i);
	assert_true(ARRAY_ROOM(large, room, 5000) && room >= 5000);
	large[4999] = 1;
	assert_false(ARRAY_ROOM(small, cap, (size_t)INT32_MAX + 1));
	assert_false(ARRAY_ROOM(large, room, SIZE_MAX / 8));
	assert_true(cap >= 1000 && cap < 10000 && small[999] == 999);
	assert_true(room >= 5000 && room < 10000 && large[4999] == 1);
	free(small);
	free(large);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_path_in_the_way),
		cmocka_unit_test(test_recordings),
		cmocka_unit_test(test_sha256),
		cmocka_unit_test(test_sha256_of_parts),
		cmocka_unit_test(test_remembered),
		cmocka_unit_test(test_broken_memory),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_cycle),
		cmocka_unit_test(test_array),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
