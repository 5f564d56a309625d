/* Part of the timeline: latencies. Of one request they are exact, from the tokens that it has or
 * from its event `finish`; over the session they are counted in histograms, whose memory does not
 * grow. */
#include "base/median.h"
#include "fold/timeline_fold.h"

/* Nobody waits for given tokens. */
bool tl_waits_count(const struct tl_request *r)
{
	return r->kind != EV_REQUEST_KIND_score && r->kind != EV_REQUEST_KIND_verify;
}

static void note(struct timeline *t, const struct tl_request *r, enum tl_latency which, int64_t ns,
	int64_t steps)
{
	if (!tl_waits_count(r))
		return;
	histogram_add(&t->latency[which], ns);
	histogram_add(&t->latency_steps[which], steps);
}

void tl_note_admitted(struct timeline *t, const struct tl_request *r)
{
	note(t, r, TL_QUEUE, r->admitted_ns - r->arrival_ns, r->admitted_step - r->arrived_step);
	if (tl_waits_count(r))
		tl_note_wait(t, r);
}

bool timeline_carried(const struct tl_request *r)
{
	return r->n_tokens &&
		   (r->token[0].source == EV_SOURCE_recorded || r->token[0].source == EV_SOURCE_carried);
}

static bool was_drawn(const struct tl_token *k)
{
	return (k->source != EV_SOURCE_forced && k->source <= EV_SOURCE_chosen) ||
		   k->source == EV_SOURCE_remote;
}

/* Between token i and the one before, i > 0. Those of one step come together. NaN: it was not
 * drawn. */
static double itl_of(const struct tl_token *k)
{
	if (!was_drawn(k))
		return (double)NAN;
	return k[-1].step == k->step && k[-1].source != EV_SOURCE_forced ? 0 : fmax(0, (double)k->ns);
}

static double steps_of(const struct tl_token *k)
{
	return was_drawn(k) ? fmax(0, (double)(k->step - k[-1].step)) : (double)NAN;
}

/* The time since the token before may be absent from a recording that somebody else wrote. */
void tl_note_token(struct timeline *t, struct tl_request *r, struct tl_token *k, int64_t t_ns)
{
	if (k->ns == EV_NULL_I)
		k->ns = t_ns - (r->newest_ns == EV_NULL_I ? r->arrival_ns : r->newest_ns);
	r->newest_ns = t_ns;
	if (r->first_token_ns == EV_NULL_I) {
		r->first_token_ns = t_ns;
		r->first_step = k->step;
		if (!timeline_carried(r))
			note(t, r, TL_TTFT, t_ns - r->arrival_ns, k->step - r->arrived_step);
	} else if (r->n_tokens > 1 && was_drawn(k)) {
		note(t, r, TL_ITL, (int64_t)itl_of(k), (int64_t)steps_of(k));
	}
}

static double steps_from_arrival(const struct tl_request *r, int64_t step)
{
	return step == EV_NULL_I ? (double)NAN : fmax(0, (double)(step - r->arrived_step));
}

/* Who was refused, stopped or given up did not take its own time. */
void tl_note_finished(struct timeline *t, const struct tl_request *r)
{
	if ((r->admitted_ns == EV_NULL_I && !t->attached.on) || timeline_carried(r) ||
		!(ev_finish_is_answer(r->finish.reason) || r->finish.reason == EV_FINISH_ended))
		return;
	note(t, r, TL_E2E, r->finished_ns - r->arrival_ns,
		(int64_t)steps_from_arrival(
			r, r->finish.step == EV_NULL_I ? t->last_step : r->finish.step));
	if (tl_waits_count(r) && r->first_token_ns != EV_NULL_I)
		tl_note_served(t, r);
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

static void take_itl(
	const struct tl_request *r, double (*of)(const struct tl_token *k), struct tl_latencies *l)
{
	double *each;
	int n = 0;

	if (r->n_tokens < 2)
		return;
	each = malloc((size_t)r->n_tokens * sizeof *each);
	for (int32_t i = 1; each && i < r->n_tokens; i++)
		if (was_drawn(&r->token[i]))
			each[n++] = of(&r->token[i]);
	if (n) {
		l->itl_p50 = quantile_of(sorted_of(each, n), n, 0.5);
		l->itl_p99 = quantile_of(each, n, 0.99);
	}
	free(each);
}

static struct tl_latencies latencies(double queue, double ttft, double e2e)
{
	return (struct tl_latencies){ queue, ttft, (double)NAN, (double)NAN, (double)NAN, e2e };
}

static void take_tpot(const struct tl_request *r, struct tl_latencies *l)
{
	const int64_t n = r->finished && r->finish.generated > 0 ? r->finish.generated : r->n_tokens;

	if (n > 1 && !isnan(l->e2e) && !isnan(l->ttft))
		l->tpot = (l->e2e - l->ttft) / (double)(n - 1);
}

static double from_arrival(const struct tl_request *r, int64_t t_ns)
{
	return t_ns == EV_NULL_I ? (double)NAN : (double)t_ns - (double)r->arrival_ns;
}

struct tl_latencies timeline_waits(const struct timeline *t, const struct tl_request *r)
{
	const int64_t queued = r->admitted_ns != EV_NULL_I ? r->admitted_ns
						   : r->finished               ? r->finished_ns
													   : t->last_t_ns;

	struct tl_latencies l =
		latencies(t->attached.on ? (double)NAN : fmax(0, from_arrival(r, queued)),
			from_arrival(r, r->first_token_ns), from_arrival(r, r->finished_ns));

	if (timeline_carried(r))
		l.queue = l.ttft = l.e2e = (double)NAN;
	take_tpot(r, &l);
	return l;
}

struct tl_latencies timeline_latencies(const struct timeline *t, const struct tl_request *r)
{
	struct tl_latencies l = timeline_waits(t, r);

	if (!timeline_carried(r) && !take_recorded(r, &l))
		take_itl(r, itl_of, &l);
	return l;
}

struct tl_latencies timeline_latency_steps(const struct timeline *t, const struct tl_request *r)
{
	const int64_t end = r->finished ? r->finish.step : t->last_step;
	struct tl_latencies l =
		latencies(steps_from_arrival(r, r->admitted_step == EV_NULL_I ? end : r->admitted_step),
			steps_from_arrival(r, r->first_step),
			steps_from_arrival(r, r->finished ? r->finish.step : EV_NULL_I));

	take_itl(r, steps_of, &l);
	take_tpot(r, &l);
	return l;
}
