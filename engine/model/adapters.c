/* See adapters.h. */
#include "engine/model/adapters.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/models.h"
#include "base/err.h"
#include "base/text.h"
#include "kernels/format/encode.h"

/* ---- the files ---- */

bool adapters_are(const struct gguf *g)
{
	struct gguf_text general = { "", 0 }, type = { "", 0 };

	gguf_opt_text(g, "general.type", &general, NULL);
	gguf_opt_text(g, "adapter.type", &type, NULL);
	return gguf_text_is(&general, "adapter") && gguf_text_is(&type, "lora");
}

static int check_file(const struct gguf *g, const struct gguf *model, struct err *e)
{
	struct gguf_text own = { "", 0 }, base = { "", 0 };

	if (!adapters_are(g))
		return gguf_bad(
			g, e, "no LoRA adapter: general.type is not \"adapter\", or adapter.type not \"lora\"");
	if (gguf_array_length(g, "adapter.alora.invocation_tokens") >= 0)
		return gguf_bad(
			g, e, "an activated LoRA, which begins at some token of a prompt: these are not read");
	if (gguf_get_text(g, "general.architecture", &own, e) ||
		gguf_get_text(model, "general.architecture", &base, e))
		return -1;
	if (own.size != base.size || memcmp(own.data, base.data, own.size) != 0)
		return gguf_bad(g, e, "for models of architecture %.*s; this one is %.*s",
			(int)(own.size < 40 ? own.size : 40), own.data, (int)(base.size < 40 ? base.size : 40),
			base.data);
	return 0;
}

void adapters_name(const char *path, char name[ADAPTER_NAME])
{
	const char *base = basename(path);
	const int n = (int)strlen(base) - (text_ends(base, ".gguf") ? 5 : 0);

	snprintf(name, ADAPTER_NAME, "%.*s", n < ADAPTER_NAME ? n : ADAPTER_NAME - 1, base);
}

int adapters_next(const char **list, char **path, float *scale, struct err *e)
{
	char *item, *colon, *end;
	int failed;

	*path = NULL;
	*list += strspn(*list, ",");
	if (!**list)
		return 0;
	item = strndup(*list, strcspn(*list, ","));
	if (!item)
		return err_no_memory(e, "a path");
	*list += strlen(item);
	*scale = 1;
	colon = strrchr(item, ':');
	if (colon && colon[1]) { /* else it is part of a path */
		const float given = strtof(colon + 1, &end);

		if (!*end && isfinite(given)) {
			*scale = given;
			*colon = '\0';
		}
	}
	failed = models_find(item, path, e);
	free(item);
	return failed ? -1 : 1;
}

static int open_file(struct adapters *all, const struct gguf *model, struct gguf **g, struct err *e)
{
	struct adapter *a = &all->adapter[all->n];
	double alpha = 0;

	adapters_name(a->path, a->name);
	if (adapters_find(all, a->name) || !strcmp(a->name, "off"))
		return err_set(
			e, ERR_USAGE, "lora %s: another adapter is called %s, too", a->path, a->name);
	if (gguf_open(g, a->path, e) || check_file(*g, model, e) ||
		file_sha256_cached(a->path, a->sha256, e))
		return -1;
	gguf_opt_f64(*g, "adapter.lora.alpha", &alpha, e);
	a->alpha = (float)alpha;
	all->n++;
	return e->code ? -1 : 0;
}

static int open_files(struct adapters *all, const char *list, const struct gguf *model,
	struct gguf *file[ADAPTERS_MOST], struct err *e)
{
	int more = 1;

	while (all->n < ADAPTERS_MOST) {
		struct adapter *a = &all->adapter[all->n];

		more = adapters_next(&list, &a->path, &a->scale, e);
		if (more <= 0 || open_file(all, model, &file[all->n], e))
			return more ? -1 : 0;
	}
	return list[strspn(list, ",")]
			   ? err_set(e, ERR_USAGE, "lora: at most %d adapters", ADAPTERS_MOST)
			   : 0;
}

/* ---- their matrices ---- */

/* The two tensors of an adapter for the matrix of a tensor. */
struct halves {
	const struct gguf_tensor *a, *b;
};

static struct halves halves_of(const struct gguf *g, const struct gguf_tensor *t)
{
	struct halves h;
	char name[160];

	snprintf(name, sizeof name, "%.140s.lora_a", t->name);
	h.a = gguf_find(g, name);
	snprintf(name, sizeof name, "%.140s.lora_b", t->name);
	h.b = gguf_find(g, name);
	return h;
}

