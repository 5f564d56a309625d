/* See preset.h. */
#include "base/preset.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/paths.h"
#include "base/text.h"

int preset_path(const char *name, char **path, struct err *e)
{
	char *rest;
	int rc;

	if (!paths_is_name(name, 60))
		return err_set(e, ERR_USAGE,
			"preset %.60s: a name of 1 to 60 bytes without a slash is needed, and no dot or "
			"dash at its beginning",
			name);
	rc = paths_print(&rest, e, "presets/%s", name) || paths_data(rest, path, e) ? -1 : 0;
	free(rest);
	return rc;
}

static int is_shown(const struct dirent *d)
{
	return *d->d_name != '.';
}

char *preset_name(int i)
{
	struct dirent **of;
	char *folder = NULL, *name = NULL;
	int n = paths_data("presets", &folder, NULL) ? -1 : scandir(folder, &of, is_shown, alphasort);

	if (i < n)
		name = strdup(of[i]->d_name);
	for (int k = 0; k < n; k++)
		free(of[k]);
	if (n >= 0)
		free(of);
	free(folder);
	return name;
}

int preset_read(const char *name,
	int (*fn)(void *arg, const char *name, const char *value, struct err *e), void *arg,
	struct err *e)
{
	char *path, *line = NULL;
	size_t cap = 0;
	FILE *f;
	int rc = preset_path(name, &path, e);

	if (rc)
		return rc;
	f = fopen(path, "r");
	if (!f)
		rc = err_set(e, ERR_IO, "preset %s: %s: %s", name, path, strerror(errno));
	while (!rc && getline(&line, &cap, f) > 0) {
		const size_t n = strcspn(line, " \n");
		char *value = line + n + (line[n] == ' ');

		value[strcspn(value, "\n")] = '\0';
		line[n] = '\0';
		value[text_unescape(value, strlen(value))] = '\0';
		if (n && *line != '#')
			rc = fn(arg, line, value, e);
	}
	if (f)
		fclose(f);
	free(line);
	free(path);
	return rc;
}

void preset_put(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s ", name);
	for (; *value; value++) {
		if (*value == '\n' || *value == '\\')
			fputc('\\', out);
		fputc(*value == '\n' ? 'n' : *value, out);
	}
	fputc('\n', out);
}
