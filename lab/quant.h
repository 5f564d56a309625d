/* Quantising a model file: its matrices rounded to another format of GGUF files, or to a grid.
 *
 * Written as change.h says. The bytes are a function of the source and the options: no machine, no
 * number of threads changes them. Thread: any one; rows are split over threads of its own. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "base/err.h"
#include "engine/model/form.h"
#include "event/event.h"
#include "kernels/kernels.h"

/* How values are chosen: name, whether a text is needed, what it does. */
#define QUANT_METHODS(X)                                                                           \
	X(RTN, "rtn", false, "each weight to the nearest value")                                       \
	X(GPTQ, "gptq", true, "columns in turn; the rest makes up for each one's error")               \
	X(AWQ, "awq", true, "columns that meet large inputs are enlarged before")                      \
	X(SMOOTHQUANT, "smoothquant", true, "inputs and weights share their extremes")                 \
	X(LLM_INT8, "llm.int8", true, "8 bits a row; columns whose inputs pass 6 stay in f16")         \
	X(SALIENT, "salient", true, "a share of the columns, of the largest inputs, stays in f16")

enum quant_method {
#define X(name, ...) QUANT_##name,
	QUANT_METHODS(X)
#undef X
		QUANT_N_METHODS
};
const char *quant_method_name(enum quant_method m);
enum quant_method quant_method_named(const char *name); /* QUANT_N_METHODS: none, in any case */
bool quant_method_reads(enum quant_method m);           /* a calibration text */
/* Leaves columns as they are, in 16 bits; the file does not say which. */
bool quant_method_sets_apart(enum quant_method m);

/* Called between pieces of work (`what` it is: "rounding"); false stops with ERR_INTERRUPTED, and
 * OUT.partial stays. */
typedef bool quant_progress(void *arg, const char *what, int64_t done, int64_t all);
/* Told of each layer that was written: an event `changed`, whose `step` is the listener's. */
typedef void quant_told(void *arg, struct event *ev);

/* What quantising and pruning (prune.h) share. */
struct change_options {
	/* of a method that reads one: text [size], or NULL: the model writes its own, by seed */
	const char *text;
	size_t size;
	uint64_t seed;
	int32_t threads;          /* 0: one for each processor */
	quant_progress *progress; /* or NULL */
	void *arg;
	quant_told *told; /* or NULL: costs a pass or two of the text through each layer more */
	void *told_arg;
};
struct change_result {
	int64_t source_bytes, bytes; /* of the files */
	char source[32];             /* the type of most of its layers' weights, or its summary */
	bool from_quantised;         /* the source had been rounded before */
	int32_t n_resumed;           /* matrices found in OUT.partial */
	int32_t n_calibration;       /* tokens of the calibration text; 0: none */
};

struct quant_options {
	struct change_options common;
	enum quant_method method;
	struct quant_form to; /* a grid is for the layers alone: embedding and output stay */
	/* for rows that the blocks of `to` do not divide; K_N_TYPES: such a tensor is an error */
	enum k_type otherwise;
	/* words with commas between them: tensors with one of them in their name stay as they are */
	const char *keep;
	double alpha;   /* SmoothQuant's */
	double apart;   /* the share of columns that `salient` leaves as they are */
	double damping; /* GPTQ's, of the mean of the Hessian's diagonal */
	bool act_order; /* GPTQ's: columns of the largest inputs first */
};

struct quant_result {
	struct change_result common;
	int64_t n_weights;         /* that were rounded */
	double bits;               /* of each, with its share of the scales */
	double error;              /* root of the sum of squared changes, over that of the weights */
	int32_t n_tensors, n_kept; /* rounded; matrices that stayed as they were */
	int32_t n_otherwise;       /* of those rounded: to `otherwise` */
	int64_t n_outliers;        /* weights in columns that stayed in f16 */
};

int quantize_file(const char *in, const char *out, const struct quant_options *o,
	struct quant_result *r, struct err *e);
