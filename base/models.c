/* See models.h. */
#include "base/models.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file_parts.h"
#include "base/paths.h"

enum { NAMES = 64, NAME_BYTES = 128, FOLDERS = 5, FOLDER_BYTES = 4096 };

struct names {
	char name[NAMES][NAME_BYTES];
	int folder[NAMES];
	int n;
};

/* Folder i, with a slash at its end; "" if it is not known. */
static void folder(int i, char out[FOLDER_BYTES])
{
	static const char *const rest[FOLDERS] = { "/models/", "/../share/cutaway/models/", NULL, NULL,
		"/demos/models/family/" };
	char *data = NULL, *slash;
	ssize_t n;

	*out = '\0';
	if (i == 2) {
		snprintf(out, FOLDER_BYTES, "./models/");
	} else if (i == 3 && !paths_data("models/", &data, NULL)) {
		snprintf(out, FOLDER_BYTES, "%s", data);
	} else if (rest[i]) {
		n = readlink("/proc/self/exe", out, FOLDER_BYTES - 64);
		out[n > 0 ? n : 0] = '\0';
		slash = strrchr(out, '/');
		snprintf(slash ? slash : out, 64, "%s", slash ? rest[i] : "");
	}
	free(data);
}

/* Of a model in parts only the first. */
static bool is_model(const char *name)
{
	const size_t n = strlen(name);
	int part;

	file_parts(name, &part);
	return n > 5 && n < NAME_BYTES && !strcasecmp(name + n - 5, ".gguf") && !part;
}

/* Those that begin so, each name once: that of the first folder that has it. */
static void read_names(struct names *l, const char *begun)
{
	char at[FOLDER_BYTES];
	struct dirent *d;
	DIR *dir;

	l->n = 0;
	for (int i = 0; i < FOLDERS; i++) {
		folder(i, at);
		dir = *at ? opendir(at) : NULL;
		while (dir && l->n < NAMES && (d = readdir(dir))) {
			bool had = !is_model(d->d_name) || strncasecmp(d->d_name, begun, strlen(begun)) != 0;

			for (int k = 0; k < l->n && !had; k++)
				had = !strcmp(l->name[k], d->d_name);
			if (had)
				continue;
			snprintf(l->name[l->n], NAME_BYTES, "%s", d->d_name);
			l->folder[l->n++] = i;
		}
		if (dir)
			closedir(dir);
	}
}

static int several(const struct names *l, const char *what, struct err *e)
{
	char list[400];
	size_t used = 0;

	for (int i = 0; i < l->n && used < sizeof list; i++)
		used += (size_t)snprintf(list + used, sizeof list - used, " %s", l->name[i]);
	return err_set(e, ERR_USAGE, "%s could be%s", what, list);
}

int models_find(const char *what, char **path, struct err *e)
{
	char at[FOLDER_BYTES] = "";
	struct names *l = NULL;
	int one = 0, rc = 0;

	*path = NULL;
	if (*what && access(what, F_OK) && !strchr(what, '/') && (l = malloc(sizeof *l))) {
		read_names(l, what);
		for (int i = 0; i < l->n && l->n > 1; i++)
			if (!strcasecmp(l->name[i], what)) {
				one = i;
				l->n = 1;
			}
		if (l->n > 1)
			rc = several(l, what, e);
		else if (l->n)
			folder(l->folder[one], at);
	}
	if (!rc)
		rc = paths_print(path, e, "%s%s", at, *at ? l->name[one] : what);
	free(l);
	return rc;
}

char *models_own(const char *word)
{
	struct err ignored = { 0 };
	char *path = NULL;

	if (*word && !strchr(word, '/') && !models_find(word, &path, &ignored) && strchr(path, '/'))
		return path;
	free(path);
	return NULL;
}

const char *models_name(int i)
{
	static struct names l;

	if (!i)
		read_names(&l, "");
	return i < l.n ? l.name[i] : NULL;
}
