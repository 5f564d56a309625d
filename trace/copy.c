/* Copies a recording with the content of its WAL: recording_copy of recording.h. A copy of the
 * bytes would miss the WAL, and would mix two states if a reader kept a checkpoint from
 * completing. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "trace/recording.h"
#include "trace/schema.h"

enum { PATIENCE_MS = 5000 };

static int open_one(sqlite3 **db, const char *path, int how)
{
	int rc = schema_open(db, path, NULL, how);

	if (!rc)
		sqlite3_busy_timeout(*db, PATIENCE_MS);
	return rc;
}

/* 0, or SQLite's code, with the message in `into`. */
static int copy_pages(sqlite3 *from, sqlite3 *into)
{
	sqlite3_backup *b;
	int rc = sqlite3_exec(into, "PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);

	b = rc ? NULL : sqlite3_backup_init(into, "main", from, "main");
	if (!b)
		return sqlite3_errcode(into);
	sqlite3_backup_step(b, -1);
	rc = sqlite3_backup_finish(b);
	/* the copied header says WAL mode: leave that mode */
	return rc ? rc : sqlite3_exec(into, "PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);
}

static int make_file(const char *path, struct err *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(e, ERR_IO, "cannot make %s: %s", path, strerror(errno));
	close(fd);
	return 0;
}

int recording_copy(const char *from, const char *to, struct err *e)
{
	sqlite3 *old = NULL, *new = NULL;
	int rc;

	if (make_file(to, e))
		return -1;
	rc = open_one(&old, from, SQLITE_OPEN_READONLY);
	if (!rc)
		rc = open_one(&new, to, SQLITE_OPEN_READWRITE);
	if (!rc)
		rc = copy_pages(old, new);
	if (rc)
		err_set(e, rc == SQLITE_NOMEM ? ERR_MEMORY : ERR_IO, "%s cannot be copied to %s: %s", from,
			to, sqlite3_errstr(rc));
	sqlite3_close(new);
	sqlite3_close(old);
	if (rc)
		unlink(to);
	return rc ? -1 : 0;
}
