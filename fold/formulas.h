/* The formulas of inference arithmetic, as functions of numbers: bytes, operations, seconds, and
 * what follows from them. A multiply-add is two operations.
 *
 * Memory and speed: Pope et al. 2023, "Efficiently scaling transformer inference"; roofs: Williams,
 * Waterman and Patterson 2009; expected tokens: Leviathan et al. 2023. They are predictions; what a
 * step did is counted and measured beside them (formulas_sheet.h). Thread: any; no state. */
#pragma once

/* Bytes of keys and values of a token in all layers: 2 · layers · heads · head_dim · element bytes.
 * heads: all query heads for MHA, key-value heads for GQA, 1 for MQA. */
double formula_kv(double layers, double heads, double head_dim, double element);
/* Positions that layers with a window keep of a sequence; window 0: all. */
double formula_kept(double depth, double window);
/* Bytes in memory, and read by a decode step: batch · kv of a sequence + weights. */
double formula_memory(double batch, double kv, double weights);
/* Seconds of a step that only reads, and tokens a second of a batch of that latency. */
double formula_latency(double bytes, double bandwidth);
double formula_throughput(double batch, double latency);
/* Sequences whose keys and values fit beside the weights, whole. */
double formula_largest_batch(double memory, double weights, double kv);
/* Operations a byte of a product of `weights` weights, `bytes` of them in memory, over `rows` rows,
 * each of which moves row_bytes of activations. */
double formula_intensity(double rows, double weights, double bytes, double row_bytes);
/* Of attention over one position: all query heads use the keys and values of the key-value
 * heads. */
double formula_attention_intensity(double heads, double kv_heads, double element);
/* Operations a byte at which the time for arithmetic is that for reading. */
double formula_ridge(double peak, double bandwidth);
/* Seconds of work under both roofs; peak 0: not known, and no limit. */
double formula_roofline(double ops, double bytes, double peak, double bandwidth);
/* Tokens a step when each of `drafts` guesses in a row is right with probability `accept`. */
double formula_expected(double accept, double drafts);
/* Rows, and pairs of a query and a key it sees, that are computed until `tokens` tokens are drawn
 * after a prompt: all of them anew for each token, and with a cache. */
double formula_rows(double prompt, double tokens, int cached);
double formula_pairs(double prompt, double tokens, int cached);
