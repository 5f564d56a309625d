/* The inputs of a model's matrices on a text, layer by layer: each layer gets what the layers
 * before it, already rounded, give. A layer is read from a small GGUF file in memory that has its
 * tensors alone, as floats, so at any time only one layer is there twice. The engine's own pass
 * computes it (engine/run/forward.h), with the same bits on every machine. Thread: any one. */
#pragma once

#include "engine/core/engine.h"
#include "engine/memory/memory.h"
#include "lab/quant.h"
#include "lab/scales.h"

enum {
	CALIBRATION_LENGTH = 256, /* tokens of a sequence */
	CALIBRATION_LEAST = 8,    /* sequences */
	CALIBRATION_MOST = 32,
};

/* What the matrices of a layer read. */
enum calibration_input { INPUT_QKV, INPUT_OUT, INPUT_GATE_UP, INPUT_DOWN, CALIBRATION_INPUTS };

struct calibration {
	struct engine *engine;
	int32_t *ids; /* [n, length] */
	int32_t n, length;
	uint64_t hash; /* of the ids */
	float *x;      /* [n * length, dim] what enters the next layer */
	struct memory_specs specs;
	struct memory_store store[MEMORY_GROUPS];
	int32_t *pages;
};

/* model: the file to be quantised. ERR_USAGE for a text too short, and for a model of other layers
 * than attention and gated feed-forwards. */
int calibration_open(
	struct calibration *c, const char *model, const struct change_options *o, struct err *e);
void calibration_close(struct calibration *c);

/* Runs the text through layer i, whose tensors are those of g. in [CALIBRATION_INPUTS] or NULL:
 * what its matrices read is added up there; hessians: a bit for each input whose products are, too.
 * keep: x is then what leaves the layer. */
int calibration_run(struct calibration *c, int32_t layer, const struct gguf *g,
	struct quant_input *in, unsigned hessians, bool keep, struct err *e);
void calibration_free(struct quant_input in[CALIBRATION_INPUTS]);
