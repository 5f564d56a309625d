/* The cache of packed weights: what is written is read back; whatever is wrong with a file, it is
 * refused, deleted and made anew, and never believed; a full disk and a stop leave nothing behind;
 * the oldest goes first. And with it an engine gives the same bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/core/engine.h"
#include "engine/model/packed_cache.h"
#include "tests/support/tiny.h"

enum { BYTES = 600000, IMAGE_AT = 8192, PAGE = 4096, TABLE_BYTES = 3 * 8 };
#define HASH "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"

static char top[64], folder[96], file[400];
static uint8_t *image;
static struct k_ctx *kernels;
static const struct packed_key key = {
	.sha256 = HASH, .layout = "test-0123456789abcdef", .plan = 77, .bytes = BYTES
};

static int count_files(void)
{
	DIR *d = opendir(folder);
	int n = 0;

	assert_non_null(d);
	for (const struct dirent *e; (e = readdir(d));)
		n += *e->d_name != '.';
	closedir(d);
	return n;
}

static void store(void)
{
	struct err e = { 0 };

	if (packed_cache_store(folder, &key, "a model.gguf", image, PACKED_CACHE_MOST, NULL, &e))
		fail_msg("%s", e.text);
	assert_int_equal(count_files(), 1);
}

static bool load_as(const struct packed_key *k)
{
	static uint8_t to[BYTES + PAGE];
	bool good;

	memset(to, 0xee, sizeof to);
	good = packed_cache_load(folder, k, kernels, to, NULL);
	if (good)
		assert_memory_equal(to, image, k->bytes);
	for (size_t i = k->bytes; i < sizeof to; i++)
		assert_int_equal(to[i], 0xee);
	return good;
}

static void put(size_t at, const void *data, size_t n)
{
	int fd = open(file, O_WRONLY);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, n, (off_t)at), n);
	close(fd);
}

/* The file is not believed and is gone; the next one is. */
static void assert_refused(const char *what)
{
	if (load_as(&key))
		fail_msg("believed: %s", what);
	if (!access(file, F_OK))
		fail_msg("not deleted: %s", what);
	store();
	assert_true(load_as(&key));
}

static void test_xxh64(void **state)
{
	uint8_t text[222];

	(void)state;
	/* of the published program, xxhsum -H1 */
	assert_true(XXH64("", 0, 0) == 0xef46db3751d8e999u);
	assert_true(XXH64("a", 1, 0) == 0xd24ec4f1a98c6e5bu);
	assert_true(XXH64("abc", 3, 0) == 0x44bc2cf5ad770999u);
	for (size_t i = 0; i < sizeof text; i++)
		text[i] = (uint8_t)(i * 7);
	assert_true(XXH64(text, 4, 0) != XXH64(text, 5, 0));
	assert_true(XXH64(text, sizeof text, 1) != XXH64(text, sizeof text, 0));
	assert_true(XXH64("The quick brown fox jumps over the lazy dog", 43, 0) == 0x0b242d361fda71bcu);
}

static void test_round_trip(void **state)
{
	struct packed_key k = key;
	struct stat st;

	(void)state;
	assert_false(load_as(&key));
	store();
	assert_true(load_as(&key));
	assert_int_equal(stat(file, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, IMAGE_AT + BYTES);
	/* sizes around the ends of pieces */
	static const size_t sizes[] = { 1, 4096, (256 << 10) - 1, 256 << 10, (256 << 10) + 1,
		512 << 10 };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		k.bytes = sizes[i];
		assert_false(load_as(&k));
		assert_int_equal(
			packed_cache_store(folder, &k, "", image, PACKED_CACHE_MOST, NULL, NULL), 0);
		assert_true(load_as(&k));
	}
	unlink(file);
}

/* Another model, another layout, another plan, another size. */
static void test_key(void **state)
{
	struct packed_key k[4] = { key, key, key, key };

	(void)state;
	k[0].sha256[40] ^= 1; /* beyond what is in the file's name */
	k[1].layout = "test-0123456789abcdee";
	k[2].plan++;
	k[3].bytes--;
	for (int i = 0; i < 4; i++) {
		store();
		assert_false(load_as(&k[i]));
		/* of another layout is another file */
		assert_int_equal(access(file, F_OK), i == 1 ? 0 : -1);
		store();
		assert_true(load_as(&key));
	}
}

