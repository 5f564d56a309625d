/* See partial.h. */
#include "lab/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/whole_file.h"

/* Of the names of the whole file, of what grows, and of its checksums. */
static const char *const ends[] = { "", ".partial", ".partial.sums" };

int partial_read(struct partial *p, uint64_t at, void *data, size_t n, struct err *e)
{
	if (file_at(p->fd, data, n, at, false) == n)
		return 0;
	return err_set(e, ERR_IO, "%s: %s", p->name, errno ? strerror(errno) : "it ends too early");
}

int partial_write(struct partial *p, uint64_t at, const void *data, size_t n, struct err *e)
{
	if (file_at(p->fd, (void *)(uintptr_t)data, n, at, true) == n)
		return 0;
	return err_set(e, ERR_IO,
		"%s: %s; what is done stays there, and the same command goes on from it", p->name,
		strerror(errno ? errno : ENOSPC));
}

/* Whether the file begins with these bytes. */
static bool begins_with(struct partial *p, const uint8_t *head, size_t n)
{
	uint8_t *there = malloc(n);
	bool same =
		there && p->size >= n && !partial_read(p, 0, there, n, NULL) && !memcmp(there, head, n);

	free(there);
	return same;
}

static int open_file(struct partial *p, const uint8_t *head, size_t n, struct err *e)
{
	struct stat st;

	p->fd = open(p->name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (p->fd < 0 || fstat(p->fd, &st))
		return err_set(e, ERR_IO, "%s: %s", p->name, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_IO, "%s is no file", p->name);
	if (flock(p->fd, LOCK_EX | LOCK_NB))
		return err_set(e, ERR_IO, "%s is being written by another process", p->name);
	p->sums = open(p->sums_name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (p->sums < 0)
		return err_set(e, ERR_IO, "%s: %s", p->sums_name, strerror(errno));
	p->size = (uint64_t)st.st_size;
	if (p->size && begins_with(p, head, n))
		return 0;
	if (p->size > n)
		return err_set(e, ERR_USAGE,
			"%s was begun from another source or with other options: delete it, or choose another "
			"name",
			p->name);
	p->size = 0;
	return ftruncate(p->fd, 0) || ftruncate(p->sums, 0)
			   ? err_set(e, ERR_IO, "%s: %s", p->name, strerror(errno))
			   : partial_write(p, 0, head, n, e);
}

int partial_is_free(const char *path, struct err *e)
{
	struct stat st;

	return lstat(path, &st) ? 0
							: err_set(e, ERR_USAGE,
								  "%s is there already: delete it, or choose another name", path);
}

/* malloc'd */
static char *named(const char *path, const char *end)
{
	char *name = NULL;

	return asprintf(&name, "%s%s", path, end) < 0 ? NULL : name;
}

static void let_go(struct partial *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->sums >= 0)
		close(p->sums);
	free(p->name);
	free(p->sums_name);
}

int partial_open(struct partial *p, const char *path, const uint8_t *head, size_t n, struct err *e)
{
	if (partial_is_free(path, e))
		return -1;
	*p = (struct partial){ .path = path,
		.name = named(path, ends[1]),
		.sums_name = named(path, ends[2]),
		.fd = -1,
		.sums = -1 };
	if (!p->name || !p->sums_name)
		err_no_memory(e, "a path");
	else if (!open_file(p, head, n, e))
		return 0;
	let_go(p);
	return -1;
}

/* ---- what is whole ---- */

/* All that was written is on the disk when it returns. */
static int sync_file(struct partial *p, struct err *e)
{
	return fdatasync(p->fd) ? err_set(e, ERR_IO, "%s: %s", p->name, strerror(errno)) : 0;
}

/* Of the file's bytes from `from` to `end`, as they are read back. */
static int sum(struct partial *p, uint64_t from, uint64_t end, XXH128_canonical_t *s)
{
	const size_t room = 1 << 20;
	XXH3_state_t *x = XXH3_createState();
	uint8_t *piece = malloc(room);
	int rc = x && piece && !XXH3_128bits_reset(x) ? 0 : -1;

	for (size_t n; !rc && from < end; from += n) {
		n = end - from < room ? (size_t)(end - from) : room;
		rc = partial_read(p, from, piece, n, NULL) || XXH3_128bits_update(x, piece, n) ? -1 : 0;
	}
	if (!rc)
		XXH128_canonicalFromHash(s, XXH3_128bits_digest(x));
	XXH3_freeState(x);
	free(piece);
	return rc;
}

bool partial_holds(struct partial *p, int32_t part, uint64_t from, uint64_t end)
{
	XXH128_canonical_t stated, is;

	return end <= p->size &&
		   pread(p->sums, &stated, sizeof stated, (off_t)sizeof stated * part) ==
			   (ssize_t)sizeof stated &&
		   !sum(p, from, end, &is) && !memcmp(&stated, &is, sizeof is);
}

int partial_seal(struct partial *p, int32_t part, uint64_t from, uint64_t end, struct err *e)
{
	XXH128_canonical_t is;

	if (sync_file(p, e))
		return -1;
	if (sum(p, from, end, &is) ||
		pwrite(p->sums, &is, sizeof is, (off_t)sizeof is * part) != (ssize_t)sizeof is)
		return err_set(e, ERR_IO, "%s: no checksum could be written", p->sums_name);
	return 0;
}

void partial_remove(const char *path)
{
	for (size_t i = 0; i < ARRAY_N(ends); i++) {
		char *name = named(path, ends[i]);

		if (name)
			unlink(name);
		free(name);
	}
}

int partial_close(struct partial *p, int failed, struct err *e)
{
	if (!failed && sync_file(p, e))
		failed = -1;
	if (!failed && rename(p->name, p->path))
		failed = err_set(e, ERR_IO, "%s: %s", p->path, strerror(errno));
	if (!failed)
		unlink(p->sums_name);
	let_go(p);
	return failed;
}
