/* The interface of the CUDA back end to the rest of kernels/: lists and opens devices. */
#pragma once

#include "kernels/context.h"
#include "kernels/cuda/layout.h"

/* See k_devices(). */
int cu_devices(struct k_device_info *out, int cap, struct err *e);

/* Device `index`, its kernels loaded. NULL with ERR_DEVICE, ERR_USAGE or ERR_MEMORY. */
struct k_device *cu_open(int index, struct err *e);

/* For packing alone; it has no op functions. */
extern const struct k_isa cu_packing;
