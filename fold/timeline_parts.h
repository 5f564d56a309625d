/* What the timeline (timeline.h) keeps of each subject, one after the other. Thread: as the
 * timeline's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"

struct timeline;

/* ---- what was measured of the model and of the machine ---- */

/* An input of products, as it was measured last: see the event outliers. */
enum { TL_TOP = 8, TL_MOST_OUTLIERS = 4096 };
struct tl_outliers {
	int32_t layer, stage, channels, above_six, n_top;
	double largest, median, smoothed;
	int32_t channel[TL_TOP]; /* [n_top] */
	float size[TL_TOP];
};

/* A layer, as it was measured last: see the event importance. */
enum { TL_IMPORTANT_HEADS = 64, TL_SIXTEENTHS = 16 };
struct tl_importance {
	int32_t layer, channels, n_heads, n_least;
	double influence;
	float head[TL_IMPORTANT_HEADS]; /* [n_heads] the first ones */
	float least[TL_SIXTEENTHS];     /* [n_least] */
};

/* Matrix products of the model, and readings of the machine: see the events. */
enum { TL_PRODUCTS = 64 };
struct tl_product {
	int32_t stage, inputs, outputs, n;
	double weights; /* of all n */
	int64_t bytes, row_bytes;
	bool each_row;
	char format[12];
};
/* False: it makes no sense. */
bool tl_product_of(struct tl_product *p, const struct ev_product *e);

enum { TL_ADAPTERS = 64 };
struct tl_adapter {
	struct ev_adapter e; /* texts are not valid: use name */
	char name[64];
};

struct tl_roof { /* the best of n readings; 0: not measured */
	double reads, least, ints, floats;
	int32_t n;
	int64_t t_ns; /* of the newest reading */
};

/* Its pages are states: they do not grow with the sequence. */
static inline bool tl_keeps_states(const struct ev_memory *m)
{
	return m->kind == EV_MEMORY_KIND_recurrent || m->kind == EV_MEMORY_KIND_kept;
}

/* ---- drafters: their guesses, how they would do, windows, what was drafted ahead ---- */

struct tl_draft {
	int64_t step, request, pos;
	int32_t nth, id, winner;
	/* nth of its parent node, 0: the newest token; tokens ahead of that, from 1 */
	int32_t parent, depth;
	int32_t top; /* what the target holds most probable after it, or -1 */
	enum ev_code_verdict verdict;
	enum ev_code_rule rule;
	int32_t other; /* verdict of the other rule, or -1 */
	float q, p, arrival, winner_arrival, other_arrival, other_winner_arrival;
	char drafter[16];
};
/* A drafter that guesses beside the run, as it was told last: see EV_shadow. */
enum { TL_SHADOWS = 20, TL_COSTS = 40, TL_CHOICES = 16, TL_PLACES = 16, TL_DRAFTER = 64 };
struct tl_shadow {
	char drafter[TL_DRAFTER]; /* "off": plain decoding */
	bool used;
	int64_t step, measured_step; /* of the newest; the one that measured, 0: none */
	int64_t steps, tokens, nodes, propose_ns, learn_ns;
	int32_t best_nodes;                     /* -1: not known */
	double tokens_ema, predicted, measured; /* tokens a step; tokens a second; NaN: not known */
	uint32_t verified[TL_PLACES], accepted[TL_PLACES];
};
struct tl_choice { /* of auto */
	int64_t step;
	int32_t nodes;
	double speed, speed_before;
	char drafter[TL_DRAFTER], before[TL_DRAFTER];
};
/* State of the window of a drafter that iterates its guesses: see the event. */
struct tl_window {
	int64_t step, request, pos;
	int32_t levels, columns, gram, n_entered, own, pool;
	/* in timeline.window_id: cells [levels][columns], next [columns], entered [n_entered][gram] */
	int32_t ids_at;
};

/* ---- latencies, who waits, whose requests waited, targets ---- */

