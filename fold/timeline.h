/* The timeline: the fold of events that all views read. It draws nothing and asks nobody.
 *
 * timeline_fold(t, ev) is all that ever changes it, so the same events give the same timeline, live
 * or in replay: fold(live) = fold(replay), which a test holds for every view.
 *
 * Events from a file are not trusted. One that makes no sense (a page out of range, an unknown
 * request, a sequence number that does not grow) is counted in n_odd and skipped. What is kept
 * obeys bounds that views may rely on: integers that are not hashes, seeds, sample numbers,
 * priorities, ranks or starts lie in -1 … TL_INT_MAX or are EV_NULL_I where the event may leave
 * them out;
 * probabilities and shares lie in 0 … 1 or are NaN; codes are of their list; indexes point into
 * their arrays. Token ids of prompts and candidates may be anything: timeline_token_bytes() takes
 * all. Sums over steps belong into doubles.
 *
 * Memory is bounded: at every TL_SLIDE-th step, steps and what belongs to them (batches, drafts,
 * rows of attention and the heat of pages) are dropped when they are TL_WINDOW steps old, and so is
 * (at every TL_SLIDE-th request, too: not all make steps) a request that has ended, if TL_REQUESTS
 * newer ones of its sort (the conversation's, the others) are there or they have TL_TOKENS tokens.
 * Sums are kept. A failed allocation sets `full`, and from
 * then on the timeline keeps what it has.
 *
 * A timeline that was made from a keyframe (fold/keyframe.h) has `light` tokens, of which only id,
 * position, step, source, p, rows, pairs and ns are known, and pages whose older events are not
 * there: ask by timeline_whole() and timeline_page() where the rest is shown.
 *
 * To add state: a struct or a member here, and its line in the table of timeline_fields.c, from
 * which dump, free and keyframes are made. Thread: whoever folds it, one at a time (the UI, the
 * log's writer). */
#pragma once

#include "base/cycle.h"
#include "base/histogram.h"
#include "fold/timeline_parts.h"

enum {
	TL_CANDIDATES = 8,
	TL_PAGE_HISTORY = 12,
	TL_MAX_LAYERS = 256,
	TL_MEMORY = 4,
	TL_PINS = 64,
	TL_PAGES_MAX = 1 << 18
};
enum { TL_SLIDE = 128, TL_WINDOW = 256, TL_REQUESTS = 48, TL_TOKENS = 8192, TL_MEAN = 16 };
#define TL_INT_MAX ((int64_t)1 << 50)
#define TL_POS_MAX ((int32_t)1 << 29) /* of a token; sums of two fit in 32 bits */

enum tl_state { TL_WAITING, TL_RUNNING, TL_PREEMPTED, TL_FINISHED, TL_N_STATES };

/* Of the event price, in 1e-9 nats: whole numbers are short in a keyframe. lossy, exact: -log p of
 * the token in either row. EV_NULL_I: the token has no twin. */
struct tl_price {
	int64_t kl, lossy, exact;
	int32_t best, exact_best, rank;
};
struct tl_token {
	int64_t step, seq, pos, hash;
	int64_t rows, pairs, ns; /* of the event; EV_NULL_I: not known */
	struct tl_price price;
	int32_t id;
	float p, p_draw, entropy; /* NaN: absent */
	uint8_t source;           /* enum ev_code_source */
	bool is_end;
	bool light;              /* see timeline_whole() */
	bool staged;             /* stage[] is there (it is not when nobody observed) */
	int32_t survivors, rank; /* -1: absent */
	uint8_t n_candidates;
	struct ev_candidate candidate[TL_CANDIDATES]; /* .p in 0 … 1 or NaN, .cut of its list */
	struct ev_stage stage[EV_MOST_STAGES]; /* .mass 0 … 1 or NaN; from EV_AT_BIAS left 0: none */
	int32_t draft; /* index in drafts of the draft verified at this position, or -1 */
};

struct tl_attention { /* the newest observed row of a request */
	int64_t step, pos;
	int32_t n_layers, n_pages, n_read;
	float *share;     /* [n_layers][n_pages] sums to about 1 a layer */
	float *near_zero; /* [n_layers] */
	float *read;      /* [n_read] of each page the share that was read; n_read 0: all of all */
	double threshold;
	int32_t head_layer, head; /* the selected head, or -1 */
	int64_t head_step;
	float *head_share; /* [head_pages] */
	int32_t head_pages;
};

struct tl_sparsity { /* the newest counted row of a request */
	int64_t step, pos;
	int64_t since, rows; /* as in the event */
	double mark;
	int32_t n_layers;
	float *share; /* [n_layers][EV_N_sparse], NaN: absent */
};

