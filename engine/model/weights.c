/* See weights.h. */
#include "engine/model/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <xxhash.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/signals.h"

/* One thread reads a strip at once, and packs it while it is in the core's L2 cache. It takes the
 * strips of a large page together: two threads that touch a new page at once both clear it. */
enum { STRIP_BYTES = 128 << 10, LARGE_PAGE = 2 << 20 };

static size_t align64(size_t n)
{
	return (n + 63) & ~(size_t)63;
}

/* ---- the plan ---- */

static struct arena_key arena_key_of(const struct weights *w, const struct gguf *g)
{
	struct arena_key key = { .stamp = *gguf_stamp(g), .bytes = w->bytes };

	snprintf(key.layout, sizeof key.layout, "%s", k_layout_name(w->kernels));
	return key;
}

static bool take_shared(struct weights *w, const struct gguf *g)
{
	const struct arena_key key = arena_key_of(w, g);

	w->share = w->share && k_is_host(w->kernels);
	w->shared = w->share ? arena_find(&key) : NULL;
	if (w->shared)
		w->arena = w->base = w->shared->data;
	return w->shared;
}

static int map_arena(struct weights *w, struct err *e)
{
	w->arena = mmap(
		NULL, w->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (w->arena == MAP_FAILED) {
		w->arena = NULL;
		return err_no_memory(e, "%zu MB of weights", w->bytes >> 20);
	}
	/* large pages save about a tenth of a memory-bound step; without them it is only slower */
	madvise(w->arena, w->bytes, MADV_HUGEPAGE);
	w->base = k_is_host(w->kernels)
				  ? w->arena
				  : k_alloc(w->kernels, w->bytes, K_WEIGHTS, "weights; try --backend cpu", e);
	return w->base ? 0 : -1;
}

/* An upper bound, counted before anything is read: it includes unused tensors, which cost no
 * memory. */
int weights_open(struct weights *w, const struct gguf *g, struct k_ctx *kernels, struct err *e)
{
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(g, i);
		const int64_t rows = t->dim[1], parts = t->dim[2] * t->dim[3]; /* 1 where it has fewer */

		if (t->dim[0] > INT32_MAX || rows > INT32_MAX || parts > INT32_MAX / rows)
			return gguf_bad(g, e, "tensor %s has a shape that no layer of this model has", t->name);
		size_t packed = (size_t)parts * align64(k_packed_bytes(
											kernels, t->type, (int32_t)rows, (int32_t)t->dim[0]));
		w->bytes += align64(packed > t->bytes ? packed : t->bytes);
		if (t->n_dims == 2) /* a tensor may be cut into three matrices, each of whole tiles */
			w->bytes += 2 * align64(k_packed_bytes(
								kernels, t->type, k_pack_unit(kernels), (int32_t)t->dim[0]));
	}
	if (!w->bytes)
		return err_set(e, ERR_INPUT,
			"%s has no tensors: it is a vocabulary alone, or only a part of a model", gguf_path(g));
	w->kernels = kernels;
	return take_shared(w, g) ? 0 : map_arena(w, e);
}

/* A file may cut a tensor into so many matrices that their last tiles find no room. */
static struct weights_part *add_part(
	struct weights *w, const struct gguf_tensor *t, size_t bytes, struct err *e)
{
	struct weights_part *p;

	if (align64(bytes) > w->bytes - w->used) {
		gguf_bad(t->in, e,
			"no room for tensor %s: tensors are cut into more matrices than their shapes say",
			t->name);
		return NULL;
	}
	if (!ARRAY_ROOM(w->part, w->cap_parts, w->n_parts + 1)) {
		err_no_memory(e, "the plan of %d tensors", w->n_parts + 1);
		return NULL;
	}
	p = &w->part[w->n_parts++];
	*p = (struct weights_part){ .to = w->arena + w->used };
	w->used += align64(bytes);
	return p;
}

float *weights_add_vector(struct weights *w, const struct gguf_tensor *t, struct err *e)
{
	struct weights_part *p = add_part(w, t, t->bytes, e);

	if (!p)
		return NULL;
	p->tensor = t;
	p->strip = STRIP_BYTES;
	p->step = STRIP_BYTES;
	p->n_strips = (int64_t)((t->bytes + STRIP_BYTES - 1) / STRIP_BYTES);
	w->n_weights += (int64_t)(t->bytes / sizeof(float));
	return (float *)(void *)(w->base + (p->to - w->arena));
}

