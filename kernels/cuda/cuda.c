/* The CUDA back end: the device, its memory, its kernels. See cuda.h and docs/design.md.
 *
 * K_SHARED memory is the host's, pinned and mapped: with unified addressing one address serves both
 * sides, and the host sees what kernels wrote there after it has waited for the stream. Thread: the
 * engine's. */
#include "kernels/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/image.h"

int cu_lose(struct cu_device *c, CUresult r, const char *what, struct err *e)
{
	char buf[CU_RESULT_TEXT];

	if (!c->lost.code)
		err_set(&c->lost, ERR_DEVICE,
			"%s: %s failed: %s; the device is given up (a fault of a kernel, or a GPU that fell "
			"off its bus: see dmesg); --backend cpu goes on without it",
			c->name, what, cu_result(c->d, r, buf));
	return err_set(e, c->lost.code, "%s", c->lost.text);
}

int cu_use(struct cu_device *c, struct err *e)
{
	CUresult r;

	if (c->lost.code)
		return err_set(e, c->lost.code, "%s", c->lost.text);
	r = c->d->context_use(c->context);
	return r ? cu_lose(c, r, "making the device current", e) : 0;
}

/* ---- memory ---- */

static int no_room(struct cu_device *c, size_t bytes, bool pinned, const char *what, struct err *e)
{
	size_t left = 0, all = c->memory_bytes;

	if (pinned)
		return err_set(
			e, ERR_MEMORY, "the system gives no %zu MB of pinned memory for %s", bytes >> 20, what);
	c->d->memory_info(&left, &all);
	return err_set(e, ERR_MEMORY, "%s has no room for %zu MB of %s; %zu of its %zu MB are free",
		c->name, bytes >> 20, what, left >> 20, all >> 20);
}

static int alloc_device(
	struct cu_device *c, size_t bytes, bool zeroed, const char *what, CUdeviceptr *p, struct err *e)
{
	CUresult r = c->d->memory_alloc(p, bytes);

	if (r == CU_ERROR_OUT_OF_MEMORY)
		return no_room(c, bytes, false, what, e);
	if (r)
		return cu_lose(c, r, "taking device memory", e);
	r = zeroed ? c->d->fill(*p, 0, bytes, c->stream) : CU_OK;
	if (!r)
		return 0;
	c->d->memory_free(*p);
	return cu_lose(c, r, "zeroing device memory", e);
}

void *cu_alloc_pinned(struct cu_device *c, size_t bytes, const char *what, struct err *e)
{
	void *p = NULL;
	CUdeviceptr seen = 0;
	CUresult r = c->d->host_alloc(&p, bytes, CU_HOST_PORTABLE | CU_HOST_MAPPED);

	if (r) {
		if (r == CU_ERROR_OUT_OF_MEMORY)
			no_room(c, bytes, true, what, e);
		else
			cu_lose(c, r, "taking pinned memory", e);
		return NULL;
	}
	r = c->d->host_address(&seen, p, 0);
	if (r || seen != (uintptr_t)p) {
		c->d->host_free(p);
		err_set(e, ERR_DEVICE,
			"%s does not see the host's memory at its own address; use --backend cpu", c->name);
		return NULL;
	}
	memset(p, 0, bytes);
	return p;
}

static void *device_alloc(
	struct k_device *d, size_t bytes, enum k_memory where, const char *what, struct err *e)
{
	struct cu_device *c = (struct cu_device *)d;
	CUdeviceptr p = 0;

	if (cu_use(c, e))
		return NULL;
	if (where == K_SHARED)
		return cu_alloc_pinned(c, bytes, what, e);
	return alloc_device(c, bytes, where != K_WEIGHTS, what, &p, e) ? NULL : (void *)(uintptr_t)p;
}

/* Also called when the device is lost: the driver's result is then ignored. */
static void device_free(struct k_device *d, void *p, enum k_memory where)
{
	struct cu_device *c = (struct cu_device *)d;

	c->d->context_use(c->context);
	c->d->stream_wait(c->stream);
	if (where == K_SHARED)
		c->d->host_free(p);
	else
		c->d->memory_free((uintptr_t)p);
}

int cu_finish(struct cu_device *c, CUresult r, const char *what, struct err *e)
{
	if (!r)
		r = c->d->stream_wait(c->stream);
	return r ? cu_lose(c, r, what, e) : 0;
}

