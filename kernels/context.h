/* Private to kernels/: the context that k_open() makes. Thread: only k_open() writes it, except the
 * list of memory, which the engine's thread owns. */
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/pool.h"

enum { K_LAYOUT_NAME = 48 };

struct k_block;
struct k_device;

struct k_ctx {
	const char *backend;
	const struct k_isa *isa; /* of a device: how its matrices are packed, by the pool's threads */
	struct k_pool *pool;
	char layout[K_LAYOUT_NAME];
	struct k_block *blocks;                       /* memory.c */
	char fallback[sizeof((struct err *)0)->text]; /* why "auto" took the CPU */
	struct k_device *device;                      /* NULL: the pool's threads run the kernels */
};

/* A machine whose kernels do not run on the pool's threads; each function does what kernels.h
 * specifies for its namesake. A device embeds this as its first member. */
struct k_device {
	const char *isa, *name; /* "sm_90", "NVIDIA H200" */
	void (*close)(struct k_device *d);
	void *(*alloc)(
		struct k_device *d, size_t bytes, enum k_memory where, const char *what, struct err *e);
	void (*free)(struct k_device *d, void *p, enum k_memory where);
	int (*upload)(struct k_device *d, void *to, const void *from, size_t bytes, struct err *e);
	int (*fetch)(struct k_device *d, void *to, const void *from, size_t bytes, struct err *e);
	void (*copy)(struct k_device *d, void *to, const void *from, size_t bytes);
	int (*set_mode)(struct k_device *d, const char *name, struct err *e);
	const char *(*mode)(const struct k_device *d);
	int (*run)(struct k_device *d, struct k_program *p, struct err *e);
	double (*measure_read)(struct k_device *d, size_t bytes);
	double (*measure_int)(struct k_device *d);
};

void k_free_all(struct k_ctx *ctx);
