/* The timeline: what a stream of events leaves in it, that nonsense is refused, and that the same
 * events always give the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/demo_events.h"
#include "tests/support/demo_random.h"
#include "fold/timeline.h"
#include "tests/support/timeline_dump.h"

struct feed {
	struct timeline t;
	int64_t seq, t_ns;
};

static void feed(struct feed *f, struct event *ev)
{
	ev->seq = ++f->seq;
	ev->t_ns = f->t_ns;
	timeline_fold(&f->t, ev);
}

static void feed_session(struct feed *f)
{
	struct event ev;

	timeline_init(&f->t);
	f->seq = f->t_ns = 0;
	ev_init(&ev, EV_session);
	ev.u.session.vocab = 100;
	ev.u.session.pages = 8;
	ev.u.session.page_size = 16;
	ev.u.session.slots = 2;
	ev.u.session.model_name = (struct ev_span){ "tiny", 4 };
	feed(f, &ev);
}

static void feed_vocab(struct feed *f, int64_t id, const char *text)
{
	struct event ev;

	ev_init(&ev, EV_vocab);
	ev.u.vocab = (struct ev_vocab){ id, { text, strlen(text) }, 0 };
	feed(f, &ev);
}

static void feed_request(struct feed *f, int64_t request, enum ev_code_request_kind kind)
{
	static const unsigned char prompt[] = { 1, 0, 0, 0, 2, 1, 0, 0, 255, 255, 255, 255 };
	struct event ev;

	ev_init(&ev, EV_request);
	ev.u.request.request = request;
	ev.u.request.kind = kind;
	ev.u.request.prompt = (struct ev_span){ prompt, sizeof prompt };
	ev.u.request.text = (struct ev_span){ "hello", 5 };
	feed(f, &ev);
}

static void feed_admit(struct feed *f, int64_t request, int64_t slot)
{
	struct event ev;

	ev_init(&ev, EV_admit);
	ev.u.admit = (struct ev_admit){ request, slot, 0, 0, 0 };
	feed(f, &ev);
}

static void feed_page(struct feed *f, enum ev_code_page_action action, int64_t page,
	int64_t request, int64_t block, int64_t refs)
{
	struct event ev;

	ev_init(&ev, EV_page);
	ev.u.page = (struct ev_page){ page, action, request, block, refs, action == EV_PAGE_cache,
		EV_NULL_I, 0 };
	feed(f, &ev);
}

static void feed_batch(struct feed *f, int64_t step, int64_t request, int64_t pos, int64_t rows)
{
	struct event ev;

	ev_init(&ev, EV_batch);
	ev.u.batch = (struct ev_batch){ step, request, 0, EV_WORK_decode, pos, rows };
	feed(f, &ev);
}

static void feed_token(struct feed *f, int64_t step, int64_t request, int64_t pos, int64_t id)
{
	struct event ev;

	ev_init(&ev, EV_token);
	ev.u.token.step = step;
	ev.u.token.request = request;
	ev.u.token.pos = pos;
	ev.u.token.id = id;
	ev.u.token.p = 0.5;
	ev.u.token.source = EV_SOURCE_plain;
	feed(f, &ev);
}

static void feed_draft(struct feed *f, int64_t step, int64_t request, int64_t pos, int64_t nth,
	enum ev_code_verdict verdict)
{
	struct event ev;

	ev_init(&ev, EV_draft);
	ev.u.draft.step = step;
	ev.u.draft.request = request;
	ev.u.draft.pos = pos;
	ev.u.draft.nth = nth;
	ev.u.draft.id = 3;
	ev.u.draft.rule = EV_RULE_race;
	ev.u.draft.verdict = verdict;
	feed(f, &ev);
}

static void feed_step(struct feed *f, int64_t step, int64_t ns, int64_t tokens)
{
	struct event ev;

	ev_init(&ev, EV_step);
	ev.u.step.step = step;
	ev.u.step.ns = ns;
	ev.u.step.tokens = tokens;
	f->t_ns += ns;
	feed(f, &ev);
}

static void feed_finish(struct feed *f, int64_t request, enum ev_code_finish reason)
{
	struct event ev;

	ev_init(&ev, EV_finish);
	ev.u.finish.request = request;
	ev.u.finish.reason = reason;
	feed(f, &ev);
}

/* One request from arrival to end, with a draft that wins and one that loses. */
static void life_of_a_request(void **state)
{
	struct feed f;
	const struct tl_request *r;
	int32_t size;
	double rate;

	(void)state;
	feed_session(&f);
	feed_vocab(&f, 3, " sky");
	feed_request(&f, 1, EV_REQUEST_KIND_chat);
	r = timeline_request(&f.t, 1);
	assert_non_null(r);
	assert_int_equal(r->state, TL_WAITING);
	assert_int_equal(r->n_prompt, 3);
	assert_int_equal(r->prompt[1], 258);
	assert_int_equal(r->prompt[2], -1);
	feed_admit(&f, 1, 1);
	assert_int_equal(r->state, TL_RUNNING);
	assert_int_equal(r->slot, 1);
	feed_batch(&f, 1, 1, 0, 3);
	assert_int_equal(r->computed, 3);
	feed_token(&f, 1, 1, 3, 3);
	feed_step(&f, 1, 500000000, 1);
	feed_batch(&f, 2, 1, 3, 3);
	feed_draft(&f, 2, 1, 4, 1, EV_VERDICT_accepted); /* before its token */
	feed_token(&f, 2, 1, 4, 3);
	feed_token(&f, 2, 1, 5, 3);
	feed_draft(&f, 2, 1, 5, 2, EV_VERDICT_rejected); /* behind it */
	feed_draft(&f, 2, 1, 6, 3, EV_VERDICT_discarded);
	feed_step(&f, 2, 500000000, 2);
	assert_int_equal(r->n_tokens, 3);
	assert_int_equal(r->computed, 5);
	assert_int_equal(r->token[0].draft, -1);
	assert_int_equal(r->token[1].draft, 0);
	assert_int_equal(r->token[2].draft, 1);
	assert_int_equal(f.t.n_drafted, 3);
	assert_int_equal(f.t.n_accepted, 1);
	assert_int_equal(f.t.n_rejected, 1);
	assert_int_equal(timeline_speculation(&f.t, 1).accepted[0], 1);
	assert_int_equal(timeline_speculation(&f.t, 1).verified[1], 1);
	assert_int_equal(timeline_speculation(&f.t, 1).verified[2], 0);
	assert_int_equal(timeline_step(&f.t, 2)->n_batch, 1);
	assert_int_equal(timeline_step(&f.t, 2)->n_draft, 3);
	assert_null(timeline_step(&f.t, 3));
	assert_true(fabs(timeline_rate(&f.t, 1) - 3) < 1e-9);
	assert_true(fabs(timeline_rate(&f.t, 0) - 3) < 1e-9);
	assert_string_equal(timeline_token_bytes(&f.t, 3, &size), " sky");
	assert_int_equal(size, 4);
	assert_string_equal(timeline_token_bytes(&f.t, -7, &size), "");
	assert_int_equal(size, 0);
	feed_finish(&f, 1, EV_FINISH_end);
	assert_int_equal(r->state, TL_FINISHED);
	rate = timeline_rate(&f.t, 1);
	assert_true(fabs(rate * timeline_latencies(&f.t, r).tpot - 1e9) < 1);
	feed_step(&f, 3, 5000000000, 0); /* what comes later does not make it slower */
	assert_true(timeline_rate(&f.t, 1) == rate);
	assert_ptr_equal(timeline_chat(&f.t), r);
	assert_int_equal(f.t.n_odd, 0);
	assert_int_equal(f.t.n_lost, 0);
	timeline_free(&f.t);
}

