/* Each file of the zoo, with each key of its metadata left out, each number of it set to others, a
 * matrix in another format, and weights that are NaN: it is refused with words, or computes two
 * tokens. Each case is a process of its own with limits of memory and time, so that what hangs,
 * asserts or allocates without end is told with its key. */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/core/engine.h"
#include "tests/support/thorough.h"

enum { MOST_FILE = 1 << 19, SECONDS = 20, GIGABYTES = 8 };

static uint8_t file[MOST_FILE], changed[MOST_FILE];
static size_t file_size;

static uint64_t u64_at(size_t at)
{
	uint64_t v;

	memcpy(&v, file + at, sizeof v);
	return v;
}

static uint32_t u32_at(size_t at)
{
	return (uint32_t)u64_at(at);
}

static size_t value_size(uint32_t type, size_t at)
{
	static const size_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
	size_t size = 12;

	if (type == 8)
		return 8 + (size_t)u64_at(at);
	if (type != 9)
		return sizes[type];
	for (uint64_t i = 0, n = u64_at(at + 4); i < n; i++)
		size += value_size(u32_at(at), at + size);
	return size;
}

enum { REFUSED, SILENT, NO_FILE, COMPUTED };

/* In a child: what the changed file does. */
static int try_it(void)
{
	struct engine_options o = ENGINE_DEFAULTS;
	char path[] = "/tmp/cutaway-keys-XXXXXX";
	const int32_t ids[] = { 5, 6, 7 };
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 3,
		.max_tokens = 2,
		.params = SAMPLE_DEFAULTS,
		.ignore_end = true };
	struct err err = { 0 };
	struct engine *e;
	int fd = mkstemp(path), opened;

	if (fd < 0 || write(fd, changed, file_size) != (ssize_t)file_size)
		return NO_FILE;
	close(fd);
	o.model = path;
	o.threads = 1;
	o.slots = 1;
	o.ctx = 64;
	o.packed_cache = "off";
	opened = engine_open(&e, &o, &err);
	unlink(path);
	if (opened)
		return err.code && *err.text ? REFUSED : SILENT;
	engine_begin(e, NULL);
	if (engine_submit(e, &q, &err) < 1)
		return *err.text ? REFUSED : SILENT;
	while (!engine_idle(e))
		if (engine_step(e, &err) < 0)
			return *err.text ? REFUSED : SILENT;
	engine_close(e);
	return COMPUTED;
}

static int in_child(void)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
#ifndef __SANITIZE_ADDRESS__
		setrlimit(RLIMIT_AS, &(struct rlimit){ (rlim_t)GIGABYTES << 30, (rlim_t)GIGABYTES << 30 });
#endif
		alarm(SECONDS);
		_exit(try_it());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int n_wrong, n_refused, n_computed;

static void check(const char *name, const char *key, int key_size, const char *what)
{
	const int status = in_child();

	if (WIFEXITED(status) && (WEXITSTATUS(status) == REFUSED || WEXITSTATUS(status) == COMPUTED)) {
		*(WEXITSTATUS(status) == REFUSED ? &n_refused : &n_computed) += 1;
		return;
	}
	n_wrong++;
	print_error("%s: %.*s %s: %s %d\n", name, key_size, key, what,
		WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

/* Numbers of whole types, and those of f32, at `at`. */
static void check_numbers(const char *name, const char *key, int key_size, uint32_t type, size_t at)
{
	static const int64_t numbers[] = { 0, 1, -1, 3, INT32_MAX, (int64_t)1 << 40 };
	char what[40];

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		const float f = (float)numbers[i];

		memcpy(changed, file, file_size);
		memcpy(changed + at, type == 6 ? (const void *)&f : &numbers[i], value_size(type, at));
		snprintf(what, sizeof what, "= %lld", (long long)numbers[i]);
		check(name, key, key_size, what);
	}
}

/* Texts and the tokenizer's long arrays are fuzzed elsewhere (tests/fuzz). */
static void check_key(const char *name, size_t at)
{
	const int key_size = (int)u64_at(at);
	const char *key = (const char *)file + at + 8;
	const size_t type_at = at + 8 + (size_t)key_size, value = type_at + 4;
	const uint32_t type = u32_at(type_at);

	memcpy(changed, file, file_size);
	changed[at + 8] = '!'; /* a key of another name */
	check(name, key, key_size, "left out");
	if (type != 8 && type != 9)
		check_numbers(name, key, key_size, type, value);
	else if (type == 9 && u32_at(value) != 8 && strncmp(key, "tokenizer", 9))
		check_numbers(name, key, key_size, u32_at(value), value + 12);
}

/* Matrices of the first layer, of which one has another format than those beside it. */
static void check_formats(const char *name, size_t at)
{
	for (uint64_t i = 0, n = u64_at(8); i < n; i++) {
		const int size = (int)u64_at(at);
		const char *tensor = (const char *)file + at + 8;
		const uint32_t dims = u32_at(at + 8 + (size_t)size);
		const size_t dim = at + 12 + (size_t)size, type = dim + 8 * dims;

		if (dims == 2 && !u32_at(type) && u64_at(dim) % 32 == 0 && !strncmp(tensor, "blk.0.", 6)) {
			memcpy(changed, file, file_size);
			changed[type] = 8;
			check(name, tensor, size, "as Q8_0");
		}
		at = type + 12;
	}
}

static void test_file(void **state)
{
	const char *path = *state;
	FILE *f = fopen(path, "rb");
	size_t at = 24;

	assert_non_null(f);
	file_size = fread(file, 1, sizeof file, f);
	fclose(f);
	assert_in_range(file_size, 24, sizeof file - 1);
	n_wrong = n_refused = n_computed = 0;
	for (uint64_t i = 0, n = u64_at(16); i < n; i++) {
		check_key(path, at);
		at += 8 + (size_t)u64_at(at);
		at += 4 + value_size(u32_at(at), at + 4);
	}
	check_formats(path, at);
	memcpy(changed, file, file_size);
	memset(changed + file_size - file_size / 4, 0xff, file_size / 4);
	check(path, "weights", 7, "that are no numbers");
	print_message("%d refused, %d computed\n", n_refused, n_computed);
	assert_int_equal(n_wrong, 0);
	assert_true(n_refused && n_computed);
}

int main(int argc, char **argv)
{
	glob_t found;
	struct CMUnitTest tests[64];
	size_t n = 0;

	if (glob("tests/data/zoo/*.gguf", 0, NULL, &found))
		return 1;
	for (size_t i = 0; i < found.gl_pathc && n<64; i += argc> 1 || wants_all() ? 1 : 3)
		if (argc < 2 || strstr(found.gl_pathv[i], argv[1]))
			tests[n++] = (struct CMUnitTest){ .name = found.gl_pathv[i],
				.test_func = test_file,
				.initial_state = found.gl_pathv[i] };
	const int failed = _cmocka_run_group_tests("keys", tests, n, NULL, NULL);

	globfree(&found);
	return failed;
}