/* ---- pairs ---- */

struct look {
	const struct weights_part *p;
	atomic_bool others; /* a strip is no pairs, or cannot be read, which its filling will tell */
};

static void look_at_strip(void *arg, int64_t i, void *scratch)
{
	struct look *l = arg;
	const struct gguf_tensor *t = l->p->tensor;
	const size_t row = gguf_row_bytes(t);
	const int32_t first = (int32_t)i * l->p->strip, left = l->p->matrix->n_rows - first;
	const size_t n = (size_t)(left < l->p->strip ? left : l->p->strip);
	struct err ignored = { 0 };

	if (!atomic_load_explicit(&l->others, memory_order_relaxed) &&
		(gguf_read_bytes(t, (size_t)(l->p->row + first) * row, n * row, scratch, &ignored) ||
			!k_pairs_hold(t->type, scratch, n * (size_t)t->dim[0])))
		atomic_store_explicit(&l->others, true, memory_order_relaxed);
}

/* The file is read for it, but of other matrices only a strip a thread. */
static bool holds_pairs(const struct weights *w, struct weights_part *p)
{
	struct look l = { .p = p };

	if (!w->pairs || !k_keeps_pairs(w->kernels, p->matrix->type, p->matrix->n_cols))
		return false;
	k_deal(w->kernels, p->n_strips, look_at_strip, &l);
	return !l.others;
}

size_t weights_bytes(const struct weights *w, const struct gguf_tensor *t, size_t *pairs)
{
	size_t bytes = t->bytes;

	*pairs = 0;
	for (int32_t i = 0; i < w->n_parts; i++) {
		const struct k_matrix *m = w->part[i].tensor == t ? w->part[i].matrix : NULL;
		const size_t row = gguf_row_bytes(t);

		if (!m || !m->pairs)
			continue;
		bytes -= (size_t)m->n_rows * row;
		*pairs += (size_t)m->n_rows * (row / 2 + (size_t)m->n_cols / 8);
	}
	return bytes + *pairs;
}

int weights_add_matrix(struct weights *w, const struct gguf_tensor *t, int64_t first,
	struct k_matrix *m, struct err *e)
{
	const int32_t unit = k_pack_unit(w->kernels);
	const size_t row = gguf_row_bytes(t);
	struct weights_part *p, part = { .tensor = t, .matrix = m, .row = first };
	int32_t units;
	struct k_matrix strip;

	if (row * (size_t)unit > K_SCRATCH_BYTES)
		return gguf_bad(t->in, e, "tensor %s has rows of %zu bytes; %zu are the most", t->name, row,
			K_SCRATCH_BYTES / (size_t)unit);
	units = (int32_t)(STRIP_BYTES / (row * (size_t)unit));
	part.strip = units > 1 ? units * unit : unit;
	part.n_strips = (m->n_rows + part.strip - 1) / part.strip;
	m->pairs = holds_pairs(w, &part);
	strip = *m;
	strip.n_rows = part.strip;
	part.step = k_matrix_bytes(w->kernels, &strip);
	p = add_part(w, t, k_matrix_bytes(w->kernels, m), e);
	if (!p)
		return -1;
	part.to = p->to;
	*p = part;
	m->data = w->base + (p->to - w->arena);
	w->n_weights += (int64_t)m->n_rows * m->n_cols;
	return 0;
}

/* A hash of the layout, which tells an image from one of another version of the plan. */
static uint64_t hash_plan(const struct weights *w)
{
	uint64_t h = 0;

	for (int32_t i = 0; i < w->n_parts; i++) {
		const struct weights_part *p = &w->part[i];
		uint64_t of[] = { (uint64_t)(p->to - w->arena), p->tensor->bytes, (uint64_t)p->tensor->type,
			(uint64_t)p->tensor->dim[0], p->matrix != NULL };

		h = XXH64(p->tensor->name, strlen(p->tensor->name), XXH64(of, sizeof of, h));
	}
	return h;
}

/* ---- from the model's file ---- */

struct filling {
	struct weights *w;
	atomic_llong pack_ns;
	atomic_bool failed;
	struct err err; /* of the thread that set `failed` */
};

static bool abandoned(const struct weights *w)
{
	return w->abandon && atomic_load_explicit(w->abandon, memory_order_relaxed);
}

