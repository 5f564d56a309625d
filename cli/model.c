/* Finds the model file; hashes it once and remembers. Thread: main's. */
#include "cli/model.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/paths.h"

#define MODEL_NAME "SmolLM2-135M-Instruct.Q4_1.gguf"

/* Folder of the running program; "." if it cannot be known. */
static void program_folder(char *buf, size_t cap)
{
	ssize_t n = readlink("/proc/self/exe", buf, cap - 1);
	buf[n > 0 ? n : 0] = 0;
	char *slash = strrchr(buf, '/');
	if (slash)
		*slash = 0;
	else
		snprintf(buf, cap, ".");
}

static int find_default(char **path, struct err *e)
{
	char folder[4096];
	char *data = NULL;
	program_folder(folder, sizeof folder);
	if (paths_data("models/" MODEL_NAME, &data, NULL))
		data = NULL;
	const struct {
		const char *folder, *rest;
	} place[] = {
		{folder, "/models/" MODEL_NAME},
		{folder, "/../share/cutaway/models/" MODEL_NAME},
		{".", "/models/" MODEL_NAME},
		{data ? data : "", ""},
	};
	int status = -1;
	for (size_t i = 0; status && i < sizeof place / sizeof *place; i++) {
		char *at = NULL;
		if (asprintf(&at, "%s%s", place[i].folder, place[i].rest) < 0)
			break;
		if (!access(at, F_OK)) {
			*path = at;
			status = 0;
		} else {
			free(at);
		}
	}
	free(data);
	if (status)
		err_set(e, ERR_IO,
				"there is no model yet: `make model` fetches one (98 MB), or name a GGUF file with "
				"--model FILE");
	return status;
}

int model_find(const struct cli *c, char **path, struct err *e)
{
	if (!c->engine.model)
		return find_default(path, e);
	*path = strdup(c->engine.model);
	return *path ? 0 : err_set(e, ERR_MEMORY, "out of memory");
}

static int hash_file(int fd, const char *path, char out[65], struct err *e)
{
	enum { PART = 1 << 20 };
	unsigned char *part = malloc(PART), digest[SHA256_DIGEST_SIZE];
	struct sha256_ctx ctx;
	ssize_t n;
	if (!part)
		return err_set(e, ERR_MEMORY, "out of memory");
	sha256_init(&ctx);
	while ((n = read(fd, part, PART)) > 0)
		sha256_update(&ctx, (size_t)n, part);
	free(part);
	if (n < 0)
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	sha256_digest(&ctx, sizeof digest, digest);
	for (size_t i = 0; i < sizeof digest; i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
	return 0;
}

/* A line of the memory: hash, then what it stands for. Returns 0 if key is in the file. */
static int recall(const char *memory, const char *key, char out[65])
{
	FILE *f = fopen(memory, "r");
	char *line = NULL;
	size_t cap = 0;
	int status = -1;
	while (f && status && getline(&line, &cap, f) > 66) {
		line[strcspn(line, "\n")] = 0;
		if (line[64] == ' ' && strspn(line, "0123456789abcdef") == 64 && !strcmp(line + 65, key)) {
			memcpy(out, line, 64);
			out[64] = 0;
			status = 0;
		}
	}
	free(line);
	if (f)
		fclose(f);
	return status;
}

int model_sha256(const char *path, char out[65], struct err *e)
{
	struct stat st;
	char *memory = NULL, *key = NULL;
	int status = -1, fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
		goto out;
	}
	char *whole = realpath(path, NULL);
	if (asprintf(&key, "%" PRId64 " %" PRId64 ".%09ld %s", (int64_t)st.st_size,
				 (int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, whole ? whole : path) < 0)
		key = NULL;
	free(whole);
	if (!key || strchr(key, '\n') || paths_cache("sha256", &memory, NULL))
		memory = NULL;
	if (memory && !recall(memory, key, out)) {
		status = 0;
		goto out;
	}
	status = hash_file(fd, path, out, e);
	FILE *f = !status && memory ? fopen(memory, "a") : NULL;
	if (f) {
		fprintf(f, "%s %s\n", out, key);
		fclose(f);
	}
out:
	if (fd >= 0)
		close(fd);
	free(memory);
	free(key);
	return status;
}