/* However an answer came to its end it has a latency; what was refused or stopped has none. */
static void answers_have_a_latency(void **state)
{
	static struct feed f;
	int n = 0;

	(void)state;
	feed_session(&f);
	for (int reason = 0; reason < EV_N_finish; reason++) {
		feed_request(&f, reason + 1, EV_REQUEST_KIND_chat);
		feed_admit(&f, reason + 1, 0);
		f.t_ns += 1000000;
		feed_finish(&f, reason + 1, (enum ev_code_finish)reason);
		n += ev_finish_is_answer(reason) || reason == EV_FINISH_ended;
		assert_int_equal(histogram_n(&f.t.latency[TL_E2E]), n);
	}
	assert_int_equal(n, 6); /* end, whole, stop, length, context, ended */
	timeline_free(&f.t);
}

/* Allocated, shared, copied before a write, released, cached, evicted: tables and owners follow. */
static void pages_change_hands(void **state)
{
	struct feed f;
	const struct tl_request *a, *b;

	(void)state;
	feed_session(&f);
	feed_request(&f, 1, EV_REQUEST_KIND_chat);
	feed_request(&f, 2, EV_REQUEST_KIND_fork);
	a = timeline_request(&f.t, 1);
	b = timeline_request(&f.t, 2);
	feed_page(&f, EV_PAGE_alloc, 5, 1, 0, 1);
	feed_page(&f, EV_PAGE_alloc, 6, 1, 1, 1);
	feed_page(&f, EV_PAGE_share, 5, 2, 0, 2);
	feed_page(&f, EV_PAGE_share, 6, 2, 1, 2);
	assert_int_equal(f.t.page[5].owner, 1);
	assert_int_equal(f.t.page[5].refs, 2);
	feed_page(&f, EV_PAGE_copy, 7, 2, 1, 1);
	feed_page(&f, EV_PAGE_release, 6, 2, 1, 1);
	assert_int_equal(b->n_pages, 2);
	assert_int_equal(b->pages[1], 7);
	assert_int_equal(f.t.page[7].owner, 2);
	assert_int_equal(f.t.page[6].refs, 1);
	feed_page(&f, EV_PAGE_cache, 5, 1, 0, 2);
	assert_true(f.t.page[5].cached);
	feed_page(&f, EV_PAGE_release, 6, 1, 1, 0);
	feed_page(&f, EV_PAGE_free, 6, EV_NULL_I, -1, 0);
	assert_int_equal(a->n_pages, 1);
	assert_int_equal(f.t.page[6].owner, 0);
	feed_page(&f, EV_PAGE_evict, 5, EV_NULL_I, -1, 0);
	assert_false(f.t.page[5].cached);
	assert_int_equal(f.t.n_evicted, 1);
	assert_int_equal(f.t.page[5].n_history, 4);
	assert_int_equal(f.t.page[5].history[1].action, EV_PAGE_share);
	assert_int_equal(f.t.n_odd, 0);
	/* out of range, out of order, for nobody */
	feed_page(&f, EV_PAGE_alloc, 8, 1, 1, 1);
	feed_page(&f, EV_PAGE_alloc, -1, 1, 1, 1);
	feed_page(&f, EV_PAGE_alloc, 3, 1, 9, 1);
	feed_page(&f, EV_PAGE_alloc, 3, 77, 0, 1);
	feed_page(&f, (enum ev_code_page_action)55, 3, 1, 1, 1);
	assert_int_equal(f.t.n_odd, 5);
	assert_int_equal(f.t.page[3].n_history, 0);
	timeline_free(&f.t);
}

