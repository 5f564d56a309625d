/* See power.h. The files are real ones, in another VFS; beside them goes a list of operations. A
 * cut replays it: the durable bytes of each file, and the operations that are not yet. */
#include "tests/support/power.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

#include "tests/support/random_event.h"

enum { SECTOR = 512, FILES_MAX = 64, NAME_MAX_BYTES = 160, SHM_BYTES = 32768 };

enum op_kind { OP_CREATE, OP_DELETE, OP_SYNC_FOLDER, OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_PROMISE };

struct op {
	enum op_kind kind;
	int file;
	int64_t at, size; /* of a write; a truncation's size; a promise's number in at */
	unsigned char *data;
};

struct image {
	unsigned char *data;
	int64_t size, cap;
};

/* What the VFS saw. */
static struct op *ops;
static size_t n_ops, cap_ops;
static char names[FILES_MAX][NAME_MAX_BYTES]; /* a file made anew under a name is another file */
static bool there[FILES_MAX];
static int n_files;
static bool syncs_fail;

/* The disk behind the first `reached` operations. */
static struct {
	size_t reached;
	struct image image[FILES_MAX]; /* durable bytes */
	bool entry[FILES_MAX];         /* durable entries of the folder */
	int64_t promise;
	size_t folder_from;          /* operations on the folder from here on are not durable */
	size_t file_from[FILES_MAX]; /* the same of each file */
} disk;

static void out_of_memory(void)
{
	fprintf(stderr, "out of memory for the disk's memory\n");
	abort();
}

static void note(struct op op, const void *data)
{
	if (n_ops == cap_ops) {
		cap_ops = cap_ops ? 2 * cap_ops : 1024;
		ops = realloc(ops, cap_ops * sizeof *ops);
		if (!ops)
			out_of_memory();
	}
	if (data) {
		op.data = malloc((size_t)op.size + 1);
		if (!op.data)
			out_of_memory();
		memcpy(op.data, data, (size_t)op.size);
	}
	ops[n_ops++] = op;
}

void power_promise(int64_t what)
{
	note((struct op){ .kind = OP_PROMISE, .at = what }, NULL);
}

static int find_file(const char *name)
{
	for (int i = n_files; i-- > 0;)
		if (there[i] && !strcmp(names[i], name))
			return i;
	return -1;
}

static int make_file(const char *name)
{
	if (n_files == FILES_MAX || strlen(name) >= NAME_MAX_BYTES)
		out_of_memory();
	strcpy(names[n_files], name);
	there[n_files] = true;
	note((struct op){ .kind = OP_CREATE, .file = n_files }, NULL);
	return n_files++;
}

/* The VFS: an open file is ours, and behind it the real one. */
struct power_file {
	sqlite3_file base;
	int file;
	/* SQLite's unix VFS syncs the folder with the first sync of a WAL or journal that it made */
	bool folder_too;
};
static sqlite3_vfs *real_vfs, power_vfs;
static sqlite3_io_methods methods;

static struct power_file *ours(sqlite3_file *f)
{
	return (struct power_file *)(void *)f;
}

static sqlite3_file *real(sqlite3_file *f)
{
	return (sqlite3_file *)(void *)(ours(f) + 1);
}

#define PASS(name, args, ...)                                                                      \
	static int power_##name args                                                                   \
	{                                                                                              \
		return real(f)->pMethods->x##name(real(f), ##__VA_ARGS__);                                 \
	}
PASS(Read, (sqlite3_file * f, void *p, int n, sqlite3_int64 at), p, n, at)
PASS(FileSize, (sqlite3_file * f, sqlite3_int64 *size), size)
PASS(Lock, (sqlite3_file * f, int level), level)
PASS(Unlock, (sqlite3_file * f, int level), level)
PASS(CheckReservedLock, (sqlite3_file * f, int *out), out)
PASS(FileControl, (sqlite3_file * f, int op, void *arg), op, arg)
PASS(SectorSize, (sqlite3_file * f))
PASS(DeviceCharacteristics, (sqlite3_file * f))
PASS(ShmMap, (sqlite3_file * f, int page, int size, int extend, void volatile **p), page, size,
	extend, p)
PASS(ShmLock, (sqlite3_file * f, int at, int n, int flags), at, n, flags)
PASS(ShmUnmap, (sqlite3_file * f, int delete), delete)

static void power_ShmBarrier(sqlite3_file *f)
{
	real(f)->pMethods->xShmBarrier(real(f));
}

static int power_Close(sqlite3_file *f)
{
	return real(f)->pMethods ? real(f)->pMethods->xClose(real(f)) : SQLITE_OK;
}

static int power_Write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
	note((struct op){ OP_WRITE, ours(f)->file, at, n, NULL }, p);
	return real(f)->pMethods->xWrite(real(f), p, n, at);
}

