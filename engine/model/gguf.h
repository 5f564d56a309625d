/* Reader of GGUF files (versions 2 and 3): metadata and the positions of tensors.
 *
 * The file is not trusted: every count, length and offset is checked against the file's size before
 * it is used or allocated for; a file that shrinks while it is mapped is a clear error, not a crash
 * (the reader copies metadata out at open and gguf_read_tensor copies tensor bytes with pread).
 * Ownership: everything returned lives until gguf_close. Thread: one opens and closes; in between
 * nothing changes and reads have no file position (pread), so any number may read at once, each
 * with an err of its own. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "kernels/kernels.h"

struct gguf;

struct gguf_tensor {
	const char *name;
	enum k_type type;
	int32_t n_dims;
	int64_t dim[4];      /* dim[0] is contiguous: the columns of a matrix */
	const uint8_t *data; /* in the mapped file */
	size_t bytes;
	const struct gguf *in; /* the file, or part, that it is read from */
};

static inline int64_t gguf_tensor_weights(const struct gguf_tensor *t)
{
	return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static inline size_t gguf_row_bytes(const struct gguf_tensor *t)
{
	return (size_t)(t->dim[0] / k_types[t->type].block) * (size_t)k_types[t->type].block_bytes;
}

/* A text value that may hold NULs. */
struct gguf_text {
	const char *data;
	size_t size;
};
bool gguf_text_is(const struct gguf_text *t, const char *word);

/* Of a model in parts (base/file_parts.h) any part's path opens all. */
int gguf_open(struct gguf **g, const char *path, struct err *e);
/* The same from memory, which must outlive g (for tests and fuzzing). */
int gguf_open_memory(struct gguf **g, const void *data, size_t size, struct err *e);
void gguf_close(struct gguf *g);

const char *gguf_path(const struct gguf *g);
size_t gguf_file_bytes(const struct gguf *g); /* of all parts */
/* ERR_INPUT: what is wrong with the file, after its path. Returns -1. */
int gguf_bad(const struct gguf *g, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Metadata by key. The first form of a pair fails with an error that names the key if it is absent
 * or of another type (any integer type converts if the value fits); gguf_opt_* leave *out as it is
 * and return false if it is absent, but a wrong type is an error reported through e. */
int gguf_get_i64(const struct gguf *g, const char *key, int64_t *out, struct err *e);
int gguf_get_text(const struct gguf *g, const char *key, struct gguf_text *out, struct err *e);
bool gguf_opt_i64(const struct gguf *g, const char *key, int64_t *out, struct err *e);
bool gguf_opt_f64(const struct gguf *g, const char *key, double *out, struct err *e);
bool gguf_opt_bool(const struct gguf *g, const char *key, bool *out, struct err *e);
bool gguf_opt_text(const struct gguf *g, const char *key, struct gguf_text *out, struct err *e);
/* Arrays. Length, or -1 if absent. Element i must be in range. */
int64_t gguf_array_length(const struct gguf *g, const char *key);
int gguf_array_i64(const struct gguf *g, const char *key, int64_t *out, int64_t n, struct err *e);
int gguf_array_f32(const struct gguf *g, const char *key, float *out, int64_t n, struct err *e);
/* All texts of an array of strings at once (the vocabulary has 49,152). */
int gguf_array_text(
	const struct gguf *g, const char *key, struct gguf_text *out, int64_t n, struct err *e);

/* Pair i of the metadata, by ascending key, as its bytes stand in the file (for writing another);
 * after the last one, key is NULL. */
struct gguf_pair {
	const char *key; /* [key_size] */
	size_t key_size;
	const uint8_t *bytes; /* [size] key, type and value */
	size_t size;
};
struct gguf_pair gguf_pair_at(const struct gguf *g, size_t i);

int32_t gguf_n_tensors(const struct gguf *g);
const struct gguf_tensor *gguf_tensor_at(const struct gguf *g, int32_t i);
const struct gguf_tensor *gguf_find(const struct gguf *g, const char *name); /* NULL if absent */
/* Copies a tensor's bytes with pread, so that a shrunken file is an error, not SIGBUS. */
int gguf_read_tensor(const struct gguf_tensor *t, void *out, struct err *e);
/* The same for its bytes [at, at + n). Any thread; several may read at once. */
int gguf_read_bytes(const struct gguf_tensor *t, size_t at, size_t n, void *out, struct err *e);
/* The file's stamp when it was opened, or that of all its parts. */
const struct file_stamp *gguf_stamp(const struct gguf *g);
/* ERR_INPUT if it has been written to since: the data read may mix two versions. */
int gguf_unchanged(const struct gguf *g, struct err *e);
