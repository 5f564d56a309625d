/* Speed of the engine as it is used, with recording on, against the limits of the machine.
 *
 * Every figure is a median of several runs through the real engine; how many depends on how long a
 * run takes, so that a slow machine or a large model needs no hours. Thread: any one; it opens and
 * closes an engine of its own. */
#ifndef CUTAWAY_SESSIONS_BENCH_H
#define CUTAWAY_SESSIONS_BENCH_H

#include "base/err.h"
#include "engine/engine.h"

/* name, unit, printf form, what it is */
#define BENCH_FIGURES(X)                                                                           \
	X(read_gb_s, "GB/s", "%.1f", "plain reads of memory, all threads")                             \
	X(int_gmac_s, "G/s", "%.1f", "8-bit multiply-adds between registers, all threads")             \
	X(decode_tok_s, "tok/s", "%.1f", "decoding one sequence")                                      \
	X(bandwidth_fraction, "", "%.3f",                                                              \
	  "of the plain reads: decode_tok_s x the file's weight bytes a token needs")                  \
	X(decode_1k_tok_s, "tok/s", "%.1f", "the same, 1,024 tokens deep")                             \
	X(prefill_tok_s, "tok/s", "%.1f", "prompt of 512 tokens")                                      \
	X(prefill64_tok_s, "tok/s", "%.1f", "prompt of 64 tokens")                                     \
	X(batch8_tok_s, "tok/s", "%.1f", "decoding 8 sequences at once, all together")                 \
	X(batch16_tok_s, "tok/s", "%.1f", "decoding 16 sequences at once, all together")               \
	X(cost4, "x", "%.3f", "a step of 4 rows of one sequence (1 + 3 drafted) against 1 row")        \
	X(spec_speedup, "x", "%.2f",                                                                   \
	  "greedy text that repeats its prompt, with n-gram drafts against without")                   \
	X(start_to_first_token_ms, "ms", "%.1f",                                                       \
	  "from opening the model to the first token of 16 tokens of prompt")                          \
	X(start_ms, "ms", "%.1f", "from opening the model to ready")                                   \
	X(ttft_ms, "ms", "%.1f", "to the first token of a prompt of 64 tokens")                        \
	X(rss_bytes, "bytes", "%.0f", "resident memory, KV pool and recording included")               \
	X(record_percent, "%", "%.2f", "more time for a token with recording on: paired runs")

struct bench_figure {
	double median, low, high; /* NaN: could not be measured, or not asked for */
	int n;					  /* runs (pairs, steps) behind it */
	/* What the roofs would take for the counted bytes and operations, of the time it took: NaN where
	 * that says nothing. limit: the roof that is lower, "reads" or "integers". */
	double share;
	const char *limit;
};

/* Counted work of a kernel stage and the time it took, over many steps of one kind. */
enum bench_phase { BENCH_DECODE, BENCH_PREFILL, BENCH_N_PHASES };
struct bench_stage {
	double ns, bytes, ops; /* a multiply-add is two */
};

struct bench_report {
#define X(name, unit, form, doc) struct bench_figure name;
	BENCH_FIGURES(X)
#undef X
	struct engine_info info; /* its pointers are not valid */
	char isa[32], backend[16];
	double weight_bytes; /* of the file, that a token needs */
	struct bench_stage stage[BENCH_N_PHASES][EV_N_stage];
};

/* True if name is one of the figures. */
bool bench_knows(const char *name);

/* o: the engine's options; slots and pages are raised to what the measurements need. only: the name
 * of a figure (ERR_USAGE if there is none) whose measurement alone is made, with those that share
 * it, or NULL. tell is called with the name of each measurement that begins; it may be NULL. */
int bench_run(const struct engine_options *o, const char *only,
			  void (*tell)(void *arg, const char *what), void *arg, struct bench_report *out,
			  struct err *e);

#endif
