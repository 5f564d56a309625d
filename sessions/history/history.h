/* The one reader that turns a recording into requests with their tokens: to recompute them
 * (verify.h), to compare them with those of another (diff.h), to continue them (resumed.h), to
 * schedule them anew (whatif.h, simulate.h), to explain them (why.h).
 *
 * A request that was rewound (event rewind) has several takes: the tokens drawn between two
 * rewinds. All takes are kept, in order; history_ids() gives the tokens as they stood in one.
 *
 * Nothing in the file is trusted; checked are: ids are in the vocabulary, positions follow one
 * another, counts are bounded. Where a request's rows are not contiguous (rows deleted, or forged),
 * `broken` says where, and the rest is left out: its tokens are not known. The file may be one that
 * is being written, or that a kill cut off. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/lossy.h"
#include "event/texts.h"
#include "engine/sample/sampler.h"

struct history_row { /* a token, a scored one, or a text's vector, at its last token */
	int64_t seq, step;
	int64_t hash; /* EV_NULL_I: forced, not computed */
	double p;     /* score: log-probability; NaN: not recorded */
	double p_draw, entropy;
	int32_t id, pos;
	int64_t survivors;
	uint8_t source;    /* EV_SOURCE_x */
	bool by_rejection; /* drawn by modified rejection, not by the sampling race */
	bool is_end;
};

/* Whether a row of logits gave it: whatever its mark says, if its hash is there. */
static inline bool history_computed(const struct history_row *row)
{
	return row->hash != EV_NULL_I || !ev_is_given(row->source);
}

struct history_take {
	int32_t first, n; /* of the request's rows */
	int32_t at;       /* position of the first */
};

struct history_request {
	int64_t number, seq, parent /* 0: none */, sample, max_tokens;
	enum ev_code_request_kind kind;
	struct sample_params params;
	int32_t *prompt, n_prompt;
	struct history_row *row;
	int32_t n_rows, cap_rows;
	struct history_take *take; /* n_takes >= 1 */
	int32_t n_takes, cap_takes;
	int32_t n;       /* tokens at the end, prompt included */
	int32_t longest; /* longest of all takes, or where a diffusion model's answer would end */
	enum ev_code_pooling pooling; /* embed: of its row, which is the vector's */
	bool denoised;                /* a diffusion model's answer */
	bool cut;   /* the beginning of its prompt alone is there, as of one refused for its length */
	int finish; /* EV_FINISH_x, or -1: it had not ended */
	int64_t forced_pos; /* fork: position of the token that the user forced, or -1 */
	int32_t priority, deadline;
	int32_t bound_from; /* position of the first token that its grammar rules; 0: there is none */
	char *text, *user, *spec, *stop, *grammar; /* as recorded; "" if absent */
	char *adapter;                             /* likewise; "off" if absent */
	char *why;                                 /* details of `finish` */
	char broken[96];                           /* "": complete */
};

struct history_setting { /* given at the start, or changed */
	int64_t seq;
	char *name, *value;
};

struct history_adapter {
	char *name, *sha256;
	double scale; /* that the user gave it */
};

struct history {
	char *path;
	char *model_path, *model_name, *model_sha256, *backend, *isa, *version; /* "" if absent */
	int64_t arith, vocab, threads, ctx, page_size, unix_ns, n_layers, n_kv_heads, head_dim;
	bool closed;               /* the session was closed properly */
	bool attached;             /* its answers are another server's */
	int64_t n_steps, steps_ns; /* steps, and their wall time together */
	int64_t n_orphans, orphan; /* rows of no request of the file; the first's number of one */
	struct history_request *request;
	int32_t n_requests, cap_requests;
	struct ev_texts texts;           /* what tokens decode to */
	struct history_setting *setting; /* as they were logged */
	int32_t n_settings, cap_settings;
	struct history_adapter *adapter; /* beside the model */
	int32_t n_adapters, cap_adapters;
	struct reader *reader;
	/* while it is read: the step that the newest scores belong to, and the newest draft that
	 * modified rejection verified */
	struct {
		int64_t step, step_seq;
	} scored;
	struct {
		int64_t request, pos;
	} by_rejection;
};

/* ERR_INPUT also for a session that another server computed: it has nothing to compute again. */
int history_open(struct history **h, const char *path, struct err *e);
/* The same for anyone's session; `also` is called with every event of it, after h has taken it in.
 */
typedef void history_also(void *arg, const struct history *h, const struct event *ev);
int history_read(
	struct history **h, const char *path, history_also *also, void *arg, struct err *e);
void history_close(struct history *h); /* NULL is fine */

/* NULL: there is none of that number. Valid until the next request is read. */
struct history_request *history_request(const struct history *h, int64_t number);
/* Tokens as they stood at the end of a take, into ids [r->longest]. Returns how many. */
int32_t history_ids(const struct history_request *r, int32_t take, int32_t *ids);
/* The same as they stood before event `seq`. */
int32_t history_ids_before(const struct history_request *r, int64_t seq, int32_t *ids);

/* The candidates of a token's row; returns how many, at most cap. */
int history_candidates(
	struct history *h, const struct history_row *row, struct ev_candidate *out, int cap);
/* A setting as it stood before event `seq`, or NULL. */
const struct history_setting *history_setting(
	const struct history *h, const char *name, int64_t seq);
/* The lossy settings as they stood when request r arrived; NULL: when the last one did. */
struct lossy_settings history_lossy(const struct history *h, const struct history_request *r);
