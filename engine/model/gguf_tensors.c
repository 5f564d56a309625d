/* GGUF files: reading the descriptions of tensors, and finding them. See gguf.h.
 *
 * No allocation depends on the number that the file claims: tables grow with what was read. */
#include "base/array.h"
#include "engine/model/gguf_private.h"

#define NAME_MOST 127
#define TENSORS_MOST (1 << 20)

/* Every tensor type that ggml has or had a number for, so that a refusal can name it. */
static const char *const type_names[] = { "F32", "F16", "Q4_0", "Q4_1", "Q4_2", "Q4_3", "Q5_0",
	"Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS",
	"IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16", "I32", "I64", "F64",
	"IQ1_M", "BF16", "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0", "IQ4_NL_4_4",
	"IQ4_NL_4_8", "IQ4_NL_8_8", "MXFP4", "NVFP4", "Q1_0" };

/* The kernels' formats, generated from their table so that this file needs none of their code. */
static const struct k_type_info formats[] = {
#define X(name, id, n, bytes, ...) { #name, id, n, bytes },
	K_TYPES(X)
#undef X
};
#define X(name, ...) " " #name
static const char supported[] = K_TYPES(X);
#undef X

/* Names are shown in errors and looked up: printable ASCII only. */
static int check_name(const struct gguf *g, size_t at, size_t size, int32_t i, struct err *e)
{
	if (!size)
		return gguf_bad(g, e, "tensor %d has no name", i);
	for (size_t k = 0; k < size; k++)
		if (g->head[at + k] <= 0x20 || g->head[at + k] >= 0x7f)
			return gguf_bad(g, e, "the name of tensor %d has a byte %#x in it", i, g->head[at + k]);
	return 0;
}

static int refuse_type(
	const struct gguf *g, const struct gguf_tensor *t, uint32_t id, struct err *e)
{
	const char *name = id < sizeof type_names / sizeof *type_names ? type_names[id] : NULL;

	return gguf_bad(g, e, "tensor %s has type %s (%u), which is not supported; supported are%s",
		t->name, name ? name : "unknown", id, supported);
}

/* Rows are whole blocks; the size in bytes fits. */
static int size_tensor(const struct gguf *g, struct gguf_tensor *t, struct err *e)
{
	const struct k_type_info *f = &formats[t->type];
	uint64_t bytes;

	if (t->dim[0] % f->block)
		return gguf_bad(g, e, "tensor %s has rows of %lld values, but %s needs a multiple of %d",
			t->name, (long long)t->dim[0], f->name, f->block);
	bytes = (uint64_t)(t->dim[0] / f->block);
	if (__builtin_mul_overflow(bytes, (uint64_t)f->block_bytes, &bytes) ||
		__builtin_mul_overflow(bytes, (uint64_t)t->dim[1], &bytes) ||
		__builtin_mul_overflow(bytes, (uint64_t)t->dim[2], &bytes) ||
		__builtin_mul_overflow(bytes, (uint64_t)t->dim[3], &bytes) || bytes > g->size)
		return gguf_bad(g, e, "tensor %s of %lld x %lld x %lld x %lld %s is larger than the file",
			t->name, (long long)t->dim[0], (long long)t->dim[1], (long long)t->dim[2],
			(long long)t->dim[3], f->name);
	t->bytes = (size_t)bytes;
	return 0;
}

static int take_dims(struct gguf *g, struct gguf_tensor *t, struct err *e)
{
	uint32_t n;
	uint64_t dim;

	if (gguf_take_u32(g, &n, "a tensor's number of dimensions", e))
		return -1;
	if (n < 1 || n > 4)
		return gguf_bad(g, e, "tensor %s has %u dimensions; 1 to 4 are possible", t->name, n);
	t->n_dims = (int32_t)n;
	for (uint32_t i = 0; i < 4; i++) {
		dim = 1;
		if (i < n && gguf_take_u64(g, &dim, "a tensor's dimension", e))
			return -1;
		if (!dim || dim > INT32_MAX)
			return gguf_bad(
				g, e, "tensor %s has a dimension of %llu", t->name, (unsigned long long)dim);
		t->dim[i] = (int64_t)dim;
	}
	return 0;
}

