/* See wal_file.h. The WAL's form: https://www.sqlite.org/fileformat2.html#the_write_ahead_log: a frame is a head of 24
 * bytes and a page; bytes 4 to 7 of the head of a transaction's last frame are the size of the database, else zero. */
#include "trace/wal_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

/* The VFS for Unix takes less than 128 KiB at a time (seekAndWriteFd masks the size). */
enum { HELD_MAX = 127 << 10, FRAME_HEAD = 24 };

struct wal_layer {
	sqlite3_vfs vfs; /* first: SQLite hands it back */
	sqlite3_vfs *base;
	char name[32];
	unsigned char *held; /* [HELD_MAX] of the one WAL that a recording has */
};

/* The base's file follows it. */
struct wal_file {
	sqlite3_file file;
	struct wal_layer *layer;
	sqlite3_int64 at; /* of what is held back */
	int n_held;
	sqlite3_int64 end; /* where the newest write ended */
	bool last;		   /* the head of a transaction's last frame came, its page comes next */
};

static sqlite3_file *real(sqlite3_file *f)
{
	return (sqlite3_file *)(void *)((struct wal_file *)f + 1);
}

static int flush(sqlite3_file *f)
{
	struct wal_file *w = (struct wal_file *)f;
	int n = w->n_held;

	w->n_held = 0;
	return n ? real(f)->pMethods->xWrite(real(f), w->layer->held, n, w->at) : SQLITE_OK;
}

static bool ends_transaction(const void *data, int n)
{
	static const unsigned char none[4];

	return n == FRAME_HEAD && memcmp((const char *)data + 4, none, sizeof none);
}

static int wal_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
	struct wal_file *w = (struct wal_file *)f;
	bool follows = at == w->end && n <= HELD_MAX, now = w->last;
	int rc = SQLITE_OK;

	w->end = at + n;
	w->last = ends_transaction(data, n);
	if (!follows || w->n_held + n > HELD_MAX)
		rc = flush(f);
	if (rc || !follows)
		return rc ? rc : real(f)->pMethods->xWrite(real(f), data, n, at);
	if (!w->n_held)
		w->at = at;
	memcpy(w->layer->held + w->n_held, data, (size_t)n);
	w->n_held += n;
	return now ? flush(f) : SQLITE_OK;
}

static int wal_close(sqlite3_file *f)
{
	flush(f);
	return real(f)->pMethods->xClose(real(f));
}

static int wal_read(sqlite3_file *f, void *data, int n, sqlite3_int64 at)
{
	int rc = flush(f);

	return rc ? rc : real(f)->pMethods->xRead(real(f), data, n, at);
}

static int wal_truncate(sqlite3_file *f, sqlite3_int64 size)
{
	int rc = flush(f);

	((struct wal_file *)f)->end = -1;
	return rc ? rc : real(f)->pMethods->xTruncate(real(f), size);
}

static int wal_sync(sqlite3_file *f, int flags)
{
	int rc = flush(f);

	return rc ? rc : real(f)->pMethods->xSync(real(f), flags);
}

static int wal_size(sqlite3_file *f, sqlite3_int64 *size)
{
	int rc = flush(f);

	return rc ? rc : real(f)->pMethods->xFileSize(real(f), size);
}

static int wal_lock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xLock(real(f), level);
}

static int wal_unlock(sqlite3_file *f, int level)
{
	return real(f)->pMethods->xUnlock(real(f), level);
}

static int wal_reserved(sqlite3_file *f, int *out)
{
	return real(f)->pMethods->xCheckReservedLock(real(f), out);
}

static int wal_control(sqlite3_file *f, int op, void *arg)
{
	return real(f)->pMethods->xFileControl(real(f), op, arg);
}

static int wal_sector(sqlite3_file *f)
{
	return real(f)->pMethods->xSectorSize(real(f));
}

static int wal_traits(sqlite3_file *f)
{
	return real(f)->pMethods->xDeviceCharacteristics(real(f));
}

static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = wal_close,
	.xRead = wal_read,
	.xWrite = wal_write,
	.xTruncate = wal_truncate,
	.xSync = wal_sync,
	.xFileSize = wal_size,
	.xLock = wal_lock,
	.xUnlock = wal_unlock,
	.xCheckReservedLock = wal_reserved,
	.xFileControl = wal_control,
	.xSectorSize = wal_sector,
	.xDeviceCharacteristics = wal_traits,
};

static int layer_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	struct wal_layer *layer = (struct wal_layer *)vfs;
	struct wal_file *w = (struct wal_file *)f;
	int rc;

	if (!(flags & SQLITE_OPEN_WAL))
		return layer->base->xOpen(layer->base, name, f, flags, out_flags);
	memset(w, 0, sizeof *w);
	w->layer = layer;
	w->end = -1;
	rc = layer->base->xOpen(layer->base, name, real(f), flags, out_flags);
	if (real(f)->pMethods)
		f->pMethods = &methods;
	return rc;
}

struct wal_layer *wal_layer_open(void)
{
	struct wal_layer *layer = calloc(1, sizeof *layer);

	if (!layer)
		return NULL;
	layer->base = sqlite3_vfs_find(NULL);
	layer->held = malloc(HELD_MAX);
	if (!layer->base || !layer->held) {
		free(layer->held);
		free(layer);
		return NULL;
	}
	snprintf(layer->name, sizeof layer->name, "cutaway-%p", (void *)layer);
	layer->vfs = *layer->base;
	layer->vfs.pNext = NULL;
	layer->vfs.zName = layer->name;
	layer->vfs.szOsFile = (int)sizeof(struct wal_file) + layer->base->szOsFile;
	layer->vfs.xOpen = layer_open;
	if (!sqlite3_vfs_register(&layer->vfs, 0))
		return layer;
	free(layer->held);
	free(layer);
	return NULL;
}

void wal_layer_close(struct wal_layer *layer)
{
	if (!layer)
		return;
	sqlite3_vfs_unregister(&layer->vfs);
	free(layer->held);
	free(layer);
}

const char *wal_layer_name(const struct wal_layer *layer)
{
	return layer->name;
}
