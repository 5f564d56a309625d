/* GGUF files: opening, the header, and the bytes of tensors. Metadata is read in gguf_meta.c,
 * tensor descriptions in gguf_tensors.c. See gguf.h, also for threads. */
#include "engine/model/gguf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_parts.h"
#include "base/whole_file.h"
#include "engine/model/gguf_private.h"

#define HEAD_FIRST (1u << 18)         /* bytes of the first read; it doubles from there */
#define HEAD_MOST ((size_t)256 << 20) /* the largest vocabularies need about 20 MB */

/* --- the head, read as far as it is needed --- */

/* Reads [from, to) of the file into owned memory. */
static int head_load(struct gguf *g, size_t from, size_t to, struct err *e)
{
	from += file_at(g->fd, g->owned + from, to - from, from, false);
	if (from < to && errno)
		return err_set(e, ERR_IO, "cannot read %s at byte %zu: %s", g->path, from, strerror(errno));
	if (from < to)
		return err_set(
			e, ERR_IO, "%s ended at byte %zu while it was read: it has shrunk", g->path, from);
	g->n_head = to;
	return 0;
}

static int head_grow(struct gguf *g, size_t need, struct err *e)
{
	size_t want = g->n_head ? 2 * g->n_head : HEAD_FIRST;
	uint8_t *p;

	if (need > HEAD_MOST)
		return gguf_bad(
			g, e, "its metadata goes on past byte %zu; %zu MB is the most", need, HEAD_MOST >> 20);
	if (want < need)
		want = need;
	if (want > g->size)
		want = g->size;
	p = realloc(g->owned, want);
	if (!p)
		return err_no_memory(e, "%zu bytes of the metadata of %s", want, g->path);
	g->head = g->owned = p;
	return head_load(g, g->n_head, want, e);
}

int gguf_need(struct gguf *g, uint64_t n, const char *what, struct err *e)
{
	if (n > g->size - g->pos)
		return err_set(e, ERR_INPUT,
			"%s is cut off or lies: %s at byte %zu needs %llu bytes, %zu are left", g->path, what,
			g->pos, (unsigned long long)n, g->size - g->pos);
	if (n > g->n_head - g->pos)
		return head_grow(g, g->pos + (size_t)n, e);
	return 0;
}

int gguf_take_u32(struct gguf *g, uint32_t *out, const char *what, struct err *e)
{
	if (gguf_need(g, 4, what, e))
		return -1;
	memcpy(out, g->head + g->pos, 4);
	g->pos += 4;
	return 0;
}

int gguf_take_u64(struct gguf *g, uint64_t *out, const char *what, struct err *e)
{
	if (gguf_need(g, 8, what, e))
		return -1;
	memcpy(out, g->head + g->pos, 8);
	g->pos += 8;
	return 0;
}

int gguf_take_string(
	struct gguf *g, uint64_t max, size_t *at, size_t *size, const char *what, struct err *e)
{
	uint64_t n;

	if (gguf_take_u64(g, &n, what, e) || gguf_need(g, n, what, e))
		return -1;
	if (n > max)
		return gguf_bad(g, e, "%s at byte %zu is %llu bytes long; %llu is the most", what, g->pos,
			(unsigned long long)n, (unsigned long long)max);
	*at = g->pos;
	*size = (size_t)n;
	g->pos += (size_t)n;
	return 0;
}

/* --- header --- */

