/* See recording.h.
 *
 * There is never a rollback journal on the disk, which a read-only reader could not roll back: the
 * only writes outside the WAL (entering and leaving WAL mode) are of one page, and atomic. The
 * schema is checkpointed into the file before the first event, so that every prefix a kill leaves
 * has it. */
#include "trace/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fold/keyframe.h"
#include "trace/schema.h"
#include "trace/times.h"

/* Far from the bytes that SQLite locks (0x40000000 …) and past the end of any file where it would
 * matter. */
#define LOCK_BYTE 0x3f000000

enum { COMMITS_PER_MEASURE = 12 };

struct recording {
	char *path;
	int fd; /* holds the lock; closing it would drop SQLite's own locks, so it closes last */
	sqlite3 *db;
	sqlite3_stmt *insert[EV_N_KINDS], *insert_key, *begin, *commit, *pages;
	struct keyframer *keyframer;
	struct times_buf packed;
	bool open; /* a transaction */
	unsigned commits;
	int64_t rows, seq; /* including those not yet committed */
	struct recording_size size;
	int64_t page_size;
};

static int fail(struct recording *r, struct err *e)
{
	/* SQLite knows only ENOSPC as a full disk, and may have forgotten any other errno. */
	int error = errno, rc = sqlite3_extended_errcode(r->db);
	bool no_room = error == EFBIG || error == EDQUOT || error == ENOSPC;
	const char *what = sqlite3_errmsg(r->db);

	if ((rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_IOERR && no_room))
		what = "the disk is full, or the largest size of a file reached";
	else if ((rc & 0xff) == SQLITE_IOERR && sqlite3_system_errno(r->db))
		what = strerror(sqlite3_system_errno(r->db));
	else if ((rc & 0xff) == SQLITE_BUSY)
		what = "another program writes to it";
	rc = (rc & 0xff) == SQLITE_NOMEM ? ERR_MEMORY : ERR_IO;
	if (!r->size.seq)
		return err_set(e, (enum err_code)rc, "cannot record to %s: %s", r->path, what);
	return err_set(e, (enum err_code)rc, "recording to %s: %s; it holds the events up to %lld",
		r->path, what, (long long)r->size.seq);
}

static int refuse_open(const char *path, struct err *e)
{
	int error = errno;
	const char *advice = "";
	struct stat st;

	if (error == ENOENT && !lstat(path, &st) && S_ISLNK(st.st_mode))
		advice = "; it is a link to a file that is not there: remove it, or record elsewhere with "
				 "--record FILE";
	else if (error == ENOENT)
		advice =
			"; its directory does not exist: create it, or record elsewhere with --record FILE";
	else if (error == EACCES || error == EROFS || error == EPERM)
		advice = "; record elsewhere with --record FILE, or not at all with --no-record";
	return err_set(e, ERR_IO, "cannot record to %s: %s%s", path, strerror(error), advice);
}

static int refuse_existing(const struct recording *r, const struct stat *st, struct err *e)
{
	if (!S_ISREG(st->st_mode))
		return err_set(e, ERR_IO, "cannot record to %s: it is not a plain file", r->path);
	return err_set(e, ERR_IO,
		"cannot record to %s: it exists, and no file is overwritten; choose another name "
		"with --record FILE, or remove it",
		r->path);
}

/* Opens or makes the file and locks it. *made: it was not there before. A file that is not empty is
 * not even opened: closing it again would drop the POSIX locks of a recording that this process is
 * writing. */
static int take_file(struct recording *r, bool *made, struct err *e)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1
	};
	struct stat st;

	if (!stat(r->path, &st) && (st.st_size || !S_ISREG(st.st_mode)))
		return refuse_existing(r, &st, e);
	r->fd = open(r->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	*made = r->fd >= 0;
	if (r->fd < 0 && errno == EEXIST)
		r->fd = open(r->path, O_RDWR | O_CLOEXEC);
	if (r->fd < 0)
		return refuse_open(r->path, e);
	if (fcntl(r->fd, F_OFD_SETLK, &lock)) {
		if (errno == EAGAIN || errno == EACCES)
			return err_set(
				e, ERR_IO, "cannot record to %s: another cutaway is recording to it", r->path);
		return refuse_open(r->path, e);
	}
	if (fstat(r->fd, &st))
		return refuse_open(r->path, e);
	return st.st_size ? refuse_existing(r, &st, e) : 0;
}

int recording_written(int fd)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = LOCK_BYTE, .l_len = 1
	};

	return fd < 0 || fcntl(fd, F_OFD_GETLK, &lock) ? -1 : lock.l_type != F_UNLCK;
}

bool recording_is_written(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	bool locked = recording_written(fd) == 1;

	if (fd >= 0)
		close(fd);
	return locked;
}

/* 8 KiB pages: rows of 2 KB (attention) fill them well, and a commit rewrites only the last page of
 * each table. SQLite syncs nothing before the first event (a start should not wait for the disk:
 * recording_sync makes up for it), and nothing at a commit: the caller decides when to sync. */
static const char before_schema[] =
	"PRAGMA page_size = 8192; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -2048;"
	"PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY; PRAGMA journal_mode = WAL;";
