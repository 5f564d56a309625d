/* The decoding of masked diffusion models (LLaDA, Nie et al. 2025; Dream, Ye et al. 2025), after
 * MaskGIT (Chang et al. 2022).
 *
 * The answer is a canvas of `limit - n_prompt` positions behind the prompt, at first all masks.
 * Each step computes prompt and canvas as one pass from position 0, in which every row sees all
 * others, draws a token for each masked position of the block under work, and fixes those of
 * greatest confidence; the others stay masks. A fixed token never changes (low-confidence
 * remasking, LLaDA, section 2.4). A block is `denoise-block` positions, the leftmost with masks
 * (semi-autoregressive: LLaDA, appendix B.3); the whole canvas is computed for each, so nothing is
 * approximated.
 *
 * r->ids has room for the canvas: ids[n_ids …] are its tokens and masks, of which the first n_ids
 * are told as tokens. A draw is keyed by its position alone, so the noise of a position is the same
 * in all steps, and an answer is a function of prompt, canvas, settings and seed. Thread: the
 * engine's. After the request is submitted nothing is allocated. */
#pragma once

#include "engine/sample/sampler.h"

enum {
	CANVAS_TOKENS = 128,            /* where a request has no limit of its own */
	CANVAS_MOST = EV_DENOISED_MOST, /* of a canvas */
};

struct canvas_cell {
	bool fixed, chosen; /* chosen: in this step */
	struct sample_result drawn;
	struct k_logit_stats stats; /* of the row that it was drawn from */
};

struct canvas {
	enum ev_code_schedule schedule; /* the settings denoise … when it was opened */
	int32_t steps, block;           /* steps at most; positions of a block; 0: see settings.h */
	float above;
	int32_t mask, shift;       /* see struct model_diffusion */
	int32_t n_masked, n_steps; /* left; done */
	int32_t first, end;        /* positions of the block whose logits the next step computes */
	struct canvas_cell *cell;  /* [limit - n_prompt] */
};