static void feed_setting(struct feed *f, const char *name, const char *value)
{
	struct event ev;

	ev_init(&ev, EV_setting);
	ev.u.setting.name = (struct ev_span){ name, strlen(name) };
	ev.u.setting.value = (struct ev_span){ value, strlen(value) };
	feed(f, &ev);
}

/* A new page size makes the pool anew; the same one again does not. */
static void settings_and_the_pool(void **state)
{
	struct feed f;

	(void)state;
	feed_session(&f);
	feed_request(&f, 1, EV_REQUEST_KIND_chat);
	feed_page(&f, EV_PAGE_alloc, 5, 1, 0, 1);
	feed_setting(&f, "temp", "0.7");
	feed_setting(&f, "page-size", "16");
	assert_int_equal(f.t.page[5].refs, 1);
	feed_setting(&f, "temp", "1.5");
	assert_string_equal(timeline_setting(&f.t, "temp"), "1.5");
	assert_null(timeline_setting(&f.t, "seed"));
	feed_setting(&f, "page-size", "32");
	assert_int_equal(f.t.session.page_size, 32);
	assert_int_equal(f.t.page[5].refs, 0);
	assert_int_equal(f.t.request[0].n_pages, 0);
	feed_setting(&f, "pages", "4");
	assert_int_equal(f.t.n_pages, 4);
	timeline_free(&f.t);
}