static const char after_schema[] =
	"PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 400;"
	"PRAGMA journal_size_limit = 16777216;";

static int open_database(struct recording *r, struct err *e)
{
	int rc = schema_open(&r->db, r->path, NULL, SQLITE_OPEN_READWRITE | SQLITE_OPEN_PRIVATECACHE);

	if (!r->db)
		return err_set(e, ERR_MEMORY, "out of memory for the recording");
	if (rc)
		return fail(r, e);
	sqlite3_extended_result_codes(r->db, 1);
	sqlite3_busy_timeout(r->db, 5000);
	if (sqlite3_exec(r->db, before_schema, NULL, NULL, NULL) || schema_create(r->db) ||
		sqlite3_exec(r->db, after_schema, NULL, NULL, NULL))
		return fail(r, e);
	return 0;
}

/* Frees sql. */
static int prepare(struct recording *r, sqlite3_stmt **stmt, char *sql, struct err *e)
{
	return schema_prepare_own(r->db, sql, stmt) ? fail(r, e) : 0;
}

static int prepare_all(struct recording *r, struct err *e)
{
	for (int k = 0; k < EV_N_KINDS; k++)
		if (prepare(r, &r->insert[k], schema_insert_sql((enum ev_kind)k), e))
			return -1;
	if (prepare(r, &r->insert_key, schema_keyframe_insert_sql(), e) ||
		prepare(r, &r->begin, sqlite3_mprintf("BEGIN IMMEDIATE"), e) ||
		prepare(r, &r->commit, sqlite3_mprintf("COMMIT"), e) ||
		prepare(r, &r->pages, sqlite3_mprintf("PRAGMA page_size"), e))
		return -1;
	if (sqlite3_step(r->pages) != SQLITE_ROW)
		return fail(r, e);
	r->page_size = sqlite3_column_int64(r->pages, 0);
	sqlite3_finalize(r->pages);
	r->pages = NULL;
	return prepare(r, &r->pages, sqlite3_mprintf("PRAGMA page_count"), e);
}

static int measure(struct recording *r, struct err *e)
{
	if (sqlite3_step(r->pages) != SQLITE_ROW)
		return fail(r, e);
	r->size.bytes = sqlite3_column_int64(r->pages, 0) * r->page_size;
	r->size.rows = r->rows;
	r->size.seq = r->seq;
	sqlite3_reset(r->pages);
	return 0;
}

static void delete_beside(const char *path, const char *ending)
{
	char *name = sqlite3_mprintf("%s%s", path, ending);

	if (name)
		unlink(name);
	sqlite3_free(name);
}

const char *const recording_beside[] = { "-wal", "-shm", "-journal", NULL };

int recording_delete(const char *path)
{
	if (unlink(path))
		return -1;
	for (int i = 0; recording_beside[i]; i++)
		delete_beside(path, recording_beside[i]);
	return 0;
}

/* Cleans up a recording that could not be begun: a file that existed is empty again. */
static void leave_nothing(const char *path, bool made)
{
	delete_beside(path, "-wal");
	delete_beside(path, "-shm");
	if (made ? unlink(path) : truncate(path, 0))
		return; /* the error that led here is the one to report */
}

int recording_create(struct recording **out, const char *path, struct err *e)
{
	struct recording *r = calloc(1, sizeof *r);
	bool made = false, taken = false;

	*out = NULL;
	if (!r)
		return err_set(e, ERR_MEMORY, "out of memory for the recording");
	r->fd = -1;
	r->path = strdup(path);
	r->keyframer = keyframer_open();
	if (!r->path || !r->keyframer) {
		err_set(e, ERR_MEMORY, "out of memory for the recording");
		goto fail;
	}
	if (schema_check_library(e) || take_file(r, &made, e))
		goto fail;
	taken = true;
	if (open_database(r, e) || prepare_all(r, e) || measure(r, e))
		goto fail;
	*out = r;
	return 0;
fail:
	recording_close(r, true);
	if (taken || made)
		leave_nothing(path, made);
	return -1;
}

static int bind_field(sqlite3_stmt *s, int at, enum ev_type type, const char *member)
{
	const struct ev_span *span = (const void *)member;
	int64_t i;
	double d;

	switch (type) {
	case EV_TYPE_I:
		memcpy(&i, member, 8);
		return i == EV_NULL_I ? sqlite3_bind_null(s, at) : sqlite3_bind_int64(s, at, i);
	case EV_TYPE_R:
		memcpy(&d, member, 8);
		return sqlite3_bind_double(s, at, d); /* NaN becomes NULL */
	case EV_TYPE_T:
		return sqlite3_bind_text64(s, at, span->data, span->size, SQLITE_STATIC, SQLITE_UTF8);
	default: return sqlite3_bind_blob64(s, at, span->data, span->size, SQLITE_STATIC);
	}
}

/* bound: what binding its values gave. */
static int run(struct recording *r, sqlite3_stmt *s, int bound, struct err *e)
{
	int rc = bound || sqlite3_step(s) != SQLITE_DONE ? fail(r, e) : 0;

	sqlite3_reset(s);
	return rc;
}

