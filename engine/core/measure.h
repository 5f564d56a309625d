/* Measuring with an engine: the speed of the machine and of steps, for benches and predictions.
 * Requests do not use it. Thread: the engine's, while nothing runs. */
#pragma once

#include "engine/core/engine.h"

/* 8-bit multiply-adds a second that this engine's threads and instructions can do (k_measure_int):
 * takes about 100 ms. */
double engine_measure_int(struct engine *e);
/* The same of f32 (k_measure_float); 0: not measured, as on a device. */
double engine_measure_float(struct engine *e);
/* Bytes a second of one pass of plain reads by this engine's threads: over `bytes` (a multiple of
 * 64) at data, or over the engine's own packed weights if data is NULL. */
double engine_measure_read(struct engine *e, const void *data, size_t bytes);
/* With counted_cost: the time of decode steps and drafters so far, by that count; else NaN. */
double engine_counted_ns(const struct engine *e);
/* The drafters in the shadow, since `shadow` was switched on: i from 0; false: there are no
 * more. */
struct engine_shadow {
	const char *spec;
	/* predicted speedup over plain decoding, from all its guesses so far; NaN: there were none */
	double speed;
};
bool engine_shadow_at(struct engine *e, int32_t i, struct engine_shadow *out);
