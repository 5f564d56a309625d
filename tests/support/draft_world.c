/* See draft_world.h. */
#include "tests/support/draft_world.h"
#include "tests/support/invariants.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/cuda/shim/shim.h"

uint32_t world_chance(uint32_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 17;
	*s ^= *s << 5;
	return *s;
}

static void on_event(void *arg, const struct event *ev)
{
	struct world *w = arg;

	if (ev->kind == EV_token) {
		int64_t r = ev->u.token.request % (REQUESTS + 1);

		assert_true(ev->u.token.pos < POSITIONS);
		w->id[r][ev->u.token.pos] = (int32_t)ev->u.token.id;
		w->hash[r][ev->u.token.pos] = ev->u.token.hash;
		w->n[r] = (int32_t)ev->u.token.pos + 1;
	} else if (ev->kind == EV_draft) {
		w->n_accepted += ev->u.draft.verdict == EV_VERDICT_accepted;
		w->n_rejected += ev->u.draft.verdict == EV_VERDICT_rejected;
		w->n_unread += ev->u.draft.verdict == EV_VERDICT_discarded;
		w->n_other +=
			ev->u.draft.other == EV_VERDICT_accepted || ev->u.draft.other == EV_VERDICT_rejected;
		w->n_branches += ev->u.draft.parent != ev->u.draft.nth - 1;
	} else if (ev->kind == EV_finish) {
		w->n_finished++;
	} else if (ev->kind == EV_preempt) {
		w->n_preempted++;
	}
}

void world_open(struct world *w, const char *model, const struct place *p, const char *spec)
{
	struct engine_options o = ENGINE_DEFAULTS;
	struct err err = { 0 };

	memset(w, 0, sizeof *w);
	o.model = model;
	o.backend = p->backend;
	o.cuda_mode = p->mode;
	o.threads = p->threads;
	o.ctx = 256;
	o.slots = 4;
	o.page_size = p->page_size;
	o.pages = p->pages;
	o.prefill_chunk = 32;
	o.spec = spec;
	if (engine_open(&w->e, &o, &err))
		fail_msg("%s: %s", spec, err.text);
	engine_add_sink(w->e, on_event, w);
	engine_begin(w->e, NULL);
}

void world_submit(struct world *w, float temperature)
{
	for (int which = 1; which <= REQUESTS; which++) {
		struct sample_params p = SAMPLE_DEFAULTS;
		uint32_t s = 5000u + (uint32_t)(which % 3);
		int32_t ids[PROMPT + REQUESTS];
		struct engine_request q = { .kind = EV_REQUEST_KIND_run,
			.ids = ids,
			.n_ids = PROMPT + which,
			.max_tokens = TOKENS - which,
			.sample = which,
			.ignore_end = true };
		struct err err = { 0 };

		for (int i = 0; i < q.n_ids; i++)
			ids[i] = (int32_t)(world_chance(&s) % (uint32_t)engine_info(w->e)->vocab);
		p.temperature = which % 2 ? 0 : temperature;
		p.repeat_penalty = which % 4 ? 1 : 1.1f;
		q.params = p;
		if (engine_submit(w->e, &q, &err) < 0)
			fail_msg("%s", err.text);
	}
}

void world_run(struct world *w, void (*between)(struct world *w))
{
	struct err err = { 0 };
	int steps = 0;

	while (engine_step(w->e, &err) > 0) {
		engine_check(w->e);
		if (between)
			between(w);
		assert_true(++steps < 5000);
	}
	assert_int_equal(err.code, 0);
	assert_int_equal(w->n_finished, REQUESTS);
	engine_close(w->e);
	w->e = NULL;
}

void world_compare(const struct world *plain, const struct world *w, bool greedy)
{
	for (int i = 1; i <= REQUESTS; i += 1 + greedy) {
		assert_int_equal(w->n[i], plain->n[i]);
		assert_memory_equal(w->id[i], plain->id[i], sizeof w->id[i]);
		assert_memory_equal(w->hash[i], plain->hash[i], sizeof w->hash[i]);
	}
}

bool world_has_device(void)
{
	const char *why;

	if (!shim_use(&why)) {
		print_message("no device: %s\n", why);
		return false;
	}
	return true;
}