static int check_halves(
	const struct gguf *g, const struct gguf_tensor *t, const struct halves *h, struct err *e)
{
	const struct gguf_tensor *a = h->a, *b = h->b;

	if (!a || !b)
		return gguf_bad(g, e, "%s has one half of lora_a and lora_b alone", t->name);
	if (a->dim[0] % k_types[a->type].block || b->dim[0] % k_types[b->type].block)
		return gguf_bad(g, e, "%s: rows of lora_a or lora_b are no whole blocks", t->name);
	if (t->n_dims > 2 || a->dim[2] * a->dim[3] * b->dim[2] * b->dim[3] != 1)
		return gguf_bad(g, e, "%s is several matrices, which adapters cannot change", t->name);
	if (a->dim[0] != t->dim[0] || b->dim[1] != t->dim[1] || a->dim[1] != b->dim[0] ||
		a->dim[1] > 4096)
		return gguf_bad(g, e,
			"%s is %lld x %lld, its lora_a %lld x %lld and lora_b %lld x %lld: a rank R wants "
			"R x inputs and outputs x R",
			t->name, (long long)t->dim[1], (long long)t->dim[0], (long long)a->dim[1],
			(long long)a->dim[0], (long long)b->dim[1], (long long)b->dim[0]);
	return 0;
}

/* Part i of the plan is a matrix that some adapter changes. */
static int count_part(struct adapters *all, const struct weights_part *p, struct gguf *const *file,
	bool *changed, struct err *e)
{
	*changed = false;
	for (int32_t i = 0; p->matrix && i < all->n; i++) {
		const struct halves h = halves_of(file[i], p->tensor);
		struct adapter *a = &all->adapter[i];

		if (!h.a && !h.b)
			continue;
		if (check_halves(file[i], p->tensor, &h, e))
			return -1;
		*changed = true;
		a->n_matrices++;
		a->rank = k_max(a->rank, (int32_t)h.a->dim[1]);
		if (p->row == 0) /* a tensor may be cut into several matrices */
			a->n_weights += gguf_tensor_weights(h.a) + gguf_tensor_weights(h.b);
		all->most = k_max(all->most, a->rank);
	}
	return 0;
}

/* Where in the memory of a matrix its arrays begin, after A's, and where it ends, in floats. */
struct places {
	size_t b, rank, scale, end;
};

static struct places places_of(const struct adapters *all, const struct k_matrix *m)
{
	const size_t n = (size_t)all->n, most = (size_t)all->most;
	struct places at = { .b = n * most * (size_t)m->n_cols };

	at.rank = at.b + n * most * (size_t)m->n_rows;
	at.scale = at.rank + n;
	at.end = k_align(at.scale + n, 16);
	return at;
}

static int count_matrices(
	struct adapters *all, const struct weights *w, struct gguf *const *file, struct err *e)
{
	all->matrix = calloc((size_t)w->n_parts + 1, sizeof *all->matrix);
	if (!all->matrix)
		return err_no_memory(e, "adapters");
	for (int32_t i = 0; i < w->n_parts; i++) {
		bool changed;

		if (count_part(all, &w->part[i], file, &changed, e))
			return -1;
		if (changed)
			all->matrix[all->n_matrices++].of = w->part[i].matrix;
	}
	for (int32_t i = 0; i < all->n_matrices; i++)
		all->bytes += places_of(all, all->matrix[i].of).end * sizeof(float);
	return 0;
}

static bool is_planned(const struct weights *w, const char *tensor)
{
	const size_t n = strlen(tensor) - strlen(".lora_a");

	for (int32_t i = 0; i < w->n_parts; i++) {
		const char *name = w->part[i].tensor->name;

		if (w->part[i].matrix && !strncmp(name, tensor, n) && !name[n])
			return true;
	}
	return false;
}

/* A tensor that no product reads would be left out in silence. */
static int check_all_used(const struct weights *w, const struct gguf *g, struct err *e)
{
	if (!gguf_n_tensors(g))
		return gguf_bad(g, e, "it has no matrices");
	for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
		const char *name = gguf_tensor_at(g, i)->name;

		if (!(text_ends(name, ".lora_a") || text_ends(name, ".lora_b")) || !is_planned(w, name))
			return gguf_bad(g, e, "tensor %s is for no matrix of this model", name);
	}
	return 0;
}

/* ---- their values ---- */

/* Rows first … first + n - 1 of a tensor, as floats. */
static int read_rows(
	const struct gguf_tensor *t, int64_t first, int64_t n, float *to, struct err *e)
{
	const size_t row = gguf_row_bytes(t);
	uint8_t *raw = malloc((size_t)n * row + 1);
	int failed = raw ? gguf_read_bytes(t, (size_t)first * row, (size_t)n * row, raw, e)
					 : err_no_memory(e, "an adapter");

	if (!failed)
		k_decode(t->type, raw, n * t->dim[0], to);
	free(raw);
	return failed;
}

