/* The interface that computes the rows of a step and draws from them. Scheduler, pages, prefix
 * cache, drafts, requests and events are the same for every implementation. There are two: the
 * model on the kernels (compute_model.c), and given tokens (compute_given.c), which run a recording
 * again under other settings without its model. Thread: the engine's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "kernels/kernels.h"

struct engine;
struct engine_options;
struct plan_item;
struct request;

struct engine_compute {
	/* Fills in e->info, except what the options determine. */
	int (*open)(struct engine *e, const struct engine_options *o, struct err *err);
	/* After pages and queues are open: allocates the buffers of steps, and e->stats [max_out]. */
	int (*open_steps)(
		struct engine *e, const struct engine_options *o, int32_t max_out, struct err *err);
	void (*close)(struct engine *e); /* also after an open that failed */
	/* Makes room for steps of so many rows; called between steps. NULL, as the next two: there is
	 * nothing to do. */
	int (*grow)(struct engine *e, int32_t rows, struct err *err);

	/* Computes the rows of e->plan. If it fails, nothing can be computed any more. */
	int (*run)(struct engine *e, struct err *err);
	/* Whether it computed a NaN for the item. */
	bool (*failed)(const struct engine *e, const struct plan_item *item);
	/* Draws the token at position pos of r from output `out` into e->drawn. False: it is not known,
	 * and r waits; or, of one that a grammar rules, nothing can be drawn, and r must end. */
	bool (*draw)(struct engine *e, const struct request *r, int32_t pos, int32_t out);
	/* Log-probability of a given token. NULL: it is not known, nor are the candidates. */
	double (*logp)(const struct engine *e, int32_t out, int32_t id);
	/* The `most` tokens of greatest logit (struct engine_request, top), and of a given token its
	 * own after them if it is not among them (-1: none is given), into top [most + 1]; returns how
	 * many. */
	int32_t (*top)(
		const struct engine *e, int32_t out, int32_t most, int32_t given, struct k_draw_entry *top);
	/* After a token was appended: -1, or why the request ends (enum ev_code_finish). */
	int (*end)(const struct engine *e, struct request *r, const char **why);
};

extern const struct engine_compute compute_model, compute_given;

/* Softmax by the integer mass of rule 15: log-probability of a logit of the row. */
double compute_share(const struct k_logit_stats *s, float logit);

/* compute_draws.c, for compute_model.c. Before a step: what the item's draws need of a device.
 * After it: the rows that are needed here, all at once; then the draws that threads can do side by
 * side. */
void compute_ask(struct engine *e, const struct plan_item *item);
int compute_fetch(struct engine *e, struct err *err);
void compute_draw_ahead(struct engine *e);
int compute_open_ahead(struct engine *e, int32_t slots, struct err *err);
void compute_close_ahead(struct engine *e);
/* As in struct engine_compute. */
bool compute_draw(struct engine *e, const struct request *r, int32_t pos, int32_t out);
double compute_logp(const struct engine *e, int32_t out, int32_t id);
int32_t compute_top(
	const struct engine *e, int32_t out, int32_t most, int32_t given, struct k_draw_entry *top);