/* A branch of the session up to a position: what a request has now, or a future that it left. */
struct tl_branch {
	int64_t request;   /* 0: none */
	int32_t abandoned; /* index in timeline.abandoned, or -1: the request's own tokens */
	int32_t pos;       /* so many of its first tokens */
};

struct tl_request {
	int64_t id, parent, sample;
	int64_t request_seq, lookup_seq, finish_seq, rewind_seq; /* of its newest such event; 0: none */
	int32_t fork_pos; /* position from which it left its parent; -1: not known */
	int32_t n_rewinds;
	struct ev_rewind rewind; /* the newest */
	struct tl_branch origin; /* what its prompt goes on from: the turn before, a fork's place */
	enum ev_code_request_kind kind;
	enum tl_state state;
	int64_t arrival_ns, admitted_ns, first_token_ns, finished_ns; /* EV_NULL_I: not yet */
	int64_t newest_ns; /* of its newest token, or when it was rewound; EV_NULL_I: neither */
	/* the newest step that had ended when it came, was admitted first, and got its first token;
	 * EV_NULL_I: not yet */
	int64_t arrived_step, admitted_step, first_step;
	int32_t slot; /* -1: none */
	char *user;   /* NULL: nobody's */
	char *text;   /* label */
	int32_t *prompt, n_prompt;
	struct ev_request params; /* spans are not valid: use text, prompt, stop, spec, bias here */
	int32_t *bias;            /* as packed in the event, [n_bias]: see timeline_params() */
	int32_t n_bias;
	char *stop, *spec, *grammar;
	char *adapter; /* NULL: none */
	bool looked_up;
	struct ev_lookup lookup;
	bool finished;
	struct ev_finish finish; /* .why: use finish_why */
	char *finish_why;
	struct tl_token *token;
	int32_t n_tokens, cap_tokens;
	struct cycle cycle; /* of those tokens */
	/* tokens of the loop that the answer goes in at its end (base/cycle.h), 0: in none */
	int32_t period;
	int32_t computed; /* positions in the KV cache */
	int32_t *pages;   /* block table as far as page events told; -1: not known */
	int32_t n_pages, cap_pages;
	int32_t n_drafted, n_accepted, n_preempted;
	int32_t trimmed_tokens, trimmed_turns; /* dropped from the conversation before it */
	struct tl_attention attention;
	struct tl_sparsity sparsity;
	struct tl_watched experts, states;
	struct tl_canvas canvas;
};

/* Tokens that a request had drawn and let go of when it went back. They are a branch of their
 * own. */
struct tl_abandoned {
	int64_t seq;             /* of the rewind that left it */
	int64_t request, step;   /* step: the newest one when it was left */
	struct tl_branch origin; /* where it parts; .request is the same */
	int32_t at;              /* the first of its tokens was the request's token[at] */
	struct tl_token *token;  /* from origin.pos on */
	int32_t n_tokens;
};

struct tl_page_event {
	int64_t step, t_ns, request, other;
	enum ev_code_page_action action;
	int32_t block, refs;
};
struct tl_page {
	int32_t refs;
	bool cached, pinned;
	bool selected; /* the newest observed row did not read all that it saw */
	int64_t owner; /* request that took it; 0: free */
	int32_t block; /* index in the owner's block table */
	int64_t last_used_step;
	float heat, skipped; /* in that row: attention that it got, its keys that were not read */
	int64_t heat_step;   /* of that row */
	struct tl_page_event history[TL_PAGE_HISTORY]; /* the newest ones, a ring */
	int32_t n_history;                             /* ever */
	int32_t n_unfolded; /* of them, the first ones were not folded: see timeline_page() */
};

struct tl_batch { /* one member of one step */
	int64_t request;
	int32_t slot, rows, pos;
	enum ev_code_work work;
};
struct tl_time {
	int64_t ns, bytes, ops;
};
struct tl_step {
	struct ev_step s; /* what is absent is 0, but of hold and hold_first EV_NULL_I */
	int64_t t_ns, seq;
	int32_t batch_at, n_batch;                   /* in timeline.batch */
	int32_t draft_at, n_draft;                   /* in timeline.draft */
	int32_t window_at, n_window;                 /* in timeline.window */
	int32_t ahead_at, n_ahead;                   /* in timeline.ahead */
	int32_t traffic_at, n_traffic;               /* in timeline.traffic */
	int32_t arrived, admitted, preempted, ended; /* requests since the step before */
	bool timed;
	bool drafters_known; /* s.drafters_ns is known: other servers do not tell it */
	struct tl_time time[EV_N_stage];
};
struct tl_setting {
	char name[32], value[256], first[64]; /* first: its value when it was told first, cut */
	int64_t seq;
};
/* What a lesson asked, and what came of it. */
struct tl_answer {
	int64_t part;
	uint8_t ask, verdict;    /* codes ask, answer_verdict */
	char *predicted, *found; /* NULL: nothing */
};
struct tl_lesson {
	char *name, *text; /* Markdown (sessions/lesson/lesson.h); NULL: no lesson was begun, or it
						  ended */
	int64_t part;      /* where the reader stands; -1: at no part yet */
	bool typing;       /* the lines at the reader's place are being typed */
	struct tl_answer *answer; /* by part */
	int32_t n_answers, cap_answers;
};

