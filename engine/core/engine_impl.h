/* The members of struct engine: those of the run, which every engine_*.c may use, and parts that
 * belong to one file each. */
#pragma once

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/draft/draft.h"
#include "engine/draft/draft_cost.h"
#include "engine/core/engine.h"
#include "engine/grammar/constraint.h"
#include "engine/run/forward.h"
#include "engine/memory/memory.h"
#include "engine/memory/prefix.h"
#include "engine/model/model.h"
#include "engine/sched/request.h"
#include "engine/sched/sched.h"
#include "engine/core/step_hooks.h"
#include "event/stream.h"

enum {
	ENGINE_MAX_BUDGET = 4096,
	ENGINE_SCORE_ROWS = 64, /* rows of logits a step may keep, at least */
	ENGINE_SCRATCH_PAGES = DRAFT_SCRATCH,
	ENGINE_ALSO = 1024, /* rows whose keys and values are stored in further pages too, at least */
	ENGINE_WHY = sizeof((struct err *)0)->text, /* longest reason */
};

struct engine_compute;
struct engine_ranks;
struct handover;

/* compute_draws.c: draws of the step that runs which threads have done; none: n is 0. */
struct engine_ahead {
	struct sampler **sampler; /* of each thread */
	int32_t n_samplers, n;
	struct draw_ahead {
		const struct request *r;
		int32_t out;
		struct sample_result drawn;
	} * draw; /* [slots] */
	atomic_int taken;
};

/* engine_draft.c: the drafter, and the drafts of the step that runs. */
struct engine_drafting {
	const struct draft_ops *ops; /* NULL: off */
	struct drafter *drafter;
	char spec[256];
	int32_t n_opened; /* drafters opened so far */
	bool heard;       /* some hook takes the calls for drafts */
	bool rejection;   /* verified by modified rejection, not by the race */
	struct draft_env env;
	struct draft_job *jobs;  /* [slots] */
	struct draft_seen *seen; /* [slots], of the step that runs */
	int32_t n_seen, n_seen_rows;
	int32_t *seen_row, *seen_top; /* what the pointers in seen point into */
	/* [ENGINE_SCRATCH_PAGES], of the step that runs: a branch needs at least one page */
	struct memory_table *branch;
	int32_t n_branches;
	int64_t learn_ns;
};

/* observe/observe.c: what is observed beside what a step needs. */
struct engine_observing {
	bool on;
	bool once; /* all rows of the next step are observed */
	struct observed_room *room;
};

/* engine_measure.c: what steps cost. */
struct engine_measuring {
	struct draft_cost cost; /* n 0: not measured yet */
	const double *counted;  /* see engine_options.counted_cost */
};

/* observe/pass.c: what probes of a device's engine keep; NULL: none yet */
struct engine_looking {
	struct k_ctx *kernels;
	struct model *model;
};

/* What a model needs of its requests beyond the tokens of a prompt: an encoder's input, a diffusion
 * model's canvas. */
struct request_form {
	bool (*of)(const struct engine *e); /* whether its requests have it */
	int32_t max_out;                    /* outputs that a step has; 0: as other models' */
	/* ERR_USAGE where the model cannot do what q asks for; owned: for a search. May give q other
	 * ids, which *ids then is, malloc'd, for the caller to free. */
	int (*vet)(const struct engine *e, struct engine_request *q, bool owned, int32_t **ids,
		struct err *err);
	int (*open)(struct engine *e, struct request *r, struct err *err);
	/* Why it can never be computed, "": it can. NULL: any can. */
	const char *(*never_fits)(const struct request *r);
	void (*plan_first)(struct sched *s, struct plan *p); /* see struct sched; may be NULL */
};
extern const struct request_form *const request_forms[]; /* request_kinds.c; ends with NULL */
extern const struct request_form encoder_form, canvas_form;