static int device_upload(
	struct k_device *d, void *to, const void *from, size_t bytes, struct err *e)
{
	struct cu_device *c = (struct cu_device *)d;

	return cu_use(c, e) ? -1
						: cu_finish(c, c->d->copy_in((uintptr_t)to, from, bytes, c->stream),
							  "copying to the device", e);
}

static int device_fetch(struct k_device *d, void *to, const void *from, size_t bytes, struct err *e)
{
	struct cu_device *c = (struct cu_device *)d;

	return cu_use(c, e) ? -1
						: cu_finish(c, c->d->copy_out(to, (uintptr_t)from, bytes, c->stream),
							  "copying from the device", e);
}

static void device_copy(struct k_device *d, void *to, const void *from, size_t bytes)
{
	struct cu_device *c = (struct cu_device *)d;
	CUresult r;

	if (cu_use(c, NULL))
		return;
	r = c->d->copy_within((uintptr_t)to, (uintptr_t)from, bytes, c->stream);
	if (r)
		cu_lose(c, r, "copying a KV page", NULL);
}

int cu_grow_own(
	struct cu_device *c, struct cu_room *room, size_t bytes, const char *what, struct err *e)
{
	CUdeviceptr at = 0;

	if (room->bytes >= bytes)
		return 0;
	if (alloc_device(c, bytes, true, what, &at, e))
		return -1;
	if (room->at)
		c->d->memory_free(room->at);
	*room = (struct cu_room){ .at = at, .bytes = bytes };
	return 0;
}

int cu_grow(
	struct cu_device *c, struct cu_room *room, size_t bytes, const char *what, struct err *e)
{
	const CUdeviceptr before = room->at;

	if (cu_grow_own(c, room, bytes, what, e))
		return -1;
	if (before && before != room->at)
		cu_drop_programs(c);
	return 0;
}

/* ---- opening ---- */

static int attribute(const struct cu_driver *d, CUdevice device, int which)
{
	int value = 0;

	return d->device_attribute(&value, which, device) ? 0 : value;
}

/* Whether the driver takes the kernels. */
static bool loads(const struct cu_driver *d, CUdevice device)
{
	CUcontext context;
	CUmodule module = NULL;
	CUresult r = d->context_retain(&context, device);

	if (r)
		return true; /* what is wrong is told when it is opened */
	r = d->context_use(context);
	if (!r)
		r = d->module_load(&module, cu_image.data);
	if (!r)
		d->module_unload(module);
	d->context_release(device);
	return !r;
}

/* Why a device cannot be used, or this program's kernels do not run on its driver; or NULL. A
 * driver named by the environment brings its own kernels; of one that is older than the compiler
 * the driver itself decides. */
static const char *unfit(const struct cu_driver *d, CUdevice device, char buf[static 160])
{
	if (attribute(d, device, CU_ATTRIBUTE_CAPABILITY_MAJOR) < 8)
		return "its compute capability is below 8.0, and the kernels need that";
	if (!attribute(d, device, CU_ATTRIBUTE_UNIFIED_ADDRESSING))
		return "it has no unified addressing";
	if (attribute(d, device, CU_ATTRIBUTE_MAX_SHARED_OPTIN) < CU_SHARED_BYTES)
		return "its blocks have too little shared memory";
	if (d->named)
		return NULL;
	if (!cu_image.data)
		return "this cutaway was built without nvcc and has no CUDA kernels: `make cuda` builds "
			   "them";
	if (d->version / 1000 >= cu_image.toolkit / 1000 || loads(d, device))
		return NULL;
	snprintf(buf, 160,
		"its driver is for CUDA %d.%d and does not take kernels built with CUDA %d: a driver for "
		"%d.0 or later is needed",
		d->version / 1000, d->version % 1000 / 10, cu_image.toolkit / 1000,
		cu_image.toolkit / 1000);
	return buf;
}