static int power_Truncate(sqlite3_file *f, sqlite3_int64 size)
{
	note((struct op){ .kind = OP_TRUNCATE, .file = ours(f)->file, .size = size }, NULL);
	return real(f)->pMethods->xTruncate(real(f), size);
}

static int power_Sync(sqlite3_file *f, int flags)
{
	(void)flags;
	if (syncs_fail)
		return SQLITE_IOERR_FSYNC;
	note((struct op){ .kind = OP_SYNC, .file = ours(f)->file }, NULL);
	if (ours(f)->folder_too)
		note((struct op){ .kind = OP_SYNC_FOLDER }, NULL);
	ours(f)->folder_too = false;
	return SQLITE_OK; /* nothing of the real disk is at stake */
}

static int power_open(
	sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *out_flags)
{
	struct power_file *p = ours(f);
	int exists = 0, rc;

	(void)vfs;
	memset(p, 0, sizeof *p);
	if (!name)
		return SQLITE_CANTOPEN; /* a temporary file: a recording has none */
	real_vfs->xAccess(real_vfs, name, SQLITE_ACCESS_EXISTS, &exists);
	rc = real_vfs->xOpen(real_vfs, name, real(f), flags, out_flags);
	if (rc)
		return rc;
	p->base.pMethods = &methods;
	p->file = find_file(name);
	if (p->file < 0 || !exists) {
		p->file = make_file(name);
		p->folder_too = (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
	}
	return SQLITE_OK;
}

static int power_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
	int file = find_file(name), rc = real_vfs->xDelete(real_vfs, name, 0);

	(void)vfs;
	if (rc || file < 0)
		return rc;
	there[file] = false;
	note((struct op){ .kind = OP_DELETE, .file = file }, NULL);
	if (sync_folder)
		note((struct op){ .kind = OP_SYNC_FOLDER }, NULL);
	return SQLITE_OK;
}

void power_fail_syncs(void)
{
	syncs_fail = true;
}

int power_begin(void)
{
	power_forget();
	syncs_fail = false;
	real_vfs = sqlite3_vfs_find(NULL);
	power_vfs = *real_vfs;
	power_vfs.zName = "power";
	power_vfs.szOsFile = (int)sizeof(struct power_file) + real_vfs->szOsFile;
	power_vfs.xOpen = power_open;
	power_vfs.xDelete = power_delete;
	methods = (sqlite3_io_methods){ 2, power_Close, power_Read, power_Write, power_Truncate,
		power_Sync, power_FileSize, power_Lock, power_Unlock, power_CheckReservedLock,
		power_FileControl, power_SectorSize, power_DeviceCharacteristics, power_ShmMap,
		power_ShmLock, power_ShmBarrier, power_ShmUnmap, NULL, NULL };
	return sqlite3_vfs_register(&power_vfs, 1) ? -1 : 0;
}

void power_end(void)
{
	sqlite3_vfs_unregister(&power_vfs);
	sqlite3_vfs_register(real_vfs, 1);
}

static void forget_disk(void)
{
	for (int i = 0; i < FILES_MAX; i++)
		free(disk.image[i].data);
	memset(&disk, 0, sizeof disk);
}

void power_forget(void)
{
	for (size_t i = 0; i < n_ops; i++)
		free(ops[i].data);
	free(ops);
	ops = NULL;
	n_ops = cap_ops = 0;
	n_files = 0;
	memset(there, 0, sizeof there);
	forget_disk();
}

size_t power_n_ops(void)
{
	return n_ops;
}

bool power_is_turn(size_t op)
{
	return op < n_ops && ops[op].kind != OP_PROMISE &&
		   (ops[op].kind != OP_WRITE || ops[op].file == 0);
}

static void image_resize(struct image *m, int64_t size)
{
	if (size > m->cap) {
		m->cap = size + (size >> 1) + 65536;
		m->data = realloc(m->data, (size_t)m->cap);
		if (!m->data)
			out_of_memory();
	}
	if (size > m->size)
		memset(m->data + m->size, 0, (size_t)(size - m->size));
	m->size = size;
}

static void image_write(struct image *m, const unsigned char *data, int64_t size, int64_t at)
{
	if (at + size > m->size)
		image_resize(m, at + size);
	memcpy(m->data + at, data, (size_t)size);
}

static void apply(struct image *m, const struct op *op)
{
	if (op->kind == OP_WRITE)
		image_write(m, op->data, op->size, op->at);
	else if (op->kind == OP_TRUNCATE && op->size < m->size)
		image_resize(m, op->size);
}