static int copy_strip(const struct weights_part *p, int64_t i, struct err *e)
{
	size_t at = (size_t)i * (size_t)p->strip, left = p->tensor->bytes - at;

	return gguf_read_bytes(
		p->tensor, at, left < (size_t)p->strip ? left : (size_t)p->strip, p->to + at, e);
}

static int pack_strip(
	struct filling *f, const struct weights_part *p, int64_t i, void *scratch, struct err *e)
{
	const size_t row = gguf_row_bytes(p->tensor);
	struct k_matrix here = *p->matrix;
	int32_t first = (int32_t)i * p->strip, n = p->matrix->n_rows - first;
	int64_t start;

	n = n < p->strip ? n : p->strip;
	if (f->w->wants && !f->w->wants(f->w->wants_arg, p->matrix, first, n))
		return 0;
	if (gguf_read_bytes(p->tensor, (size_t)(p->row + first) * row, (size_t)n * row, scratch, e))
		return -1;
	start = now_ns();
	here.data = p->to;
	k_pack_rows(f->w->kernels, &here, scratch, first, n);
	atomic_fetch_add_explicit(&f->pack_ns, now_ns() - start, memory_order_relaxed);
	return 0;
}

static void fill_strip(struct filling *f, const struct weights_part *p, int64_t i, void *scratch)
{
	struct err e = { 0 };

	if (atomic_load_explicit(&f->failed, memory_order_relaxed) || abandoned(f->w))
		return;
	if (p->matrix ? pack_strip(f, p, i, scratch, &e) : copy_strip(p, i, &e))
		if (!atomic_exchange(&f->failed, true))
			f->err = e;
}

static uintptr_t first_page(const struct weights *w)
{
	return (uintptr_t)w->arena / LARGE_PAGE;
}

/* The last part that begins before `at`, or the first one. */
static const struct weights_part *part_before(const struct weights *w, uintptr_t at)
{
	int32_t lo = 0, hi = w->n_parts;

	while (hi - lo > 1) {
		int32_t mid = (lo + hi) / 2;

		if ((uintptr_t)w->part[mid].to < at)
			lo = mid;
		else
			hi = mid;
	}
	return &w->part[lo];
}

/* Fills the strips that begin in a large page. */
static void fill_page(void *arg, int64_t page, void *scratch)
{
	struct filling *f = arg;
	const struct weights *w = f->w;
	const uintptr_t from = (first_page(w) + (uintptr_t)page) * LARGE_PAGE, end = from + LARGE_PAGE;

	for (const struct weights_part *p = part_before(w, from); p < w->part + w->n_parts; p++) {
		const uintptr_t to = (uintptr_t)p->to;
		int64_t i = from > to ? (int64_t)((from - to + p->step - 1) / p->step) : 0;

		if (to >= end)
			break;
		for (; i < p->n_strips && to + (uintptr_t)i * p->step < end; i++)
			fill_strip(f, p, i, scratch);
	}
}

static int fill(struct weights *w, struct err *e)
{
	struct filling f = { .w = w };
	const uintptr_t last = ((uintptr_t)w->arena + w->used - 1) / LARGE_PAGE;

	k_deal(w->kernels, (int64_t)(last - first_page(w) + 1), fill_page, &f);
	w->pack_ns = f.pack_ns;
	return f.failed ? err_set(e, f.err.code, "%s", f.err.text) : 0;
}

/* ---- the cache of packed weights ---- */

static bool load_cached(struct weights *w)
{
	char *folder = NULL;
	bool loaded = file_sha256_known_of(w->path, &w->stamp, w->key.sha256) &&
				  !packed_cache_folder(&folder, NULL) &&
				  packed_cache_load(folder, &w->key, w->kernels, w->arena, w->abandon);

	free(folder);
	return loaded;
}

/* Failure is ignored: the next start packs again. */
static void *save(void *arg)
{
	struct weights *w = arg;
	char *folder = NULL;

	setpriority(PRIO_PROCESS, 0, 19); /* of this thread, on Linux */
	if (!file_sha256_of(w->path, &w->stamp, &w->give_up, w->key.sha256, NULL) &&
		!packed_cache_folder(&folder, NULL))
		packed_cache_store(
			folder, &w->key, w->name, w->arena, PACKED_CACHE_MOST, &w->give_up, NULL);
	free(folder);
	return NULL;
}

static void start_saving(struct weights *w)
{
	sigset_t before;

	signals_block(&before);
	w->saving = !pthread_create(&w->saver, NULL, save, w);
	signals_restore(&before);
}

