/* A load on a fleet: see simulate.h. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "simulate/simulate.h"

enum { VOCAB = 32000, CTX = 8192 };

struct loading {
	const struct workload_options *o;
	struct workload *w;
};

static double load_when(void *arg)
{
	return workload_when(((struct loading *)arg)->w);
}

static int load_next(void *arg, struct arrival *a, int32_t **ids, struct err *e)
{
	const struct loading *l = arg;
	const int rc = workload_next(l->w, a, e);
	size_t n;

	if (rc < 1)
		return rc;
	n = (size_t)a->n_prompt + (size_t)a->n_output;
	*ids = malloc((n + 1) * sizeof **ids);
	for (size_t i = 0; *ids && i < n; i++)
		(*ids)[i] = workload_id(l->o, a, VOCAB, (int32_t)i);
	return *ids ? 1 : err_set(e, ERR_MEMORY, "no memory for a request of %zu tokens", n);
}

static void load_ended(void *arg, const struct arrival *a, double now_s)
{
	workload_ended(((struct loading *)arg)->w, a->user, now_s);
}

int simulate_ranks(struct simulation *s, struct err *e)
{
	const struct engine_options *o = &s->engine;
	struct cost_ranks *k = &s->fleet.ranks;

	*k = (struct cost_ranks){ .tensor = o->tensor_parallel,
		.pipeline = o->pipeline_parallel,
		.sequence = o->sequence_parallel,
		.micro_batches = o->micro_batches,
		.form = formula_form_of(o->exchange) };
	if (o->link && strcmp(o->link, "off") != 0 && link_parse(&k->link, o->link, e))
		return -1;
	return cost_ranks_check(s->fleet.cost, k, e);
}

int simulate_fleet(struct simulation *s, const struct fleet_source *source,
	const struct tally_options *o, struct err *e)
{
	const struct memory_specs specs = memory_paged_specs(1, 1, 1);
	const int64_t start = now_ns();
	int rc;

	if (!s->fleet.specs)
		s->fleet.specs = &specs;
	s->fleet.engine = &s->engine;
	tally_open(&s->point.tally, o);
	rc = fleet_run(&s->fleet, source, &s->point.tally, &s->counts, e) ||
		 tally_result(&s->point.tally, s->counts.now_s, &s->point.result, e);
	s->wall_s = (double)(now_ns() - start) * 1e-9;
	s->point.stopped = s->counts.stopped;
	if (s->fleet.specs == &specs)
		s->fleet.specs = NULL;
	return rc ? -1 : 0;
}

int simulate_run(struct simulation *s, struct err *e)
{
	struct workload_options w = s->load.workload;
	struct tally_options t = s->load.tally;
	struct loading l = { .o = &w };
	const struct fleet_source source = { &l, load_when, load_next, load_ended };
	int rc;

	if (simulate_ranks(s, e))
		return -1;
	if (!s->engine.ctx)
		s->engine.ctx = CTX;
	if (!w.limit || w.limit > s->engine.ctx)
		w.limit = s->engine.ctx > 8 ? s->engine.ctx : 8;
	t.slots = s->engine.slots;
	t.reserve = s->engine.ctx;
	t.page_size = s->engine.page_size;
	if (workload_open(&l.w, &w, e))
		return -1;
	rc = simulate_fleet(s, &source, &t, e);
	s->point.n_cut = workload_n_cut(l.w);
	workload_close(l.w);
	return rc;
}