/* Reads one description; *offset gets its offset in the data section. */
static int take_tensor(struct gguf *g, struct gguf_tensor *t, uint64_t *offset, struct err *e)
{
	uint32_t id;
	int32_t type = 0;

	if (take_dims(g, t, e) || gguf_take_u32(g, &id, "a tensor's type", e) ||
		gguf_take_u64(g, offset, "a tensor's offset", e))
		return -1;
	while (type < K_N_TYPES && (uint32_t)formats[type].gguf_id != id)
		type++;
	if (type == K_N_TYPES)
		return refuse_type(g, t, id, e);
	t->type = (enum k_type)type;
	return size_tensor(g, t, e);
}

/* The tables while they grow: names are offsets, turned into pointers at the end. */
struct growing {
	size_t cap_tensors, cap_offsets, cap_places, n_names, cap_names;
	uint64_t *offset; /* [n_tensors] in the data section */
	size_t *name;     /* [n_tensors] in g->names */
};

static int grow_tables(struct gguf *g, struct growing *w, size_t name_size, struct err *e)
{
	const size_t n = (size_t)g->n_tensors + 1;

	return ARRAY_ROOM(g->tensor, w->cap_tensors, n) && ARRAY_ROOM(w->offset, w->cap_offsets, n) &&
				   ARRAY_ROOM(w->name, w->cap_places, n) &&
				   ARRAY_ROOM(g->names, w->cap_names, w->n_names + name_size + 1)
			   ? 0
			   : err_no_memory(e, "the %zu tensors of %s", n, g->path);
}

static int take_descriptions(struct gguf *g, uint64_t n, struct growing *w, struct err *e)
{
	for (uint64_t i = 0; i < n; i++) {
		struct gguf_tensor *t;
		size_t at, size;

		if (gguf_take_string(g, NAME_MOST, &at, &size, "a tensor's name", e) ||
			check_name(g, at, size, g->n_tensors, e) || grow_tables(g, w, size, e))
			return -1;
		t = &g->tensor[g->n_tensors];
		memset(t, 0, sizeof *t);
		w->name[i] = w->n_names;
		t->name = memcpy(g->names + w->n_names, g->head + at, size);
		g->names[w->n_names + size] = '\0';
		w->n_names += size + 1;
		if (take_tensor(g, t, &w->offset[i], e))
			return -1;
		g->n_tensors++;
	}
	for (int32_t i = 0; i < g->n_tensors; i++)
		g->tensor[i].name = g->names + w->name[i];
	return 0;
}

static int compare_names(const void *a, const void *b, void *arg)
{
	const struct gguf *g = arg;

	return strcmp(g->tensor[*(const int32_t *)a].name, g->tensor[*(const int32_t *)b].name);
}

static int compare_places(const void *a, const void *b, void *arg)
{
	const struct gguf *g = arg;
	const uint8_t *p = g->tensor[*(const int32_t *)a].data,
				  *q = g->tensor[*(const int32_t *)b].data;

	return p < q ? -1 : p > q;
}

static int check_overlaps(struct gguf *g, struct err *e)
{
	qsort_r(g->by_name, (size_t)g->n_tensors, sizeof *g->by_name, compare_places, g);
	for (int32_t i = 1; i < g->n_tensors; i++) {
		const struct gguf_tensor *a = &g->tensor[g->by_name[i - 1]], *b = &g->tensor[g->by_name[i]];

		if (a->data + a->bytes > b->data)
			return gguf_bad(g, e, "tensors %s and %s overlap", a->name, b->name);
	}
	return 0;
}

/* Sorts by name for gguf_find, and refuses names that come twice. */
static int index_names(struct gguf *g, struct err *e)
{
	qsort_r(g->by_name, (size_t)g->n_tensors, sizeof *g->by_name, compare_names, g);
	for (int32_t i = 1; i < g->n_tensors; i++) {
		const char *name = g->tensor[g->by_name[i]].name;

		if (!strcmp(g->tensor[g->by_name[i - 1]].name, name))
			return gguf_bad(g, e, "tensor %s comes twice", name);
	}
	return 0;
}

