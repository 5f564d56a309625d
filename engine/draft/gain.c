/* See gain.h. */
#include "engine/draft/gain.h"

#include <math.h>

/* With a confidence that may be anything, the child of a node worth w is worth more than its row,
 * of price r, by (w - r)^2 / 2w in the mean: this is to be what a pass costs. */
static double gain_a_pass(double row, double pass)
{
	return row + pass + sqrt(pass * (pass + 2 * row));
}

void gain_begin(struct gain *w, const struct draft_job *job, int32_t n, int32_t nodes)
{
	const double speed = w->steps > 0 ? fmax(1, w->tokens / w->steps) : 1;
	double depth = 0, one, least = 1;

	if (!w->cost)
		return;
	for (int32_t i = 0; i < n; i++)
		depth += (double)job[i].n / n;
	one = draft_cost_ns(w->cost, n, depth) / speed;
	w->rows[0] = 0;
	for (int32_t k = 1; k <= nodes; k++) {
		w->rows[k] = draft_cost_ns(w->cost, n * (1.0 + k), depth) / one - speed;
		least = fmin(least, w->rows[k] / k);
	}
	w->pass_ns *= w->n_passes ? 1 : 0.97; /* not seen of late: a disturbed one must not stay */
	w->pass = w->pass_ns / one;
	w->least = (float)least;
	w->deeper = (float)gain_a_pass(least, w->pass);
	w->n_passes = 0;
}

void gain_pass(struct gain *w, int64_t start)
{
	const double ns = (double)(draft_cost_now(w->cost) - start);

	w->pass_ns += (ns - w->pass_ns) / (w->pass_ns > 0 ? 16 : 1);
	w->n_passes++;
}

int32_t gain_choose(struct gain *w, const float *of, int32_t n)
{
	const double speed = w->steps > 0 ? fmax(1, w->tokens / w->steps) : 1, kept = 63 / 64.0;
	double sum = 0, most = 0, brings = 0;
	int32_t number = 0;

	if (!w->cost)
		return n;
	for (int32_t i = 0; i < n; i++) {
		sum += (double)of[i];
		if (sum - w->rows[i + 1] > most) {
			most = sum - w->rows[i + 1];
			brings = sum;
			number = i + 1;
		}
	}
	w->tokens = kept * w->tokens + 1 + brings;
	w->steps = kept * w->steps + 1 + (w->rows[number] + w->n_passes * w->pass) / speed;
	return number;
}
