/* The CUDA driver, loaded at run time, so that one program serves machines with and without a GPU.
 * Private to kernels/cuda/.
 *
 * The declarations are our own and minimal, so that no CUDA header is needed to build; names and
 * values are those of the CUDA Driver API (versioned symbols, as its header maps them). The library
 * is libcuda.so.1, or the one in the environment variable CUTAWAY_CUDA_DRIVER: tests name one that
 * runs the kernels on the CPU. Thread: any after cu_driver_open(), whose contract is below. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct cu_context *CUcontext;
typedef struct cu_module *CUmodule;
typedef struct cu_function *CUfunction;
typedef struct cu_stream *CUstream;
typedef struct cu_event *CUevent;
typedef struct cu_graph *CUgraph;
typedef struct cu_graph_exec *CUgraphExec;

enum { /* CUresult, those that the code distinguishes */
	CU_OK = 0,
	CU_ERROR_OUT_OF_MEMORY = 2,
	CU_ERROR_DEVICE_UNAVAILABLE = 46,
	CU_ERROR_NO_DEVICE = 100,
	CU_ERROR_NO_BINARY_FOR_GPU = 209,
	CU_ERROR_NOT_READY = 600,
	CU_ERROR_ILLEGAL_ADDRESS = 700,
	CU_ERROR_LAUNCH_TIMEOUT = 702,
	CU_ERROR_LAUNCH_FAILED = 719,
	CU_ERROR_SYSTEM_NOT_READY = 802,
	CU_ERROR_SYSTEM_DRIVER_MISMATCH = 803,
};
enum { /* CUdevice_attribute */
	CU_ATTRIBUTE_MULTIPROCESSORS = 16,
	CU_ATTRIBUTE_INTEGRATED = 18,
	CU_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
	CU_ATTRIBUTE_CAPABILITY_MAJOR = 75,
	CU_ATTRIBUTE_CAPABILITY_MINOR = 76,
	CU_ATTRIBUTE_MAX_SHARED_OPTIN = 97,
};
enum { CU_FUNC_MAX_DYNAMIC_SHARED = 8, CU_FUNC_CARVEOUT = 9 }; /* CUfunction_attribute */
enum { CU_STREAM_NON_BLOCKING = 1 };                           /* cuStreamCreate */
enum { CU_CAPTURE_THREAD_LOCAL = 1 };                          /* cuStreamBeginCapture_v2 */
enum { CU_HOST_PORTABLE = 1, CU_HOST_MAPPED = 2 };             /* cuMemHostAlloc */

/* CUlaunchAttribute, CUlaunchConfig. */
enum { CU_LAUNCH_PROGRAMMATIC = 6 }; /* its kernel waits for the one before by itself */
struct cu_launch_attribute {
	int id;
	union {
		int on;
		char size[64];
	} value __attribute__((aligned(8)));
};
struct cu_launch {
	unsigned grid[3], block[3], shared;
	CUstream stream;
	struct cu_launch_attribute *attribute;
	unsigned n_attributes;
};