/* Latencies, by the field's names; docs/trace.md defines them. */
enum tl_latency { TL_QUEUE, TL_TTFT, TL_ITL, TL_E2E, TL_N_LATENCIES };
struct tl_latencies { /* of one request, ns; NaN: not known (yet) */
	double queue, ttft, itl_p50, itl_p99, tpot, e2e;
};
/* Who waits, as the newest event `queue` has it. */
struct tl_queue {
	int64_t seq, step; /* 0: there was none */
	int32_t waiting, n;
	struct ev_queued order[EV_QUEUE_MOST]; /* [n], the first in the policy's order first */
};
/* Requests with one user, or of one priority class, over the session; the last of TL_GROUPS has all
 * for whom there was no room. Waits are those of the admitted ones, until their first slot. */
enum { TL_GROUPS = 12 };
struct tl_group {
	int64_t seq; /* of its first request, from whose event `user` and `priority` are */
	char *user;  /* NULL: nobody's */
	int64_t priority;
	int64_t arrived, admitted;
	int64_t ns, most_ns, steps, most_steps; /* waited: sums, and the longest */
};
/* Requests that ended by themselves since the target was set, by whether they met it. */
struct tl_slo {
	int64_t ended, met, late, slow; /* late: TTFT missed, slow: ITL p99 missed; may be both */
	int64_t since_ns, last_ns;      /* arrival of the first that counts; end of the newest; 0 */
};
/* A busy period: one request or another was there without a break. */
enum { TL_RUNS = 4, TL_STAYS = 256 };
struct tl_run {
	int64_t first, last;    /* its steps; last 0: none has ended yet */
	int64_t steps, members; /* members: requests in them, each once a step */
	int32_t requests, live, preempted;
	char policy[24]; /* when it began */
};
/* A request in a slot, by steps: the first, that of its first token, the last; EV_NULL_I: not yet.
 */
struct tl_stay {
	int64_t request, from, read, to;
	int32_t slot;
	bool lost; /* it was preempted */
};
struct tl_preempt {
	int64_t step;
	struct ev_preempt p;
};
/* The targets in force, ns; 0: none. */
struct tl_target {
	double ttft, itl;
};
/* What of it the latencies miss; what is not known (yet) misses nothing. */
struct tl_missed {
	bool ttft, itl;
};

/* ---- declared prefixes ---- */

/* A declared prefix, live or ended; of those refused the log alone knows. */
struct tl_pin {
	int64_t pin;                  /* the request that asked for it */
	enum ev_code_pin_action last; /* what happened to it last; it lives up to `kept` */
	int64_t t_ns, ttl_ns;         /* asked for, the last time; EV_NULL_I: until it is removed */
	int64_t asked, tokens;        /* declared; kept, in whole pages */
	int64_t pages, bytes;         /* that it added to what pins keep */
	int64_t prompts, given;       /* that began with it; tokens that it gave them */
};

static inline bool timeline_pin_lives(const struct tl_pin *p)
{
	return p->last <= EV_PIN_kept;
}

/* ---- ranks, when a model is computed by several (docs/parallel.md) ---- */

/* lane: times of one step; shares are of the newest TL_SHARE steps. */
enum { TL_MOST_RANKS = 64, TL_LANE = 256, TL_SHARE = 64, TL_HANDOVERS = 16 };

/* What a rank did in so many steps, which computed so many rows. What is absent is 0; a sum stops
 * at TL_INT_MAX. */
struct tl_traffic {
	int64_t rank, steps, rows;
	int64_t watched; /* of the steps: they send more (forward.h, n_observed) */
	int64_t compute_ns, exchange_ns, slowed_ns; /* exchange_ns has slowed_ns in it */
	int64_t exchanges, sent, received, control; /* bytes; control has both ways */
};

