/* Sums of the prices of a text's tokens (event price). Thread: any; a value. */
#pragma once

#include <math.h>

#include "event/event.h"

struct prices {
	int32_t n, n_equal;          /* tokens; those whose most probable one is the exact row's */
	double kl, logp, exact_logp; /* sums, nats */
};

/* Any other event is nothing to it. */
static inline void prices_add(struct prices *s, const struct event *ev)
{
	const struct ev_price *p = &ev->u.price;

	if (ev->kind != EV_price)
		return;
	s->n++;
	s->n_equal += p->best == p->exact_best;
	s->kl += p->kl;
	s->logp += p->logp;
	s->exact_logp += p->exact_logp;
}

/* Means over the tokens, NaN without any: divergence, perplexity in the lossy rows, in the exact
 * ones. */
static inline double prices_kl(const struct prices *s)
{
	return s->kl / s->n;
}
static inline double prices_perplexity(const struct prices *s)
{
	return exp(-s->logp / s->n);
}
static inline double prices_exact_perplexity(const struct prices *s)
{
	return exp(-s->exact_logp / s->n);
}
