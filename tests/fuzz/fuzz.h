/* What fuzz targets share. A target checks with FUZZ_CHECK, which also counts where NDEBUG is
 * defined. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(x)                                                                              \
	do {                                                                                           \
		if (!(x)) {                                                                                \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x);                  \
			abort();                                                                               \
		}                                                                                          \
	} while (0)