struct tl_rank {
	struct ev_rank has; /* spans are not valid: texts below. What it has no number of is 0 */
	char isa[16], transport[16], host[64];
	struct tl_traffic sum; /* of all steps that have ended */
	/* ns of computing and exchanging by turns, in the newest step that told them; when it began,
	 * after rank 0 (EV_NULL_I: not known) */
	int64_t lane_step, lane_start_ns; /* step 0: no lane */
	uint32_t *lane;
	int32_t n_lane, cap_lane;
};

/* How ranks share a model, by what they have: those that have the same part of the same layers
 * share the rows. It begins with { 1, 1, 1, 1 }: one rank. */
struct tl_split {
	int32_t ranks, tensor, pipeline, sequence;
};
void tl_split_add(struct tl_split *s, const struct ev_rank *r); /* in the order of their numbers */

/* A prompt that a prefill rank computed. What it has no number of is 0, and a time EV_NULL_I. */
struct tl_handover {
	struct ev_handover e; /* its span is not valid: */
	char why[64];
};

/* ---- searches ---- */

/* A search: its tree and who runs for it. Of a branch its own tokens are kept, those after its
 * parent's, for as long as the search is one of the newest TL_SEARCHES; when there are too many
 * nodes, the oldest that were given up go. */
enum { TL_SEARCHES = 4, TL_NODES = 4096, TL_MEMBERS = 64, TL_SHARES = 96 };
enum tl_node_state { TL_NODE_LIVE, TL_NODE_ENDED, TL_NODE_DROPPED };
struct tl_node {
	int64_t node;         /* the search's own number */
	int32_t parent;       /* -1: a root */
	int32_t from, tokens; /* it has the tokens from … tokens - 1 after the search's prompt */
	int32_t *id, cap;     /* [tokens - from] */
	enum tl_node_state state;
	int64_t request, born, last; /* born, last: steps */
	int32_t visits;              /* mcts; -1: there are none */
	double logp;                 /* nats, of all tokens up to its own end */
	double score;                /* mcts: mean value; NaN: none yet */
	int32_t n_answers;           /* that ended here */
	int64_t answer;              /* request of the best of them */
	double answer_logp, answer_score;
	/* own: what of them are its tokens: the end of the turn may be none */
	int32_t answer_tokens, answer_own;
};
struct tl_member { /* a branch that runs */
	int64_t request;
	int32_t node;
	int32_t *id, n, cap; /* its tokens after the search's prompt */
	double logp;         /* of those that it drew itself */
	/* a simulation whose value has not gone up yet: those before it have not ended */
	bool ended;
};
struct tl_search {
	int64_t id, step, last_step; /* begun; the newest that told of it */
	int64_t begin_seq, last_seq; /* of the first and the newest event that names it */
	char *method, *text, *why;   /* why it was stopped, or NULL */
	char *judge;                 /* the command that gives the scores; NULL: log-probabilities do */
	bool over, stopped;
	int32_t n_prompt;
	struct tl_node *node;
	int32_t n_nodes, cap_nodes;
	struct tl_member member[TL_MEMBERS];
	int32_t n_members;
	int64_t n_made, n_dropped, n_answers; /* nodes ever; branches given up; answers */
	/* the request of the best answer, and that as which it was told; 0: none */
	int64_t winner, taken;
	double won_score, won_logp;
	int32_t won_tokens;
	double least, most, value; /* mcts: of the values of simulations; their sum */
	int64_t steps, sum_pages, sum_unshared;
	int32_t pages, unshared, most_pages, most_unshared;
	/* of the newest steps: what sharing saved, in 255th parts; the newest last */
	uint8_t share[TL_SHARES];
	int32_t n_shares;
};

/* ---- what grammars allowed ---- */

/* Of the event bound; texts are cut to fit. Beyond TL_BOUNDS the older half is let go of. */
enum { TL_BOUNDS = 1024 };
struct tl_bound {
	struct ev_bound e; /* its spans are not valid; what it has no number of is 0 */
	char stack[160];
	char forbidden[384]; /* whole lines */
};

