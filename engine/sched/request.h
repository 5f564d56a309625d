/* A request inside the engine: its tokens, its pages, its state. Not part of the public API. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/draft/draft.h"
#include "engine/memory/memory.h"
#include "engine/settings/options.h"

/* Who computes rows of a prompt that runs (sched/away.c): steps do; nobody, until pages are free;
 * somebody else. */
enum request_where { REQUEST_HERE, REQUEST_WAITS, REQUEST_AWAY };

struct bound;
struct canvas;
struct engine;
struct plan;
struct plan_item;
struct request;
struct sched;
struct tokenizer;

/* How rows of a request are planned and what is done with their outputs, by what is asked of it.
 * Most draw one token after the other; the table has those that do not (core/request_kinds.c), and
 * a model may have a kind of its own (struct request_form). */
struct request_kind {
	bool next;  /* one token after the other: it may lack only its newest */
	bool given; /* its tokens are: it draws none, and ends when its last but one row is computed */
	/* Plans rows of one that lacks more than its newest token. NULL: some of its prompt's. */
	void (*plan)(struct sched *s, struct plan *p, struct request *r);
	/* The row of an item's first output. NULL: its last rows have outputs. */
	int32_t (*first_row)(const struct plan_item *item);
	/* An item is computed: draws, emits, and ends the request if that is due. */
	void (*after)(struct engine *e, const struct plan_item *item);
	void (*release)(struct request *r); /* NULL: it has nothing of its own */
	const char *stays; /* why it cannot go back to an earlier token; NULL: it can */
};
extern const struct request_kind request_next;
extern const struct request_kind *const request_kinds[EV_N_request_kind]; /* NULL: request_next */

/* The owner of a request, which submitted it and takes part in decisions about it: a search. */
struct request_owner {
	const char *what; /* "a branch of a search" */
	/* Nothing is drawn for it: row() gets the logits of its newest row, and the owner appends the
	 * token later. */
	bool chooses;
	void (*row)(struct request *r, const float *logits, const struct k_logit_stats *stats);
	/* A token was drawn and appended. */
	void (*drawn)(
		struct request *r, const struct sample_result *drawn, const struct k_logit_stats *stats);
	/* The request ends by itself, and is freed after the call. */
	void (*ended)(struct request *r, enum ev_code_finish reason);
};

struct request {
	int64_t id, parent, sample;
	enum ev_code_request_kind kind;
	const struct request_kind *how;
	enum request_where where;
	int32_t there, there_rank; /* positions whose pages that rank has, too (core/handover.h) */
	struct sample_params params;
	bool ignore_end;
	bool was_running; /* preempted: admitted again */
	/* waits for its search's choice, not for a slot: it is not admitted meanwhile */
	bool backed_off;
	bool out_of_pages; /* no other request is left and no page is free: it must end */

	int32_t *ids; /* prompt, then generated; room for limit */
	int32_t n_ids, n_prompt;
	int32_t n_input;   /* tokens that an encoder reads, before the decoder's first; 0: there is none
						*/
	int32_t limit;     /* n_ids never exceeds it: prompt + max_tokens, at most the context */
	bool limit_is_ctx; /* the context bounds it, not max_tokens */
	int32_t computed;  /* positions 0 … computed - 1 are in the KV cache */
	int32_t registered;        /* blocks offered to the prefix cache */
	struct memory_table table; /* room for the context */
	int64_t pin;               /* that it asked for (pin.h); 0: none */
	int32_t hit;       /* tokens of the prompt that came from the cache, at first admission */
	int32_t slot;      /* -1: none */
	int64_t admitted;  /* order of admission, from 1; 0: not yet */
	int32_t overtaken; /* times that a later request was served before it */

	int32_t adapter;                 /* of the model (model/adapters.h); 0: none */
	const char *adapter_name;        /* the engine's; NULL: none */
	struct bound *bound;             /* grammar/constraint.h; NULL: no grammar rules it */
	char *user;                      /* NULL: nobody's */
	int32_t priority, deadline, top; /* see struct engine_request */
	int64_t arrived;                 /* step after which it came */
	struct sched_user *account;      /* of its user, from sched_add() to sched_remove() */
	int32_t charged;                 /* of n_ids: those that its account has paid for */

	const struct request_owner *owner; /* NULL: it was submitted by engine_submit() */
	void *owner_data;
	struct draft draft; /* guesses to verify in the coming step */
	bool draft_pages;   /* its pages reach far enough for a drafter that writes ahead */

	/* embed: how tokens are pooled, and the sum of the final states of n_pooled [dim]; NULL: none
	 * yet */
	enum ev_code_pooling pooling;
	double *pooled;
	int32_t n_pooled;

	struct canvas *canvas; /* of a diffusion model (engine/diffuse/canvas.h) */
	struct setting_stops stop;
	int32_t *stop_ids, n_stop_ids;
	char *stop_json;
	char *text;
	/* The last bytes generated, searched for stop strings: no longer than the longest of them
	 * requires. */
	char *tail;
	size_t n_tail, cap_tail;

	int64_t arrival_ns, queued_ns, first_token_ns;
	int64_t queue_ns; /* of its first time in the queue; EV_NULL_I: it has not left it */
	/* since the newest token, whose time is newest_ns (0: there is none): see request_charge() */
	int64_t rows, pairs, newest_ns;
	/* inter-token latency by token, room for limit; of the first and of forced ones NaN. n_itl:
	 * those that are known */
	double *itl;
	int32_t n_itl;
	int64_t newest_step; /* of the newest token */
	int64_t last_step;
	int32_t verified; /* verify, score: the last position told of */
	int32_t observed; /* n_ids when its attention was last emitted, 0: never */
};

static inline bool request_is_chosen(const struct request *r)
{
	return r->owner && r->owner->chooses;
}
/* Whether every row has to be computed for it, whatever the prefix cache and other ranks have. */
static inline bool request_wants_rows(const struct request *r)
{
	return r->kind == EV_REQUEST_KIND_score ||
		   (r->kind == EV_REQUEST_KIND_embed && r->pooling == EV_POOLING_mean);
}
/* Copies everything of spec. NULL if memory ran out. */
struct request *request_new(
	const struct engine_request *spec, int32_t ctx, const struct memory *memory);
void request_free(struct request *r);
/* Adds the bytes of a generated token; returns the stop string that is now complete, or NULL. */
const char *request_stop(struct request *r, const void *bytes, size_t size);
/* Whether this token ends it as the request said. */
bool request_stops_at(const struct request *r, int32_t id);
/* Keeps the first n tokens, n_prompt at least. */
void request_truncate(struct request *r, int32_t n, const struct tokenizer *t);
/* What was computed since the token before goes into the event of this one. A token of the same
 * step as the one before has an inter-token latency of 0: they arrive together. */
void request_charge(struct request *r, struct ev_token *t, int64_t now);
/* The exact quantile of the inter-token latencies of its tokens, ns; EV_NULL_I: there are none.
 * Only when no more tokens come: it sorts them. */
int64_t request_itl(struct request *r, double q);
/* Fills the event of the request's arrival; spans point into r. */
void request_event(const struct request *r, const char *spec, struct event *ev);
