/* See lesson.h: where lessons are, and how far the reader came in each. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/near.h"
#include "base/paths.h"
#include "base/whole_file.h"
#include "sessions/lesson/lesson.h"

enum { NAME = 64, OWN = 200 };

/* ---- names ---- */

static char *own_path(const char *name, struct err *e)
{
	char rest[NAME + 16], *path;

	snprintf(rest, sizeof rest, "lessons/%s%s", name, *name ? ".md" : "");
	return paths_data(rest, &path, e) ? NULL : path;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

static int own_names(char name[OWN][NAME])
{
	struct err ignored = { 0 };
	char *path = own_path("", &ignored);
	DIR *dir = path ? opendir(path) : NULL;
	int n = 0;

	free(path);
	for (struct dirent *d; dir && n < OWN && (d = readdir(dir));) {
		size_t size = strlen(d->d_name);

		if (size > 3 && size - 3 < NAME && *d->d_name != '.' &&
			!strcmp(d->d_name + size - 3, ".md"))
			snprintf(name[n++], NAME, "%.*s", (int)(size - 3), d->d_name);
	}
	if (dir)
		closedir(dir);
	qsort(name, (size_t)n, NAME, by_name);
	return n;
}

const char *lesson_name(int i)
{
	static char own[OWN][NAME];
	int n = 0;

	while (lessons_shipped[n].name)
		if (n++ == i)
			return lessons_shipped[i].name;
	i -= n;
	return i < own_names(own) ? own[i] : NULL;
}

static int no_such(const char *name, struct err *e)
{
	struct near n = NEAR_NONE;
	const char *other;

	for (int i = 0; (other = lesson_name(i)); i++)
		if (!strncmp(other, name, strlen(name)))
			n = (struct near){ other, 0 };
		else
			near_try(&n, name, other);
	return err_set(e, ERR_USAGE, "no lesson %.60s%s%s%s (\"cutaway lesson\" lists them)", name,
		n.best ? "; did you mean " : "", n.best ? n.best : "", n.best ? "?" : "");
}

/* ---- texts ---- */

static int read_file(const char *path, char **text, size_t *size, struct err *e)
{
	/* O_NONBLOCK: a FIFO of that name must not hang the program; files ignore it. */
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), rc = -1;
	FILE *in = fd < 0 ? NULL : fdopen(fd, "rb");

	*text = in ? malloc(LESSON_BYTES + 2) : NULL;
	if (!in) {
		err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (*text) {
		*size = fread(*text, 1, LESSON_BYTES + 1, in);
		(*text)[*size] = '\0';
		rc = ferror(in) ? err_set(e, ERR_IO, "%s: %s", path, strerror(errno)) : 0;
	} else {
		err_no_memory(e, "a lesson");
	}
	fclose(in);
	if (rc) { /* as of a folder */
		free(*text);
		*text = NULL;
	}
	return rc;
}

/* NULL: no lesson of this name is shipped. */
static const char *shipped(const char *name)
{
	int i = 0;

	while (lessons_shipped[i].name && strcmp(lessons_shipped[i].name, name) != 0)
		i++;
	return lessons_shipped[i].text;
}

static int copy_shipped(const char *name, char **text, size_t *size, struct err *e)
{
	const char *from = shipped(name);

	if (!from)
		return no_such(name, e);
	*size = strlen(from);
	*text = strdup(from);
	return *text ? 0 : err_no_memory(e, "a lesson");
}

int lesson_load(const char *name, char **text, size_t *size, struct err *e)
{
	size_t n = strlen(name);
	char *path;
	int rc;

	*text = NULL;
	if (strchr(name, '/') || (n > 3 && !strcmp(name + n - 3, ".md")))
		return read_file(name, text, size, e);
	if (n >= NAME)
		return no_such(name, e);
	if (!(path = own_path(name, e)))
		return -1;
	rc = access(path, F_OK) ? copy_shipped(name, text, size, e) : read_file(path, text, size, e);
	free(path);
	return rc;
}

/* ---- a lesson of one's own ---- */

EMBED(lesson_start, "sessions/lesson/lesson_new.md");

static bool is_plain(const char *name)
{
	return *name && *name != '.' && *name != '-' && strlen(name) < NAME &&
		   strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") ==
			   strlen(name);
}

int lesson_new(const char *name, char **path, struct err *e)
{
	struct whole_file f;

	*path = NULL;
	if (!is_plain(name))
		return err_set(e, ERR_USAGE, "%.60s: a name of letters, digits and dashes is needed", name);
	if (shipped(name))
		return err_set(e, ERR_USAGE,
			"%s is a lesson that comes with cutaway, which one of that name would hide: choose "
			"another name",
			name);
	if (!(*path = own_path(name, e)))
		return -1;
	if (!access(*path, F_OK))
		err_set(e, ERR_USAGE, "%s is there already", *path);
	else if (!whole_file_open(&f, *path, e)) {
		fputs(lesson_start, f.out);
		if (!whole_file_close(&f, 0, e))
			return 0;
	}
	free(*path);
	*path = NULL;
	return -1;
}

/* ---- progress: a line a lesson ---- */

static FILE *open_progress(char **path)
{
	struct err ignored = { 0 };

	return paths_data("lessons/progress", path, &ignored) ? NULL : fopen(*path, "re");
}

static bool next_mark(FILE *in, char name[NAME], struct lesson_progress *p)
{
	long long at;

	if (!in || fscanf(in, "%63s %d %d %lld", name, &p->part, &p->parts, &at) != 4)
		return false;
	p->unix_s = at;
	return true;
}

void lesson_progress_get(const char *name, struct lesson_progress *out)
{
	char *path = NULL, of[NAME];
	FILE *in = open_progress(&path);
	struct lesson_progress p;

	*out = (struct lesson_progress){ 0 };
	while (next_mark(in, of, &p))
		if (!strcmp(of, name) && p.parts > 0 && p.part >= 0 && p.part <= p.parts)
			*out = p;
	if (in)
		fclose(in);
	free(path);
}

void lesson_progress_put(const char *name, int32_t part, int32_t parts)
{
	struct err ignored = { 0 };
	char *path = NULL, of[NAME];
	struct lesson_progress p;
	FILE *in;
	struct whole_file f;

	lesson_progress_get(name, &p);
	if (p.parts == parts && p.part > part)
		part = p.part;
	in = open_progress(&path);
	if (is_plain(name) && path && !whole_file_open(&f, path, &ignored)) {
		while (next_mark(in, of, &p))
			if (strcmp(of, name) != 0)
				fprintf(f.out, "%s %d %d %lld\n", of, p.part, p.parts, (long long)p.unix_s);
		fprintf(f.out, "%s %d %d %lld\n", name, part, parts, (long long)time(NULL));
		whole_file_close(&f, 0, &ignored);
	}
	if (in)
		fclose(in);
	free(path);
}
