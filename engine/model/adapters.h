/* Low-rank adapters of a model (LoRA, Hu et al. 2021), from GGUF files as llama.cpp's
 * convert_lora_to_gguf.py writes them: general.type "adapter", adapter.type "lora", alpha, and for
 * a matrix NAME of the model NAME.lora_a [rank, inputs] and NAME.lora_b [outputs, rank].
 *
 * All are in memory at once, as floats, so that each request of a step may have another (rule 26;
 * Sheng et al. 2023, "S-LoRA"). Their numbers are from 1 on, in the order of the list; 0 is none.
 * Files are not trusted. Thread: the engine's; constant once they are open. */
#pragma once

#include "base/sha256.h"
#include "engine/model/weights.h"
#include "kernels/op/adapter.h"

enum { ADAPTERS_MOST = 64, ADAPTER_NAME = 64 };

struct adapter {
	char name[ADAPTER_NAME]; /* of its file, without the extension */
	char sha256[SHA256_HEX];
	char *path;
	int32_t rank;       /* the greatest of its matrices */
	int32_t n_matrices; /* of the model that it changes */
	int64_t n_weights;
	float alpha; /* of the file; 0: it has none, and the scale is the user's alone */
	float scale; /* the user's; a matrix's is this times alpha / its rank */
};

struct adapters {
	struct adapter adapter[ADAPTERS_MOST];
	int32_t n, most; /* most: the greatest rank of all */
	struct adapted_matrix {
		const struct k_matrix *of;
		struct k_adapted is;
	} * matrix; /* [n_matrices] in the order in which the model's weights were planned */
	int32_t n_matrices;
	size_t bytes; /* of their floats */
	struct k_ctx *kernels;
	void *memory;
};

/* An adapter's name: that of its file, without the extension. */
void adapters_name(const char *path, char name[ADAPTER_NAME]);
/* The next file of a list "FILE[:SCALE],…", files also by their names as models_find() knows them:
 * 1, and its path is malloc'd; 0: there is none; -1. */
int adapters_next(const char **list, char **path, float *scale, struct err *e);
/* Whether a file is an adapter, and no model. */
bool adapters_are(const struct gguf *g);
/* list: see adapters_next(). w: the plan of the
 * model's weights, of the file g; what adapters have for no matrix of it is an error that says
 * which. *out NULL: the list is empty. */
int adapters_open(struct adapters **out, const char *list, const struct weights *w,
	const struct gguf *g, struct k_ctx *kernels, struct err *e);
void adapters_close(struct adapters *a); /* NULL is fine */
/* What adapters change of this matrix; NULL: nothing. */
const struct k_adapted *adapters_of(const struct adapters *a, const struct k_matrix *m);
/* The number of the adapter with this name; 0: there is none. a NULL: none. */
int32_t adapters_find(const struct adapters *a, const char *name);
