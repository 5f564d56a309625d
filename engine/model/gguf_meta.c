/* GGUF metadata: reading the key-value pairs and looking them up. See gguf.h.
 *
 * Reading checks every length once; afterwards values are read from the copy in memory. */
#include "base/array.h"
#include "engine/model/gguf_private.h"

#define KEYS_MOST 65536 /* entries */
#define KEY_MOST 65535  /* bytes of a key, by the format */

static const struct {
	const char *name;
	size_t bytes; /* 0: of varying size */
	enum { NO_INTEGER, UNSIGNED, SIGNED } integer;
} values[GGUF_N_VALUES] = {
	[GGUF_U8] = { "u8", 1, UNSIGNED },
	[GGUF_I8] = { "i8", 1, SIGNED },
	[GGUF_U16] = { "u16", 2, UNSIGNED },
	[GGUF_I16] = { "i16", 2, SIGNED },
	[GGUF_U32] = { "u32", 4, UNSIGNED },
	[GGUF_I32] = { "i32", 4, SIGNED },
	[GGUF_U64] = { "u64", 8, UNSIGNED },
	[GGUF_I64] = { "i64", 8, SIGNED },
	[GGUF_BOOL] = { "bool", 1, UNSIGNED },
	[GGUF_F32] = { "f32", 4, NO_INTEGER },
	[GGUF_F64] = { "f64", 8, NO_INTEGER },
	[GGUF_STRING] = { "string", 0, NO_INTEGER },
	[GGUF_ARRAY] = { "array", 0, NO_INTEGER },
};

/* --- reading --- */

static int take_type(struct gguf *g, enum gguf_value *out, const char *what, struct err *e)
{
	uint32_t type;

	if (gguf_take_u32(g, &type, what, e))
		return -1;
	if (type >= GGUF_N_VALUES)
		return gguf_bad(g, e, "%s before byte %zu is %u, which is no type", what, g->pos, type);
	*out = (enum gguf_value)type;
	return 0;
}

/* Skips the items, checking each string. */
static int skip_items(struct gguf *g, const struct gguf_kv *kv, struct err *e)
{
	size_t at, size;
	uint64_t bytes;

	if (kv->item == GGUF_STRING) {
		for (uint64_t i = 0; i < kv->n; i++)
			if (gguf_take_string(g, UINT64_MAX, &at, &size, "a metadata string", e))
				return -1;
		return 0;
	}
	if (__builtin_mul_overflow(kv->n, (uint64_t)values[kv->item].bytes, &bytes))
		return gguf_bad(
			g, e, "an array at byte %zu claims %llu items", g->pos, (unsigned long long)kv->n);
	if (gguf_need(g, bytes, "a metadata value", e))
		return -1;
	g->pos += (size_t)bytes;
	return 0;
}

static int take_pair(struct gguf *g, struct gguf_kv *kv, struct err *e)
{
	if (gguf_take_string(g, KEY_MOST, &kv->key, &kv->key_size, "a metadata key", e) ||
		take_type(g, &kv->type, "the type of a metadata value", e))
		return -1;
	if (!kv->key_size)
		return gguf_bad(g, e, "a metadata key at byte %zu is empty", kv->key);
	kv->item = kv->type;
	kv->n = 1;
	if (kv->type == GGUF_ARRAY) {
		if (take_type(g, &kv->item, "the type of an array's items", e) ||
			gguf_take_u64(g, &kv->n, "the length of an array", e))
			return -1;
		if (kv->item == GGUF_ARRAY)
			return gguf_bad(g, e, "an array of arrays at byte %zu is not supported", g->pos);
	}
	kv->at = g->pos;
	if (skip_items(g, kv, e))
		return -1;
	kv->end = g->pos;
	return 0;
}

static int compare_bytes(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b)
{
	int c = memcmp(a, b, n_a < n_b ? n_a : n_b);

	return c ? c : n_a < n_b ? -1 : n_a > n_b;
}

static int compare_keys(const void *a, const void *b, void *arg)
{
	const struct gguf_kv *x = a, *y = b;
	const struct gguf *g = arg;

	return compare_bytes(g->head + x->key, x->key_size, g->head + y->key, y->key_size);
}

