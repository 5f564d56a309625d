/* Speed of the engine as it is used, with recording on, against the limits of the machine.
 *
 * Every figure is a median of several runs through the real engine; how many depends on how long a
 * run takes, so that a slow machine or a large model needs no hours. On a machine that shares its
 * memory bandwidth the rate of reads changes every few seconds, so runs are short, plain reads are
 * measured before and after each, and a share is relative to those two. Thread: any one, with no
 * other thread running (starts are measured in processes of their own); it opens and closes an
 * engine of its own. */
#pragma once

#include "base/err.h"
#include "engine/core/engine.h"

/* name, unit, printf form, what it is */
#define BENCH_FIGURES(X)                                                                           \
	X(read_gb_s, "GB/s", "%.1f", "plain reads of 256 MB of memory, all threads")                   \
	X(reread_gb_s, "GB/s", "%.1f", "plain reads of the packed weights, between runs")              \
	X(int_gmac_s, "G/s", "%.1f", "8-bit multiply-adds between registers, all threads")             \
	X(float_gmac_s, "G/s", "%.1f", "the same of f32; not on a GPU")                                \
	X(decode_tok_s, "tok/s", "%.1f", "decoding one sequence")                                      \
	X(bandwidth_fraction, "", "%.3f",                                                              \
		"the file's weight bytes a token needs, a second: of the reads of memory beside each run") \
	X(weights_fraction, "", "%.3f",                                                                \
		"the same, of plain reads of those weights, part of which a cache may hold")               \
	X(decode_1k_tok_s, "tok/s", "%.1f", "the same, 1,024 tokens deep")                             \
	X(decode_4k_tok_s, "tok/s", "%.1f", "the same, 4,096 tokens deep; only if asked for by name")  \
	X(prefill_tok_s, "tok/s", "%.1f", "prompt of 512 tokens")                                      \
	X(prefill64_tok_s, "tok/s", "%.1f", "prompt of 64 tokens")                                     \
	X(batch8_tok_s, "tok/s", "%.1f", "decoding 8 sequences at once, all together")                 \
	X(batch16_tok_s, "tok/s", "%.1f", "decoding 16 sequences at once, all together")               \
	X(batch64_tok_s, "tok/s", "%.1f",                                                              \
		"64 sequences at once, all together; only if asked for by name")                           \
	X(cost4, "x", "%.3f", "a step of 4 rows of one sequence (1 + 3 drafted) against 1 row")        \
	X(spec_speedup, "x", "%.2f",                                                                   \
		"greedy text that repeats its prompt, with n-gram drafts against without")                 \
	X(start_to_first_token_ms, "ms", "%.1f",                                                       \
		"from opening the model to the first token of 16 tokens of prompt, in fresh processes")    \
	X(start_ms, "ms", "%.1f", "from opening the model to ready, likewise")                         \
	X(ttft_ms, "ms", "%.1f", "to the first token of a prompt of 64 tokens")                        \
	X(turn_ms, "ms", "%.1f",                                                                       \
		"to the first token of a turn: 32 new tokens of prompt after 2,000 cached ones")           \
	X(rss_bytes, "bytes", "%.0f", "resident memory, KV pool and recording included")               \
	X(record_percent, "%", "%.2f",                                                                 \
		"more time for a token with recording on; range: where the median is with 95 % confidence")

struct bench_figure {
	/* low and high: a tenth of the runs is beyond each; with fewer than ten, the extremes
	 * (record_percent: where the median lies with 95 % confidence). NaN: could not be measured, or
	 * not asked for. */
	double median, low, high;
	int n; /* number of runs (pairs, steps) */
	/* Roofline share: the time that the counted bytes and operations need at the roofs, over the
	 * time measured; median of the runs, each against the reads before and after it; NaN where it
	 * means nothing. limit: the roof that binds, "reads" or "integers". */
	double share;
	const char *limit;
};

struct bench_report {
#define X(name, unit, form, doc) struct bench_figure name;
	BENCH_FIGURES(X)
#undef X
	struct engine_info info; /* its pointers are not valid */
	struct engine_state state;
	char isa[32], backend[16];
	double weight_bytes; /* bytes of the file's weights that a token needs */
};

/* True if name is one of the figures. */
bool bench_knows(const char *name);

/* o: the engine's options; slots and pages are raised to what the measurements need. only: the name
 * of a figure (ERR_USAGE if there is none) to measure alone (with figures of the same runs), or
 * NULL. tell (may be NULL) is called with the name of each measurement that begins. */
int bench_run(const struct engine_options *o, const char *only,
	void (*report)(void *arg, const char *what), void *arg, struct bench_report *out,
	struct err *e);

/* One run at a time, for a comparison by turns with another program: calls turn() with NaN when
 * ready, then with the value of each run, as long as it returns true. A figure that is no time of
 * single runs is ERR_USAGE. */
int bench_turns(const struct engine_options *o, const char *figure,
	bool (*turn)(void *arg, double value), void *arg, struct err *e);
