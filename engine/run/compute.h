/* What computes the rows of a step, and draws by them. Scheduler, pages, prefix cache, drafts,
 * requests and events are the same whatever it is. There are two: the model on the kernels
 * (compute_model.c), and tokens that are given (compute_given.c), by which a recording is run again
 * under other settings without its model. Thread: the engine's. */
#ifndef CUTAWAY_ENGINE_COMPUTE_H
#define CUTAWAY_ENGINE_COMPUTE_H

#include "engine/core/engine.h"
#include "engine/sched/request.h"
#include "engine/sched/sched.h"

struct engine_compute {
	/* Fills in e->info, but for what the options say. */
	int (*open)(struct engine *e, const struct engine_options *o, struct err *err);
	/* After pages and queues: room for steps, and e->stats [max_out]. */
	int (*open_steps)(
		struct engine *e, const struct engine_options *o, int32_t max_out, struct err *err);
	void (*close)(struct engine *e); /* also of what was opened in part */
	/* Room for steps of so many rows, between steps. */
	int (*grow)(struct engine *e, int32_t rows, struct err *err);

	/* The rows of e->plan. Fails: nothing can be computed any more. */
	int (*run)(struct engine *e, struct err *err);
	/* Is what it computed for the item no number? NULL: never. */
	bool (*failed)(const struct engine *e, const struct plan_item *item);
	/* The token at position pos of r, by output `out`, to e->drawn. False: it is not known, and r
	 * waits. */
	bool (*draw)(struct engine *e, const struct request *r, int32_t pos, int32_t out);
	/* Log-probability of a given token; NaN: not known. */
	double (*logp)(const struct engine *e, int32_t out, int32_t id);
	/* After a token was appended: -1, or why the request ends (enum ev_code_finish). */
	int (*end)(const struct engine *e, struct request *r, const char **why);
};

extern const struct engine_compute compute_model, compute_given;

/* compute_rows.c: of compute_model. */
int compute_rows(struct engine *e, struct err *err);
bool compute_draw(struct engine *e, const struct request *r, int32_t pos, int32_t out);
double compute_logp(const struct engine *e, int32_t out, int32_t id);

#endif