/* Sorts by key for kv_find(), and refuses keys that come twice. */
static int index_keys(struct gguf *g, struct err *e)
{
	if (g->n_kv)
		qsort_r(g->kv, g->n_kv, sizeof *g->kv, compare_keys, g);
	for (size_t i = 1; i < g->n_kv; i++)
		if (!compare_keys(&g->kv[i - 1], &g->kv[i], g))
			return gguf_bad(g, e, "a metadata key comes twice, at bytes %zu and %zu",
				g->kv[i - 1].key, g->kv[i].key);
	return 0;
}

int gguf_take_metadata(struct gguf *g, uint64_t n, struct err *e)
{
	size_t cap = 0;

	if (n > KEYS_MOST)
		return err_set(e, ERR_INPUT, "%s claims %llu metadata entries; %d is the most", g->path,
			(unsigned long long)n, KEYS_MOST);
	while (g->n_kv < n) {
		if (!ARRAY_ROOM(g->kv, cap, g->n_kv + 1))
			return err_no_memory(e, "%zu metadata entries", cap);
		if (take_pair(g, &g->kv[g->n_kv], e))
			return -1;
		g->n_kv++;
	}
	return index_keys(g, e);
}

/* --- questions --- */

static const struct gguf_kv *kv_find(const struct gguf *g, const char *key)
{
	size_t lo = 0, hi = g->n_kv, size = strlen(key);

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct gguf_kv *kv = &g->kv[mid];
		int c = compare_bytes((const uint8_t *)key, size, g->head + kv->key, kv->key_size);

		if (!c)
			return kv;
		if (c < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *key,
	const char *want, struct err *e)
{
	bool array = kv->type == GGUF_ARRAY;

	return gguf_bad(
		g, e, "%s is %s%s, not %s", key, array ? "an array of " : "", values[kv->item].name, want);
}

static int absent(const struct gguf *g, const char *key, struct err *e)
{
	return err_set(e, ERR_INPUT, "%s has no %s, which a model needs", g->path, key);
}

/* Item i as an integer. False: not an integer type, or too large. */
static bool item_i64(const struct gguf *g, const struct gguf_kv *kv, uint64_t i, int64_t *out)
{
	const size_t bytes = values[kv->item].bytes;
	const bool is_signed = values[kv->item].integer == SIGNED;
	uint64_t raw = 0;

	if (!values[kv->item].integer)
		return false;
	memcpy(&raw, g->head + kv->at + i * bytes, bytes); /* the file is little-endian */
	if (is_signed && raw >> (8 * bytes - 1))
		raw |= bytes < 8 ? UINT64_MAX << (8 * bytes) : 0;
	memcpy(out, &raw, sizeof raw);
	return is_signed || raw <= INT64_MAX;
}

static bool item_f64(const struct gguf *g, const struct gguf_kv *kv, uint64_t i, double *out)
{
	const uint8_t *p = g->head + kv->at + i * values[kv->item].bytes;
	float f;

	if (kv->item == GGUF_F64) {
		memcpy(out, p, sizeof *out);
		return true;
	}
	if (kv->item != GGUF_F32)
		return false;
	memcpy(&f, p, sizeof f);
	*out = f;
	return true;
}

bool gguf_opt_i64(const struct gguf *g, const char *key, int64_t *out, struct err *e)
{
	const struct gguf_kv *kv = kv_find(g, key);
	int64_t v;

	if (!kv)
		return false;
	if (kv->type == GGUF_ARRAY || kv->type == GGUF_BOOL || !item_i64(g, kv, 0, &v)) {
		wrong_type(g, kv, key, "an integer below 2^63", e);
		return false;
	}
	*out = v;
	return true;
}

bool gguf_opt_f64(const struct gguf *g, const char *key, double *out, struct err *e)
{
	const struct gguf_kv *kv = kv_find(g, key);

	if (!kv)
		return false;
	if (kv->type == GGUF_ARRAY || !item_f64(g, kv, 0, out)) {
		wrong_type(g, kv, key, "a floating-point number", e);
		return false;
	}
	return true;
}

bool gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct err *e)
{
	const struct gguf_kv *kv = kv_find(g, key);

	if (!kv)
		return false;
	if (kv->type != GGUF_BOOL || g->head[kv->at] > 1) {
		wrong_type(g, kv, key, "0 or 1 as a bool", e);
		return false;
	}
	*out = g->head[kv->at] == 1;
	return true;
}