static int place_tensors(struct gguf *g, const uint64_t *offset, uint64_t align, struct err *e)
{
	uint64_t start = (g->pos + align - 1) / align * align;

	for (int32_t i = 0; i < g->n_tensors; i++) {
		struct gguf_tensor *t = &g->tensor[i];

		if (offset[i] % align)
			return gguf_bad(g, e, "tensor %s lies at offset %llu, no multiple of %llu", t->name,
				(unsigned long long)offset[i], (unsigned long long)align);
		if (start > g->size || offset[i] > g->size - start ||
			t->bytes > g->size - start - offset[i])
			return err_set(e, ERR_INPUT,
				"%s is cut off or lies: tensor %s (%zu bytes at offset %llu of the "
				"data) ends after the file",
				g->path, t->name, t->bytes, (unsigned long long)offset[i]);
		t->data = g->map + start + offset[i];
		t->in = g;
	}
	return 0;
}

static int list_tensors(struct gguf *g, struct err *e)
{
	free(g->by_name);
	g->by_name = malloc(((size_t)g->n_tensors + 1) * sizeof *g->by_name);
	if (!g->by_name)
		return err_no_memory(e, "%d tensors", g->n_tensors);
	for (int32_t i = 0; i < g->n_tensors; i++)
		g->by_name[i] = i;
	return 0;
}

static int check_number(const struct gguf *g, uint64_t n, struct err *e)
{
	return n > TENSORS_MOST ? err_set(e, ERR_INPUT, "%s claims %llu tensors; %d is the most",
								  g->path, (unsigned long long)n, TENSORS_MOST)
							: 0;
}

int gguf_join_tensors(struct gguf *g, struct err *e)
{
	for (int k = 0; k < g->n_parts; k++) {
		const struct gguf *p = g->part[k];
		const size_t n = (size_t)g->n_tensors + (size_t)p->n_tensors;
		struct gguf_tensor *grown;

		if (check_number(g, n, e))
			return -1;
		grown = realloc(g->tensor, (n + 1) * sizeof *grown);
		if (!grown)
			return err_no_memory(e, "the %zu tensors of %s", n, g->path);
		g->tensor = grown;
		if (p->n_tensors)
			memcpy(grown + g->n_tensors, p->tensor, (size_t)p->n_tensors * sizeof *grown);
		g->n_tensors = (int32_t)n;
	}
	return list_tensors(g, e) ? -1 : index_names(g, e);
}

int gguf_take_tensors(struct gguf *g, uint64_t n, struct err *e)
{
	struct growing w = { 0 };
	int64_t align = 32;
	struct err bad = { 0 };
	int rc = -1;

	if (check_number(g, n, e))
		return -1;
	gguf_opt_i64(g, "general.alignment", &align, &bad);
	if (bad.code || align < 8 || align > 1 << 20 || (align & (align - 1))) {
		gguf_bad(g, e, "general.alignment is no power of two from 8 to 1048576");
		goto out;
	}
	if (take_descriptions(g, n, &w, e) || place_tensors(g, w.offset, (uint64_t)align, e))
		goto out;
	if (list_tensors(g, e) || check_overlaps(g, e) || index_names(g, e))
		goto out;
	rc = 0;
out:
	free(w.offset);
	free(w.name);
	return rc;
}

/* --- questions --- */

int32_t gguf_n_tensors(const struct gguf *g)
{
	return g->n_tensors;
}

const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int32_t i)
{
	return i < 0 || i >= g->n_tensors ? NULL : &g->tensor[i];
}

const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name)
{
	int32_t lo = 0, hi = g->n_tensors;

	while (lo < hi) {
		int32_t mid = lo + (hi - lo) / 2;
		int c = strcmp(name, g->tensor[g->by_name[mid]].name);

		if (!c)
			return &g->tensor[g->by_name[mid]];
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}
