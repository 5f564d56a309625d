/* See whole_file.h. */
#include "base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/text.h"

enum { TRIES = 1000 };

bool file_is_database(const char *path)
{
	static const char start[] = "SQLite format 3";
	char head[sizeof start] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	bool same = fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head &&
				!memcmp(head, start, sizeof start);

	if (fd >= 0)
		close(fd);
	return same || text_ends(path, "-wal") || text_ends(path, "-shm") ||
		   text_ends(path, "-journal");
}

/* Opens a temporary file next to path. If path exists (old), its mode is copied. */
static int open_part(struct whole_file *f, const struct stat *old, struct err *e)
{
	int fd = -1;

	for (int i = 0; fd < 0 && i < TRIES; i++) {
		free(f->part);
		if (paths_print(&f->part, e, "%s.%ld-%d.part", f->path, (long)getpid(), i))
			return -1;
		fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return err_set(e, ERR_IO, "%s: no file can be made there: %s", f->name, strerror(errno));
	if (old && fchmod(fd, old->st_mode & 0777))
		errno = 0; /* a file system without modes */
	f->out = fdopen(fd, "w");
	if (f->out)
		return 0;
	close(fd);
	unlink(f->part);
	return err_set(e, ERR_MEMORY, "no memory to write %s", f->name);
}

static int open_directly(struct whole_file *f, struct err *e)
{
	int fd = open(f->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	f->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (f->out)
		return 0;
	err_set(e, ERR_IO, "%s: %s", f->name, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static int open_beside(struct whole_file *f, const struct stat *old, struct err *e)
{
	struct stat link;

	if (!old && !lstat(f->name, &link))
		return err_set(e, ERR_IO,
			"%s is a link to a file that is not there: remove it, or choose another name", f->name);
	f->path = old ? realpath(f->name, NULL) : strdup(f->name);
	if (!f->path)
		return err_set(e, ERR_IO, "%s: %s", f->name, strerror(errno));
	if (file_is_database(f->path))
		return err_set(e, ERR_USAGE,
			"%s is a recording, or a part of one, and is not written over: choose another "
			"name",
			f->name);
	/* replacing a file that may not be written to would bypass its mode */
	if (old && faccessat(AT_FDCWD, f->path, W_OK, AT_EACCESS))
		return err_set(e, ERR_IO, "%s: %s", f->name, strerror(errno));
	return open_part(f, old, e);
}

int whole_file_open(struct whole_file *f, const char *name, struct err *e)
{
	struct stat old;
	bool there = !stat(name, &old);

	*f = (struct whole_file){ .name = name };
	if (there && S_ISDIR(old.st_mode))
		return err_set(e, ERR_IO, "%s: %s", name, strerror(EISDIR));
	if (there && !S_ISREG(old.st_mode))
		return open_directly(f, e);
	if (!open_beside(f, there ? &old : NULL, e))
		return 0;
	free(f->path);
	free(f->part);
	return -1;
}

int whole_file_close(struct whole_file *f, int failed, struct err *e)
{
	bool lost = ferror(f->out);

	errno = lost ? EIO : 0;
	lost = fclose(f->out) || lost;
	if (!failed && lost)
		failed = err_set(e, ERR_IO, "%s: could not be written: %s", f->name, strerror(errno));
	if (!failed && f->part && rename(f->part, f->path))
		failed = err_set(e, ERR_IO, "%s: %s", f->name, strerror(errno));
	if (failed && f->part)
		unlink(f->part);
	free(f->path);
	free(f->part);
	return failed ? -1 : 0;
}

size_t file_at(int fd, void *bytes, size_t n, size_t at, bool writes)
{
	size_t done = 0;

	while (done < n) {
		char *p = (char *)bytes + done;
		const off_t to = (off_t)(at + done);
		const ssize_t got = writes ? pwrite(fd, p, n - done, to) : pread(fd, p, n - done, to);

		if (!got)
			errno = 0;
		if (!got || (got < 0 && errno != EINTR))
			break;
		done += got > 0 ? (size_t)got : 0;
	}
	return done;
}