/* Squares of bytes; heat goes to the pages by the block table, as a mean over the layers. */
static void attention_heats_pages(void **state)
{
	static const unsigned char share[] = { 255, 0, 0, 255 }, zero[] = { 0xff, 0xff, 0, 0 },
							   read[] = { 51, 255, 255 };
	struct event ev;
	struct feed f;
	const struct tl_attention *a;

	(void)state;
	feed_session(&f);
	feed_request(&f, 1, EV_REQUEST_KIND_chat);
	feed_page(&f, EV_PAGE_alloc, 2, 1, 0, 1);
	feed_page(&f, EV_PAGE_alloc, 4, 1, 1, 1);
	ev_init(&ev, EV_attention);
	ev.u.attention = (struct ev_attention){ .step = 1,
		.request = 1,
		.pos = 20,
		.pages = 2,
		.share = { share, 4 },
		.threshold = 1e-4,
		.near_zero = { zero, 4 } };
	feed(&f, &ev);
	assert_true(f.t.page[2].skipped == 0);
	ev.u.attention.read = (struct ev_span){ read, 2 };
	feed(&f, &ev);
	assert_true(f.t.page[2].skipped == 0.8f && f.t.page[4].skipped == 0);
	a = &f.t.request[0].attention;
	assert_int_equal(a->n_layers, 2);
	assert_true(a->share[0] == 1 && a->share[1] == 0 && a->share[3] == 1);
	assert_true(a->near_zero[0] == 1 && a->near_zero[1] == 0);
	assert_true(f.t.page[2].heat == 0.5f && f.t.page[4].heat == 0.5f);
	feed_page(&f, EV_PAGE_release, 4, 1, 1, 0);
	assert_true(f.t.page[4].heat == 0);
	ev.u.attention.read.size = 3; /* not a page each */
	feed(&f, &ev);
	ev.u.attention.read.size = 0;
	ev.u.attention.pages = 3; /* does not divide the bytes */
	feed(&f, &ev);
	ev.u.attention.pages = 0;
	feed(&f, &ev);
	assert_int_equal(f.t.n_odd, 3);
	assert_int_equal(a->n_pages, 2);
	timeline_free(&f.t);
}

static void feed_time(struct feed *f, int64_t step, const struct ev_stage_time *told, size_t size)
{
	struct event ev;

	ev_init(&ev, EV_time);
	ev.u.time = (struct ev_time){ step, { told, size } };
	feed(f, &ev);
}

/* The stages of a step, and blobs of which nothing may be taken. */
static void stages_of_a_step(void **state)
{
	static const struct ev_stage_time told[] = { { EV_STAGE_head, 30, 20, 10 },
		{ EV_STAGE_qkv, UINT64_MAX, 1ull << 40, 5 } };
	static const struct ev_stage_time twice[] = { { EV_STAGE_qkv, 7, 7, 7 },
		{ EV_STAGE_qkv, 8, 8, 8 } };
	static const struct ev_stage_time unknown[] = { { EV_STAGE_qkv, 7, 7, 7 },
		{ EV_N_stage, 8, 8, 8 } };
	static const struct ev_stage_time far = { (1ull << 32) + EV_STAGE_qkv, 7, 7, 7 };
	const struct tl_step *s;
	struct feed f;

	(void)state;
	feed_session(&f);
	feed_time(&f, 1, NULL, 0);
	feed_time(&f, 1, told, 0);
	feed_time(&f, 1, told, sizeof told - 1);
	feed_time(&f, 1, told, sizeof *told / 2);
	feed_time(&f, 1, twice, sizeof twice);
	feed_time(&f, 1, unknown, sizeof unknown);
	feed_time(&f, 1, &far, sizeof far);
	feed_time(&f, 0, told, sizeof told);
	assert_int_equal(f.t.n_odd, 8);
	feed_step(&f, 1, 1, 0);
	s = timeline_step(&f.t, 1);
	assert_false(s->timed);
	assert_int_equal(s->time[EV_STAGE_qkv].ns, 0);
	feed_time(&f, 2, told, sizeof told);
	feed_step(&f, 2, 1, 0);
	s = timeline_step(&f.t, 2);
	assert_true(s->timed);
	assert_int_equal(s->time[EV_STAGE_head].ns, 30);
	assert_int_equal(s->time[EV_STAGE_head].bytes, 20);
	assert_int_equal(s->time[EV_STAGE_head].ops, 10);
	assert_int_equal(s->time[EV_STAGE_qkv].ns, 0); /* beyond int64_t */
	assert_int_equal(s->time[EV_STAGE_qkv].bytes, 1ll << 40);
	assert_int_equal(f.t.n_odd, 8);
	timeline_free(&f.t);
}

