/* Loads weights into memory: planned tensor by tensor, then read and packed by all threads at once,
 * or read from the cache of packed weights; a background thread writes that cache where it saves
 * time.
 *
 * Where the kernels do not read the host's memory, the arena is filled here, copied to the device
 * in one piece, and kept only as long as the cache is written from it.
 *
 * Invariants: `used` <= `bytes`, the arena's size, of which every part has its own piece, aligned
 * to 64; the plan is a function of the file's tensors and the back end's layout. After
 * weights_load() the arena is constant, and with `share` the process's (arena.h). Thread: the
 * engine's, except the saver, which only reads. */
#pragma once

#include <pthread.h>

#include "engine/model/arena.h"
#include "engine/model/gguf.h"
#include "engine/model/packed_cache.h"

struct weights_part {
	const struct gguf_tensor *tensor;
	struct k_matrix *matrix; /* NULL: copied as it is */
	uint8_t *to;             /* in the arena */
	int64_t row;             /* of a matrix: its first row in the tensor */
	int32_t strip;           /* rows (of a matrix) or bytes that are read at once */
	size_t step;             /* bytes of the arena that they fill */
	int64_t n_strips;
};

/* When the cache of packed weights is used: for a large model it saves seconds of packing; for a
 * small one it saves nothing and costs disk. */
enum weights_cache {
	WEIGHTS_CACHE_OFF,
	WEIGHTS_CACHE_AUTO, /* read if it is there; written if packing took WEIGHTS_SLOW_NS */
	WEIGHTS_CACHE_ON,   /* read and written, and closing waits until it is */
};
#define WEIGHTS_SLOW_NS 1000000000

struct weights {
	uint8_t *arena;
	uint8_t *base; /* where the kernels read the weights: the arena, or a device's memory */
	struct k_ctx *kernels;
	size_t bytes, used;
	struct weights_part *part;
	int32_t n_parts, cap_parts;
	int64_t n_weights; /* of all parts that were planned */
	bool from_cache;
	bool pairs;           /* keep matrices as pairs (k_matrix) that are; set before the plan */
	bool share;           /* with other weights of the same file; set before weights_open() */
	struct arena *shared; /* the arena is its */
	int64_t pack_ns;      /* time spent packing, summed over all threads */

	bool saving;
	pthread_t saver;
	atomic_bool give_up; /* tells the saver to stop */
	enum weights_cache mode;
	const atomic_bool *abandon;
	/* Rows of matrices that are needed; NULL: all. The others' memory stays untouched. */
	bool (*wants)(const void *arg, const struct k_matrix *m, int32_t first, int32_t n);
	const void *wants_arg;
	uint64_t identity; /* a hash of the plan and of some of the file's bytes: other models differ */
	char *path, *name;
	struct file_stamp stamp;
	struct packed_key key;
};

/* Allocates room for all tensors of the file in packed form. */
int weights_open(struct weights *w, const struct gguf *g, struct k_ctx *kernels, struct err *e);
/* Plans a vector, or a matrix, whose data it sets and whose rows are the tensor's from `row` on.
 * weights_load() fills them. */
float *weights_add_vector(struct weights *w, const struct gguf_tensor *t, struct err *e);
int weights_add_matrix(
	struct weights *w, const struct gguf_tensor *t, int64_t row, struct k_matrix *m, struct err *e);
/* Bytes of a planned tensor, or of what is kept of it, of which `pairs` are of matrices kept so;
 * until weights_load(). */
size_t weights_bytes(const struct weights *w, const struct gguf_tensor *t, size_t *pairs);
/* Fills everything. abandon (or NULL) becoming true ends it within milliseconds, with
 * ERR_INTERRUPTED; it is read until weights_close(). */
int weights_load(struct weights *w, const struct gguf *g, enum weights_cache mode,
	const atomic_bool *abandon, struct err *e);
void weights_close(struct weights *w);
/* Packs the rows of a matrix of its own to `to`, in the kernels' memory: its data from now on. */
int weights_pack(
	struct k_ctx *kernels, struct k_matrix *m, const void *raw, void *to, struct err *e);
