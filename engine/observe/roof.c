/* The roofs that steps are compared with: the bandwidth of plain reads, for those of few rows, and
 * multiply-adds a second.
 *
 * One measurement shows only the bandwidth that was free at that moment, so the best of all counts,
 * and the spread is reported. They are measured when nothing runs: first after the start, which
 * does not wait for it, then on request and after steps whose kernels read faster than the roof,
 * for then it was too low. Where weights stay in a cache no measurement of memory helps, so this
 * ends after a few. Thread: the engine's. */
#include "engine/observe/roof.h"

#include "base/text.h"
#include "engine/core/engine_impl.h"

enum { MOST_BY_ITSELF = 8, PASSES = 16 };
static const size_t bytes_read = (size_t)256 << 20;

static void read_roof(struct engine *e, struct engine_roof *r)
{
	r->due = false;
	r->read = k_measure_read(e->kernels, bytes_read, PASSES, &r->worst);
	if (r->read <= 0)
		return;
	r->ints = 2 * k_measure_int(e->kernels);
	r->floats = 2 * k_measure_float(e->kernels);
	r->best = fmax(r->best, r->read);
	r->least = r->n ? fmin(r->least, r->worst) : r->worst;
	r->n++;
	r->step = e->n_steps;
	snprintf(r->words, sizeof r->words,
		"%.2f GB/s, best of %d reading%s from %.2f, the last after step %lld", r->best / 1e9, r->n,
		plural(r->n), r->least / 1e9, (long long)r->step);
	e->set.roof = r->words;
}

/* Nothing if it was not measured. */
static void emit(struct engine *e, void *state)
{
	const struct engine_roof *r = state;

	if (r->n && e->begun)
		STREAM_EMIT(&e->stream, roof, .reads = r->read, .least = r->worst,
			.ints = r->ints > 0 ? r->ints : (double)NAN,
			.floats = r->floats > 0 ? r->floats : (double)NAN);
}

static void roof_emitted(struct engine *e, void *state, const struct ev_step *s)
{
	struct engine_roof *r = state;

	(void)e;
	if (r->n && !s->prefill_rows && s->kernel_ns > 0 &&
		(double)s->bytes * 1e9 > r->best * (double)s->kernel_ns)
		r->due = r->n <= MOST_BY_ITSELF;
}

static void roof_rest(struct engine *e, void *state)
{
	struct engine_roof *r = state;

	if (!r->due)
		return;
	read_roof(e, r);
	if (e->begun)
		engine_emit_setting(e, "roof");
	emit(e, r);
}

static int roof_open(struct engine *e, void **state, struct err *err)
{
	struct engine_roof *r = *state;

	(void)err;
	r->due = e->kernels && e->set.measure;
	return 0;
}

const struct step_hooks roof_hooks = { .name = "roof",
	.size = sizeof(struct engine_roof),
	.open = roof_open,
	.begun = emit,
	.emitted = roof_emitted,
	.rest = roof_rest };

int engine_apply_roof(struct engine *e, struct engine_options *to, struct err *err)
{
	struct engine_roof *r = engine_hook_state(e, &roof_hooks);

	if (!r || !to->roof || !*to->roof || to->roof == r->words)
		return 0;
	if (strcmp(to->roof, "measure") != 0)
		return err_set(err, ERR_USAGE,
			"roof %.40s: it is measured, not set: measure reads it again", to->roof);
	read_roof(e, r);
	emit(e, r);
	to->roof = r->words;
	return 0;
}