/* Some bytes of each tensor, and where they are. */
static uint64_t identity_of(const struct weights *w)
{
	uint64_t h = 0;
	char some[64];

	for (int32_t i = 0; i < w->n_parts; i++) {
		const struct gguf_tensor *t = w->part[i].tensor;
		const size_t n = t->bytes < sizeof some ? t->bytes : sizeof some;
		struct err ignored = { 0 };

		h = XXH64(t->name, strlen(t->name), h ^ (uint64_t)t->type);
		for (size_t at = 0; at + n <= t->bytes; at += t->bytes / 4 + 1)
			if (!gguf_read_bytes(t, at, n, some, &ignored))
				h = XXH64(some, n, h);
	}
	return h;
}

static int prepare_key(struct weights *w, const struct gguf *g, struct err *e)
{
	const char *slash = strrchr(gguf_path(g), '/');

	w->path = strdup(gguf_path(g));
	w->name = strdup(slash ? slash + 1 : gguf_path(g));
	if (!w->path || !w->name)
		return err_no_memory(e, "a path");
	w->stamp = *gguf_stamp(g);
	w->identity = w->wants ? identity_of(w) : 0;
	w->key.layout = k_layout_name(w->kernels);
	w->key.plan = hash_plan(w);
	w->key.bytes = w->used;
	return 0;
}

static void drop_arena(struct weights *w)
{
	arena_drop(w->shared);
	if (w->arena && !w->shared)
		munmap(w->arena, w->bytes);
	w->arena = NULL;
}

/* Copies the arena to the device's memory, if the kernels read that. */
static int move(struct weights *w, struct err *e)
{
	if (w->base == w->arena)
		return 0;
	if (k_upload(w->kernels, w->base, w->arena, w->used, e))
		return -1;
	if (!w->saving)
		drop_arena(w);
	return 0;
}

static void end_plan(struct weights *w)
{
	free(w->part);
	w->part = NULL;
}

/* What others loaded is there, where the plan is theirs: it is a function of the file. */
static int check_shared(struct weights *w, struct err *e)
{
	end_plan(w);
	return w->key.plan == w->shared->plan
			   ? 0
			   : err_set(e, ERR_INPUT, "%s: its plan is not the one of its other engines", w->path);
}

static void share(struct weights *w, const struct gguf *g)
{
	const struct arena_key key = arena_key_of(w, g);

	if (w->share && !w->wants)
		w->shared = arena_keep(&key, w->arena, w->key.plan);
}

int weights_load(struct weights *w, const struct gguf *g, enum weights_cache mode,
	const atomic_bool *abandon, struct err *e)
{
	w->mode = mode = w->wants ? WEIGHTS_CACHE_OFF : mode;
	w->abandon = abandon;
	if (prepare_key(w, g, e))
		return -1;
	if (w->shared)
		return check_shared(w, e);
	w->from_cache = mode != WEIGHTS_CACHE_OFF && load_cached(w);
	if (!w->from_cache && !abandoned(w) && fill(w, e))
		return -1;
	end_plan(w);
	if (abandoned(w))
		return err_set(e, ERR_INTERRUPTED, "the loading of %s was stopped", w->path);
	if (!w->from_cache &&
		(mode == WEIGHTS_CACHE_ON || (mode == WEIGHTS_CACHE_AUTO &&
										 w->pack_ns / k_n_threads(w->kernels) >= WEIGHTS_SLOW_NS)))
		start_saving(w);
	share(w, g);
	return move(w, e);
}

int weights_pack(
	struct k_ctx *kernels, struct k_matrix *m, const void *raw, void *to, struct err *e)
{
	const size_t bytes = k_matrix_bytes(kernels, m);
	int failed = 0;

	m->data = k_is_host(kernels) ? to : aligned_alloc(64, align64(bytes));
	if (!m->data)
		return err_no_memory(e, "%zu bytes of packed weights", bytes);
	k_pack(kernels, m, raw);
	if (m->data != to) {
		failed = k_upload(kernels, to, m->data, bytes, e);
		free(m->data);
		m->data = to;
	}
	return failed;
}

void weights_close(struct weights *w)
{
	if (w->saving) {
		atomic_store(&w->give_up, w->mode != WEIGHTS_CACHE_ON || abandoned(w));
		pthread_join(w->saver, NULL);
	}
	if (w->base != w->arena)
		k_free(w->kernels, w->base);
	drop_arena(w);
	free(w->part);
	free(w->path);
	free(w->name);
}
