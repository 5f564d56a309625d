/* See session_file.h. */
#include "sessions/history/session_file.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/paths.h"
#include "trace/recording.h"

int session_file_ours(const char *path, const char *what, struct listed *l, struct err *e)
{
	char *folder = NULL;
	bool ours = !paths_data("sessions/", &folder, NULL) && !strncmp(path, folder, strlen(folder));

	free(folder);
	listed_read(path, l);
	if (l->state == LISTED_WRITTEN || recording_is_written(path))
		return err_set(
			e, ERR_USAGE, "%s is being written: %s it when its session has ended", path, what);
	if (access(path, F_OK))
		return err_set(e, ERR_IO, "%s: %s", path, strerror(errno));
	if (l->state == LISTED_UNREADABLE && !ours)
		return err_set(e, ERR_INPUT, "%s: %s", path, l->why);
	return 0;
}

/* A new name never replaces a file. */
static int move_file(const char *from, const char *to)
{
	if (link(from, to))
		return -1;
	if (!unlink(from))
		return 0;
	unlink(to);
	return -1;
}

/* The log of a killed session goes first: it means nothing without the file, and the file little
 * without it. */
int session_file_move(const char *from, const char *to, struct err *e)
{
	char old[PATH_MAX], new[PATH_MAX];
	int moved = 0;

	for (; recording_beside[moved]; moved++) {
		snprintf(old, sizeof old, "%s%s", from, recording_beside[moved]);
		snprintf(new, sizeof new, "%s%s", to, recording_beside[moved]);
		if (move_file(old, new) && errno != ENOENT)
			break;
	}
	if (!recording_beside[moved] && !move_file(from, to))
		return 0;
	err_set(e, ERR_IO, errno == EEXIST ? "%s exists already: choose another name" : "%s: %s", to,
		strerror(errno));
	while (moved-- > 0) {
		snprintf(old, sizeof old, "%s%s", from, recording_beside[moved]);
		snprintf(new, sizeof new, "%s%s", to, recording_beside[moved]);
		move_file(new, old);
	}
	return -1;
}

int session_file_delete(const char *path, struct err *e)
{
	return recording_delete(path) ? err_set(e, ERR_IO, "%s: %s", path, strerror(errno)) : 0;
}