/* What was allowed where the request's token at pos was drawn, or NULL. */
const struct tl_bound *timeline_bound(const struct timeline *t, int64_t request, int64_t pos);
/* Of the lines of the event bound (forbidden): the rule that forbids a token, and how many bytes of
 * it would pass; false: it is not among them. */
bool tl_bound_rule(const char *forbidden, int64_t id, char *rule, int size, int *pass);

/* ---- answers of diffusion models, as their steps (events denoise) left them ---- */

struct tl_cell {
	int32_t nth, id;  /* step of the answer that fixed it, 0: a mask; newest proposal, -1: none */
	float p, entropy; /* of that; bits */
};

struct tl_canvas {
	int64_t step;          /* the newest that computed it; 0: there is none */
	int32_t nth;           /* of the answer's steps, from 1 */
	int32_t from;          /* position of the first cell */
	int32_t first, end;    /* positions of the block under work, from its first mask on */
	int32_t fixed, masked; /* in that step; left after it */
	int32_t steps, block;  /* settings; 0: see there */
	float above;
	uint8_t schedule; /* code */
	int32_t n;
	struct tl_cell *cell; /* [n] */
};

/* ---- what layers did beside attention, at the newest row of a request that was watched
 * (events experts and state; setting watch-layers) ---- */

enum {
	TL_EXPERTS = 1024, /* of a layer, at most */
	TL_RANKS = 16,
	TL_HISTORY = 64,
};
/* Numbers of a layer's state: how many heads or channels decay, taps, length, half-lives. */
enum { TL_STATE_HEADS, TL_STATE_TAPS, TL_STATE_NORM, TL_STATE_HALF, TL_STATE = 3 + TL_RANKS };

struct tl_watched {
	int64_t step, pos; /* step EV_NULL_I: none */
	/* experts: as in the event */
	int64_t rows, read, whole;
	int32_t n_layers, n, used; /* n: experts of a layer; states: rows in the past */
	/* experts: [n_layers][3 * n + 1] shares 0 … 1 of the row's weights, of all rows, of the last
	 * ones; then the router's entropy, NaN: the layer has no experts.
	 * states: [n_layers][TL_STATE], then [n][2] length and median half-life, the newest last. NaN:
	 * there is none */
	int32_t n_values;
	float *value;
};

/* Of a layer: its numbers. */
static inline const float *tl_layer_experts(const struct tl_watched *w, int32_t layer)
{
	return w->value + (size_t)layer * (3 * (size_t)w->n + 1);
}
static inline const float *tl_layer_state(const struct tl_watched *w, int32_t layer)
{
	return w->value + (size_t)layer * TL_STATE;
}
/* Its pairs of the past. */
static inline const float *tl_state_history(const struct tl_watched *w)
{
	return w->value + (size_t)w->n_layers * TL_STATE;
}

/* ---- what a trainer told, and what `quantize` and `prune` made of a file ---- */

/* The spans of these events are not valid; texts are beside them, "" if absent. */
struct tl_training {
	struct ev_training e;
	char name[64], teacher[64];
};

/* Of steps of a trainer, struct ev_trained: beyond so many every second one is let go of. */
enum { TL_MOST_TRAINED = 1 << 16 };

enum { TL_ALPHAS = 4 };
struct tl_changed {
	struct ev_changed e;
	char method[16];
	float alpha[TL_ALPHAS]; /* NaN: there is none */
};

/* ---- another server that computes the answers ---- */

/* A session whose answers are another server's: what that said. */
enum { TL_SERVER_SLOTS = 256, TL_SERVER_VOCAB = 2 * EV_OWN_IDS };
struct tl_attached {
	bool on;
	/* What it said at the start, and in the newest poll; EV_NULL_I, NaN: not told. Their spans are
	 * not valid; texts below, NULL: not told. */
	struct ev_attached e;
	struct ev_polled polled;
	char *url, *server, *version, *model, *p, *error;
	struct ev_slot *slot; /* by number; EV_NULL_I: not told */
	int32_t n_slots, cap_slots;
};
