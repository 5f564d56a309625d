/* See packed_cache.h. A file has the head in a page of its own, the hashes of the pieces padded to
 * whole pages, and the image. Numbers are in this machine's byte order: a file of another one fails
 * at its first number. The names of files that a program is still writing begin with "part-", and
 * they are locked; those left by a crash are not. */
#include "engine/model/packed_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/paths.h"
#include "base/text.h"
#include "base/whole_file.h"

enum {
	VERSION = 1,
	PAGE = 4096,
	PIECE = 256 << 10, /* read and hashed at once: stays in a core's L2 cache */
	PIECES = 8,        /* of a large page */
	LEAST_FREE = 20,   /* a file may leave no less than a 20th of its file system */
};
static const char magic[8] = "CUTAPACK", partial[] = "part-", ending[] = ".packed";

struct head {
	char magic[8];
	uint64_t version, piece, plan, bytes;
	char sha256[72], layout[48], name[96];
	uint64_t table; /* hash of the hashes */
	uint64_t hash;  /* of all before */
};

static size_t n_pieces(size_t bytes)
{
	return (bytes + PIECE - 1) / PIECE;
}

/* Where the image begins. */
static size_t image_at(size_t bytes)
{
	return PAGE + (n_pieces(bytes) * sizeof(uint64_t) + PAGE - 1) / PAGE * PAGE;
}

static void make_head(struct head *h, const struct packed_key *k, const char *name, uint64_t table)
{
	memset(h, 0, sizeof *h);
	memcpy(h->magic, magic, sizeof magic);
	h->version = VERSION;
	h->piece = PIECE;
	h->plan = k->plan;
	h->bytes = k->bytes;
	snprintf(h->sha256, sizeof h->sha256, "%s", k->sha256);
	snprintf(h->layout, sizeof h->layout, "%s", k->layout);
	snprintf(h->name, sizeof h->name, "%s", name);
	h->table = table;
	h->hash = XXH64(h, offsetof(struct head, hash), 0);
}

int packed_cache_folder(char **folder, struct err *e)
{
	return paths_cache("packed/", folder, e);
}

/* malloc'd. */
static char *path_of(const char *folder, const struct packed_key *k)
{
	char *path = NULL;

	if (asprintf(&path, "%s%.32s-%s%s", folder, k->sha256, k->layout, ending) < 0)
		return NULL;
	for (char *p = path + strlen(folder); *p; p++)
		*p = *p == ' ' || *p == '/' ? '-' : *p;
	return path;
}

static bool stopped(const atomic_bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

/* All n bytes, or false. */
static bool read_at(int fd, void *to, size_t n, size_t at)
{
	return file_at(fd, to, n, at, false) == n;
}

static bool write_at(int fd, const void *from, size_t n, size_t at)
{
	return file_at(fd, (void *)(uintptr_t)from, n, at, true) == n;
}

/* ---- reading ---- */

static bool is_ours(int fd, struct stat *st)
{
	return !fstat(fd, st) && S_ISREG(st->st_mode) && st->st_uid == geteuid() &&
		   !(st->st_mode & 077);
}

/* The hashes of the pieces, malloc'd; NULL if anything is not as expected. */
static uint64_t *read_table(int fd, const struct packed_key *k)
{
	size_t bytes = n_pieces(k->bytes) * sizeof(uint64_t);
	struct head h, want;
	struct stat st;
	uint64_t *table;

	if (!is_ours(fd, &st) || (uint64_t)st.st_size != (uint64_t)image_at(k->bytes) + k->bytes ||
		!read_at(fd, &h, sizeof h, 0) || memchr(h.name, 0, sizeof h.name) == NULL)
		return NULL;
	make_head(&want, k, h.name, h.table);
	if (memcmp(&h, &want, sizeof h))
		return NULL;
	table = malloc(bytes);
	if (table && (!read_at(fd, table, bytes, PAGE) || XXH64(table, bytes, 0) != h.table)) {
		free(table);
		table = NULL;
	}
	return table;
}

struct loading {
	int fd;
	size_t bytes;
	const uint64_t *table;
	uint8_t *to;
	const atomic_bool *stop;
	atomic_bool bad;
};

static void load_piece(struct loading *l, size_t i)
{
	const size_t from = i * PIECE, n = l->bytes - from < PIECE ? l->bytes - from : PIECE;

	if (atomic_load_explicit(&l->bad, memory_order_relaxed) || stopped(l->stop))
		return;
	if (!read_at(l->fd, l->to + from, n, image_at(l->bytes) + from) ||
		XXH64(l->to + from, n, 0) != l->table[i])
		atomic_store(&l->bad, true);
}

/* A large page is read by one thread: two that touch a new one at once both clear it. */
static void load_page(void *arg, int64_t page, void *scratch)
{
	struct loading *l = arg;
	size_t i = (size_t)page * PIECES, end = i + PIECES, n = n_pieces(l->bytes);

	(void)scratch;
	for (; i < end && i < n; i++)
		load_piece(l, i);
}

static bool load(
	int fd, const struct packed_key *k, struct k_ctx *kernels, uint8_t *to, const atomic_bool *stop)
{
	struct loading l = { .fd = fd, .bytes = k->bytes, .to = to, .stop = stop };
	uint64_t *table = read_table(fd, k);

	if (!table)
		return false;
	l.table = table;
	k_deal(kernels, (int64_t)((n_pieces(k->bytes) + PIECES - 1) / PIECES), load_page, &l);
	free(table);
	return !l.bad;
}

bool packed_cache_load(const char *folder, const struct packed_key *k, struct k_ctx *kernels,
	uint8_t *to, const atomic_bool *stop)
{
	char *path = path_of(folder, k);
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	bool good = fd >= 0 && load(fd, k, kernels, to, stop);

	if (good)
		utimensat(AT_FDCWD, path, NULL, 0); /* marks it as used now */
	else if (path && (fd >= 0 || errno == ELOOP))
		unlink(path);
	if (fd >= 0)
		close(fd);
	free(path);
	return good && !stopped(stop);
}

/* ---- what is there ---- */

struct entry {
	char file[256];
	uint64_t bytes;
	struct timespec used;
};

/* An unfinished file that nobody is writing. */
static bool is_orphan(int dir, const char *file)
{
	int fd;
	bool orphan;

	if (strncmp(file, partial, sizeof partial - 1))
		return false;
	fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	orphan = fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB);
	if (fd >= 0)
		close(fd);
	return orphan;
}

