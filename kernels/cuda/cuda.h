/* Internals of the CUDA back end's host side: shared by cuda.c (device and memory), lower.c
 * (programs to calls), launch.c (running, measuring). Private to kernels/cuda/.
 *
 * Invariants: (1) there is one stream, so the device does all work in the order of the calls; (2)
 * between calls the stream is idle except for copies of k_copy(); (3) once `lost` has a code, the
 * device is only used to free memory. Thread: the engine's. */
#pragma once

#include "kernels/context.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/plan.h"
#include "kernels/cuda/tiles.h"

/* Device memory that only grows; its contents are lost when it does. */
struct cu_room {
	CUdeviceptr at;
	size_t bytes;
};

/* What a run copies to the device in front of the kernels: the host's side may change each time. */
enum cu_input_kind {
	CU_PLAIN,  /* bytes as they are */
	CU_TABLES, /* block tables: pointers into the part after all plain arrays */
	CU_TILES   /* how attention is split: a struct cu_tiles that points there */
};
struct cu_input {
	enum cu_input_kind kind;
	const void *from;         /* the op's own pointer */
	size_t bytes, at;         /* in the input room */
	const struct k_row *rows; /* of tables: the rows that read them, and the pages' size */
	const struct k_kv *kv;
	int32_t n;
	struct cu_masks masks; /* of tiles */
};
enum { CU_MAX_INPUTS = 64 };

/* A program as lowered, kept for as long as its version is used. */
struct cu_program {
	uint64_t version;        /* 0: free, or not to be used again */
	uint64_t used;           /* time of last use: the oldest is dropped first */
	struct cu_room blob;     /* matrices that kernels look up, as the table and the experts */
	struct k_matrix *matrix; /* [cap_matrices] the host's copy of them */
	size_t n_matrices, cap_matrices;
	struct cu_call *call; /* [n_calls] */
	int32_t *op;          /* [n_calls] the op that a call computes, the last of those */
	int32_t n_calls, cap_calls;
	struct cu_input input[CU_MAX_INPUTS];
	int32_t n_inputs;
	size_t input_bytes;   /* without the tables themselves */
	CUgraphExec graph[2]; /* not timed, timed; NULL: not recorded yet */
};
enum { CU_KEPT_PROGRAMS = 64, CU_BLOCK_THREADS = 256 /* CU_THREADS of device.cuh */ };

#define CU_MODES(X)                                                                                \
	X(launches, "a launch for each call")                                                          \
	X(graph, "the launches recorded once, as one CUDA graph, each kernel beginning early")

enum cu_mode {
#define X(name, doc) CU_MODE_##name,
	CU_MODES(X)
#undef X
		CU_N_MODES
};

struct cu_device {
	struct k_device base;
	const struct cu_driver *d;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUstream stream;
	struct err lost;
	char isa[16], name[128];
	size_t memory_bytes;
	int n_processors;
	enum cu_mode mode;
	bool early; /* it can let a kernel begin while the one before still runs */

	CUfunction kernel[K_N_KINDS], product[CU_N_WAYS][K_N_TYPES];
	CUfunction attention_many, attend;
	CUfunction clock, copy, multiply; /* may be missing */
	int most_blocks[K_N_KINDS];

	struct cu_room tickets, scratch, input;
	unsigned char *input_host; /* [input.bytes], pinned */
	uint64_t *clock_host;      /* [clock_cap], pinned: the device writes it, from `clocks` */
	struct cu_room clocks;     /* [clock_cap] */
	int32_t clock_cap;
	struct cu_program program[CU_KEPT_PROGRAMS];
	uint64_t n_runs;
};

/* cuda.c: makes the device's context current in this thread; every entry point does it first. */
int cu_use(struct cu_device *c, struct err *e);
/* A failure that the device does not survive. Returns -1. */
int cu_lose(struct cu_device *c, CUresult r, const char *what, struct err *e);
/* Waits for what was asked of the device with result r. -1, and it is lost: that failed. */
int cu_finish(struct cu_device *c, CUresult r, const char *what, struct err *e);
/* Room for at least `bytes`, zeroed if it is new. The old room is kept until there is a new one, so
 * a failure changes nothing; programs that refer to the old one are dropped with it. */
int cu_grow(
	struct cu_device *c, struct cu_room *room, size_t bytes, const char *what, struct err *e);
/* The same of room that one program alone refers to, which is being made: no other is dropped. */
int cu_grow_own(
	struct cu_device *c, struct cu_room *room, size_t bytes, const char *what, struct err *e);

/* Zeroed host memory that the device sees at the same address. NULL with e. */
void *cu_alloc_pinned(struct cu_device *c, size_t bytes, const char *what, struct err *e);

/* inputs.c: an input of an op, and its address on the device. NULL with e. */
const void *cu_add_input(
	const struct cu_device *c, struct cu_program *g, struct cu_input *in, struct err *e);
int cu_grow_input(struct cu_device *c, size_t bytes, struct err *e);
struct cu_work cu_work_of(const struct cu_device *c);
/* Writes the inputs of a run to input_host; *bytes is their size. -1 with e; 1: the room had to
 * grow, programs were dropped, and this one must be lowered again. */
int cu_gather(struct cu_device *c, const struct cu_program *g, size_t *bytes, struct err *e);

/* lower.c: the program as calls, kept or newly made. NULL with e. */
struct cu_program *cu_lower(struct cu_device *c, const struct k_program *p, struct err *e);
void cu_drop_programs(struct cu_device *c);
void cu_free_programs(struct cu_device *c);

/* launch.c */
int cu_run(struct k_device *d, struct k_program *p, struct err *e);
double cu_measure_read(struct k_device *d, size_t bytes);
double cu_measure_int(struct k_device *d);
int cu_set_mode(struct k_device *d, const char *name, struct err *e);
const char *cu_get_mode(const struct k_device *d);