static void nonsense_is_counted_and_skipped(void **state)
{
	struct feed f;
	struct event ev;
	int64_t odd = 0;

	(void)state;
	feed_session(&f);
	feed_request(&f, 4, EV_REQUEST_KIND_chat);
	feed_request(&f, 4, EV_REQUEST_KIND_chat), odd++; /* again */
	feed_request(&f, 3, EV_REQUEST_KIND_chat), odd++; /* backwards */
	feed_request(&f, 5, EV_N_request_kind), odd++;
	feed_admit(&f, 99, 0), odd++;
	feed_token(&f, 1, 4, 0, 100), odd++; /* not in the vocabulary */
	feed_token(&f, 1, 4, -1, 5), odd++;
	feed_token(&f, 1, 4, 7, 5);
	feed_token(&f, 1, 4, 7, 5), odd++; /* the same place */
	feed_batch(&f, 3, 4, 0, 1);
	feed_batch(&f, 4, 4, 0, 1), odd++; /* another step, while 3 is open */
	feed_batch(&f, 3, 4, INT64_MAX, 1), odd++;
	feed_step(&f, 3, 1, 1);
	feed_step(&f, 3, 1, 1), odd++;
	feed_batch(&f, 2, 4, 0, 1), odd++;
	feed_finish(&f, 4, (enum ev_code_finish) - 3), odd++;
	feed_finish(&f, 4, EV_FINISH_end);
	feed_token(&f, 4, 4, 9, 5), odd++; /* after its end */
	ev_init(&ev, EV_session), feed(&f, &ev), odd++;
	/* seq does not grow */
	ev_init(&ev, EV_vocab), ev.u.vocab.id = 5, f.seq--, feed(&f, &ev), odd++;
	assert_int_equal(f.t.n_odd, odd);
	assert_int_equal(f.t.n_requests, 1);
	assert_int_equal(f.t.n_steps, 1);
	assert_int_equal(f.t.n_tokens, 1);
	f.seq += 10;
	ev_init(&ev, EV_closed), feed(&f, &ev);
	assert_int_equal(f.t.n_lost, 10);
	assert_true(f.t.closed);
	timeline_free(&f.t);
}

struct mirror { /* folds each event, and what comes out of its serial form */
	struct timeline live, replayed;
	unsigned char buf[1 << 16];
};

static void mirror_sink(void *arg, const struct event *ev)
{
	struct mirror *m = arg;
	size_t size = ev_pack(ev, m->buf, sizeof m->buf);
	struct event back;

	assert_true(size <= sizeof m->buf);
	assert_int_equal(ev_unpack(&back, m->buf, size), 0);
	timeline_fold(&m->live, ev);
	timeline_fold(&m->replayed, &back);
	memset(m->buf, 0xa5, size); /* nothing may point in here any more */
}

static void assert_same_dump(const struct timeline *a, const struct timeline *b)
{
	char *x = timeline_dump(a), *y = timeline_dump(b);

	assert_non_null(x);
	assert_non_null(y);
	assert_int_equal(strlen(x), strlen(y));
	assert_int_equal(memcmp(x, y, strlen(x)), 0);
	free(x);
	free(y);
}

static struct mirror mirror;

static void live_and_replay_are_equal(void **state)
{
	(void)state;
	for (int steps = 0; steps <= DEMO_STEPS; steps += steps < 140 ? 35 : 5) {
		memset(&mirror, 0, sizeof mirror);
		demo_play(mirror_sink, &mirror, steps);
		assert_int_equal(mirror.live.n_odd, 0);
		assert_int_equal(mirror.live.n_lost, 0);
		assert_int_equal(mirror.live.n_steps, steps);
		assert_same_dump(&mirror.live, &mirror.replayed);
		timeline_free(&mirror.live);
		timeline_free(&mirror.replayed);
	}
}

/* A dump that leaves something out could not tell two timelines apart. */
static void dump_sees_every_event(void **state)
{
	struct demo_random d = { .state = 7 };
	struct timeline t;
	struct event ev;
	char *before, *after;

	(void)state;
	timeline_init(&t);
	for (int i = 0; i < 400; i++) {
		int64_t odd = t.n_odd;

		demo_random_event(&d, &ev);
		before = timeline_dump(&t);
		timeline_fold(&t, &ev);
		after = timeline_dump(&t);
		/* sequence numbers are in the dump: so that something changed says little, but odd ones
		 * must */
		if (t.n_odd == odd)
			assert_string_not_equal(before, after);
		free(before);
		free(after);
	}
	timeline_free(&t);
}

