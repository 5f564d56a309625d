/* Weights and activations set apart (settings `weights` and `activations`): the program rewritten
 * so that the products of a model's layers take weights as floats, times what an op has rounded
 * (kernels/op/round.h). The model's own weights are decoded by the product; those of `weights` are
 * there once more, rounded, as floats. The output matrix is not part of it. What remains is what
 * either rounding costs, alone. Thread: the engine's. */
#pragma once

#include "engine/model/form.h"
#include "engine/run/forward.h"
#include "kernels/op/round.h"

struct floats;

/* Of all matrix products that a program of f has in its layers, each weight rounded to the nearest
 * value of `form`; NULL: as it is, and nothing is copied. ERR_USAGE where the kernels' memory is
 * not the host's, a layer has experts or latent attention, or rows are no whole blocks of the form;
 * ERR_MEMORY. */
int floats_open(
	struct floats **out, struct forward *f, const struct quant_form *form, struct err *e);
void floats_close(struct floats *s); /* NULL is fine */
/* Sets what inputs are rounded to; K_N_ROUNDS: to what the model's own matrix of the product reads,
 * blocks of 8 bits or floats. largest [n]: of int8_tensor, the largest value of each product's
 * input in the order of the program; copied. */
void floats_round(struct floats *s, enum k_round_to to, const float *largest, int32_t n);
enum k_round_to floats_rounding(const struct floats *s);
/* From the next step on f multiplies by them; NULL: by its own. */
void floats_use(struct forward *f, const struct floats *s);