int cu_devices(struct k_device_info *out, int cap, struct err *e)
{
	const struct cu_driver *d = cu_driver_open(e);
	CUresult r;
	int n = 0;

	if (!d)
		return -1;
	r = d->device_count(&n);
	if (r)
		return cu_error(d, r, "counting the GPUs", e);
	for (int i = 0; i < n && i < cap; i++) {
		struct k_device_info *info = &out[i];
		CUdevice device;
		char buf[160];
		const char *why;

		*info = (struct k_device_info){ .index = i, .driver = d->version };
		if (d->device_get(&device, i))
			continue;
		d->device_name(info->name, sizeof info->name, device);
		d->device_memory(&info->memory_bytes, device);
		info->processors = attribute(d, device, CU_ATTRIBUTE_MULTIPROCESSORS);
		info->major = attribute(d, device, CU_ATTRIBUTE_CAPABILITY_MAJOR);
		info->minor = attribute(d, device, CU_ATTRIBUTE_CAPABILITY_MINOR);
		why = unfit(d, device, buf);
		snprintf(info->unfit, sizeof info->unfit, "%s", why ? why : "");
	}
	return n < cap || !cap ? n : cap;
}

static int choose_device(struct cu_device *c, int index, struct err *e)
{
	char buf[160];
	const char *why;
	int n = 0;

	if (c->d->device_count(&n) || n < 1)
		return err_set(e, ERR_DEVICE,
			"the CUDA driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; or use "
			"--backend cpu");
	if (index < 0 || index >= n)
		return err_set(
			e, ERR_USAGE, "there is no device %d: %d are there; see cutaway devices", index, n);
	if (c->d->device_get(&c->device, index))
		return err_set(e, ERR_DEVICE, "device %d does not answer; use --backend cpu", index);
	c->d->device_name(c->name, sizeof c->name, c->device);
	c->d->device_memory(&c->memory_bytes, c->device);
	c->n_processors = attribute(c->d, c->device, CU_ATTRIBUTE_MULTIPROCESSORS);
	snprintf(c->isa, sizeof c->isa, "sm_%d%d",
		attribute(c->d, c->device, CU_ATTRIBUTE_CAPABILITY_MAJOR),
		attribute(c->d, c->device, CU_ATTRIBUTE_CAPABILITY_MINOR));
	why = unfit(c->d, c->device, buf);
	return why ? err_set(e, ERR_DEVICE, "%s cannot be used: %s; use --backend cpu", c->name, why)
			   : 0;
}

static CUfunction find_kernel(struct cu_device *c, const char *name, CUresult *r)
{
	CUfunction f = NULL;

	*r = c->d->module_function(&f, c->module, name);
	if (!*r)
		*r = c->d->function_set(f, CU_FUNC_MAX_DYNAMIC_SHARED, CU_SHARED_BYTES);
	if (!*r) /* all have the same split of the L1 cache: a change of it waits for the kernel before
			  */
		*r = c->d->function_set(f, CU_FUNC_CARVEOUT, 100);
	return *r ? NULL : f;
}

/* Blocks that can run at once; 0 with *r unset: not even one. */
static int room_for(struct cu_device *c, CUfunction f, enum k_kind kind, CUresult *r)
{
	int blocks = 0;

	*r = c->d->occupancy(&blocks, f, CU_BLOCK_THREADS, (size_t)cu_op_shared(kind));
	return *r ? 0 : blocks * c->n_processors;
}

static int no_block(const struct cu_device *c, const char *kernel, struct err *e)
{
	return err_set(
		e, ERR_DEVICE, "%s has no room for a block of %s; use --backend cpu", c->name, kernel);
}

static CUresult find_products(struct cu_device *c)
{
	static const char *const ways[] = {
#define X(name) #name,
		CU_WAYS(X)
#undef X
	};
	static const char *const types[] = {
#define X(name, ...) #name,
		K_TYPES(X)
#undef X
	};
	CUresult r = CU_OK;

	for (int way = 0; way < CU_N_WAYS; way++)
		for (int type = 0; type < K_N_TYPES && !r; type++) {
			char name[64];

			snprintf(name, sizeof name, "cutaway_%s_%s", ways[way], types[type]);
			c->product[way][type] = find_kernel(c, name, &r);
		}
	return r;
}

