/* From a row of logits to a token: docs/arithmetic.md rule 15.
 *
 * Logit bias and then penalties on the logits, then a factor (float)(1/T), then top-k, top-p,
 * min-p, then the keyed race. The result has what each stage did. The result is a function of
 * (logits, params, history, key) bit for bit. Thread: a struct sampler belongs to one thread.
 * sampler_pick allocates nothing. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "engine/settings/settings.h" /* struct sample_params */
#include "kernels/kernels.h"

/* Purpose word of the draw's counter: draws for different purposes are independent. */
enum sample_purpose {
	PURPOSE_TARGET = 0,
	PURPOSE_ACCEPT = 1,
	PURPOSE_RESIDUAL = 2,
	PURPOSE_DRAFT = 3
};

struct sample_key {
	int64_t pos;                 /* position of the token drawn */
	int64_t sample;              /* given by the caller, never the order of arrival */
	enum sample_purpose purpose; /* of sampler_pick: drafters may draw for a purpose of their own */
};

/* Candidates of every draw; how many of greatest logit a request may ask for (OpenAI's limit). */
enum { SAMPLE_CANDIDATES = 8, SAMPLE_TOP = 20, SAMPLE_MOST = SAMPLE_CANDIDATES + SAMPLE_TOP };

struct sample_result {
	int32_t id;
	float p;        /* softmax of the raw logits at id */
	float p_draw;   /* its probability among the survivors, after bias, penalties, temperature, cuts
					 */
	float arrival;  /* of the winner in the race; NaN when greedy */
	double entropy; /* bits, raw */
	int32_t survivors;
	int32_t rank; /* from 1: in rule 15's order of values after bias and penalties */
	int32_t n_candidates, n_stages;
	/* the best SAMPLE_CANDIDATES by rank, or the last of them the drawn one; then those of
	 * sampler_add_top() */
	struct ev_candidate candidate[SAMPLE_MOST];
	struct ev_stage stage[EV_MOST_STAGES];
};

struct sampler; /* scratch for one vocabulary */
int sampler_open(struct sampler **s, int32_t vocab, struct err *e);
void sampler_close(struct sampler *s);

/* Of the next pick alone: the ids that may be drawn, bit by bit, n of them, at least one; the
 * others count as if they had no logit, before all else but the bias. Valid until the last
 * sampler_reject on the row. Without it all may be. */
void sampler_allow(struct sampler *s, const uint64_t *allowed, int32_t n);

/* Ids of params.logit_bias are below vocab. logits [vocab] are not changed, and must stay valid
 * until the last sampler_reject on the row. stats are those of the row (kernels.h). history: the
 * ids at positions 0 … key.pos - 1, of which the last penalty_window are used. */
void sampler_pick(struct sampler *s, const float *logits, const struct k_logit_stats *stats,
	const struct sample_params *params, const int32_t *history, int64_t n_history,
	struct sample_key key, struct sample_result *out);

/* The same where the row is on a device. sampler_request() fills in what the device is to report of
 * it (kernels.h, struct k_draw_request; the caller may set id); false if the row itself is needed
 * in any case. drafted: sampler_draft() will be called; sampler_reject() needs the row.
 * sampler_can_do(): whether the report is enough. Then sampler_pick_listed() gives what
 * sampler_pick() would, bit for bit; reply and list must stay valid as logits must. */
bool sampler_request(const struct sampler *s, const struct sample_params *params,
	struct sample_key key, bool drafted, struct k_draw_request *ask);
bool sampler_can_do(const struct sampler *s, const struct sample_params *params,
	const struct k_logit_stats *stats, const struct k_draw_reply *reply,
	const struct k_draw_entry *list);
void sampler_pick_listed(struct sampler *s, const struct k_logit_stats *stats,
	const struct k_draw_reply *reply, const struct k_draw_entry *list,
	const struct sample_params *params, struct sample_key key, struct sample_result *out);

/* The `most` entries of greatest logit, in rule 15's order: of a row [vocab] of logits, or of the n
 * listed ones (by id), which must include them. Returns how many. */
int32_t sampler_top(const float *logits, int32_t vocab, int32_t most, struct k_draw_entry *out);
int32_t sampler_top_listed(
	const struct k_draw_entry *list, int32_t n, int32_t most, struct k_draw_entry *out);
/* After a pick. Whether the candidates have the `most` of greatest logit as they are; appends those
 * of top [n] that they lack, with arrival NaN. */
bool sampler_has_top(const struct sampler *s, int32_t most);
void sampler_add_top(
	struct sampler *s, const struct k_draw_entry *top, int32_t n, struct sample_result *out);

/* The candidates by logit, forbidden ones among the others; the drawn one at the latest in place
 * SAMPLE_CANDIDATES, the last that every reader shows. */
void sampler_sort_by_logit(struct sample_result *r);

/* About a drafted token, after sampler_pick on the same row: its probability and arrival in that
 * draw (p = 0 and arrival = +inf if it was cut; arrival = NaN for the best token of a greedy
 * row). */
void sampler_draft(const struct sampler *s, int32_t id, float *p, float *arrival);

/* Modified rejection (Leviathan et al. 2023, algorithm 1; Chen et al. 2023), for several candidates
 * of one position (Miao et al. 2024, SpecInfer, algorithm 2; Yang et al. 2024, "Multi-Candidate
 * Speculative Decoding"), after sampler_pick on the same row, whose token is then not used.
 *
 * begin; next for one candidate after the other until one is accepted; end. A candidate is accepted
 * with probability min(1, r/q), by a draw of its own, where r is the residual of the target: at
 * first the target itself, and after each rejected candidate the normalised positive part of r - q.
 * q puts `q` on the candidate alone (a guess that was chosen, not drawn, has q = 1) or is the dense
 * row q_dense [vocab] that it was drawn from. Candidates are drawn without replacement (Chen et al.
 * 2024, Sequoia): a dense row excludes those rejected before. */
void sampler_reject_begin(struct sampler *s, struct sample_key key);
/* True if accepted; fills u and threshold = r/q. */
bool sampler_reject_next(
	struct sampler *s, int32_t draft, float q, const float *q_dense, float *u, float *threshold);
/* accepted: its id, or -1: the token is drawn from the residual. out->id is the token to use,
 * out->arrival its arrival in the race of the residual, NaN if accepted. */
void sampler_reject_end(struct sampler *s, int32_t accepted, struct sample_result *out);

/* The u that sampler_reject_next draws for a candidate. */
float sampler_accept_u(const struct sampler *s, int32_t draft, struct sample_key key);

/* What moves logits of their own: a draw without it needs no row (sampler_listed.c). */
static inline bool sampler_has_penalties(const struct sample_params *p)
{
	return p->penalty_window > 0 &&
		   (p->repeat_penalty != 1 || p->frequency_penalty != 0 || p->presence_penalty != 0);
}
