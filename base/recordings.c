/* See recordings.h. */
#include "base/recordings.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/paths.h"
#include "base/text.h"

static const char ending[] = ".db";

/* False: it is no recording. */
static bool look_at(int folder, const char *name, struct recording_file *out)
{
	char wal[NAME_MAX + 8];
	struct stat st;

	if (!text_ends(name, ending) || strlen(name) < sizeof ending || fstatat(folder, name, &st, 0) ||
		!S_ISREG(st.st_mode) || !st.st_size)
		return false;
	*out = (struct recording_file){ .bytes = st.st_size, .mtime_ns = timespec_ns(st.st_mtim) };
	snprintf(wal, sizeof wal, "%s-wal", name);
	if (!fstatat(folder, wal, &st, 0) && st.st_size) {
		out->bytes += st.st_size;
		if (timespec_ns(st.st_mtim) > out->mtime_ns)
			out->mtime_ns = timespec_ns(st.st_mtim);
	}
	return true;
}

static int newest_first(const void *a, const void *b)
{
	const struct recording_file *x = a, *y = b;

	return x->mtime_ns != y->mtime_ns ? (x->mtime_ns < y->mtime_ns) - (x->mtime_ns > y->mtime_ns)
									  : strcmp(y->name, x->name);
}

static bool read_folder(struct recordings *r, DIR *dir)
{
	struct recording_file file;
	struct dirent *d;

	while ((d = readdir(dir))) {
		if (!look_at(dirfd(dir), d->d_name, &file))
			continue;
		file.name = strdup(d->d_name);
		if (!file.name || !ARRAY_ROOM(r->file, r->cap, r->n + 1)) {
			free(file.name);
			return false;
		}
		r->file[r->n++] = file;
	}
	return true;
}

int recordings_open(struct recordings *r, struct err *e)
{
	bool whole;
	DIR *dir;

	*r = (struct recordings){ 0 };
	if (paths_data_there("sessions/", &r->folder, e))
		return -1;
	dir = opendir(r->folder);
	whole = !dir || read_folder(r, dir);
	if (dir)
		closedir(dir);
	if (!whole) {
		recordings_close(r);
		return err_no_memory(e, "the list of recordings");
	}
	if (r->n)
		qsort(r->file, (size_t)r->n, sizeof *r->file, newest_first);
	return 0;
}

void recordings_close(struct recordings *r)
{
	for (int32_t i = 0; i < r->n; i++)
		free(r->file[i].name);
	free(r->file);
	free(r->folder);
	*r = (struct recordings){ 0 };
}

/* ---- which one a word names ---- */

/* 0: the word is no number. */
static int64_t number_of(const char *what)
{
	return *what && strlen(what) < 10 && strspn(what, "0123456789") == strlen(what) ? atoll(what)
																					: 0;
}

bool recordings_is_number(const char *what)
{
	return number_of(what) > 0 && access(what, F_OK);
}

/* Index of the only name that begins with the word, or is the word without its ending; -1: there is
 * none, -2: there are several. */
static int32_t begins_with(const struct recordings *r, const char *what)
{
	const size_t n = strlen(what);
	int32_t found = -1;

	for (int32_t i = 0; i < r->n; i++) {
		const char *name = r->file[i].name;

		if (strncmp(name, what, n))
			continue;
		if (!strcmp(name + n, ending) || !name[n])
			return i;
		found = found < 0 && found != -2 ? i : -2;
	}
	return found;
}

static int find_in(const struct recordings *r, const char *what, char **path, struct err *e)
{
	const int64_t number = what ? number_of(what) : 1;
	int32_t i = number > 0 && number <= r->n ? (int32_t)number - 1 : -1;

	if (!what && !r->n)
		return err_set(e, ERR_IO, "%s has no recording yet: name one", r->folder);
	if (i < 0)
		i = begins_with(r, what);
	if (i == -2)
		return err_set(e, ERR_USAGE,
			"several recordings begin with %s: say more of the name, or its number in `cutaway "
			"sessions`",
			what);
	if (i < 0 && number)
		return err_set(
			e, ERR_USAGE, "there is no recording %s: `cutaway sessions` lists %d", what, (int)r->n);
	return i < 0 ? paths_print(path, e, "%s", what)
				 : paths_print(path, e, "%s%s", r->folder, r->file[i].name);
}

int recordings_find(const char *what, char **path, struct err *e)
{
	struct recordings r = { 0 };
	int rc;

	*path = NULL;
	if (what && (!*what || strchr(what, '/') || !access(what, F_OK)))
		return paths_print(path, e, "%s", what);
	if (recordings_open(&r, e))
		return -1;
	rc = find_in(&r, what, path, e);
	recordings_close(&r);
	return rc;
}

int recordings_beside(char **beside, const char *path, char mark, const char *name, struct err *e)
{
	const size_t n = strlen(path) - strlen(ending) * text_ends(path, ending);

	return paths_print(beside, e, "%.*s%c%s%s", (int)n, path, mark, name, ending);
}

size_t recordings_stem(const char *name, bool *stamp)
{
	const size_t n = strlen(name) - strlen(ending) * text_ends(name, ending);

	*stamp = n >= 17 && strspn(name, "0123456789-") == n;
	return n;
}

bool recordings_is_called(const char *name, const char *words)
{
	bool stamp;
	char stem[NAME_MAX + 1];

	snprintf(stem, sizeof stem, "%.*s", (int)recordings_stem(name, &stamp), name);
	return !stamp && strcasestr(stem, words);
}

int recordings_new_path(const char *name, char **path, struct err *e)
{
	char *clean = text_clean(name, strlen(name), false, NULL), *rest = NULL;
	int rc = -1;

	if (!paths_is_name(name, 199) || number_of(name))
		err_set(e, ERR_USAGE,
			"%s is no name for a recording: not only digits, no slash, no dot or dash at the "
			"beginning, at most 199 bytes",
			clean ? clean : "that");
	else if (!paths_print(&rest, e, "sessions/%s%s", name, text_ends(name, ending) ? "" : ending))
		rc = paths_data(rest, path, e);
	free(rest);
	free(clean);
	return rc;
}