/* Name without its version, exported symbol, parameters. All return CUresult. */
#define CU_FUNCTIONS(X)                                                                            \
	X(init, cuInit, (unsigned flags))                                                              \
	X(driver_version, cuDriverGetVersion, (int *version))                                          \
	X(error_name, cuGetErrorName, (CUresult r, const char **name))                                 \
	X(error_string, cuGetErrorString, (CUresult r, const char **text))                             \
	X(device_count, cuDeviceGetCount, (int *n))                                                    \
	X(device_get, cuDeviceGet, (CUdevice * d, int ordinal))                                        \
	X(device_name, cuDeviceGetName, (char *name, int cap, CUdevice d))                             \
	X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, CUdevice d))                            \
	X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice d))             \
	X(context_retain, cuDevicePrimaryCtxRetain, (CUcontext * c, CUdevice d))                       \
	X(context_release, cuDevicePrimaryCtxRelease_v2, (CUdevice d))                                 \
	X(context_use, cuCtxSetCurrent, (CUcontext c))                                                 \
	X(module_load, cuModuleLoadData, (CUmodule * m, const void *image))                            \
	X(module_unload, cuModuleUnload, (CUmodule m))                                                 \
	X(module_function, cuModuleGetFunction, (CUfunction * f, CUmodule m, const char *name))        \
	X(function_set, cuFuncSetAttribute, (CUfunction f, int attribute, int value))                  \
	X(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                      \
		(int *blocks, CUfunction f, int threads, size_t shared))                                   \
	X(launch, cuLaunchKernelEx,                                                                    \
		(const struct cu_launch *how, CUfunction f, void **args, void **extra))                    \
	X(memory_info, cuMemGetInfo_v2, (size_t * free_bytes, size_t * total))                         \
	X(memory_alloc, cuMemAlloc_v2, (CUdeviceptr * p, size_t bytes))                                \
	X(memory_free, cuMemFree_v2, (CUdeviceptr p))                                                  \
	X(host_alloc, cuMemHostAlloc, (void **p, size_t bytes, unsigned flags))                        \
	X(host_free, cuMemFreeHost, (void *p))                                                         \
	X(host_address, cuMemHostGetDevicePointer_v2, (CUdeviceptr * d, void *p, unsigned flags))      \
	X(copy_in, cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *from, size_t n, CUstream s))     \
	X(copy_out, cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t n, CUstream s))          \
	X(copy_within, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t n, CUstream s)) \
	X(fill, cuMemsetD8Async, (CUdeviceptr p, unsigned char byte, size_t n, CUstream s))            \
	X(stream_open, cuStreamCreate, (CUstream * s, unsigned flags))                                 \
	X(stream_close, cuStreamDestroy_v2, (CUstream s))                                              \
	X(stream_wait, cuStreamSynchronize, (CUstream s))                                              \
	X(capture_begin, cuStreamBeginCapture_v2, (CUstream s, int mode))                              \
	X(capture_end, cuStreamEndCapture, (CUstream s, CUgraph * g))                                  \
	X(graph_make, cuGraphInstantiateWithFlags,                                                     \
		(CUgraphExec * x, CUgraph g, unsigned long long flags))                                    \
	X(graph_run, cuGraphLaunch, (CUgraphExec x, CUstream s))                                       \
	X(graph_drop, cuGraphExecDestroy, (CUgraphExec x))                                             \
	X(graph_close, cuGraphDestroy, (CUgraph g))                                                    \
	X(event_open, cuEventCreate, (CUevent * e, unsigned flags))                                    \
	X(event_close, cuEventDestroy_v2, (CUevent e))                                                 \
	X(event_note, cuEventRecord, (CUevent e, CUstream s))                                          \
	X(event_between, cuEventElapsedTime, (float *ms, CUevent start, CUevent end))

struct cu_driver {
#define X(name, symbol, parameters) CUresult(*name) parameters;
	CU_FUNCTIONS(X)
#undef X
	int version;      /* 13000: CUDA 13.0 */
	const char *path; /* of the library, as given */
	bool named;       /* by the environment: it brings kernels of its own */
};

/* The lowest version whose driver runs our fat binary: the build checks the compiler's, and minor
 * versions of one major version are compatible (CUDA Compatibility, section 2). */
enum { CU_DRIVER_MIN = 12000 };

/* Opens the library, once a process; later calls give the same. NULL with ERR_DEVICE: there is
 * none, it lacks a function, is too old, or finds no device. The text has the cause and a
 * remedy. */
const struct cu_driver *cu_driver_open(struct err *e);

/* The driver's text for a result: its name, number and meaning. Returns buf. */
enum { CU_RESULT_TEXT = 160 };
const char *cu_result(const struct cu_driver *d, CUresult r, char buf[static CU_RESULT_TEXT]);
/* Turns a result that is not CU_OK into an error: what was tried, the driver's text, what to do. */
int cu_error(const struct cu_driver *d, CUresult r, const char *what, struct err *e);
