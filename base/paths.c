/* See paths.h. */
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"

static const char *home(void)
{
	const char *dir = getenv("HOME");
	const struct passwd *user;

	if (dir && dir[0] == '/')
		return dir;
	user = getpwuid(getuid());
	return user ? user->pw_dir : NULL;
}

/* Makes every missing folder above the last component of path. */
static int make_folders(char *path, struct err *e)
{
	for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdir(path, 0700) && errno != EEXIST) {
			int why = errno;

			/* mkdir() may fail for a parent that exists but is read-only. */
			if (access(path, X_OK))
				return err_set(e, ERR_IO, "cannot make the folder %s: %s", path, strerror(why));
		}
		*p = '/';
	}
	return 0;
}

int paths_print(char **path, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(path, fmt, ap);
	va_end(ap);
	if (n >= 0)
		return 0;
	*path = NULL;
	return err_no_memory(e, "a path");
}

/* makes: the folders above it. An XDG variable counts only if it is an absolute path (the
 * specification says so). */
static int in_folder(const char *variable, const char *fallback, const char *rest, bool makes,
	char **path, struct err *e)
{
	const char *dir = getenv(variable), *top = home();
	int rc;

	*path = NULL;
	if (dir && dir[0] == '/')
		rc = paths_print(path, e, "%s/cutaway/%s", dir, rest);
	else if (top)
		rc = paths_print(path, e, "%s/%s/cutaway/%s", top, fallback, rest);
	else
		return err_set(e, ERR_IO, "no home folder: set HOME or %s", variable);
	if (!rc && (!makes || !make_folders(*path, e)))
		return 0;
	free(*path);
	*path = NULL;
	return -1;
}

int paths_data(const char *rest, char **path, struct err *e)
{
	return in_folder("XDG_DATA_HOME", ".local/share", rest, true, path, e);
}

int paths_data_there(const char *rest, char **path, struct err *e)
{
	return in_folder("XDG_DATA_HOME", ".local/share", rest, false, path, e);
}

int paths_cache(const char *rest, char **path, struct err *e)
{
	return in_folder("XDG_CACHE_HOME", ".cache", rest, true, path, e);
}

int paths_state(const char *rest, char **path, struct err *e)
{
	return in_folder("XDG_STATE_HOME", ".local/state", rest, true, path, e);
}

bool paths_is_name(const char *name, size_t most)
{
	const size_t n = strlen(name);
	char *clean = text_clean(name, n, false, NULL);
	const bool is = clean && !strcmp(clean, name) && n && n <= most && !strchr("./-", *name) &&
					!strchr(name, '/');

	free(clean);
	return is;
}

int paths_new_recording(const char *folder, char **path, struct err *e)
{
	time_t now = time(NULL);
	struct tm local;
	char stamp[32], number[16] = "", name[64];
	const size_t n = folder ? strlen(folder) : 0;
	int fd;

	if (!localtime_r(&now, &local) || !strftime(stamp, sizeof stamp, "%Y-%m-%d-%H%M%S", &local))
		return err_set(e, ERR_IO, "the clock cannot be read");
	for (int i = 1; i < 1000; i++) {
		/* A number distinguishes sessions begun within one second. */
		if (i > 1)
			snprintf(number, sizeof number, "-%d", i);
		snprintf(name, sizeof name, "sessions/%s%s.db", stamp, number);
		if (folder ? paths_print(
						 path, e, "%s%s", folder, strchr(name, '/') + (n && folder[n - 1] == '/'))
				   : paths_data(name, path, e))
			return -1;
		/* Created empty right away, so that a session begun at the same moment takes another
		 * name. */
		fd = open(*path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd >= 0)
			close(fd);
		if (fd >= 0 || errno != EEXIST)
			return 0; /* opening it for the recording reports why it cannot be written */
		free(*path);
		*path = NULL;
	}
	return err_set(e, ERR_IO, "there are too many recordings of %s", stamp);
}

void paths_drop_recording(const char *path)
{
	struct stat st;

	if (!stat(path, &st) && S_ISREG(st.st_mode) && !st.st_size)
		unlink(path);
}
