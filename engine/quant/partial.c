/* See partial.h. */
#include "engine/quant/partial.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int partial_read(struct partial *p, uint64_t at, void *data, size_t n, struct err *e)
{
	for (size_t done = 0; done < n;) {
		ssize_t got = pread(p->fd, (uint8_t *)data + done, n - done, (off_t)(at + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return err_set(
				e, ERR_IO, "%s: %s", p->name, got ? strerror(errno) : "it ends too early");
		done += (size_t)got;
	}
	return 0;
}

int partial_write(struct partial *p, uint64_t at, const void *data, size_t n, struct err *e)
{
	for (size_t done = 0; done < n;) {
		ssize_t put = pwrite(p->fd, (const uint8_t *)data + done, n - done, (off_t)(at + done));

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			return err_set(e, ERR_IO,
				"%s: %s; what is done stays there, and the same command goes on from it", p->name,
				strerror(put ? errno : ENOSPC));
		done += (size_t)put;
	}
	return 0;
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
	p->size = (uint64_t)st.st_size;
	if (p->size && begins_with(p, head, n))
		return 0;
	if (p->size > n)
		return err_set(e, ERR_USAGE,
			"%s was begun from another source or with other options: delete it, or choose another "
			"name",
			p->name);
	p->size = 0;
	return ftruncate(p->fd, 0) ? err_set(e, ERR_IO, "%s: %s", p->name, strerror(errno))
							   : partial_write(p, 0, head, n, e);
}

int partial_is_free(const char *path, struct err *e)
{
	struct stat st;

	return lstat(path, &st) ? 0
							: err_set(e, ERR_USAGE,
								  "%s is there already: delete it, or choose another name", path);
}

int partial_open(struct partial *p, const char *path, const uint8_t *head, size_t n, struct err *e)
{
	*p = (struct partial){ .path = path, .fd = -1 };
	if (partial_is_free(path, e))
		return -1;
	if (asprintf(&p->name, "%s.partial", path) < 0)
		return err_set(e, ERR_MEMORY, "no memory for a path");
	if (!open_file(p, head, n, e))
		return 0;
	if (p->fd >= 0)
		close(p->fd);
	free(p->name);
	return -1;
}

int partial_sync(struct partial *p, struct err *e)
{
	return fdatasync(p->fd) ? err_set(e, ERR_IO, "%s: %s", p->name, strerror(errno)) : 0;
}

int partial_close(struct partial *p, int failed, struct err *e)
{
	if (!failed && partial_sync(p, e))
		failed = -1;
	if (!failed && rename(p->name, p->path))
		failed = err_set(e, ERR_IO, "%s: %s", p->path, strerror(errno));
	close(p->fd);
	free(p->name);
	return failed;
}
