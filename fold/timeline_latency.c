/* Part of the timeline: latencies. Of one request they are exact, from the tokens that it has or
 * from its event `finish`; over the session they are counted in histograms, whose memory does not
 * grow. */
#include <math.h>
#include <stdlib.h>

#include "base/median.h"
#include "fold/timeline_fold.h"

/* Given tokens (score, verify) come as they are computed: nobody waits for them. */
static bool counts(const struct tl_request *r)
{
	return r->kind != EV_REQUEST_KIND_score && r->kind != EV_REQUEST_KIND_verify;
}

static void note(struct timeline *t, const struct tl_request *r, enum tl_latency which, int64_t ns)
{
	if (counts(r))
		histogram_add(&t->latency[which], ns);
}

void tl_note_admitted(struct timeline *t, const struct tl_request *r)
{
	note(t, r, TL_QUEUE, r->admitted_ns - r->arrival_ns);
}

/* Between token i and the one before, i > 0. Those of one step come together. NaN: it was not
 * drawn. */
static double itl_of(const struct tl_token *k)
{
	if (k->source == EV_SOURCE_forced || k->source > EV_SOURCE_chosen)
		return (double)NAN;
	return k[-1].step == k->step && k[-1].source != EV_SOURCE_forced ? 0 : fmax(0, (double)k->ns);
}

/* Formats before 9 have no column for the time since the token before. */
void tl_note_token(struct timeline *t, struct tl_request *r, struct tl_token *k, int64_t t_ns)
{
	if (k->ns == EV_NULL_I)
		k->ns = t_ns - (r->newest_ns == EV_NULL_I ? r->arrival_ns : r->newest_ns);
	r->newest_ns = t_ns;
	if (r->first_token_ns == EV_NULL_I) {
		r->first_token_ns = t_ns;
		note(t, r, TL_TTFT, t_ns - r->arrival_ns);
	} else if (r->n_tokens > 1 && !isnan(itl_of(k))) {
		note(t, r, TL_ITL, (int64_t)itl_of(k));
	}
}

/* Who was refused, stopped or given up did not take its own time. */
static bool ended_itself(enum ev_code_finish reason)
{
	return reason == EV_FINISH_end || reason == EV_FINISH_length || reason == EV_FINISH_stop ||
		   reason == EV_FINISH_context;
}

void tl_note_finished(struct timeline *t, const struct tl_request *r)
{
	if (r->admitted_ns != EV_NULL_I && ended_itself((enum ev_code_finish)r->finish.reason))
		note(t, r, TL_E2E, r->finished_ns - r->arrival_ns);
}

/* ---- one request ---- */

/* Only the newest format's rows have them. */
static bool take_recorded(const struct tl_request *r, struct tl_latencies *l)
{
	if (!r->finished || r->finish.itl_p50_ns < 0 || r->finish.itl_p99_ns < 0)
		return false;
	l->itl_p50 = (double)r->finish.itl_p50_ns;
	l->itl_p99 = (double)r->finish.itl_p99_ns;
	return true;
}

static void take_itl(const struct tl_request *r, struct tl_latencies *l)
{
	double *ns;
	int n = 0;

	if (r->n_tokens < 2 || take_recorded(r, l))
		return;
	ns = malloc((size_t)r->n_tokens * sizeof *ns);
	for (int32_t i = 1; ns && i < r->n_tokens; i++)
		if (!isnan(itl_of(&r->token[i])))
			ns[n++] = itl_of(&r->token[i]);
	if (n) {
		l->itl_p50 = quantile_of(sorted_of(ns, n), n, 0.5);
		l->itl_p99 = quantile_of(ns, n, 0.99);
	}
	free(ns);
}

static double from_arrival(const struct tl_request *r, int64_t t_ns)
{
	return t_ns == EV_NULL_I ? (double)NAN : (double)t_ns - (double)r->arrival_ns;
}

struct tl_latencies timeline_latencies(const struct timeline *t, const struct tl_request *r)
{
	const int64_t queued = r->admitted_ns != EV_NULL_I ? r->admitted_ns
						   : r->finished               ? r->finished_ns
													   : t->last_t_ns;
	struct tl_latencies l = { .queue = fmax(0, from_arrival(r, queued)),
		.ttft = from_arrival(r, r->first_token_ns),
		.itl_p50 = (double)NAN,
		.itl_p99 = (double)NAN,
		.tpot = (double)NAN,
		.e2e = from_arrival(r, r->finished_ns) };
	const int64_t n = r->finished && r->finish.generated > 0 ? r->finish.generated : r->n_tokens;

	take_itl(r, &l);
	if (n > 1 && !isnan(l.e2e) && !isnan(l.ttft))
		l.tpot = (l.e2e - l.ttft) / (double)(n - 1);
	return l;
}