/* The recording that a timeline restored from a keyframe is of. All return -1 where reading
 * fails. */
struct key_row;
struct tl_older {
	void *arg;
	/* One event, which lives until the next call. 1, 0: there is none. */
	int (*row)(void *arg, enum ev_kind kind, int64_t seq, struct event *ev);
	/* Calls fn for the events of these kinds (bits) with first <= seq <= last, in order. 0. */
	int (*rows)(void *arg, uint64_t kinds, int64_t first, int64_t last,
		void (*fn)(struct timeline *t, const struct event *ev), struct timeline *t);
	/* Calls fn for the keyframes (their `tokens`) with first <= seq <= last, in order. 0. */
	int (*keys)(void *arg, int64_t first, int64_t last,
		bool (*fn)(void *to, const struct key_row *row), void *to);
	/* The newest events of a page before those that were folded, the newest first. Returns how
	 * many. */
	int (*history)(void *arg, int32_t page, struct tl_page_event *out, int max);
};

struct timeline {
	bool begun, closed, full;
	struct ev_session session; /* spans are not valid; texts below */
	char *version, *build, *backend, *isa, *model_path, *model_name, *model_sha256;

	struct tl_request *request; /* by id; request[i].id == i + 1 unless events are missing */
	int32_t n_requests, cap_requests;
	struct tl_abandoned *abandoned; /* in the order in which they were left */
	int32_t n_abandoned, cap_abandoned;
	struct ev_memory memory[TL_MEMORY]; /* groups */
	int32_t n_memory;
	struct tl_product product[TL_PRODUCTS];
	int32_t n_products;
	struct tl_adapter adapter[TL_ADAPTERS]; /* beside the model */
	int32_t n_adapters;
	struct tl_outliers *outliers; /* of the newest measurement */
	int32_t n_outliers, cap_outliers;
	struct tl_importance *importance; /* of the newest measurement */
	int32_t n_importance, cap_importance;
	struct tl_training training; /* the newest */
	struct ev_trained *trained;  /* in the order in which they were told */
	int32_t n_trained, cap_trained;
	struct tl_changed *changed;
	int32_t n_changed, cap_changed;
	struct tl_bound *bound; /* in the order told */
	int32_t n_bounds, cap_bounds;
	struct tl_roof roof;
	struct tl_page *page; /* [n_pages], those of group 0 first */
	int32_t n_pages;
	struct tl_pin pin[TL_PINS]; /* all that live, in the order in which they came, and others */
	int32_t n_pins;
	struct tl_rank rank[TL_MOST_RANKS]; /* by number; none: the model is computed by one */
	int32_t n_ranks;
	struct tl_handover handover[TL_HANDOVERS]; /* the newest ones */
	int32_t n_handovers;

	struct tl_step *step; /* by number; step[i].s.step == i + 1 unless events are missing */
	int32_t n_steps, cap_steps;
	struct tl_batch *batch;
	int32_t n_batch, cap_batch;
	struct tl_draft *draft;
	int32_t n_drafts, cap_drafts;
	struct ev_ahead *ahead;
	int32_t n_aheads, cap_aheads;
	struct tl_window *window;
	int32_t n_windows, cap_windows;
	int32_t *window_id;
	int32_t n_window_ids, cap_window_ids;
	struct tl_traffic *traffic; /* of a step, by rank */
	int32_t n_traffic, cap_traffic;
	struct tl_setting *setting; /* by name, newest value */
	int32_t n_settings, cap_settings;
	struct tl_lesson lesson; /* the newest */
	struct tl_attached attached;
	struct tl_preempt *preempt;
	int32_t n_preempts, cap_preempts;

	struct tl_run run[TL_RUNS]; /* the newest */
	struct tl_stay stay[TL_STAYS];
	int32_t n_runs, n_stays;
	struct tl_queue queue;
	struct tl_group user[TL_GROUPS], priority[TL_GROUPS]; /* in order of their first requests */
	int32_t n_users, n_priorities;
	struct tl_slo slo;

