/* See adapter_file.h. */
#include "tests/support/adapter_file.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/model/gguf.h"
#include "tests/support/tiny.h"

enum { ALIGN = 32 };

/* In -1 … 1. */
static float draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (float)((double)(*state >> 11) / (double)(1ull << 52) - 1);
}

static char *write_temp(const void *data, size_t size)
{
	char *path = strdup("/tmp/cutaway-adapter-XXXXXX");
	const int fd = mkstemp(path);

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd))
		abort();
	return path;
}

static struct gguf *open_file(const char *path)
{
	struct err e = { 0 };
	struct gguf *g;

	if (gguf_open(&g, path, &e)) {
		fprintf(stderr, "%s\n", e.text);
		abort();
	}
	return g;
}

static bool is_part(const struct gguf_tensor *t, const char *const *parts)
{
	const size_t n = strlen(t->name);

	for (; *parts; parts++)
		if (n >= strlen(*parts) && !strcmp(t->name + n - strlen(*parts), *parts))
			return true;
	return false;
}

/* The two halves of a matrix: shape, name, place. */
static void put_half(struct bytes *b, const struct gguf_tensor *t, const struct adapter_spec *s,
	char half, uint64_t *offset)
{
	const uint64_t rank = (uint64_t)s->rank;
	const uint64_t dim[2] = { half == 'a' ? (uint64_t)t->dim[0] : rank,
		half == 'a' ? rank : (uint64_t)t->dim[1] };
	char name[96];

	snprintf(name, sizeof name, "%.80s.lora_%c", t->name, half);
	gguf_put_tensor(b, name, 2, dim, 0 /* F32 */, *offset);
	*offset += (dim[0] * dim[1] * 4 + ALIGN - 1) / ALIGN * ALIGN;
}

static void put_numbers(struct bytes *b, uint64_t n, float size, uint64_t *state)
{
	for (uint64_t i = 0; i < n; i++) {
		const float x = size * draw(state);

		bytes_put(b, &x, sizeof x);
	}
	bytes_pad(b, ALIGN);
}

char *adapter_temp(const char *model, const struct adapter_spec *spec)
{
	struct gguf *g = open_file(model);
	struct bytes b = { 0 };
	uint64_t n = 0, offset = 0, state = spec->seed;
	char *path;

	for (int32_t i = 0; i < gguf_n_tensors(g); i++)
		n += 2 * is_part(gguf_tensor_at(g, i), spec->parts);
	gguf_put_header(&b, 3, n, spec->alpha != 0 ? 4 : 3);
	gguf_put_kv_text(&b, "general.architecture", spec->arch);
	gguf_put_kv_text(&b, "general.type", "adapter");
	gguf_put_kv_text(&b, "adapter.type", "lora");
	if (spec->alpha != 0)
		gguf_put_kv_f32(&b, "adapter.lora.alpha", spec->alpha);
	for (int pass = 0; pass < 2; pass++) {
		for (int32_t i = 0; i < gguf_n_tensors(g); i++) {
			const struct gguf_tensor *t = gguf_tensor_at(g, i);
			const uint64_t rank = (uint64_t)spec->rank;

			if (!is_part(t, spec->parts))
				continue;
			if (!pass) {
				put_half(&b, t, spec, 'a', &offset);
				put_half(&b, t, spec, 'b', &offset);
				continue;
			}
			put_numbers(&b, rank * (uint64_t)t->dim[0], 1 / sqrtf((float)t->dim[0]), &state);
			put_numbers(&b, rank * (uint64_t)t->dim[1], spec->size, &state);
		}
		bytes_pad(&b, ALIGN);
	}
	path = write_temp(b.data, b.size);
	bytes_free(&b);
	gguf_close(g);
	return path;
}

/* w [rows, cols] += factor B A */
static void merge(float *w, const struct gguf_tensor *a, const struct gguf_tensor *b, double factor)
{
	const int64_t cols = a->dim[0], rank = a->dim[1], rows = b->dim[1];
	const float *x = (const float *)(const void *)a->data,
				*y = (const float *)(const void *)b->data;

	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < cols; c++) {
			double sum = 0;

			for (int64_t k = 0; k < rank; k++)
				sum += (double)y[r * rank + k] * (double)x[k * cols + c];
			w[r * cols + c] = (float)((double)w[r * cols + c] + factor * sum);
		}
}

static uint8_t *read_all(const char *path, size_t *size)
{
	FILE *f = fopen(path, "rb");
	uint8_t *data;

	if (!f || fseek(f, 0, SEEK_END))
		abort();
	*size = (size_t)ftell(f);
	data = malloc(*size);
	rewind(f);
	if (!data || fread(data, 1, *size, f) != *size)
		abort();
	fclose(f);
	return data;
}

char *adapter_merged(const char *model, const char *adapter, float scale)
{
	struct gguf *g = open_file(adapter), *m;
	struct err e = { 0 };
	double alpha = 0;
	size_t size;
	uint8_t *data = read_all(model, &size);
	char *path;

	gguf_opt_f64(g, "adapter.lora.alpha", &alpha, &e);
	if (gguf_open_memory(&m, data, size, &e))
		abort();
	for (int32_t i = 0; i < gguf_n_tensors(m); i++) {
		const struct gguf_tensor *t = gguf_tensor_at(m, i), *a, *b;
		char name[96];

		snprintf(name, sizeof name, "%.80s.lora_a", t->name);
		a = gguf_find(g, name);
		snprintf(name, sizeof name, "%.80s.lora_b", t->name);
		b = gguf_find(g, name);
		if (a && b)
			merge((float *)(void *)(data + (t->data - data)), a, b,
				(double)scale * (alpha != 0 ? alpha / (double)a->dim[1] : 1));
	}
	gguf_close(m);
	path = write_temp(data, size);
	free(data);
	gguf_close(g);
	return path;
}