struct engine {
	/* the run: what every step needs */
	struct engine_info info;
	char date[16];             /* of the session: YYYY-MM-DD */
	struct engine_options set; /* the settings as they stand; the engine owns the strings */
	const struct engine_compute *compute;
	/* NULL: a model computes; else there are no kernels, tokenizer, model or sampler, and forward
	 * is zero */
	const struct engine_given *given;
	const struct request_form *form; /* NULL: requests are prompts */
	struct k_ctx *kernels;
	struct tokenizer *tokenizer;
	struct model *model;
	struct memory_specs specs; /* memory groups of a sequence, the model's */
	struct memory memory;
	struct prefix prefix;
	struct sched sched;
	struct forward forward;
	struct handover *handover;      /* NULL: no prompts are computed elsewhere */
	struct engine_ranks *ranks;     /* NULL: this process computes all of it */
	struct floats *floats;          /* of the setting `activations`; NULL: weights as they are */
	char visible[64];               /* what set.visible points to */
	char weights[32];               /* and set.weights */
	struct constraints constraints; /* of requests whose answers a grammar rules */
	struct sampler *sampler;
	struct k_logit_stats *stats; /* [outputs] of the step that runs */
	struct stream stream;
	struct plan plan;
	struct sample_result drawn;
	struct engine_ahead ahead;
	struct err lost; /* why nothing can be computed any more; code 0: no failure */
	bool begun;
	bool whole_rows; /* a hook reads the logits of every output */
	int64_t n_requests, n_steps;
	int64_t step_start_ns;
	struct ev_step step; /* the event of the one that runs, as far as it is counted */
	char *model_path, *model_sha256;
	char *lora; /* what set.lora points to */
	/* what info.adapters is; of given tokens those that requests had (engine_adapter.c) */
	const char *adapter_name[ADAPTERS_MOST + 1];

	struct engine_drafting draft;
	struct engine_observing observe;
	struct engine_measuring measure;
	struct engine_looking look;

	struct engine_hook {
		const struct step_hooks *ops;
		void *state;
	} hook[STEP_HOOKS_MOST];
	int n_hooks;
};

static inline bool engine_is_end(const struct engine *e, int32_t id)
{
	return e->tokenizer && tokenizer_is_end(e->tokenizer, id);
}

/* The hooks that have the function fn, in their order: for_hooks(e, h, done) h->ops->done(e,
 * h->state); */
#define for_hooks(e, h, fn)                                                                        \
	for (const struct engine_hook *h = (e)->hook; h < (e)->hook + (e)->n_hooks; h++)               \
		if (h->ops->fn)

/* engine_events.c: what a step emits. */
void engine_emit_session(struct engine *e);
void engine_emit_memory(struct engine *e);
void engine_emit_products(struct engine *e);
/* engine_adapter.c: refuses them where they cannot be; the setting's text becomes the engine's. */
int engine_adapters_check(struct engine *e, struct engine_options *o, struct err *err);
/* The number of the adapter of this name: 0: none, as of "off"; of NULL the first, if there are
 * any. ERR_USAGE: there is no such adapter, and which there are. */
int engine_adapter_find(struct engine *e, const char *name, int32_t *number, struct err *err);
/* Gives a new request its adapter, likewise. */
int engine_adapt(
	struct engine *e, const struct engine_request *q, struct request *r, struct err *err);
void engine_emit_adapters(struct engine *e);
/* After a token was appended: r keeps what is computed, or, without a KV cache, gives it up. */
void engine_keep(struct engine *e, struct request *r);
/* Of one that is refused the first tokens of the prompt alone, so that clients who send such
 * requests fill neither memory nor disk; a conversation's turns are whole. */
void engine_emit_request(struct engine *e, const struct request *r, bool refused);
void engine_emit_fork(struct engine *e, const struct request *r, const struct engine_request *q);
/* Begins the event of a token: the caller fills in what is known of it. */
struct ev_token *engine_token_event(struct engine *e, const struct request *r, int32_t id,
	int32_t pos, enum ev_code_source source, struct event *ev);
void engine_emit_token(struct engine *e, struct request *r, int32_t id, int32_t pos,
	const struct sample_result *s, const struct k_logit_stats *stats, enum ev_code_source source);
