/* The host's time without that of kernels: freeze.c. Thread: the driver's lock is held. */
#ifndef CUTAWAY_TESTS_CUDA_SHIM_FREEZE_H
#define CUTAWAY_TESTS_CUDA_SHIM_FREEZE_H

#include <stdbool.h>

bool freeze_on(void); /* kernels are not run any more */
void freeze_launches(void);

#endif