static int by_use(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	const struct timespec *s = &x->used, *t = &y->used;

	if (s->tv_sec != t->tv_sec)
		return s->tv_sec < t->tv_sec ? 1 : -1;
	return s->tv_nsec < t->tv_nsec ? 1 : s->tv_nsec > t->tv_nsec ? -1 : strcmp(x->file, y->file);
}

/* All files of the cache, most recently used first, malloc'd; orphans are deleted on the way. -1:
 * the folder cannot be read. */
static int scan(const char *folder, DIR **dir, struct entry **out, struct err *e)
{
	const struct dirent *d;
	int n = 0, cap = 0;
	struct stat st;

	*out = NULL;
	*dir = opendir(folder);
	if (!*dir)
		return err_set(e, ERR_IO, "%s: %s", folder, strerror(errno));
	while ((d = readdir(*dir))) {
		if (is_orphan(dirfd(*dir), d->d_name))
			unlinkat(dirfd(*dir), d->d_name, 0);
		if (!text_ends(d->d_name, ending) ||
			fstatat(dirfd(*dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) || S_ISDIR(st.st_mode))
			continue;
		if (!ARRAY_ROOM(*out, cap, n + 1))
			break;
		(*out)[n] = (struct entry){ .bytes = (uint64_t)st.st_size, .used = st.st_mtim };
		snprintf((*out)[n++].file, sizeof(*out)->file, "%s", d->d_name);
	}
	if (n)
		qsort(*out, (size_t)n, sizeof **out, by_use);
	return n;
}

/* Deletes the least recently used files until `most` bytes are left. */
static void trim(const char *folder, uint64_t most)
{
	struct entry *entry;
	uint64_t sum = 0;
	DIR *dir;
	int n = scan(folder, &dir, &entry, NULL);

	for (int i = 0; i < n; i++) {
		sum += entry[i].bytes;
		if (sum > most)
			unlinkat(dirfd(dir), entry[i].file, 0);
	}
	free(entry);
	if (dir)
		closedir(dir);
}

static void describe(int dir, struct packed_file *f)
{
	int fd = openat(dir, f->file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct head h;
	struct stat st;

	if (fd >= 0 && is_ours(fd, &st) && read_at(fd, &h, sizeof h, 0) &&
		!memcmp(h.magic, magic, sizeof magic) &&
		h.hash == XXH64(&h, offsetof(struct head, hash), 0)) {
		snprintf(f->name, sizeof f->name, "%.*s", (int)sizeof h.name - 1, h.name);
		snprintf(f->layout, sizeof f->layout, "%.*s", (int)sizeof h.layout - 1, h.layout);
		snprintf(f->sha256, sizeof f->sha256, "%.*s", SHA256_HEX - 1, h.sha256);
	}
	if (fd >= 0)
		close(fd);
}

int packed_cache_list(const char *folder, void (*fn)(void *arg, const struct packed_file *f),
	void *arg, struct err *e)
{
	struct entry *entry;
	DIR *dir;
	int n = scan(folder, &dir, &entry, e);

	for (int i = 0; i < n; i++) {
		struct packed_file f = {
			.file = entry[i].file, .bytes = entry[i].bytes, .used = entry[i].used.tv_sec
		};

		describe(dirfd(dir), &f);
		fn(arg, &f);
	}
	free(entry);
	if (dir)
		closedir(dir);
	return n < 0 ? -1 : 0;
}

int packed_cache_clear(const char *folder, int *n, uint64_t *bytes, struct err *e)
{
	struct entry *entry;
	DIR *dir;
	int found = scan(folder, &dir, &entry, e), status = found < 0 ? -1 : 0;

	*n = 0;
	*bytes = 0;
	for (int i = 0; i < found; i++) {
		if (unlinkat(dirfd(dir), entry[i].file, 0)) {
			status = err_set(
				e, ERR_IO, "%s%s cannot be deleted: %s", folder, entry[i].file, strerror(errno));
			continue;
		}
		*n += 1;
		*bytes += entry[i].bytes;
	}
	free(entry);
	if (dir)
		closedir(dir);
	return status;
}

/* ---- writing ---- */

/* Whether so many bytes can be written and the file system keeps enough free space. */
static bool fits(int fd, uint64_t bytes)
{
	struct statvfs v;

	return !fstatvfs(fd, &v) && (double)v.f_bavail * (double)v.f_frsize - (double)bytes >
									(double)v.f_blocks * (double)v.f_frsize / LEAST_FREE;
}

static bool write_all(int fd, const struct packed_key *k, const char *name, const uint8_t *image,
	const atomic_bool *stop)
{
	size_t n = n_pieces(k->bytes), at = image_at(k->bytes);
	uint64_t *table = malloc(n * sizeof *table);
	bool good = table != NULL;
	struct head h;

	for (size_t i = 0; good && i < n; i++) {
		size_t from = i * PIECE, size = k->bytes - from < PIECE ? k->bytes - from : PIECE;

		table[i] = XXH64(image + from, size, 0);
		good = !stopped(stop) && write_at(fd, image + from, size, at + from);
	}
	if (good) {
		make_head(&h, k, name, XXH64(table, n * sizeof *table, 0));
		good = write_at(fd, table, n * sizeof *table, PAGE) && write_at(fd, &h, sizeof h, 0);
	}
	free(table);
	return good;
}

static int write_and_rename(const char *folder, const struct packed_key *k, const char *name,
	const uint8_t *image, const atomic_bool *stop, struct err *e)
{
	char *path = path_of(folder, k), *draft = NULL;
	int fd = -1, status = -1;

	if (!path || asprintf(&draft, "%s%sXXXXXX", folder, partial) < 0) {
		draft = NULL;
		err_no_memory(e, "a path");
		goto out;
	}
	fd = mkostemp(draft, O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB)) {
		err_set(e, ERR_IO, "%s: no file can be made there: %s", folder, strerror(errno));
		goto out;
	}
	if (!fits(fd, k->bytes))
		err_set(e, ERR_IO, "%s: too little room is free for %zu MB", folder, k->bytes >> 20);
	else if (!write_all(fd, k, name, image, stop))
		err_set(e, ERR_IO, "%s cannot be written: %s", path, strerror(errno));
	else if (rename(draft, path))
		err_set(e, ERR_IO, "%s cannot be made: %s", path, strerror(errno));
	else
		status = 0;
	if (status)
		unlink(draft);
out:
	if (fd >= 0)
		close(fd);
	free(draft);
	free(path);
	return status;
}

int packed_cache_store(const char *folder, const struct packed_key *k, const char *name,
	const uint8_t *image, uint64_t most, const atomic_bool *stop, struct err *e)
{
	uint64_t whole = (uint64_t)image_at(k->bytes) + k->bytes;

	if (whole > most)
		return err_set(e, ERR_USAGE, "%zu MB are more than the cache may have", k->bytes >> 20);
	trim(folder, most - whole);
	return write_and_rename(folder, k, name, image, stop, e);
}
