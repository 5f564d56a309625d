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

#include "base/clock.h"
#include "base/file_parts.h"
#include "base/paths.h"
#include "base/whole_file.h"

#define PIECE (1 << 20) /* bytes hashed at a time */
#define LINES_MOST 64   /* entries kept, the newest first */

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

static int hash_more(struct sha256_ctx *ctx, uint8_t *piece, const char *path,
	const atomic_bool *stop, struct err *e)
{
	int fd = open_file(path, e), rc = 0;
	ssize_t n;

	if (fd < 0)
		return -1;
	while (!rc && (n = read(fd, piece, PIECE)) != 0) {
		if (stop && atomic_load_explicit(stop, memory_order_relaxed))
			rc = err_set(e, ERR_INTERRUPTED, "the hashing of %s was stopped", path);
		else if (n > 0)
			sha256_update(ctx, (size_t)n, piece);
		else if (errno != EINTR)
			rc = err_set(e, ERR_IO, "cannot read %s: %s", path, strerror(errno));
	}
	close(fd);
	return rc;
}

/* Of all parts, one after the other. */
static int hash_whole(
	const char *path, const atomic_bool *stop, char out[SHA256_HEX], struct err *e)
{
	uint8_t *piece = malloc(PIECE), digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;
	int rc = piece ? 0 : err_set(e, ERR_MEMORY, "no memory to hash %s", path);

	sha256_init(&ctx);
	for (int i = 0, n = file_parts(path, NULL); !rc && i < n; i++) {
		char *part = file_part_path(path, i);

		rc = part ? hash_more(&ctx, piece, part, stop, e)
				  : err_set(e, ERR_MEMORY, "no memory to hash %s", path);
		free(part);
	}
	free(piece);
	sha256_digest(&ctx, sizeof digest, digest);
	for (size_t i = 0; !rc && i < sizeof digest; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return rc;
}

void file_stamp_of(const struct stat *st, struct file_stamp *out)
{
	*out = (struct file_stamp){
		.size = st->st_size,
		.mtime_ns = timespec_ns(st->st_mtim),
		.ctime_ns = timespec_ns(st->st_ctim),
		.inode = st->st_ino,
		.device = st->st_dev,
	};
}

void file_stamp_add(struct file_stamp *to, const struct file_stamp *part)
{
	to->size += part->size;
	to->mtime_ns = part->mtime_ns > to->mtime_ns ? part->mtime_ns : to->mtime_ns;
	to->ctime_ns = part->ctime_ns > to->ctime_ns ? part->ctime_ns : to->ctime_ns;
}

static bool same_stamp(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->size == b->size && a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns &&
		   a->inode == b->inode && a->device == b->device;
}

bool file_is_stamped(int fd, const struct file_stamp *stamp)
{
	struct file_stamp now;
	struct stat st;

	if (fstat(fd, &st))
		return false;
	file_stamp_of(&st, &now);
	return same_stamp(&now, stamp);
}

/* Of the file, or of all its parts; false: not all are there. */
static bool stamp_now(const char *path, struct file_stamp *out)
{
	bool ok = true;

	for (int i = 0, n = file_parts(path, NULL); ok && i < n; i++) {
		char *part = file_part_path(path, i);
		struct file_stamp its;
		struct stat st;

		ok = part && !stat(part, &st) && S_ISREG(st.st_mode);
		if (ok)
			file_stamp_of(&st, &its);
		if (ok && i)
			file_stamp_add(out, &its);
		else if (ok)
			*out = its;
		free(part);
	}
	return ok;
}

static bool is_stamped_now(const char *path, const struct file_stamp *stamp)
{
	struct file_stamp now;

	return stamp_now(path, &now) && same_stamp(&now, stamp);
}

/* The properties that a file must still have for its cached hash to be valid; malloc'd. NULL if
 * they do not fit one line. */
static char *make_key(const char *path)
{
	char *first = file_part_path(path, 0), *whole = first ? realpath(first, NULL) : NULL,
		 *key = NULL;
	struct file_stamp now;

	if (whole && !strchr(whole, '\n') && stamp_now(path, &now) &&
		asprintf(&key, "%" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %s", now.size,
			now.mtime_ns, now.ctime_ns, now.inode, now.device, whole) < 0)
		key = NULL;
	free(whole);
	free(first);
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

int file_sha256(const char *path, char out[SHA256_HEX], struct err *e)
{
	return hash_whole(path, NULL, out, e);
}

bool file_sha256_known_of(const char *path, const struct file_stamp *stamp, char out[SHA256_HEX])
{
	char *key = stamp && !is_stamped_now(path, stamp) ? NULL : make_key(path), *memory = NULL;
	bool found = key && !paths_cache("sha256", &memory, NULL) && recall(memory, key, out);

	free(key);
	free(memory);
	return found;
}

int file_sha256_of(const char *path, const struct file_stamp *stamp, const atomic_bool *stop,
	char out[SHA256_HEX], struct err *e)
{
	char *key = make_key(path), *after, *memory = NULL;
	int rc = 0;

	if (key && paths_cache("sha256", &memory, NULL))
		memory = NULL;
	if (!memory || !recall(memory, key, out)) {
		rc = hash_whole(path, stop, out, e);
		/* A file that changed while it was read has no hash worth keeping. */
		after = rc ? NULL : make_key(path);
		if (memory && after && !strcmp(key, after))
			remember(memory, key, out);
		free(after);
	}
	if (!rc && stamp && !is_stamped_now(path, stamp))
		rc = err_set(e, ERR_INPUT, "%s is not the file it was when it was opened", path);
	free(key);
	free(memory);
	return rc;
}

int file_sha256_cached(const char *path, char out[SHA256_HEX], struct err *e)
{
	return file_sha256_of(path, NULL, NULL, out, e);
}