/* Reads the string whose length is at `at`; returns its end. */
static size_t text_at(const struct gguf *g, size_t at, struct gguf_text *out)
{
	uint64_t n;

	memcpy(&n, g->head + at, sizeof n);
	out->data = (const char *)g->head + at + sizeof n;
	out->size = (size_t)n;
	return at + sizeof n + (size_t)n;
}

bool gguf_opt_text(const struct gguf *g, const char *key, struct gguf_text *out, struct err *e)
{
	const struct gguf_kv *kv = kv_find(g, key);

	if (!kv)
		return false;
	if (kv->type != GGUF_STRING) {
		wrong_type(g, kv, key, "a string", e);
		return false;
	}
	text_at(g, kv->at, out);
	return true;
}

int gguf_get_i64(const struct gguf *g, const char *key, int64_t *out, struct err *e)
{
	return kv_find(g, key) ? gguf_opt_i64(g, key, out, e) ? 0 : -1 : absent(g, key, e);
}

bool gguf_text_is(const struct gguf_text *t, const char *word)
{
	return t->size == strlen(word) && !memcmp(t->data, word, t->size);
}

int gguf_get_text(const struct gguf *g, const char *key, struct gguf_text *out, struct err *e)
{
	return kv_find(g, key) ? gguf_opt_text(g, key, out, e) ? 0 : -1 : absent(g, key, e);
}

int64_t gguf_array_length(const struct gguf *g, const char *key)
{
	const struct gguf_kv *kv = kv_find(g, key);

	return kv && kv->type == GGUF_ARRAY ? (int64_t)kv->n : -1;
}

/* Finds the array of that key with at least n items. */
static const struct gguf_kv *find_array(
	const struct gguf *g, const char *key, int64_t n, struct err *e)
{
	const struct gguf_kv *kv = kv_find(g, key);

	if (!kv)
		absent(g, key, e);
	else if (kv->type != GGUF_ARRAY)
		wrong_type(g, kv, key, "an array", e);
	else if (n < 0 || (uint64_t)n > kv->n)
		gguf_bad(g, e, "%s has %llu items, %lld are needed", key, (unsigned long long)kv->n,
			(long long)n);
	else
		return kv;
	return NULL;
}

int gguf_array_i64(const struct gguf *g, const char *key, int64_t *out, int64_t n, struct err *e)
{
	const struct gguf_kv *kv = find_array(g, key, n, e);

	if (!kv)
		return -1;
	for (int64_t i = 0; i < n; i++)
		if (!item_i64(g, kv, (uint64_t)i, &out[i]))
			return wrong_type(g, kv, key, "an array of integers below 2^63", e);
	return 0;
}

int gguf_array_f32(const struct gguf *g, const char *key, float *out, int64_t n, struct err *e)
{
	const struct gguf_kv *kv = find_array(g, key, n, e);
	double v;

	if (!kv)
		return -1;
	for (int64_t i = 0; i < n; i++) {
		if (!item_f64(g, kv, (uint64_t)i, &v))
			return wrong_type(g, kv, key, "an array of floating-point numbers", e);
		out[i] = (float)v;
	}
	return 0;
}

int gguf_array_text(
	const struct gguf *g, const char *key, struct gguf_text *out, int64_t n, struct err *e)
{
	const struct gguf_kv *kv = find_array(g, key, n, e);
	size_t at;

	if (!kv)
		return -1;
	if (kv->item != GGUF_STRING)
		return wrong_type(g, kv, key, "an array of strings", e);
	at = kv->at;
	for (int64_t i = 0; i < n; i++)
		at = text_at(g, at, &out[i]);
	return 0;
}

struct gguf_pair gguf_pair_at(const struct gguf *g, size_t i)
{
	const struct gguf_kv *kv = i < g->n_kv ? &g->kv[i] : NULL;

	if (!kv)
		return (struct gguf_pair){ 0 };
	return (struct gguf_pair){ .key = (const char *)g->head + kv->key,
		.key_size = kv->key_size,
		.bytes = g->head + kv->key - sizeof(uint64_t),
		.size = kv->end - kv->key + sizeof(uint64_t) };
}