	struct tl_shadow shadow[TL_SHADOWS]; /* by name */
	int32_t n_shadows;
	struct ev_cost cost[TL_COSTS];
	int32_t n_costs;
	struct tl_choice choice[TL_CHOICES]; /* the newest ones, oldest first */
	int32_t n_choices;

	struct tl_search search[TL_SEARCHES]; /* by number */
	int32_t n_searches;
	/* a branch of which no search has spoken yet: prompt and all; request 0: none */
	struct tl_member search_new;

	/* counters over the session */
	int64_t n_tokens, n_drafted, n_accepted, n_rejected, n_evicted, n_prompt_tokens, n_hit_tokens;
	int64_t n_turns; /* requests of the conversation */
	int64_t cleared; /* newest request when a setting emptied the prefix cache; 0: none did */
	int64_t last_seq, last_t_ns;
	int64_t last_step;     /* number of the newest step, also of one that is not kept; 0: none */
	int64_t n_odd, n_lost; /* events that made no sense; gaps in the sequence numbers */

	struct tl_vocab {
		char *bytes;
		int32_t size;
		bool special;
	} * vocab; /* [n_vocab], bytes NULL: not seen */
	int32_t n_vocab;
	int64_t slid_seq;  /* of the newest step that was let go of */
	int64_t vocab_seq; /* after timeline_restore(): texts are known up to here */

	/* what belongs to the step that has not ended yet */
	struct tl_step open;

	/* of all requests of the session that were to generate; e2e of those that ended by themselves
	 */
	struct histogram latency[TL_N_LATENCIES]; /* ns */
	struct histogram latency_steps[TL_N_LATENCIES];

	/* Where events that were not folded are had from. */
	struct tl_older older;
};

void timeline_init(struct timeline *t);
void timeline_free(struct timeline *t);
/* Frees all but the texts of tokens, and `older`: for folding the same recording again. */
void timeline_empty(struct timeline *t);
void timeline_fold(struct timeline *t, const struct event *ev);

/* Whether names are equal, or both NULL. */
bool tl_same_text(const char *a, const char *b);
/* NULL if there is none. */
const struct tl_request *timeline_request(const struct timeline *t, int64_t id);
const struct tl_step *timeline_step(const struct timeline *t, int64_t step);
const struct tl_step *timeline_last_step(const struct timeline *t);
/* or NULL */
const struct tl_shadow *timeline_shadow(const struct timeline *t, const char *drafter);
/* or NULL; 0: the newest */
const struct tl_search *timeline_search(const struct timeline *t, int64_t search);
const struct tl_node *timeline_search_node(const struct tl_search *s, int32_t node); /* or NULL */
/* What is known of the question at this part of the lesson; NULL: nothing. */
const struct tl_answer *timeline_answer(const struct timeline *t, int64_t part);
/* Its parameters with logit bias, whose span points into r; all other spans are not valid. */
struct ev_request timeline_params(const struct tl_request *r);
const char *timeline_setting(const struct timeline *t, const char *name); /* or NULL */
bool timeline_exact(const struct timeline *t); /* false: the setting `exact` is off */
/* The same token, with all that is known of it; NULL for NULL. */
const struct tl_token *timeline_whole(const struct timeline *t, const struct tl_token *k);
/* The memory group of a page. */
int32_t timeline_group(const struct timeline *t, int32_t page);
/* A page, 0 … n_pages - 1, with its story. */
const struct tl_page *timeline_page(const struct timeline *t, int32_t page);
bool timeline_of_conversation(enum ev_code_request_kind kind);
/* The newest request of the conversation, or NULL. */
const struct tl_request *timeline_chat(const struct timeline *t);
/* Bytes of a token (not NUL-terminated, may be part of a character); "" if not known. Any id will
 * do. */
const char *timeline_token_bytes(const struct timeline *t, int32_t id, int32_t *size);
/* All tokens of a branch, prompt and all; origin.pos is not read. */
int32_t timeline_branch_length(const struct timeline *t, struct tl_branch b);
/* All of a request, as it stands now. */
struct tl_branch timeline_branch_whole(const struct timeline *t, int64_t request);
/* Id of its token at a position; -1: it is not known. */
int32_t timeline_branch_id(const struct timeline *t, struct tl_branch b, int32_t pos);
/* Positions from 0 on at which two branches have the same tokens. */
int32_t timeline_branch_common(const struct timeline *t, struct tl_branch a, struct tl_branch b);
/* The token as it was drawn; NULL: it belongs to a prompt. */
const struct tl_token *timeline_branch_token(
	const struct timeline *t, struct tl_branch b, int32_t pos);
