/* See sched_toy.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/invariants.h"
#include "tests/support/sched_toy.h"

static void on_event(void *arg, const struct event *ev)
{
	struct toy *w = arg;

	if (ev->kind == EV_admit && !ev->u.admit.readmitted) {
		assert_true(w->n_admitted < TOY_MOST);
		w->admitted[w->n_admitted++] = ev->u.admit.request;
		w->request[ev->u.admit.request].admitted = w->step;
	}
	w->preempted += ev->kind == EV_preempt;
}

static void note_token(void *arg, struct request *r)
{
	struct toy *w = arg;
	struct toy_request *t = &w->request[r->id];

	if (!t->first)
		t->first = w->step;
	else if (w->step - t->newest > t->gap)
		t->gap = w->step - t->newest;
	t->newest = w->step;
	w->most_overtaken = r->overtaken > w->most_overtaken ? r->overtaken : w->most_overtaken;
}

static void note_end(void *arg, struct request *r)
{
	struct toy *w = arg;

	assert_false(r->out_of_pages);
	w->request[r->id].done = w->step;
	w->ended++;
}

static void note_plan(void *arg)
{
	struct toy *w = arg;
	const struct plan *plan = &w->replica.plan;

	if (w->planned)
		w->planned(w->arg, plan);
	w->slot_steps += w->replica.sched.n_running;
	w->rows += plan->n_rows;
	for (int32_t i = 0; i < plan->n_items; i++)
		if (plan->item[i].work == EV_WORK_prefill)
			w->prompts[w->n_prompts++] = plan->item[i].r->id;
}

void toy_open(struct toy *w, const char *policy, int32_t slots, int32_t pages)
{
	const struct memory_specs specs = memory_paged_specs(1, 1, 1);
	struct engine_options o = ENGINE_DEFAULTS;
	struct err e = { 0 };

	memset(w, 0, sizeof *w);
	o.policy = policy;
	o.slots = slots;
	o.pages = pages;
	o.page_size = 16;
	o.ctx = TOY_CTX;
	o.budget = 64;
	o.prefill_chunk = 32;
	assert_int_equal(replica_open(&w->replica, &o, &specs, &e), 0);
	w->replica.sched.max_out = 64;
	w->replica.planned = note_plan;
	w->replica.drawn = note_token;
	w->replica.ended = note_end;
	w->replica.arg = w;
	stream_add(&w->replica.stream, on_event, w);
}

void toy_close(struct toy *w)
{
	replica_close(&w->replica);
}

int64_t toy_submit(struct toy *w, struct toy_submission ask)
{
	int32_t ids[TOY_CTX];
	const struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = ask.n,
		.max_tokens = ask.drawn,
		.user = ask.user,
		.priority = ask.priority,
		.deadline = ask.deadline };
	struct err e = { 0 };

	for (int32_t i = 0; i < TOY_CTX; i++)
		ids[i] = ask.first + i;
	assert_int_equal(replica_submit(&w->replica, &q, NULL, &e), 1);
	assert_true(++w->n < TOY_MOST);
	w->request[w->n].arrived = w->step;
	return w->n;
}

void toy_step(struct toy *w)
{
	const struct sched *s = &w->replica.sched;
	const struct plan *plan = &w->replica.plan;
	const bool idle = !s->n_running, nothing = replica_idle(&w->replica);
	const int64_t n_admitted = w->n_admitted;

	++w->step;
	w->n_prompts = 0;
	replica_step(&w->replica);
	w->replica.step = w->step; /* here a step without a request is one, too */
	w->joined |= !idle && w->n_admitted > n_admitted;
	assert_true(plan->n_rows <= s->budget);
	/* whoever runs or waits, somebody goes on */
	assert_true(plan->n_items > 0 || nothing);
	memory_check(&w->replica.memory);
	prefix_check(&w->replica.prefix);
	sched_check(s);
}

int32_t toy_random(uint32_t *seed, int32_t n)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return 1 + (int32_t)(*seed % (uint32_t)n);
}
