/* See traffic.h. */
#include "tests/support/traffic.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/sched_toy.h"

enum { SLOTS = 4, PAGES = 26, VOCAB = 2000 };
enum { STEP_NS = 5000000, ROW_NS = 500000 };

struct traffic {
	struct toy toy;
	ev_sink *sink;
	void *arg;
	int64_t seq, t_ns;
	struct plan_item item[SLOTS]; /* of the newest plan */
	int64_t request[SLOTS];       /* theirs */
	int64_t made[TOY_MOST];       /* tokens */
	int32_t n_items, n_prompt[TOY_MOST];
};

static void send(struct traffic *w, struct event *ev)
{
	ev->seq = ++w->seq;
	ev->t_ns = w->t_ns;
	w->sink(w->arg, ev);
}

static void on_event(void *arg, const struct event *ev)
{
	struct event copy = *ev;

	send(arg, &copy);
}

static void on_plan(void *arg, const struct plan *p)
{
	struct traffic *w = arg;

	w->n_items = p->n_items;
	for (int32_t i = 0; i < p->n_items; i++) {
		struct event ev;

		w->item[i] = p->item[i];
		w->request[i] = p->item[i].r->id;
		ev_init(&ev, EV_batch);
		ev.u.batch = (struct ev_batch){ .step = w->toy.step,
			.request = w->request[i],
			.slot = p->item[i].r->slot,
			.work = p->item[i].work,
			.pos = p->item[i].pos,
			.rows = p->item[i].n_rows };
		send(w, &ev);
	}
	w->t_ns += STEP_NS + p->n_rows * ROW_NS;
}

static void begin(struct traffic *w, const char *policy, const char *const *settings)
{
	struct event ev;

	ev_init(&ev, EV_session);
	ev.u.session.vocab = VOCAB;
	ev.u.session.slots = SLOTS;
	ev.u.session.pages = PAGES;
	ev.u.session.page_size = 16;
	send(w, &ev);
	ev_init(&ev, EV_setting);
	ev.u.setting.name = ev_text("policy");
	ev.u.setting.value = ev_text(policy);
	send(w, &ev);
	for (; settings && *settings; settings += 2) {
		ev.u.setting.name = ev_text(settings[0]);
		ev.u.setting.value = ev_text(settings[1]);
		send(w, &ev);
	}
}

static void arrive(struct traffic *w, uint32_t *seed)
{
	static const char *const users[] = { "alice", "alice", "bob", NULL };
	const struct toy_submission ask = { .first = 40 * toy_random(seed, 30),
		.n = toy_random(seed, 4) > 3 ? 90 + toy_random(seed, 90) : toy_random(seed, 40),
		.drawn = toy_random(seed, 24),
		.user = users[toy_random(seed, 4) - 1],
		.priority = toy_random(seed, 3) - 2,
		.deadline = toy_random(seed, 2) > 1 ? 30 : 0 };
	const int64_t id = toy_submit(&w->toy, ask);
	struct event ev;
	char text[48];

	snprintf(text, sizeof text, "prompt of %d tokens", ask.n);
	w->n_prompt[id] = ask.n;
	ev_init(&ev, EV_request);
	ev.u.request.request = id;
	ev.u.request.kind = EV_REQUEST_KIND_served;
	ev.u.request.text = ev_text(text);
	ev.u.request.n_prompt = ask.n;
	ev.u.request.max_tokens = ask.drawn;
	ev.u.request.user = ev_text(ask.user);
	ev.u.request.priority = ask.priority;
	ev.u.request.deadline = ask.deadline;
	send(w, &ev);
}

static void tell_token(struct traffic *w, int64_t id)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.step = w->toy.step;
	ev.u.token.request = id;
	ev.u.token.pos = w->n_prompt[id] + w->made[id];
	ev.u.token.id = 7;
	ev.u.token.source = EV_SOURCE_plain;
	send(w, &ev);
	w->made[id]++;
}

static void tell_finish(struct traffic *w, int64_t id)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = id;
	ev.u.finish.step = w->toy.step;
	ev.u.finish.reason = EV_FINISH_length;
	ev.u.finish.generated = w->made[id];
	send(w, &ev);
}

static void tell_step(struct traffic *w, int64_t tokens)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = w->toy.step;
	ev.u.step.tokens = tokens;
	ev.u.step.running = w->toy.replica.sched.n_running;
	ev.u.step.waiting = sched_n_waiting(&w->toy.replica.sched);
	ev.u.step.hold = w->toy.replica.sched.hold;
	ev.u.step.hold_first = w->toy.replica.sched.hold_first;
	ev.u.step.rows = ev.u.step.prefill_rows = 0;
	for (int32_t i = 0; i < w->n_items; i++) {
		ev.u.step.rows += w->item[i].n_rows;
		ev.u.step.prefill_rows += w->item[i].work == EV_WORK_prefill ? w->item[i].n_rows : 0;
	}
	ev.u.step.ns = STEP_NS + ev.u.step.rows * ROW_NS;
	send(w, &ev);
}

static void tell_computed(struct traffic *w)
{
	int64_t tokens = 0;

	for (int32_t i = 0; i < w->n_items; i++) {
		const struct toy_request *r = &w->toy.request[w->request[i]];

		if (r->newest == w->toy.step) {
			tell_token(w, w->request[i]);
			tokens++;
		}
		if (r->done == w->toy.step)
			tell_finish(w, w->request[i]);
	}
	tell_step(w, tokens);
}

void traffic_play(
	const char *policy, int steps, const char *const *settings, ev_sink *sink, void *arg)
{
	static struct traffic w;
	uint32_t seed = 7;

	memset(&w, 0, sizeof w);
	w.sink = sink;
	w.arg = arg;
	toy_open(&w.toy, policy, SLOTS, PAGES);
	stream_add(&w.toy.replica.stream, on_event, &w);
	w.toy.planned = on_plan;
	w.toy.arg = &w;
	begin(&w, policy, settings);
	for (int i = 0; i < steps; i++) {
		for (int n = toy_random(&seed, 12) > 11 ? toy_random(&seed, 6) : 0; n > 0; n--)
			arrive(&w, &seed);
		toy_step(&w.toy);
		tell_computed(&w);
	}
	toy_close(&w.toy);
}
