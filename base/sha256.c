/* See sha256.h. A line of the cache file: hash, size, mtime and ctime in ns, inode, device,
 * path. */
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "base/whole_file.h"

#define PART (1 << 20) /* bytes hashed at a time */
#define LINES_MOST 64  /* entries kept, the newest first */

static int hash_fd(
	int fd, const char *path, const atomic_bool *stop, char out[SHA256_HEX], struct err *e)
{
	uint8_t *part = malloc(PART), digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;
	ssize_t n;

	if (!part)
		return err_set(e, ERR_MEMORY, "no memory to hash %s", path);
	sha256_init(&ctx);
	while ((n = read(fd, part, PART)) != 0) {
		if (stop && atomic_load_explicit(stop, memory_order_relaxed)) {
			free(part);
			return err_set(e, ERR_INTERRUPTED, "the hashing of %s was stopped", path);
		}
		if (n > 0)
			sha256_update(&ctx, (size_t)n, part);
		else if (errno != EINTR)
			break;
	}
	free(part);
	if (n < 0)
		return err_set(e, ERR_IO, "cannot read %s: %s", path, strerror(errno));
	sha256_digest(&ctx, sizeof digest, digest);
	for (size_t i = 0; i < sizeof digest; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

/* The properties that a file must still have for its cached hash to be valid; malloc'd. NULL if
 * they do not fit one line. */
static char *make_key(int fd, const char *path)
{
	char *whole = realpath(path, NULL), *key = NULL;
	struct file_stamp now;
	struct stat st;

	if (whole && !strchr(whole, '\n') && !fstat(fd, &st)) {
		file_stamp_of(&st, &now);
		if (asprintf(&key, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %s",
				now.size, now.mtime_ns, now.ctime_ns, now.inode, now.device, whole) < 0)
			key = NULL;
	}
	free(whole);
	return key;
}

/* Whether a line is "hash key"; its hash to out. */
static bool line_matches(const char *line, const char *key, char out[SHA256_HEX])
{
	if (strspn(line, "0123456789abcdef") != SHA256_HEX - 1 || line[SHA256_HEX - 1] != ' ' ||
		strcmp(line + SHA256_HEX, key))
		return false;
	memcpy(out, line, SHA256_HEX - 1);
	out[SHA256_HEX - 1] = '\0';
	return true;
}

static bool recall(const char *memory, const char *key, char out[SHA256_HEX])
{
	FILE *f = fopen(memory, "re");
	char *line = NULL;
	size_t cap = 0;
	bool found = false;

	while (f && !found && getline(&line, &cap, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		found = line_matches(line, key, out);
	}
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* Copies the cache lines of all other files. */
static void copy_lines(FILE *to, const char *memory, const char *key)
{
	const char *path = strchr(key, '/');
	FILE *from = fopen(memory, "re");
	char *line = NULL;
	size_t cap = 0;

	for (int n = 1; from && n < LINES_MOST && getline(&line, &cap, from) > 0; n++) {
		const char *other = strchr(line, '/');

		line[strcspn(line, "\n")] = '\0';
		if (other && strcmp(other, path))
			fprintf(to, "%s\n", line);
	}
	free(line);
	if (from)
		fclose(from);
}

static void remember(const char *memory, const char *key, const char *hash)
{
	struct whole_file f;

	if (whole_file_open(&f, memory, NULL))
		return;
	fprintf(f.out, "%s %s\n", hash, key);
	copy_lines(f.out, memory, key);
	whole_file_close(&f, 0, NULL);
}

static int open_file(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return err_set(e, ERR_IO, "cannot open %s: %s", path, strerror(errno));
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return err_set(e, ERR_IO, "%s is not a file", path);
}

int file_sha256(const char *path, char out[SHA256_HEX], struct err *e)
{
	int fd = open_file(path, e), rc;

	if (fd < 0)
		return -1;
	rc = hash_fd(fd, path, NULL, out, e);
	close(fd);
	return rc;
}

void file_stamp_of(const struct stat *st, struct file_stamp *out)
{
	*out = (struct file_stamp){
		.size = st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
		.ctime_ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec,
		.inode = st->st_ino,
		.device = st->st_dev,
	};
}

bool file_is_stamped(int fd, const struct file_stamp *stamp)
{
	struct file_stamp now;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	file_stamp_of(&st, &now);
	return now.size == stamp->size && now.mtime_ns == stamp->mtime_ns &&
		   now.ctime_ns == stamp->ctime_ns && now.inode == stamp->inode &&
		   now.device == stamp->device;
}

bool file_sha256_known_of(const char *path, const struct file_stamp *stamp, char out[SHA256_HEX])
{
	int fd = open_file(path, NULL);
	char *key = fd < 0 || (stamp && !file_is_stamped(fd, stamp)) ? NULL : make_key(fd, path),
		 *memory = NULL;
	bool found = key && !paths_cache("sha256", &memory, NULL) && recall(memory, key, out);

	if (fd >= 0)
		close(fd);
	free(key);
	free(memory);
	return found;
}

int file_sha256_of(const char *path, const struct file_stamp *stamp, const atomic_bool *stop,
	char out[SHA256_HEX], struct err *e)
{
	int fd = open_file(path, e), rc = 0;
	char *key, *after, *memory = NULL;

	if (fd < 0)
		return -1;
	key = make_key(fd, path);
	if (key && paths_cache("sha256", &memory, NULL))
		memory = NULL;
	if (!memory || !recall(memory, key, out)) {
		rc = hash_fd(fd, path, stop, out, e);
		/* A file that changed while it was read has no hash worth keeping. */
		after = rc ? NULL : make_key(fd, path);
		if (memory && after && !strcmp(key, after))
			remember(memory, key, out);
		free(after);
	}
	if (!rc && stamp && !file_is_stamped(fd, stamp))
		rc = err_set(e, ERR_INPUT, "%s is not the file it was when it was opened", path);
	close(fd);
	free(key);
	free(memory);
	return rc;
}

int file_sha256_cached(const char *path, char out[SHA256_HEX], struct err *e)
{
	return file_sha256_of(path, NULL, NULL, out, e);
}