/* What a whole session leaves agrees with itself. */
static void sums_agree(void **state)
{
	int64_t tokens = 0, step_tokens = 0, accepted = 0, drafted = 0, readers = 0, refs = 0;
	struct timeline *t = &mirror.live;

	(void)state;
	memset(&mirror, 0, sizeof mirror);
	demo_play(mirror_sink, &mirror, DEMO_CHAT_STEPS);
	for (int32_t i = 0; i < t->n_requests; i++) {
		tokens += t->request[i].n_tokens;
		drafted += t->request[i].n_drafted;
		accepted += t->request[i].n_accepted;
		readers += t->request[i].n_pages;
	}
	for (int32_t i = 0; i < t->n_steps; i++)
		step_tokens += t->step[i].s.tokens;
	for (int32_t i = 0; i < t->n_pages; i++)
		refs += t->page[i].refs;
	assert_int_equal(tokens, t->n_tokens);
	assert_int_equal(step_tokens, t->n_tokens);
	assert_int_equal(drafted, t->n_drafted);
	assert_int_equal(accepted, t->n_accepted);
	assert_int_equal(refs, readers);
	assert_true(t->n_hit_tokens > 0 && t->n_hit_tokens < t->n_prompt_tokens);
	timeline_free(&mirror.live);
	timeline_free(&mirror.replayed);
}

/* Those that are refused make no step, and are let go of all the same. */
static void requests_without_steps(void **state)
{
	struct feed f;
	struct event ev;

	(void)state;
	feed_session(&f);
	for (int64_t i = 1; i <= 1000; i++) {
		feed_request(&f, i, EV_REQUEST_KIND_served);
		ev_init(&ev, EV_finish);
		ev.u.finish = (struct ev_finish){ .request = i, .reason = EV_FINISH_refused };
		feed(&f, &ev);
		assert_in_range(f.t.n_requests, 1, TL_REQUESTS + TL_SLIDE);
	}
	assert_int_equal(f.t.request[f.t.n_requests - 1].id, 1000);
	timeline_free(&f.t);
}

/* Whatever comes, indexes stay inside and bounds hold. */
static void check_bounds(const struct timeline *t)
{
	for (int32_t i = 0; i < t->n_requests; i++) {
		const struct tl_request *r = &t->request[i];

		assert_true(r->id > 0 && (!i || r->id > t->request[i - 1].id));
		for (int32_t k = 0; k < r->n_tokens; k++) {
			assert_in_range(r->token[k].id, 0, (uintmax_t)t->n_vocab - 1);
			assert_true(r->token[k].draft >= -1 && r->token[k].draft < t->n_drafts);
			assert_true(isnan(r->token[k].p) || (r->token[k].p >= 0 && r->token[k].p <= 1));
			assert_true(r->token[k].n_candidates <= TL_CANDIDATES);
		}
		for (int32_t k = 0; k < r->n_pages; k++)
			assert_true(r->pages[k] >= -1 && r->pages[k] < t->n_pages);
	}
	for (int32_t i = 0; i < t->n_steps; i++) {
		assert_true(t->step[i].batch_at + t->step[i].n_batch <= t->n_batch);
		assert_true(t->step[i].draft_at + t->step[i].n_draft <= t->n_drafts);
		assert_true(t->step[i].s.ns >= 0 && t->step[i].s.ns <= TL_INT_MAX);
	}
}

static void random_streams(void **state)
{
	int64_t folded = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct demo_random d = { .state = seed };
		struct event ev;

		memset(&mirror, 0, sizeof mirror);
		for (int i = 0; i < 1500; i++) {
			demo_random_event(&d, &ev);
			mirror_sink(&mirror, &ev);
		}
		check_bounds(&mirror.live);
		timeline_rate(&mirror.live, 0);
		timeline_rate(&mirror.live, mirror.live.n_requests ? mirror.live.request[0].id : 1);
		timeline_sample(&mirror.live, TL_DECODE);
		assert_same_dump(&mirror.live, &mirror.replayed);
		folded += mirror.live.n_tokens;
		timeline_free(&mirror.live);
		timeline_free(&mirror.replayed);
	}
	assert_true(folded > 200); /* else the streams are all noise and try nothing */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(life_of_a_request),
		cmocka_unit_test(answers_have_a_latency),
		cmocka_unit_test(pages_change_hands),
		cmocka_unit_test(settings_and_the_pool),
		cmocka_unit_test(attention_heats_pages),
		cmocka_unit_test(stages_of_a_step),
		cmocka_unit_test(nonsense_is_counted_and_skipped),
		cmocka_unit_test(live_and_replay_are_equal),
		cmocka_unit_test(dump_sees_every_event),
		cmocka_unit_test(sums_agree),
		cmocka_unit_test(requests_without_steps),
		cmocka_unit_test(random_streams),
	};

	return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
