/* What gguf.c, gguf_meta.c and gguf_tensors.c share. No other file includes this.
 *
 * The head of a file (header, metadata, tensor descriptions) is read with pread into memory as far
 * as it has been parsed, and never through the mapping: a file that shrinks gives an error here.
 * Invariants: pos <= n_head <= size; every offset kept in a struct has been checked: it and the
 * data at it lie below n_head. */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "engine/model/gguf.h"

enum gguf_value {
	GGUF_U8,
	GGUF_I8,
	GGUF_U16,
	GGUF_I16,
	GGUF_U32,
	GGUF_I32,
	GGUF_F32,
	GGUF_BOOL,
	GGUF_STRING,
	GGUF_ARRAY,
	GGUF_U64,
	GGUF_I64,
	GGUF_F64,
	GGUF_N_VALUES
};

struct gguf_kv {
	size_t key, key_size; /* offset in head */
	enum gguf_value type;
	enum gguf_value item; /* of an array; else the same as type */
	uint64_t n;           /* items; 1 if it is no array */
	size_t at, end;       /* offsets in head of the first item, and of what follows the last */
};

struct gguf {
	char *path;
	int fd;             /* -1: in memory */
	const uint8_t *map; /* the whole file */
	size_t size;
	struct file_stamp stamp, stamp_all; /* the file's; that of all parts */
	struct gguf **part;                 /* [n_parts] the other files of a model in parts */
	int n_parts;

	uint8_t *owned;      /* what head points to, NULL if that is the caller's memory */
	const uint8_t *head; /* [n_head] */
	size_t n_head, pos;

	struct gguf_kv *kv; /* [n_kv] sorted by key */
	size_t n_kv;
	struct gguf_tensor *tensor; /* [n_tensors] in the order of the file */
	int32_t *by_name;           /* [n_tensors] indices, sorted by name */
	char *names;                /* all tensor names, each with its NUL */
	int32_t n_tensors;
};

/* Makes the next n bytes of the head readable at pos, or fails with `what` is cut off. */
int gguf_need(struct gguf *g, uint64_t n, const char *what, struct err *e);
int gguf_take_u32(struct gguf *g, uint32_t *out, const char *what, struct err *e);
int gguf_take_u64(struct gguf *g, uint64_t *out, const char *what, struct err *e);
/* Takes a string: its size and offset. Lengths above max are refused. */
int gguf_take_string(
	struct gguf *g, uint64_t max, size_t *at, size_t *size, const char *what, struct err *e);

/* Reads n pairs at pos and sorts them. */
int gguf_take_metadata(struct gguf *g, uint64_t n, struct err *e);
/* Reads n descriptions at pos and checks that the data lies in the file, aligned, without
 * overlaps. */
int gguf_take_tensors(struct gguf *g, uint64_t n, struct err *e);
/* Adds the tensors of g->part[] to its own. */
int gguf_join_tensors(struct gguf *g, struct err *e);