/* Goes on to the state behind n operations. */
static void reach(size_t n)
{
	if (n < disk.reached)
		forget_disk();
	for (; disk.reached < n; disk.reached++) {
		const struct op *op = &ops[disk.reached];

		if (op->kind == OP_PROMISE)
			disk.promise = op->at;
		if (op->kind == OP_SYNC)
			for (size_t *i = &disk.file_from[op->file]; *i < disk.reached; ++*i)
				if (ops[*i].file == op->file)
					apply(&disk.image[op->file], &ops[*i]);
		if (op->kind == OP_SYNC_FOLDER)
			for (; disk.folder_from < disk.reached; disk.folder_from++)
				if (ops[disk.folder_from].kind <= OP_DELETE)
					disk.entry[ops[disk.folder_from].file] =
						ops[disk.folder_from].kind == OP_CREATE;
	}
}

/* How much of what was not synced is there. */
enum fate { FATE_NOTHING, FATE_ALL, FATE_WRITES, FATE_SECTORS, FATE_TORN, FATE_NOISE, N_FATES };

static void lose_sectors(struct image *m, const struct op *op, enum fate fate, uint64_t *random)
{
	int64_t durable = disk.image[op->file].size;

	for (int64_t at = op->at, end; at < op->at + op->size; at = end) {
		unsigned char noise[SECTOR];

		end = (at / SECTOR + 1) * SECTOR;
		end = end < op->at + op->size ? end : op->at + op->size;
		if (random_u64(random) & 1) {
			image_write(m, op->data + (at - op->at), end - at, at);
		} else if (fate == FATE_NOISE && at >= (durable + SECTOR - 1) / SECTOR * SECTOR) {
			for (int i = 0; i < SECTOR; i++)
				noise[i] = (unsigned char)random_u64(random);
			image_write(m, noise, end - at, at);
		}
	}
}

/* Applies what is not synced, as fate will have it. */
static void lose(struct image *m, int file, enum fate fate, uint64_t *random)
{
	size_t from = disk.file_from[file], left = disk.reached - from;
	/* FATE_TORN: up to here all, and then one in parts */
	size_t whole = left ? from + random_u64(random) % left : from;

	for (size_t i = from; i < disk.reached; i++) {
		const struct op *op = &ops[i];
		bool change = op->kind == OP_WRITE || op->kind == OP_TRUNCATE;

		if (op->file != file || !change || fate == FATE_NOTHING)
			continue;
		if (fate == FATE_TORN && i > whole) {
			if (op->kind == OP_WRITE)
				lose_sectors(m, op, fate, random);
			break;
		}
		if (fate == FATE_ALL || fate == FATE_TORN || op->kind == OP_TRUNCATE ||
			fate == FATE_WRITES) {
			if (fate == FATE_ALL || fate == FATE_TORN || random_u64(random) & 1)
				apply(m, op);
		} else {
			lose_sectors(m, op, fate, random);
		}
	}
}

static void store(const char *folder, const char *name, const struct image *m)
{
	const char *base = strrchr(name, '/');
	char path[2 * NAME_MAX_BYTES];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", folder, base ? base + 1 : name);
	f = fopen(path, "wb");
	if (!f || (m->size && fwrite(m->data, 1, (size_t)m->size, f) != (size_t)m->size) || fclose(f)) {
		perror(path);
		abort();
	}
}

/* Shared memory of before, or what a disk made of it. */
static void store_shared(const char *folder, const char *name, uint64_t *random)
{
	char shm[NAME_MAX_BYTES + 8];
	struct image noise = { 0 };

	image_resize(&noise, SHM_BYTES);
	for (int64_t i = 0; i < noise.size; i++)
		noise.data[i] = (unsigned char)random_u64(random);
	snprintf(shm, sizeof shm, "%s-shm", name);
	store(folder, shm, &noise);
	free(noise.data);
}

int64_t power_cut(size_t n, uint64_t seed, const char *folder)
{
	uint64_t random = seed * 7919 + n;
	enum fate fate = (enum fate)(random_u64(&random) % N_FATES);
	bool entry[FILES_MAX];
	size_t until;

	reach(n < n_ops ? n : n_ops);
	memcpy(entry, disk.entry, sizeof entry);
	until = disk.folder_from + random_u64(&random) % (disk.reached - disk.folder_from + 1);
	until = fate == FATE_ALL ? disk.reached : fate == FATE_NOTHING ? disk.folder_from : until;
	for (size_t i = disk.folder_from; i < until; i++)
		if (ops[i].kind <= OP_DELETE)
			entry[ops[i].file] = ops[i].kind == OP_CREATE;
	for (int i = 0; i < n_files; i++) {
		struct image m = { 0 };

		if (!entry[i])
			continue;
		image_resize(&m, disk.image[i].size);
		if (m.size)
			memcpy(m.data, disk.image[i].data, (size_t)m.size);
		lose(&m, i, fate, &random);
		store(folder, names[i], &m);
		free(m.data);
		if (i == 0 && random_u64(&random) % 4 == 0)
			store_shared(folder, names[0], &random);
	}
	return disk.promise;
}