static int add_keyframe(struct recording *r, const struct key_row *row, struct err *e)
{
	const int64_t number[] = { row->seq, row->step, row->marks.turns, row->marks.rejected,
		row->marks.evicted };
	sqlite3_stmt *s = r->insert_key;
	int rc = 0;

	for (int i = 0; i < 5; i++)
		rc |= sqlite3_bind_int64(s, i + 1, number[i]);
	rc |= sqlite3_bind_blob64(s, 6, row->tokens.data, row->tokens.size, SQLITE_STATIC);
	rc |= sqlite3_bind_blob64(s, 7, row->state.data, row->state.size, SQLITE_STATIC);
	return run(r, s, rc, e);
}

int recording_add(struct recording *r, const struct event *ev, struct err *e)
{
	const struct ev_info *info = &ev_info[ev->kind];
	const char *member = (const char *)&ev->u;
	sqlite3_stmt *s = r->insert[ev->kind];
	struct key_row row;
	struct ev_time packed;
	int rc;

	if (!r->open && run(r, r->begin, 0, e))
		return -1;
	r->open = true;
	if (ev->kind == EV_time) {
		packed = ev->u.time;
		if (times_pack(&r->packed, ev->u.time.stages, &packed.stages))
			return err_set(e, ERR_MEMORY, "out of memory for the recording");
		member = (const char *)&packed;
	}
	rc = sqlite3_bind_int64(s, 1, ev->seq);
	rc |= sqlite3_bind_int64(s, 2, ev->t_ns);
	for (int i = 0; i < info->n_fields; i++) {
		rc |= bind_field(s, i + 3, info->fields[i].type, member);
		member += ev_field_size(info->fields[i].type);
	}
	if (run(r, s, rc, e))
		return -1;
	r->seq = ev->seq;
	r->rows++;
	return keyframer_add(r->keyframer, ev, &row) ? add_keyframe(r, &row, e) : 0;
}

int recording_commit(struct recording *r, struct err *e)
{
	if (!r->open)
		return 0;
	if (run(r, r->commit, 0, e))
		return -1;
	r->open = false;
	r->size.rows = r->rows;
	r->size.seq = r->seq;
	/* asking for the size is a transaction of its own: about once a second */
	return r->commits++ % COMMITS_PER_MEASURE ? 0 : measure(r, e);
}

static int sync_file(struct recording *r, int which, struct err *e)
{
	sqlite3_file *f = NULL;

	if (!sqlite3_file_control(r->db, "main", which, &f) && f && f->pMethods &&
		f->pMethods->xSync(f, SQLITE_SYNC_NORMAL) == SQLITE_OK)
		return 0;
	return err_set(e, ERR_IO, "recording to %s: cannot sync it: %s; it holds the events up to %lld",
		r->path, strerror(errno), (long long)r->size.seq);
}

/* The main file once: later a checkpoint syncs what it writes there. Then the WAL, whose first sync
 * syncs the directory as well, for both files. */
int recording_sync(struct recording *r, struct err *e)
{
	if (r->size.synced_seq == r->size.seq)
		return 0;
	if ((!r->size.synced_seq && sync_file(r, SQLITE_FCNTL_FILE_POINTER, e)) ||
		sync_file(r, SQLITE_FCNTL_JOURNAL_POINTER, e))
		return -1;
	r->size.synced_seq = r->size.seq;
	return 0;
}

int recording_check(const struct recording *r, struct err *e)
{
	struct stat ours, there;

	if (fstat(r->fd, &ours) ||
		(!stat(r->path, &there) && there.st_dev == ours.st_dev && there.st_ino == ours.st_ino))
		return 0;
	return err_set(e, ERR_IO,
		"recording to %s: the file was %s while it was written, and nothing more is recorded",
		r->path, ours.st_nlink ? "moved or renamed" : "deleted");
}

struct recording_size recording_size(const struct recording *r)
{
	return r->size;
}

/* A failed statement may have ended the transaction, or not. */
static void abandon(struct recording *r)
{
	if (!sqlite3_get_autocommit(r->db))
		sqlite3_exec(r->db, "ROLLBACK", NULL, NULL, NULL);
}

void recording_close(struct recording *r, bool failed)
{
	if (!r)
		return;
	for (int k = 0; k < EV_N_KINDS; k++)
		sqlite3_finalize(r->insert[k]);
	sqlite3_finalize(r->insert_key);
	sqlite3_finalize(r->begin);
	sqlite3_finalize(r->commit);
	sqlite3_finalize(r->pages);
	if (r->db) {
		abandon(r);
		if (!failed) {
			sqlite3_busy_timeout(r->db, 100); /* readers that stay are no reason to wait */
			schema_create_indexes(r->db);
			sqlite3_exec(r->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL);
			sqlite3_exec(r->db, "PRAGMA journal_mode = MEMORY", NULL, NULL, NULL);
		}
		sqlite3_close(r->db);
	}
	if (r->fd >= 0)
		close(r->fd);
	keyframer_close(r->keyframer);
	free(r->packed.data);
	free(r->path);
	free(r);
}
