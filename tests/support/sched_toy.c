/* See sched_toy.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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

void toy_open(struct toy *w, const char *policy, int32_t slots, int32_t pages)
{
	const struct memory_specs specs = memory_paged_specs(1, 1, 1);
	struct err e = { 0 };

	memset(w, 0, sizeof *w);
	assert_int_equal(memory_open(&w->memory, NULL, &specs, 16, pages, slots, 0, &e), 0);
	assert_int_equal(prefix_open(&w->prefix, &w->memory, TOY_CTX / 16 + 1, &e), 0);
	assert_int_equal(stream_open(&w->stream, 0, NULL, NULL, &e), 0);
	assert_int_equal(sched_open(&w->sched, &w->memory, &w->prefix, &w->stream, slots, &e), 0);
	w->sched.policy = sched_policy_find(policy, &e);
	assert_non_null(w->sched.policy);
	w->sched.budget = 64;
	w->sched.chunk = 32;
	w->sched.max_out = 64;
	w->sched.served_ratio = 0.3f;
	w->sched.waiting_tokens = 20;
	w->plan.item = calloc((size_t)slots, sizeof *w->plan.item);
	assert_non_null(w->plan.item);
	stream_add(&w->stream, on_event, w);
	stream_begin(&w->stream);
}

void toy_close(struct toy *w)
{
	sched_close(&w->sched);
	prefix_close(&w->prefix);
	memory_close(&w->memory);
	stream_close(&w->stream);
	free(w->plan.item);
}

int64_t toy_submit(struct toy *w, struct toy_ask ask)
{
	int32_t ids[TOY_CTX];
	const struct engine_request q = { .kind = EV_REQUEST_KIND_run,
		.ids = ids,
		.n_ids = ask.n,
		.max_tokens = ask.drawn,
		.user = ask.user,
		.priority = ask.priority,
		.deadline = ask.deadline };
	struct request *r;
	struct err e = { 0 };

	for (int32_t i = 0; i < ask.n; i++)
		ids[i] = ask.first + i;
	r = request_new(&q, TOY_CTX, &w->memory);
	assert_non_null(r);
	r->id = ++w->n;
	assert_true(w->n < TOY_MOST);
	w->request[r->id].arrived = w->step;
	assert_int_equal(sched_add(&w->sched, r, &e), 0);
	return r->id;
}

static void note_token(struct toy *w, int64_t id)
{
	struct toy_request *t = &w->request[id];

	if (!t->first)
		t->first = w->step;
	else if (w->step - t->newest > t->gap)
		t->gap = w->step - t->newest;
	t->newest = w->step;
}

static void compute(struct toy *w, const struct plan_item *item)
{
	struct request *r = item->r;

	r->computed += item->n_rows;
	if (item->n_out) {
		r->ids[r->n_ids] = r->ids[r->n_ids - 1] + 1;
		r->n_ids++;
		note_token(w, r->id);
	}
	sched_register(&w->sched, r);
	w->most_overtaken = r->overtaken > w->most_overtaken ? r->overtaken : w->most_overtaken;
	if (r->n_ids == r->limit) {
		w->request[r->id].done = w->step;
		w->ended++;
		sched_remove(&w->sched, r);
		request_free(r);
	}
}

void toy_step(struct toy *w)
{
	const bool idle = !w->sched.n_running;
	const int64_t n_admitted = w->n_admitted;

	w->sched.step = ++w->step;
	w->n_prompts = 0;
	sched_plan(&w->sched, &w->plan);
	w->joined |= !idle && w->n_admitted > n_admitted;
	assert_true(w->plan.n_rows <= w->sched.budget);
	/* whoever runs or waits, somebody goes on */
	assert_true(w->plan.n_items > 0 || !(w->sched.n_running + w->sched.n_queue));
	w->slot_steps += w->sched.n_running;
	w->rows += w->plan.n_rows;
	for (int32_t i = 0; i < w->plan.n_items; i++) {
		if (w->plan.item[i].work == EV_WORK_prefill)
			w->prompts[w->n_prompts++] = w->plan.item[i].r->id;
		assert_false(w->plan.item[i].r->starved);
		compute(w, &w->plan.item[i]);
	}
	memory_check(&w->memory);
	prefix_check(&w->prefix);
	sched_check(&w->sched);
}

int32_t toy_random(uint32_t *seed, int32_t n)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return 1 + (int32_t)(*seed % (uint32_t)n);
}