/* Each bit of the head and of the table, and bits all over the image. */
static void test_flips(void **state)
{
	enum { HEAD_BYTES = 272 };
	char what[64];

	(void)state;
	store();
	for (size_t at = 0; at < IMAGE_AT + BYTES; at += at < HEAD_BYTES ? 1 : 19937) {
		uint8_t byte;
		int fd = open(file, O_RDONLY);

		if (at >= HEAD_BYTES && at < PAGE)
			at = PAGE; /* the rest of the head's page is not looked at */
		if (at >= PAGE + TABLE_BYTES && at < IMAGE_AT)
			at = IMAGE_AT; /* nor is that of the table's */
		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		close(fd);
		byte ^= (uint8_t)(1 << at % 8);
		put(at, &byte, 1);
		snprintf(what, sizeof what, "a bit at %zu flipped", at);
		assert_refused(what);
	}
	for (size_t at = PAGE; at < PAGE + TABLE_BYTES; at++) {
		put(at, "\xa5", 1);
		assert_refused("a hash of a piece");
	}
	for (int i = 0; i < 3; i++) { /* the last byte of each piece */
		put(IMAGE_AT + (i == 2 ? BYTES : (size_t)(i + 1) << 18) - 1, "\xa5", 1);
		assert_refused("a piece's last byte");
	}
}

static void test_sizes(void **state)
{
	static const off_t sizes[] = { 0, 1, 100, 263, PAGE, PAGE + 5, IMAGE_AT, IMAGE_AT + 1,
		IMAGE_AT + BYTES - 1, IMAGE_AT + BYTES + 1 };

	(void)state;
	store();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		assert_int_equal(truncate(file, sizes[i]), 0);
		assert_refused("another size");
	}
}

/* What is not a file of this user alone. */
static void test_kinds(void **state)
{
	char aside[128];

	(void)state;
	snprintf(aside, sizeof aside, "%s/aside", top);
	store();
	assert_int_equal(chmod(file, 0620), 0);
	assert_refused("others may write to it");
	assert_int_equal(rename(file, aside), 0);
	assert_int_equal(symlink(aside, file), 0);
	assert_refused("a link");
	assert_int_equal(access(aside, F_OK), 0); /* what it led to is another's */
	unlink(aside);
	unlink(file);
	assert_int_equal(mkfifo(file, 0600), 0);
	assert_refused("a pipe");
	unlink(file);
	assert_int_equal(mkdir(file, 0700), 0);
	assert_false(load_as(&key));
	rmdir(file);
}

/* The file ends, or may grow no more, in the middle of each part. */
static void test_full_disk(void **state)
{
	static const rlim_t limits[] = { 0, 10, PAGE, IMAGE_AT, IMAGE_AT + 1, IMAGE_AT + (1 << 18) + 5,
		IMAGE_AT + BYTES - 1 };
	struct rlimit old, now;
	struct err e;

	(void)state;
	unlink(file);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		now = (struct rlimit){ limits[i], old.rlim_max };
		e.code = 0;
		setrlimit(RLIMIT_FSIZE, &now);
		assert_int_equal(
			packed_cache_store(folder, &key, "x", image, PACKED_CACHE_MOST, NULL, &e), -1);
		setrlimit(RLIMIT_FSIZE, &old);
		assert_int_equal(e.code, ERR_IO);
		assert_int_equal(count_files(), 0);
	}
	assert_int_equal(
		packed_cache_store("/proc/nowhere/", &key, "x", image, PACKED_CACHE_MOST, NULL, &e), -1);
}

static void test_stop(void **state)
{
	atomic_bool stop = true;

	(void)state;
	assert_int_equal(
		packed_cache_store(folder, &key, "x", image, PACKED_CACHE_MOST, &stop, NULL), -1);
	assert_int_equal(count_files(), 0);
	store();
	assert_false(packed_cache_load(folder, &key, kernels, image, &stop));
	assert_int_equal(access(file, F_OK), 0);
}

