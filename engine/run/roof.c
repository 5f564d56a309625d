/* The roof that steps of few rows are compared with: the bandwidth of plain reads.
 *
 * One measurement shows only the bandwidth that was free at that moment, so the best of all counts,
 * and the spread is reported. It is measured at the start, on request, and again, once nothing
 * runs, after steps whose kernels read faster than the roof: then it was too low. Where weights
 * stay in a cache no measurement of memory helps, so this ends after a few. Thread: the
 * engine's. */
#include <stdio.h>
#include <string.h>

#include "engine/core/engine_impl.h"

enum { MOST_BY_ITSELF = 8 };
static const size_t bytes_read = (size_t)256 << 20;

void engine_roof_read(struct engine *e)
{
	struct engine_roof *r = &e->measure.roof;
	double least, best = k_measure_read(e->kernels, bytes_read, &least);

	if (best <= 0)
		return;
	r->best = best > r->best ? best : r->best;
	r->least = !r->n || least < r->least ? least : r->least;
	r->n++;
	r->step = e->n_steps;
	r->beaten = false;
	snprintf(r->words, sizeof r->words,
		"%.2f GB/s, best of %d reading%s from %.2f, the last after step %lld", r->best / 1e9, r->n,
		r->n == 1 ? "" : "s", r->least / 1e9, (long long)r->step);
	e->set.roof = r->words;
}

static void roof_emitted(struct engine *e, void *state, const struct ev_step *s)
{
	struct engine_roof *r = &e->measure.roof;

	(void)state;
	if (r->n && !s->prefill_rows && s->kernel_ns > 0 &&
		(double)s->bytes * 1e9 > r->best * (double)s->kernel_ns)
		r->beaten = true;
	if (!r->beaten || r->n > MOST_BY_ITSELF || !engine_idle(e))
		return;
	engine_roof_read(e);
	engine_emit_setting(e, "roof");
}

const struct step_hooks roof_hooks = { .name = "roof", .emitted = roof_emitted };

int engine_apply_roof(struct engine *e, struct engine_options *to, struct err *err)
{
	if (!to->roof || !*to->roof || to->roof == e->measure.roof.words)
		return 0;
	if (strcmp(to->roof, "measure") != 0)
		return err_set(err, ERR_USAGE,
			"roof %.40s: it is measured, not set: measure reads it again", to->roof);
	engine_roof_read(e);
	to->roof = e->measure.roof.words;
	return 0;
}