/* engine_given.c: those whose tokens are given. */
extern const struct request_kind request_score, request_verify, request_pin;
/* engine_embed.c: the vectors of texts. Says of a request of kind embed how its tokens are pooled;
 * ERR_USAGE: the model's file asks for what there is not. */
extern const struct request_kind request_embed;
int engine_check_pooling(const struct engine *e, struct engine_request *q, struct err *err);
/* engine_step.c: ends the request if its newest token requires it. */
void engine_end_if_due(struct engine *e, struct request *r);
/* Ends the request: offers what it computed to the prefix cache, and calls its owner. */
void engine_finish(
	struct engine *e, struct request *r, enum ev_code_finish reason, const char *why);
extern const char engine_not_a_number[]; /* why it fails */
/* Ends the request without either. */
void engine_end_request(
	struct engine *e, struct request *r, enum ev_code_finish reason, const char *why);
struct engine_verdict { /* the fields of EV_draft of the same names */
	float p, arrival, winner_arrival;
	int32_t winner;
	int64_t other;
	float other_arrival, other_winner_arrival;
};
/* v NULL: discarded, it follows a rejected token. */
void engine_emit_draft(struct engine *e, const struct plan_item *item, int32_t node,
	enum ev_code_verdict verdict, const struct engine_verdict *v);
void engine_emit_window(struct engine *e, int64_t request, const struct draft_window *w);
void engine_emit_step(struct engine *e);
void engine_emit_finish(
	struct engine *e, struct request *r, enum ev_code_finish reason, const char *why);

/* engine_settings.c: reads the options, applies settings, and emits their events. */
int engine_check_options(
	const struct engine_options *o, struct engine_options *out, struct err *err);
int engine_apply_settings(struct engine *e, struct err *err);
/* Applies the settings in `to` to the engine, and may write the resulting values into `to`. */
typedef int setting_apply(struct engine *e, struct engine_options *to, struct err *err);
setting_apply engine_apply_copied, engine_apply_budget, engine_apply_prefix, engine_apply_policy,
	engine_apply_spec, engine_apply_shadow, engine_apply_page_size, engine_apply_pages,
	engine_apply_every, engine_apply_visible, engine_apply_skip, engine_apply_attention,
	engine_apply_weights, engine_apply_activations, engine_apply_outliers, engine_apply_importance,
	engine_apply_cache_format, engine_apply_give_back, engine_apply_observed,
	engine_apply_cuda_mode, engine_apply_roof, engine_apply_twin, engine_apply_watch,
	engine_apply_link, engine_apply_exchange;
void engine_emit_settings(struct engine *e);
void engine_emit_setting(struct engine *e, const char *name);

/* engine_bound.c: binds a new request to its grammar; 0: it has none. */
int engine_bind(struct engine *e, const struct engine_request *q, const struct request_owner *owner,
	struct request *r, struct err *err);
/* Lets the next draw take what the grammar allows at pos. False: nothing, and engine_bound_why()
 * says why. */
bool engine_allow(struct engine *e, const struct request *r, int32_t pos);
const char *engine_bound_why(const struct request *r);
/* Whether it allows nothing more. */
bool engine_bound_is_whole(const struct request *r);
/* Puts in place of a draft the tokens that are the only ones allowed, if there are any, else cuts
 * guesses that are forbidden. */
void engine_bind_draft(struct engine *e, struct request *r, int32_t nodes, int32_t depth);
/* Of the newest token, which was drawn. */
void engine_emit_bound(struct engine *e, const struct request *r);

/* engine_draft.c: speculation. */
void engine_close_draft(struct engine *e);
/* Finds the hooks that are called for drafts, after drafters were opened or closed. */
void engine_set_draft_hooks(struct engine *e);
void engine_forget(struct engine *e, int64_t request);
/* Adds the rows of a draft after that of the request's newest token, row item->row of block table
 * seq; *n_seqs counts the step's block tables. */
void engine_draft_rows(struct engine *e, struct plan_item *item, int32_t seq, int32_t *n_seqs);
/* The rows are laid out: what is guessed meanwhile, by a drafter that does, is guessed now. */
void engine_draft_verifying(struct engine *e);
/* Verifies and emits the children of `node` (-1: the newest token) by e->drawn, the draw after it.
 * Returns the one that is kept, or -1; e->drawn is then the token to use. */
