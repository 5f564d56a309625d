/* Random low-rank adapters for a tiny model (tiny.h), and the model that has one merged into its
 * weights: files in the small. Thread: any; no state. */
#pragma once

#include <stdint.h>

struct adapter_spec {
	uint64_t seed;
	int32_t rank;
	float alpha, size; /* alpha 0: the file has none; size: about of the products' changes */
	/* names of tensors that it changes end with one of these; NULL ends them */
	const char *const *parts;
	const char *arch; /* that it says */
};
/* Writes the adapter for the model at `model` to a new file. Its path, malloc'd; aborts if it
 * cannot. */
char *adapter_temp(const char *model, const struct adapter_spec *spec);
/* A copy of the model, whose matrices are F32, with the adapter's product, times `scale`, added. */
char *adapter_merged(const char *model, const char *adapter, float scale);
