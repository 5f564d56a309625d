/* For tests of views: a session written by hand, event by event, and what a view draws of it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tui/views/views.h"
#include "tests/support/canvas_text.h"

struct script {
	struct timeline t;
	struct view_state s;
	int64_t seq;
	const char *adapter; /* of the next requests; NULL: none */
};

static inline void tell(struct script *k, struct event *ev)
{
	ev->seq = ++k->seq;
	ev->t_ns = k->seq * 1000;
	timeline_fold(&k->t, ev);
	assert_int_equal(k->t.n_odd, 0);
}

static inline struct ev_span text(const char *s)
{
	return (struct ev_span){ s, strlen(s) };
}

/* Words of the vocabulary, by id. */
static const char *const words[] = { "<|im_start|>", "system", "\n", " be", " kind", " sky", " sea",
	" blue", " deep", " red", " is", "?" };
enum { SYS, SYSTEM, LINE, BE, KIND, SKY, SEA, BLUE, DEEP, RED, IS, ASK, N_WORDS };

static inline void script_begin(struct script *k, int pages, double bandwidth)
{
	struct event ev;

	memset(k, 0, sizeof *k);
	timeline_init(&k->t);
	k->s = (struct view_state){ .token = -1, .page = -1, .layer = -1, .head = -1 };
	ev_init(&ev, EV_session);
	ev.u.session.vocab = 100;
	ev.u.session.pages = pages;
	ev.u.session.page_size = 16;
	ev.u.session.n_layers = 2;
	ev.u.session.n_heads = 3;
	ev.u.session.ctx = 256;
	ev.u.session.read_bandwidth = bandwidth;
	tell(k, &ev);
	for (int i = 0; i < N_WORDS; i++) {
		ev_init(&ev, EV_vocab);
		ev.u.vocab.id = i;
		ev.u.vocab.bytes = text(words[i]);
		ev.u.vocab.special = i == SYS;
		tell(k, &ev);
	}
}

static inline void setting(struct script *k, const char *name, const char *value)
{
	struct event ev;

	ev_init(&ev, EV_setting);
	ev.u.setting.name = text(name);
	ev.u.setting.value = text(value);
	tell(k, &ev);
}

/* A prompt of n_same tokens of a system text, then `own` to the length n. */
static inline void request(
	struct script *k, int64_t id, const char *label, int n_same, int own, int n)
{
	unsigned char ids[4 * 256];
	struct event ev;

	assert_true(n <= 256);
	for (int i = 0; i < n; i++) {
		int w = i == 0 ? SYS : i == 1 ? SYSTEM : i == 2 ? LINE : i < n_same ? BE : own;

		memcpy(ids + 4 * i, (unsigned char[]){ (unsigned char)w, 0, 0, 0 }, 4);
	}
	ev_init(&ev, EV_request);
	ev.u.request.request = id;
	ev.u.request.kind = EV_REQUEST_KIND_chat;
	ev.u.request.text = text(label);
	ev.u.request.prompt = (struct ev_span){ ids, (size_t)(4 * n) };
	ev.u.request.n_prompt = n;
	if (k->adapter)
		ev.u.request.adapter = text(k->adapter);
	tell(k, &ev);
	ev_init(&ev, EV_admit);
	ev.u.admit.request = id;
	ev.u.admit.slot = id - 1;
	tell(k, &ev);
}

static inline void lookup(struct script *k, int64_t id, int asked, int hit,
	enum ev_code_prefix reason, int pos, int expected, int got)
{
	struct event ev;

	ev_init(&ev, EV_lookup);
	ev.u.lookup = (struct ev_lookup){ .request = id,
		.asked = asked,
		.hit = hit,
		.hit_pages = hit / 16,
		.reason = reason,
		.nearest = 1,
		.diverge_pos = pos,
		.expected = expected,
		.got = got };
	tell(k, &ev);
}

static inline void page(struct script *k, int page, enum ev_code_page_action action, int64_t id,
	int block, int refs, bool cached)
{
	struct event ev;

	ev_init(&ev, EV_page);
	ev.u.page = (struct ev_page){ .page = page,
		.action = action,
		.request = id,
		.block = block,
		.refs = refs,
		.cached = cached,
		.other = 7 };
	tell(k, &ev);
}

static inline void token(
	struct script *k, int64_t step, int64_t id, int pos, int word, enum ev_code_source source)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.step = step;
	ev.u.token.request = id;
	ev.u.token.pos = pos;
	ev.u.token.id = word;
	ev.u.token.source = source;
	tell(k, &ev);
}

static inline void draft(struct script *k, int64_t step, int64_t id, int pos, int nth, int word,
	enum ev_code_verdict verdict, int winner)
{
	struct event ev;

	ev_init(&ev, EV_draft);
	ev.u.draft = (struct ev_draft){ .step = step,
		.request = id,
		.pos = pos,
		.nth = nth,
		.id = word,
		.drafter = text("ngram"),
		.rule = EV_RULE_race,
		.verdict = verdict,
		.q = 1,
		.p = 0.25,
		.arrival = 1.5,
		.winner = winner,
		.winner_arrival = 0.5 };
	tell(k, &ev);
}

static inline void batch(
	struct script *k, int64_t step, int64_t id, enum ev_code_work work, int pos, int rows)
{
	struct event ev;

	ev_init(&ev, EV_batch);
	ev.u.batch = (struct ev_batch){
		.step = step, .request = id, .slot = id - 1, .work = work, .pos = pos, .rows = rows
	};
	tell(k, &ev);
}

static inline void stage(
	struct script *k, int64_t step, enum ev_code_stage code, int64_t us, int64_t bytes, int64_t ops)
{
	struct ev_stage_time s = { code, (uint64_t)us * 1000, (uint64_t)bytes, (uint64_t)ops };
	struct event ev;

	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ .step = step, .stages = { &s, sizeof s } };
	tell(k, &ev);
}

static inline void step(struct script *k, int64_t number, int64_t us, int prefill_rows, int tokens)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = number;
	ev.u.step.running = 1;
	ev.u.step.ns = us * 1000;
	ev.u.step.prefill_rows = prefill_rows;
	ev.u.step.tokens = tokens;
	ev.u.step.tail_waste_bytes = 64000;
	ev.u.step.reserve_waste_bytes = 5000000;
	tell(k, &ev);
}

/* What a view draws, in a static buffer. */
static inline const char *drawn_as(struct script *k, const struct view *v, int w, int h, bool ascii)
{
	static char out[20000];
	struct canvas c = { .ascii = ascii };
	struct err e;
	char *rows;
	struct pen p;

	assert_int_equal(canvas_resize(&c, w, h, &e), 0);
	p = pen_of(&c, (struct rect){ 0, 0, w, h });
	v->draw(&p, &k->t, &k->s);
	rows = canvas_to_text(&c);
	assert_non_null(rows);
	snprintf(out, sizeof out, "%s", rows);
	free(rows);
	canvas_free(&c);
	return out;
}

static inline const char *drawn(struct script *k, const struct view *v, int w, int h)
{
	return drawn_as(k, v, w, h, false);
}

static inline void has(const char *screen, const char *part)
{
	if (!strstr(screen, part))
		fail_msg("'%s' is not in:\n%s", part, screen);
}

static inline void has_not(const char *screen, const char *part)
{
	if (strstr(screen, part))
		fail_msg("'%s' is in:\n%s", part, screen);
}
