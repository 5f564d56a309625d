/* The host's time without that of kernels: freeze.c. Thread: the driver's lock is held. */
#pragma once

#include <stdbool.h>

bool freeze_on(void); /* kernels are not run any more */
void freeze_launches(void);
