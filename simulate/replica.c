/* See replica.h. What happens to a request here is what engine/core does with it. */
#include "simulate/replica.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/core/engine.h"

/* Outputs that a step can have: one of each slot, and more than any plan needs. */
enum { MOST_OUT = 4096 };

static void take_settings(struct replica *p, const struct engine_options *o)
{
	struct engine_options fit = *o;
	struct sched *s = &p->sched;

	engine_fit_steps(&fit, false);
	sched_set(s, &fit);
	s->budget = fit.budget < o->slots ? o->slots : fit.budget;
	s->max_out = MOST_OUT;
	p->prefix.on = o->prefix_cache;
}

int replica_open(struct replica *p, const struct engine_options *o,
	const struct memory_specs *specs, struct err *e)
{
	struct memory_specs own = *specs;
	int32_t pages;

	own.state_room = memory_room_of(o->state_memory);
	pages = o->pages ? o->pages : memory_default_pages(&own, o->page_size, o->ctx, o->slots, 0);
	memset(p, 0, sizeof *p);
	p->ctx = o->ctx;
	p->plan.item = calloc((size_t)o->slots, sizeof *p->plan.item);
	if (memory_open(&p->memory, NULL, &own, o->page_size, pages, o->slots, 0, e) ||
		prefix_open(&p->prefix, &p->memory, o->ctx / o->page_size + 1, e) ||
		stream_open(&p->stream, 0, NULL, NULL, e) ||
		sched_open(&p->sched, &p->memory, &p->prefix, &p->stream, o->slots, e) ||
		!(p->sched.policy = sched_policy_find(o->policy, e)) || !p->plan.item) {
		replica_close(p);
		return err_no_memory(e, "a replica of %d slots", o->slots);
	}
	take_settings(p, o);
	stream_begin(&p->stream);
	return 0;
}

void replica_close(struct replica *p)
{
	sched_close(&p->sched);
	prefix_close(&p->prefix);
	memory_close(&p->memory);
	stream_close(&p->stream);
	free(p->plan.item);
	memset(p, 0, sizeof *p);
}

/* As never_fits() of engine/core/engine.c. */
static bool never_fits(const struct replica *p, int32_t n_ids)
{
	const struct memory *m = &p->memory;

	return n_ids + 1 > p->ctx ||
		   memory_need(m, m->primary, n_ids - 1, 1) > m->pages[m->primary].n_pages;
}

int replica_submit(struct replica *p, const struct engine_request *q, void *data, struct err *e)
{
	struct request *r;

	if (q->n_ids < 1 || never_fits(p, q->n_ids))
		return 0;
	r = request_new(q, p->ctx, &p->memory);
	if (!r)
		return err_no_memory(e, "a request of %d tokens", q->n_ids);
	memcpy(r->ids, q->ids, (size_t)r->limit * sizeof *r->ids);
	r->id = ++p->n_requests;
	r->owner_data = data;
	if (sched_add(&p->sched, r, e)) {
		request_free(r);
		return -1;
	}
	return 1;
}

bool replica_idle(const struct replica *p)
{
	return !p->sched.n_running && !p->sched.n_queue;
}

static void end_request(struct replica *p, struct request *r)
{
	sched_remove(&p->sched, r);
	p->ended(p->arg, r);
	request_free(r);
}

static void end_out_of_pages(struct replica *p)
{
	for_running(&p->sched, r)
		if (r->out_of_pages)
			end_request(p, r);
}

static void compute(struct replica *p, const struct plan_item *item)
{
	struct request *r = item->r;

	r->computed += item->n_rows;
	if (item->n_out) {
		r->n_ids++;
		p->drawn(p->arg, r);
	}
	sched_register(&p->sched, r);
	if (r->n_ids == r->limit)
		end_request(p, r);
}

struct step_shape replica_step(struct replica *p)
{
	struct step_shape shape = { 0 };

	p->sched.step = ++p->step;
	sched_plan(&p->sched, &p->plan);
	p->planned(p->arg);
	end_out_of_pages(p);
	for (int32_t i = 0; i < p->plan.n_items; i++) {
		const struct plan_item *item = &p->plan.item[i];

		step_shape_add(&shape, item->pos, item->n_rows, item->n_out);
		compute(p, item);
	}
	p->step -= !p->plan.n_items; /* as the engine counts them */
	return shape;
}