static void age(const char *path, int seconds)
{
	struct timespec t[2] = { { .tv_sec = 1000000 - seconds }, { .tv_sec = 1000000 - seconds } };

	assert_int_equal(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW), 0);
}

struct seen {
	char layout[4][48];
	int n, n_damaged;
};

static void see(void *arg, const struct packed_file *f)
{
	struct seen *s = arg;

	assert_true(s->n < 4);
	s->n_damaged += !*f->name;
	snprintf(s->layout[s->n++], 48, "%s", f->layout);
}

/* Three files of which two fit: the one used longest ago goes, a use renews, orphans go. */
static void test_bound(void **state)
{
	static const char *const layouts[] = { "one", "two", "three" };
	const uint64_t most = 2 * (IMAGE_AT + BYTES);
	char path[3][400], orphan[128], busy[128];
	struct seen seen = { .n = 0 };
	struct packed_key k = key;
	uint64_t bytes;
	int n, fd;

	(void)state;
	unlink(file);
	snprintf(orphan, sizeof orphan, "%spart-abcdef", folder);
	snprintf(busy, sizeof busy, "%spart-busy00", folder);
	close(open(orphan, O_WRONLY | O_CREAT, 0600));
	fd = open(busy, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	for (int i = 0; i < 3; i++) {
		k.layout = layouts[i];
		snprintf(path[i], sizeof path[i], "%s%.32s-%s.packed", folder, HASH, layouts[i]);
		assert_int_equal(packed_cache_store(folder, &k, "m", image, most, NULL, NULL), 0);
		age(path[i], 100 - i);
		k.layout = layouts[0];
		if (i == 1) /* the first becomes the one used last */
			assert_true(packed_cache_load(folder, &k, kernels, image, NULL));
	}
	assert_int_equal(access(orphan, F_OK), -1);
	assert_int_equal(access(busy, F_OK), 0);
	close(fd);
	assert_int_equal(packed_cache_list(folder, see, &seen, NULL), 0);
	assert_int_equal(seen.n, 2);
	assert_string_equal(seen.layout[0], "one");
	assert_string_equal(seen.layout[1], "three");
	/* what can never fit pushes nothing out */
	assert_int_equal(
		packed_cache_store(folder, &key, "m", image, IMAGE_AT + BYTES - 1, NULL, NULL), -1);
	assert_int_equal(access(path[0], F_OK), 0);
	/* a damaged one is listed and cleared like others */
	assert_int_equal(truncate(path[2], 30), 0);
	seen = (struct seen){ .n = 0 };
	assert_int_equal(packed_cache_list(folder, see, &seen, NULL), 0);
	assert_int_equal(seen.n_damaged, 1);
	assert_int_equal(packed_cache_clear(folder, &n, &bytes, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(bytes, IMAGE_AT + BYTES + 30);
	assert_int_equal(count_files(), 0);
}

/* ---- with an engine ---- */

static void on_event(void *arg, const struct event *ev)
{
	uint64_t *hash = arg;

	if (ev->kind == EV_token)
		*hash = *hash * 31 + (uint64_t)ev->u.token.hash;
}

/* Opens with that isa and mode, makes a few tokens, closes; the hash of all their logits. */
static uint64_t run(const char *model, const char *isa, const char *mode, bool *cached)
{
	int32_t ids[20];
	struct engine_options o = ENGINE_DEFAULTS;
	struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = 20,
		.max_tokens = 5,
		.params = SAMPLE_DEFAULTS,
		.text = "x",
		.ignore_end = true };
	struct engine *engine;
	struct err e = { 0 };
	uint64_t hash = 0;

	for (int i = 0; i < 20; i++)
		ids[i] = 3 + i * 11;
	o.model = model;
	o.isa = isa;
	o.threads = 2;
	o.packed_cache = mode;
	if (engine_open(&engine, &o, &e))
		fail_msg("%s", e.text);
	engine_add_sink(engine, on_event, &hash);
	engine_begin(engine, NULL);
	assert_true(engine_submit(engine, &q, NULL) > 0);
	while (!engine_idle(engine))
		assert_int_equal(engine_step(engine, NULL), 1);
	*cached = engine_info(engine)->from_packed_cache;
	engine_close(engine);
	return hash;
}

static void test_engine(void **state)
{
	struct tiny_options t = TINY_DEFAULTS;
	char *model;
	bool cached;

	(void)state;
	t.dim = 256;
	t.ffn = 512;
	t.mix = true;
	t.bias = true;
	t.type = K_Q4_K;
	model = tiny_temp(&t, NULL);
	assert_non_null(model);
	for (const char *const *isa = k_isas(); *isa; isa++) {
		uint64_t plain = run(model, *isa, "off", &cached);
		assert_false(cached);
		assert_int_equal(count_files(), isa - k_isas());
		assert_true(run(model, *isa, "auto", &cached) == plain); /* a small one is not kept */
		assert_false(cached);
		assert_true(run(model, *isa, "on", &cached) == plain);
		assert_false(cached);
		assert_int_equal(count_files(), isa - k_isas() + 1);
		assert_true(run(model, *isa, "on", &cached) == plain);
		assert_true(cached);
		assert_true(run(model, *isa, "auto", &cached) == plain);
		assert_true(cached);
		assert_true(run(model, *isa, "off", &cached) == plain);
		assert_false(cached);
	}
	/* the model changes in its place: another hash */
	t.seed = 99;
	assert_int_equal(tiny_write(&t, model, NULL), 0);
	uint64_t other = run(model, NULL, "off", &cached);
	assert_true(run(model, NULL, "on", &cached) == other);
	assert_false(cached);
	assert_true(run(model, NULL, "on", &cached) == other);
	assert_true(cached);
	unlink(model);
	free(model);
}

/* A model whose opening is not wanted any more; and one that is given up somewhere in the
 * middle. */
static void *set_soon(void *arg)
{
	usleep(500);
	atomic_store((atomic_bool *)arg, true);
	return NULL;
}

static void test_abandon(void **state)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct tiny_options t = TINY_DEFAULTS;
	struct engine *engine;
	char *model;
	int n = count_files();

	(void)state;
	t.dim = 512;
	t.ffn = 1024;
	t.layers = 8;
	model = tiny_temp(&t, NULL);
	o.model = model;
	o.packed_cache = "on";
	for (int i = 0; i < 8; i++) {
		atomic_bool stop = i == 0;
		struct err e = { 0 };
		pthread_t thread;
		int status;

		o.abandon = &stop;
		assert_int_equal(pthread_create(&thread, NULL, set_soon, &stop), 0);
		status = engine_open(&engine, &o, &e);
		pthread_join(thread, NULL);
		assert_true(status ? e.code == ERR_INTERRUPTED : i > 0);
		assert_true(status ? engine == NULL : engine != NULL);
		if (!status)
			engine_close(engine);
		if (i == 0)
			assert_int_equal(count_files(), n);
	}
	unlink(model);
	free(model);
}

static int set_up(void **state)
{
	(void)state;
	snprintf(top, sizeof top, "/tmp/cutaway-cache.XXXXXX");
	if (!mkdtemp(top))
		return -1;
	setenv("XDG_CACHE_HOME", top, 1);
	char *path = NULL;
	if (packed_cache_folder(&path, NULL))
		return -1;
	snprintf(folder, sizeof folder, "%s", path);
	free(path);
	snprintf(file, sizeof file, "%s%.32s-%s.packed", folder, HASH, key.layout);
	image = malloc(BYTES);
	for (size_t i = 0; image && i < BYTES; i++)
		image[i] = (uint8_t)(i * 2654435761u >> 11);
	return !image || k_open(&kernels, "cpu", NULL, 2, NULL);
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	k_close(kernels);
	free(image);
	snprintf(command, sizeof command, "rm -rf '%s'", top);
	return system(command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xxh64),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_key),
		cmocka_unit_test(test_flips),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_full_disk),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_engine),
		cmocka_unit_test(test_abandon),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
