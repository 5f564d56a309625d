/* The tables of requests that do not draw one token after the other, and of models whose requests
 * are more than a prompt (engine_impl.h). Nothing else is here. */
#include "engine/core/engine_impl.h"

const struct request_kind *const request_kinds[EV_N_request_kind] = {
	[EV_REQUEST_KIND_score] = &request_score,
	[EV_REQUEST_KIND_verify] = &request_verify,
	[EV_REQUEST_KIND_pin] = &request_pin,
	[EV_REQUEST_KIND_embed] = &request_embed,
};

const struct request_form *const request_forms[] = { &encoder_form, &canvas_form, NULL };