/* A fork from within an answer: it belongs to the turn of the request it was forked from. */
bool timeline_within_answer(const struct timeline *t, const struct tl_request *r);
/* Whether the prompt `now` is of the turn after the prompt `before`, though it does not begin with
 * it: a template may write an answer of before without its thoughts, and without what opens them.
 * Then both part after the user's text was closed, by the tokens that end both. common: tokens with
 * which both begin. */
bool timeline_goes_on(
	const int32_t *before, int32_t n_before, const int32_t *now, int32_t n_now, int32_t common);
/* The request that answered the turn before that of this one, on its branch; 0: it is the first. */
int64_t timeline_turn_before(const struct timeline *t, int64_t request);
/* Its answer was computed in another session or by another model, and only stands in this one. */
bool timeline_carried(const struct tl_request *r);
/* The latencies of a request so far: exact, of the tokens that it has now. NaN: of one carried
 * over. It sorts the gaps between its tokens: timeline_waits() has all but ITL, and does not. */
struct tl_latencies timeline_latencies(const struct timeline *t, const struct tl_request *r);
struct tl_latencies timeline_waits(const struct timeline *t, const struct tl_request *r);
/* The same counted in steps: of its wait those that ran without it, of others those from the
 * arrival, or from the token before, up to the one that gave the token. The machine's speed has no
 * part in them. */
struct tl_latencies timeline_latency_steps(const struct timeline *t, const struct tl_request *r);
/* Of its user, or of its priority, in t->user or t->priority. */
const struct tl_group *timeline_group_of(
	const struct timeline *t, const struct tl_request *r, bool by_user);
struct tl_target timeline_target(const struct timeline *t);
struct tl_missed timeline_missed(const struct timeline *t, const struct tl_latencies *l);
/* Tokens a second of one request or (0) of all, over the last second of engine time; of one that
 * ended 1 / TPOT, as the log has it. NaN without data. */
double timeline_rate(const struct timeline *t, int64_t request);
/* The bandwidth of plain reads by the readings so far, else by that of the start; 0: not measured.
 * A faster step says that the readings were wrong, or that weights stay in caches: it has no share
 * of it. */
double timeline_peak_bandwidth(const struct timeline *t);
/* What speculation gave under the newest setting of drafter and rule: a fold of the newest
 * TL_WINDOW steps, without those before that setting and those with rows of prompts. Several
 * guesses for one position are one chance to be right. Of one request (0: of all). */
struct tl_speculation {
	/* members: requests in those steps, each once a step */
	int64_t tokens, members;
	/* by tokens ahead, from 0; after those before it were accepted */
	int64_t verified[TL_PLACES], accepted[TL_PLACES];
	int64_t n_verified, n_accepted; /* of all places */
};
struct tl_speculation timeline_speculation(const struct timeline *t, int64_t request);
/* One rank: all are 1. */
struct tl_split timeline_split(const struct timeline *t);
/* What a rank did in the newest TL_SHARE steps: in those that nobody watched, if there are any. */
struct tl_traffic timeline_traffic(const struct timeline *t, int32_t rank);
/* Whether the drafts of a step are those of the newest setting. */
bool timeline_drafter_since(const struct timeline *t, int64_t step);
/* What the newest TL_MEAN timed steps were on average. A step that computed prompt rows and newest
 * tokens at once is neither: its times cannot be divided between the two. */
enum { TL_DECODE = 1, TL_PREFILL = 2, TL_MIXED = 4 };
struct tl_cost {
	double ns, bytes, ops; /* a step */
};
struct tl_sample {
	int32_t n;                           /* steps; 0: there are none, and all else is 0 */
	bool prefill;                        /* of steps with prompt rows */
	double rows, tokens, members, depth; /* a step; depth: positions of a member, its own rows too
										  */
	double wall, drafters;               /* ns a step; wall without the kernels of its twin */
	double twin;                         /* ns a step of those; 0: there is none */
	double delay; /* ns a step that a thread had no CPU, of the one with most; 0 if not known */
	bool draft_time_unknown; /* tokens were drafted, and how long that took is not recorded */
	struct tl_cost kernels, stage[EV_N_stage];
};
struct tl_sample timeline_sample(const struct timeline *t, unsigned phases);
/* Bytes a second that its kernels read and wrote in the whole time of its steps; NaN without data.
 * Its part of timeline_peak_bandwidth() is the model bandwidth utilisation, MBU. */
double timeline_bandwidth(const struct tl_sample *m);
unsigned timeline_phase(const struct tl_step *s);
