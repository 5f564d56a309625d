/* The inside of struct engine, shared by the files engine*.c alone. */
#ifndef CUTAWAY_ENGINE_IMPL_H
#define CUTAWAY_ENGINE_IMPL_H

#include "engine/draft.h"
#include "engine/engine.h"
#include "engine/forward.h"
#include "engine/kv.h"
#include "engine/model.h"
#include "engine/prefix.h"
#include "engine/request.h"
#include "engine/sampler.h"
#include "engine/sched.h"
#include "engine/stream.h"

enum {
	ENGINE_MAX_BUDGET = 4096,
	ENGINE_SCORE_ROWS = 64, /* rows of logits a step may keep, at least */
	ENGINE_WHY = sizeof ((struct err *)0)->text, /* longest reason */
};

struct engine_counts { /* of the step that runs */
	int32_t prefill, decode, draft, tokens, accepted, rejected, evicted;
};

struct engine {
	struct engine_info info;
	struct k_ctx *kernels;
	struct tokenizer *tokenizer;
	struct model *model;
	struct kv kv;
	struct prefix prefix;
	struct sched sched;
	struct forward forward;
	struct sampler *sampler;
	struct stream stream;
	struct plan plan;
	struct sample_result drawn;
	struct err lost; /* why nothing can be computed any more; code 0: it can */

	const struct draft_ops *draft_ops; /* NULL: off */
	struct drafter *drafter;
	char spec[64];
	bool rejection, observe, begun;
	int32_t observe_layer, observe_head; /* -1: off */
	int32_t attention_every;             /* tokens of a request from one observed row to the next */
	bool observe_once;                   /* the coming step is looked at closely: all rows are observed */

	char *model_path, *default_system;
	char *model_sha256;
	int64_t n_requests, n_steps;
	struct engine_counts counts;
	int64_t step_start_ns, kernel_ns;
	uint8_t *packed;  /* shares of attention, as the event wants them */
	float *page_share; /* [pages of the longest sequence] */
};

/* engine_events.c: what a step tells. */
void engine_tell_session(struct engine *e);
void engine_tell_batch(struct engine *e);
void engine_tell_token(struct engine *e, const struct request *r, int32_t id,
					   int32_t pos, const struct sample_result *s, const struct k_logit_stats *stats,
					   enum ev_code_source source);
/* engine_step.c: ends the request if its newest token says so. */
void engine_end_if_due(struct engine *e, struct request *r);
void engine_tell_draft(struct engine *e, const struct request *r, int32_t nth, int64_t pos,
					   enum ev_code_verdict verdict, float arrival, int32_t winner,
					   float winner_arrival, float p);
void engine_tell_attention(struct engine *e, const struct plan_item *item, int32_t observed);
void engine_tell_step(struct engine *e);
void engine_tell_finish(struct engine *e, const struct request *r, enum ev_code_finish reason,
						const char *why);

/* engine_settings.c */
void engine_tell_settings(struct engine *e);
int engine_set_spec(struct engine *e, const char *spec, struct err *err);

/* engine.c: memory of pages, for the start and for a new page size. */
int engine_open_pages(struct engine *e, int32_t page_size, int32_t n_pages, struct err *err);
void engine_close_pages(struct engine *e);

#endif