static int load_kernels(struct cu_device *c, struct err *e)
{
	static const uint64_t none;
	CUresult r = c->d->module_load(&c->module, cu_image.data ? cu_image.data : &none), any;

	if (r == CU_ERROR_NO_BINARY_FOR_GPU)
		return err_set(e, ERR_DEVICE,
			"this build has kernels for %s, and none for %s (%s): build with `make "
			"cuda CUDA_ARCHS=%s`, or use --backend cpu",
			*cu_image.archs ? cu_image.archs : "no GPU", c->name, c->isa, c->isa + 3);
#define X(name, ...)                                                                               \
	if (!r)                                                                                        \
		c->kernel[K_OP_##name] = find_kernel(c, "cutaway_" #name, &r);                             \
	if (!r)                                                                                        \
		c->most_blocks[K_OP_##name] = room_for(c, c->kernel[K_OP_##name], K_OP_##name, &r);        \
	if (!r && !c->most_blocks[K_OP_##name])                                                        \
		return no_block(c, "cutaway_" #name, e);
	K_NO_PRODUCTS(X)
#undef X
	if (!r)
		c->attention_many = find_kernel(c, "cutaway_attention_many", &r);
	if (!r)
		c->attend = find_kernel(c, "cutaway_attend", &r);
	if (!r)
		r = find_products(c);
	if (r)
		return cu_error(c->d, r, "loading the kernels", e);
	c->clock = find_kernel(c, "cutaway_clock", &any);
	c->copy = find_kernel(c, "cutaway_copy", &any);
	c->multiply = find_kernel(c, "cutaway_multiply", &any);
	return 0;
}

static void device_close(struct k_device *d)
{
	struct cu_device *c = (struct cu_device *)d;
	const CUdeviceptr room[] = { c->tickets.at, c->scratch.at, c->input.at, c->clocks.at };

	if (c->context) {
		c->d->context_use(c->context);
		if (c->stream)
			c->d->stream_wait(c->stream);
		cu_free_programs(c);
		for (size_t i = 0; i < sizeof room / sizeof *room; i++)
			if (room[i])
				c->d->memory_free(room[i]);
		if (c->input_host)
			c->d->host_free(c->input_host);
		if (c->clock_host)
			c->d->host_free(c->clock_host);
		if (c->module)
			c->d->module_unload(c->module);
		if (c->stream)
			c->d->stream_close(c->stream);
		c->d->context_release(c->device);
	}
	free(c);
}

static int open_device(struct cu_device *c, int index, struct err *e)
{
	CUresult r;

	if (choose_device(c, index, e))
		return -1;
	r = c->d->context_retain(&c->context, c->device);
	if (r == CU_ERROR_OUT_OF_MEMORY)
		return err_set(e, ERR_MEMORY,
			"%s has no memory left: others use it; wait, or use --backend cpu", c->name);
	if (!r)
		r = c->d->context_use(c->context);
	if (!r)
		r = c->d->stream_open(&c->stream, CU_STREAM_NON_BLOCKING);
	c->early = attribute(c->d, c->device, CU_ATTRIBUTE_CAPABILITY_MAJOR) >= 9;
	return r ? cu_error(c->d, r, "opening the device", e) : load_kernels(c, e);
}

struct k_device *cu_open(int index, struct err *e)
{
	const struct cu_driver *d = cu_driver_open(e);
	struct cu_device *c = d ? calloc(1, sizeof *c) : NULL;

	if (!c) {
		err_no_memory(e, "the device");
		return NULL;
	}
	c->d = d;
	c->mode = CU_MODE_graph;
	c->base = (struct k_device){ .isa = c->isa,
		.name = c->name,
		.close = device_close,
		.alloc = device_alloc,
		.free = device_free,
		.upload = device_upload,
		.fetch = device_fetch,
		.copy = device_copy,
		.run = cu_run,
		.set_mode = cu_set_mode,
		.mode = cu_get_mode,
		.measure_read = cu_measure_read,
		.measure_int = cu_measure_int };
	if (!open_device(c, index, e))
		return &c->base;
	device_close(&c->base);
	return NULL;
}

/* ---- how weights are packed for it, by the host's threads ---- */

static size_t packed_bytes(enum k_type type, int32_t n_rows, int32_t n_cols)
{
	return cu_matrix_bytes((int32_t)type, n_rows, n_cols);
}

const struct k_isa cu_packing = {
	.name = "cuda",
	.packed_bytes = packed_bytes,
	.pack_unit = CU_TILE_ROWS,
	.pack = cu_pack,
};