static int refuse_magic(const struct gguf *g, struct err *e)
{
	static const struct {
		const char *start, *what;
	} known[] = {
		{ "lmgg", "an old GGML file" },
		{ "fmgg", "an old GGMF file" },
		{ "tjgg", "an old GGJT file" },
		{ "vers", "perhaps a Git LFS pointer instead of the file itself" },
		{ "PK\3\4", "a zip archive, perhaps a PyTorch model" },
		{ "<!DO", "a web page" },
		{ "<htm", "a web page" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!memcmp(g->head, known[i].start, 4))
			return err_set(e, ERR_INPUT, "%s is no GGUF file but %s", g->path, known[i].what);
	return err_set(e, ERR_INPUT, "%s is no GGUF file (it does not begin with \"GGUF\")", g->path);
}

static int take_header(struct gguf *g, uint64_t *n_tensors, uint64_t *n_kv, struct err *e)
{
	uint32_t version;

	if (!g->size)
		return err_set(e, ERR_INPUT, "%s is empty", g->path);
	if (gguf_need(g, 4, "the file's first word", e))
		return -1;
	if (memcmp(g->head, "GGUF", 4))
		return refuse_magic(g, e);
	g->pos = 4;
	if (gguf_take_u32(g, &version, "the version", e))
		return -1;
	if (version && !(version & 0xffff))
		return err_set(e, ERR_INPUT,
			"%s is a big-endian GGUF file; only little-endian ones are read", g->path);
	/* Version 3 differs from 2 in that files may be big-endian; in version 1 counts had 32 bits. */
	if (version != 3 && version != 2)
		return err_set(e, ERR_INPUT, "%s has version %u of GGUF; only 2 and 3 are read%s", g->path,
			version, version < 2 ? ": convert the model anew" : "");
	if (gguf_take_u64(g, n_tensors, "the number of tensors", e))
		return -1;
	return gguf_take_u64(g, n_kv, "the number of metadata entries", e);
}

/* --- open and close --- */

static int parse(struct gguf *g, struct err *e)
{
	uint64_t n_tensors = 0, n_kv = 0;

	if (take_header(g, &n_tensors, &n_kv, e) || gguf_take_metadata(g, n_kv, e))
		return -1;
	return gguf_take_tensors(g, n_tensors, e);
}

/* A count of the split's, 1 (or 0) if the file states none; -1: what it states is no number. */
static int64_t split_of(const struct gguf *g, const char *key, int64_t none)
{
	struct err bad = { 0 };

	gguf_opt_i64(g, key, &none, &bad);
	return bad.code ? -1 : none;
}

static int map_file(struct gguf *g, const char *path, struct err *e)
{
	struct stat st;

	/* O_NONBLOCK: a FIFO of that name must not hang the program; files ignore it. */
	g->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (g->fd < 0 || fstat(g->fd, &st))
		return err_set(e, ERR_IO, "cannot open the model %s: %s", path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_IO, "the model %s is not a file", path);
	g->size = (size_t)st.st_size;
	file_stamp_of(&st, &g->stamp);
	g->stamp_all = g->stamp;
	if (!g->size)
		return 0;
	g->map = mmap(NULL, g->size, PROT_READ, MAP_PRIVATE, g->fd, 0);
	if (g->map == MAP_FAILED) {
		g->map = NULL;
		return err_set(e, ERR_IO, "cannot map the model %s: %s", path, strerror(errno));
	}
	return 0;
}

static struct gguf *new_gguf(const char *path, struct err *e)
{
	struct gguf *g = calloc(1, sizeof *g);

	if (g) {
		g->fd = -1;
		g->path = strdup(path);
	}
	if (!g || !g->path) {
		free(g);
		err_set(e, ERR_MEMORY, "no memory to open %s", path);
		return NULL;
	}
	return g;
}

/* One file, whatever it says of others. */
static struct gguf *open_file(const char *path, struct err *e)
{
	struct gguf *g = new_gguf(path, e);

	if (!g || (!map_file(g, path, e) && !parse(g, e)))
		return g;
	gguf_close(g);
	return NULL;
}

/* Part `no` of n, which must say so itself. */
static struct gguf *open_part(const char *path, int no, int64_t n, struct err *e)
{
	char *name = file_part_path(path, no);
	struct gguf *g = name ? open_file(name, e) : NULL;

	if (g && (split_of(g, "split.count", 1) != n || split_of(g, "split.no", 0) != no)) {
		err_set(
			e, ERR_INPUT, "%s does not say that it is part %d of %lld", name, no + 1, (long long)n);
		gguf_close(g);
		g = NULL;
	}
	if (!name)
		err_set(e, ERR_MEMORY, "no memory to open the parts of %s", path);
	free(name);
	return g;
}

/* The other parts of a model whose first is g. */
static int open_parts(struct gguf *g, const char *path, struct err *e)
{
	const int64_t n = split_of(g, "split.count", 1);

	if (n == 1)
		return 0;
	if (n != file_parts(path, NULL) || split_of(g, "split.no", 0))
		return err_set(e, ERR_INPUT,
			"%s is one part of a model, but not named so: the parts must keep their names, "
			"NAME-00001-of-%05d.gguf and so on",
			g->path, n > 0 && n < 100000 ? (int)n : 2);
	g->part = calloc((size_t)n, sizeof(*g->part));
	if (!g->part)
		return err_no_memory(e, "the parts of %s", path);
	for (; g->n_parts < n - 1; g->n_parts++) {
		struct gguf *p = g->part[g->n_parts] = open_part(path, g->n_parts + 1, n, e);

		if (!p)
			return -1;
		file_stamp_add(&g->stamp_all, &p->stamp);
	}
	return gguf_join_tensors(g, e);
}

int gguf_open(struct gguf **out, const char *path, struct err *e)
{
	char *first = file_part_path(path, 0);

	*out = first ? open_file(first, e) : NULL;
	if (*out && open_parts(*out, path, e)) {
		gguf_close(*out);
		*out = NULL;
	}
	if (!first)
		err_set(e, ERR_MEMORY, "no memory to open %s", path);
	free(first);
	return *out ? 0 : -1;
}

int gguf_open_memory(struct gguf **out, const void *data, size_t size, struct err *e)
{
	struct gguf *g = new_gguf("(memory)", e);

	*out = NULL;
	if (!g)
		return -1;
	g->map = g->head = data;
	g->size = g->n_head = size;
	g->stamp_all.size = (int64_t)size;
	if (parse(g, e) || open_parts(g, g->path, e)) {
		gguf_close(g);
		return -1;
	}
	*out = g;
	return 0;
}

void gguf_close(struct gguf *g)
{
	if (!g)
		return;
	if (g->fd >= 0) {
		if (g->map)
			munmap((void *)(uintptr_t)g->map, g->size);
		close(g->fd);
	}
	for (int i = 0; i < g->n_parts; i++)
		gguf_close(g->part[i]);
	free(g->part);
	free(g->owned);
	free(g->kv);
	free(g->tensor);
	free(g->by_name);
	free(g->names);
	free(g->path);
	free(g);
}

/* --- questions --- */

const char *gguf_path(const struct gguf *g)
{
	return g->path;
}

int gguf_bad(const struct gguf *g, struct err *e, const char *fmt, ...)
{
	char what[sizeof e->text];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return err_set(e, ERR_INPUT, "%s: %s", g->path, what);
}

size_t gguf_file_bytes(const struct gguf *g)
{
	return (size_t)g->stamp_all.size;
}

int gguf_read_bytes(const struct gguf_tensor *t, size_t at, size_t n, void *out, struct err *e)
{
	const struct gguf *g = t->in;
	const size_t from = (size_t)(t->data - g->map) + at;

	if (g->fd < 0) {
		memcpy(out, t->data + at, n);
		return 0;
	}
	if (file_at(g->fd, out, n, from, false) == n)
		return 0;
	if (errno)
		return err_set(
			e, ERR_IO, "cannot read tensor %s of %s: %s", t->name, g->path, strerror(errno));
	return err_set(
		e, ERR_IO, "%s has shrunk while it was open: tensor %s ends early", g->path, t->name);
}

int gguf_read_tensor(const struct gguf_tensor *t, void *out, struct err *e)
{
	return gguf_read_bytes(t, 0, t->bytes, out, e);
}

const struct file_stamp *gguf_stamp(const struct gguf *g)
{
	return &g->stamp_all;
}

int gguf_unchanged(const struct gguf *g, struct err *e)
{
	if (g->fd >= 0 && !file_is_stamped(g->fd, &g->stamp))
		return err_set(e, ERR_INPUT,
			"%s was changed while it was read: open it again once it is whole", g->path);
	for (int i = 0; i < g->n_parts; i++)
		if (gguf_unchanged(g->part[i], e))
			return -1;
	return 0;
}
