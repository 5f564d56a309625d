/* The greatest logits of a row, for requests that ask for more of them than every draw tells. See
 * sampler.h. */
#include <string.h>

#include "engine/sample/sampler_impl.h"

/* Keeps out [n] in order; entries come by ascending id, so an equal one comes after. */
static int32_t offer(struct k_draw_entry *out, int32_t n, int32_t most, struct k_draw_entry one)
{
	int32_t at = n < most ? n : most - 1;

	if (n == most && !(one.logit > out[at].logit))
		return n;
	for (; at > 0 && one.logit > out[at - 1].logit; at--)
		out[at] = out[at - 1];
	out[at] = one;
	return n < most ? n + 1 : n;
}

int32_t sampler_top(const float *logits, int32_t vocab, int32_t most, struct k_draw_entry *out)
{
	int32_t n = 0;

	for (int32_t id = 0; most && id < vocab; id++)
		if (n < most || logits[id] > out[n - 1].logit)
			n = offer(out, n, most, (struct k_draw_entry){ id, logits[id] });
	return n;
}

int32_t sampler_top_listed(
	const struct k_draw_entry *list, int32_t n_list, int32_t most, struct k_draw_entry *out)
{
	int32_t n = 0;

	for (int32_t i = 0; most && i < n_list; i++)
		n = offer(out, n, most, list[i]);
	return n;
}

/* Without bias, penalties and grammar the first by logit are the first by rank, but for the last
 * candidate, which may be the drawn token. */
bool sampler_has_top(const struct sampler *s, int32_t most)
{
	return most < SAMPLE_CANDIDATES && !s->n_touched && !s->allowed;
}

static bool is_among(const struct sample_result *r, uint32_t id)
{
	for (int32_t i = 0; i < r->n_candidates; i++)
		if (r->candidate[i].id == id)
			return true;
	return false;
}

void sampler_add_top(
	struct sampler *s, const struct k_draw_entry *top, int32_t n, struct sample_result *out)
{
	for (int32_t i = 0; i < n; i++) {
		if (is_among(out, (uint32_t)top[i].id))
			continue;
		if (s->reply)
			sampler_put(s, top[i].id, top[i].logit);
		out->candidate[out->n_candidates++] = sampler_candidate(s, top[i].id);
	}
}

void sampler_sort_by_logit(struct sample_result *r)
{
	struct ev_candidate *c = r->candidate;

	for (int32_t i = 1; i < r->n_candidates; i++)
		for (int32_t j = i; j > 0 && c[j].logit > c[j - 1].logit; j--) {
			const struct ev_candidate swap = c[j];

			c[j] = c[j - 1];
			c[j - 1] = swap;
		}
	for (int32_t j = r->n_candidates - 1; j >= SAMPLE_CANDIDATES; j--)
		if (c[j].id == (uint32_t)r->id) {
			const struct ev_candidate drawn = c[j];

			memmove(c + SAMPLE_CANDIDATES, c + SAMPLE_CANDIDATES - 1,
				(size_t)(j - SAMPLE_CANDIDATES + 1) * sizeof *c);
			c[SAMPLE_CANDIDATES - 1] = drawn;
			return;
		}
}