int32_t engine_verify_draft(
	struct engine *e, const struct plan_item *item, int32_t node, bool *emitted);
/* The path to `node`, the last one kept (-1: none), becomes the request's own. */
void engine_draft_settle(struct engine *e, const struct plan_item *item, int32_t node);
/* Emits the discarded drafts: those that follow a rejected token. */
void engine_emit_discarded(struct engine *e, const struct plan_item *item, const bool *emitted);
/* Records what an item computed, if its request goes on; the drafter then gets all of it. */
void engine_note_seen(struct engine *e, const struct plan_item *item, int32_t node);
int engine_draft_learn(struct engine *e, struct err *err);

/* engine_measure.c: measures the cost of steps if it was not yet. */
int engine_need_cost(struct engine *e, int32_t rows, struct err *err);

/* engine.c: submits a request with an owner; *out (or NULL): the request, unless it is refused. */
int64_t engine_submit_owned(struct engine *e, const struct engine_request *q,
	const struct request_owner *owner, void *data, struct request **out, struct err *err);

/* engine_ranks.c: an engine on several ranks. */
/* Before the model is opened: starts the others where o says more than one, or joins them where it
 * says o->follows. */
int engine_ranks_open(struct engine *e, struct engine_options *o, struct err *err);
/* For model_options.planned; arg: the engine. */
int engine_ranks_plan(void *arg, struct model *m, struct err *err);
/* After the buffers of steps are open. */
int engine_ranks_attach(struct engine *e, struct err *err);
/* Before the first step, which settings may need: waits until the others are open, whose error is
 * this one's, too. Then, after the settings: whether all have the same file, and as many pages. */
int engine_ranks_meet(struct engine *e, struct err *err);
int engine_ranks_ready(struct engine *e, struct err *err);
/* A setting changed: the others' does, too. */
int engine_ranks_set(struct engine *e, const struct setting *s, const char *value, struct err *err);
/* Pages were made anew. */
void engine_ranks_listen(struct engine *e);
/* The events rank, and traffic of the step that was computed. */
void engine_ranks_emit(struct engine *e);
void engine_ranks_emit_step(struct engine *e);
void engine_ranks_close(struct engine *e);

/* handover.c: prompts on ranks of their own. Before anything is open: what cannot be, and a share
 * of the processors; after all is: waits for the ranks, whose error is this one's, too. */
int engine_handover_check(struct engine_options *o, struct err *err);
int engine_handover_ready(struct engine *e, struct err *err);
/* A setting changed; a page left the prefix cache; pages were made anew. */
int engine_handover_set(
	struct engine *e, const struct setting *s, const char *value, struct err *err);
void engine_handover_evicted(struct engine *e, int32_t group, int32_t page);
void engine_handover_forget(struct engine *e);
/* engine_step.c: query-key pairs of an item, of one head in a layer without a window of its own. */
int64_t engine_pairs_of(const struct engine *e, const struct plan_item *item);

bool engine_keeps_prefixes(const struct engine *e, const struct engine_options *o);
/* Sets it in e->specs. */
int engine_set_format(struct engine *e, const struct engine_options *o, struct err *err);
/* engine_pages.c: allocates the pools of pages; as many as there are where none are said; again by
 * e->specs, for as many tokens or bytes. */
int32_t engine_default_pages(const struct engine *e, const struct engine_options *o);
int engine_remake_pages(struct engine *e, int32_t page_size, struct err *err);
/* e->specs was `old`: where it is another now, pages are made again. -1: it is `old` again. */
int engine_take_specs(struct engine *e, const struct memory_specs *old, struct err *err);
int engine_open_pages(struct engine *e, int32_t page_size, int32_t n_pages, struct err *err);
void engine_close_pages(struct engine *e);
/* engine_pin.c: a setting changes what would be cached: all pins end, and the cache is empty. */
void engine_clear_prefix(struct engine *e);