/* B lies rank by rank, so that neighbours are outputs. */
static int read_b(const struct gguf_tensor *b, int64_t first, int32_t n, float *to, struct err *e)
{
	const int64_t rank = b->dim[0];
	float *rows = malloc((size_t)(n * rank) * sizeof *rows);
	int failed = rows ? read_rows(b, first, n, rows, e) : err_no_memory(e, "an adapter");

	for (int32_t i = 0; !failed && i < n; i++)
		for (int64_t k = 0; k < rank; k++)
			to[k * n + i] = rows[i * rank + k];
	free(rows);
	return failed;
}

/* Adapter i's part of a matrix, to its memory at `to`. */
static int fill_one(const struct adapters *all, int32_t i, const struct gguf *g,
	const struct weights_part *p, float *to, struct err *e)
{
	const struct k_matrix *m = p->matrix;
	const struct adapter *own = &all->adapter[i];
	const struct halves h = halves_of(g, p->tensor);
	const struct places at = places_of(all, m);
	const size_t first = (size_t)i * (size_t)all->most;
	int32_t rank;

	if (!h.a)
		return 0;
	rank = (int32_t)h.a->dim[1];
	memcpy(to + at.rank + i, &rank, sizeof rank);
	to[at.scale + (size_t)i] = own->alpha != 0 ? own->scale * own->alpha / (float)rank : own->scale;
	return read_rows(h.a, 0, rank, to + first * (size_t)m->n_cols, e) ||
				   read_b(h.b, p->row, m->n_rows, to + at.b + first * (size_t)m->n_rows, e)
			   ? -1
			   : 0;
}

static int fill_matrices(struct adapters *all, const struct weights *w, struct gguf *const *file,
	float *host, struct err *e)
{
	float *device = all->memory;
	struct places at;
	int32_t next = 0;

	for (int32_t i = 0; i < w->n_parts && next < all->n_matrices; i++) {
		const struct weights_part *p = &w->part[i];
		struct adapted_matrix *m = &all->matrix[next];

		if (p->matrix != m->of)
			continue;
		for (int32_t k = 0; k < all->n; k++)
			if (fill_one(all, k, file[k], p, host, e))
				return -1;
		at = places_of(all, m->of);
		m->is = (struct k_adapted){ .a = device,
			.b = device + at.b,
			.rank = (const int32_t *)(const void *)(device + at.rank),
			.scale = device + at.scale,
			.width = m->of->n_rows };
		host += at.end;
		device += at.end;
		next++;
	}
	return 0;
}

static int fill(
	struct adapters *all, const struct weights *w, struct gguf *const *file, struct err *e)
{
	float *host = calloc(1, all->bytes + 1);
	int failed = -1;

	if (!host)
		return err_no_memory(e, "%zu MB of adapters", all->bytes >> 20);
	all->memory = k_alloc(all->kernels, all->bytes, K_WEIGHTS, "adapters; try fewer of them", e);
	if (all->memory && !fill_matrices(all, w, file, host, e))
		failed = k_upload(all->kernels, all->memory, host, all->bytes, e);
	free(host);
	return failed;
}

int adapters_open(struct adapters **out, const char *list, const struct weights *w,
	const struct gguf *g, struct k_ctx *kernels, struct err *e)
{
	struct gguf *file[ADAPTERS_MOST] = { NULL };
	struct adapters *all;
	int failed;

	*out = NULL;
	if (!list || !*list)
		return 0;
	all = calloc(1, sizeof *all);
	if (!all)
		return err_no_memory(e, "adapters");
	all->kernels = kernels;
	failed = open_files(all, list, g, file, e) || count_matrices(all, w, file, e);
	for (int32_t i = 0; !failed && i < all->n; i++)
		failed = check_all_used(w, file[i], e);
	failed = failed || (all->n_matrices && fill(all, w, file, e));
	for (int32_t i = 0; i < ADAPTERS_MOST; i++)
		gguf_close(file[i]);
	if (failed || !all->n) {
		adapters_close(all);
		return failed ? -1 : 0;
	}
	*out = all;
	return 0;
}

void adapters_close(struct adapters *a)
{
	if (!a)
		return;
	for (int32_t i = 0; i < ADAPTERS_MOST; i++)
		free(a->adapter[i].path);
	k_free(a->kernels, a->memory);
	free(a->matrix);
	free(a);
}

const struct k_adapted *adapters_of(const struct adapters *a, const struct k_matrix *m)
{
	for (int32_t i = 0; i < a->n_matrices; i++)
		if (a->matrix[i].of == m)
			return &a->matrix[i].is;
	return NULL;
}

int32_t adapters_find(const struct adapters *a, const char *name)
{
	for (int32_t i = 0; a && i < a->n; i++)
		if (!strcmp(a->adapter[i].name, name))
			return i + 1;
	return 0;
}
