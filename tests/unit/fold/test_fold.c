/* The timeline's tables hold all of it, and a keyframe is the timeline: one restored anywhere in a
 * long stream of random events, many of which make no sense, is the live one at every later
 * step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fold/keyframe.h"
#include "fold/keyframe_form.h"
#include "tests/support/demo_random.h"
#include "tests/support/random_event.h"
#include "tests/support/timeline_dump.h"

enum { STEPS = 1800, AFTER = 140, COPIES = 4 };

/* ---- the tables ---- */

/* The first byte of a member gets its alignment, the others 1. */
static void cover(unsigned char *covered, size_t at, size_t size)
{
	memset(covered + at, 1, size);
	covered[at] = size < 8 ? (unsigned char)size : 8;
}

/* Every member is in a table, or its number or room is that of one that is: a hole is what
 * alignment asks for. */
static void shape_is_whole(const struct tl_shape *s)
{
	unsigned char *covered = calloc(s->size + 1, 1);
	size_t hole = 0;

	for (const struct tl_field *f = s->field; f->name; f++) {
		assert_true(f->at + f->size <= s->size);
		cover(covered, f->at, f->size);
		if (f->size_n)
			cover(covered, f->at_n, f->size_n);
		if (f->at_cap)
			cover(covered, f->at_cap, sizeof(int32_t));
		if (f->type == TL_ITEMS)
			shape_is_whole(f->of);
	}
	covered[s->size] = 8;
	for (size_t i = 0; i <= s->size; i++) {
		if (hole >= covered[i] && covered[i])
			fail_msg("a struct with the member %s has another before byte %zu that is in no table",
				s->field->name, i);
		hole = covered[i] ? 0 : hole + 1;
	}
	free(covered);
}

static void the_tables_have_every_member(void **state)
{
	(void)state;
	shape_is_whole(&tl_shape_timeline);
}

/* ---- a recording in memory ---- */

struct stored {
	enum ev_kind kind;
	int64_t seq;
	unsigned char *data;
	size_t size;
};

static struct {
	struct stored *event;
	int64_t n, cap;
	struct key_row key[STEPS / KEY_STEPS + 2];
	int n_keys;
} file;

static void *copy(const void *data, size_t size)
{
	void *mine = malloc(size + 1);

	assert_non_null(mine);
	return memcpy(mine, data, size);
}

static void store(const struct event *ev)
{
	struct stored *s;

	if (file.n == file.cap) {
		file.cap = file.cap ? 2 * file.cap : 1024;
		file.event = realloc(file.event, (size_t)file.cap * sizeof *file.event);
		assert_non_null(file.event);
	}
	s = &file.event[file.n++];
	s->kind = ev->kind;
	s->seq = ev->seq;
	s->size = ev_pack(ev, NULL, 0);
	s->data = malloc(s->size);
	assert_int_equal(ev_pack(ev, s->data, s->size), s->size);
}

static void store_key(const struct key_row *row)
{
	struct key_row *k = &file.key[file.n_keys++];

	assert_true(file.n_keys <= (int)(sizeof file.key / sizeof *file.key));
	*k = *row;
	k->tokens.data = copy(row->tokens.data, row->tokens.size);
	k->state.data = copy(row->state.data, row->state.size);
}

static void forget_file(void)
{
	for (int64_t i = 0; i < file.n; i++)
		free(file.event[i].data);
	for (int i = 0; i < file.n_keys; i++) {
		free((void *)file.key[i].tokens.data);
		free((void *)file.key[i].state.data);
	}
	free(file.event);
	memset(&file, 0, sizeof file);
}

static int older_row(void *arg, enum ev_kind kind, int64_t seq, struct event *ev)
{
	int64_t low = 0, high = file.n;

	(void)arg;
	while (low < high) {
		int64_t middle = (low + high) / 2;

		if (file.event[middle].seq < seq)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == file.n || file.event[low].seq != seq || file.event[low].kind != kind)
		return 0;
	assert_int_equal(ev_unpack(ev, file.event[low].data, file.event[low].size), 0);
	return 1;
}

static int older_rows(void *arg, uint64_t kinds, int64_t first, int64_t last,
	void (*fn)(struct timeline *t, const struct event *ev), struct timeline *t)
{
	struct event ev;

	(void)arg;
	for (int64_t i = 0; i < file.n; i++)
		if (file.event[i].seq >= first && file.event[i].seq <= last &&
			kinds >> file.event[i].kind & 1) {
			assert_int_equal(ev_unpack(&ev, file.event[i].data, file.event[i].size), 0);
			fn(t, &ev);
		}
	return 0;
}

static int older_keys(void *arg, int64_t first, int64_t last,
	bool (*fn)(void *to, const struct key_row *row), void *to)
{
	(void)arg;
	for (int i = 0; i < file.n_keys; i++)
		if (file.key[i].seq >= first && file.key[i].seq <= last && !fn(to, &file.key[i]))
			break;
	return 0;
}

/* ---- random events that build on each other ---- */

struct source {
	struct demo_random random;
	uint64_t state;
	int64_t last_seq, n_searches;
	const struct timeline *live;
};

static uint32_t any(struct source *s, uint32_t n)
{
	return (uint32_t)(random_u64(&s->state) >> 33) % n;
}

/* One of the newest that run. */
static const struct tl_request *any_request(struct source *s)
{
	const struct tl_request *r = NULL;

	for (int32_t i = s->live->n_requests, seen = 0; i-- > 0 && seen < 4; seen++)
		if (s->live->request[i].state != TL_FINISHED && (!r || any(s, 2)))
			r = &s->live->request[i];
	return r;
}

/* Searches begin one after the other, and what happens in them is of the newest as a rule. */
static void mend_search(struct source *s, struct ev_search *e)
{
	const struct tl_member *m = &s->live->search_new;

	e->step = s->random.step;
	if (!any(s, 6)) {
		e->action = EV_SEARCH_begin;
		e->search = ++s->n_searches;
		e->tokens = 1 + any(s, 6);
		return;
	}
	e->search = s->n_searches - (any(s, 8) ? 0 : any(s, 5));
	if (e->action == EV_SEARCH_begin || (e->action >= EV_SEARCH_won && any(s, 3)))
		e->action = EV_SEARCH_node;
	if (m->request && any(s, 4))
		e->request = m->request;
	e->node = any(s, 60);
	e->parent = any(s, 60) - 1;
	e->tokens = any(s, 30);
}

static void mend_rewind(struct source *s, struct ev_rewind *e)
{
	const struct tl_request *r = any_request(s);

	if (!r || !r->n_tokens)
		return;
	e->request = r->id;
	e->kept = r->token[any(s, (uint32_t)r->n_tokens)].pos;
	e->had = e->kept + any(s, 3);
}

static void mend_token(struct source *s, struct ev_token *e)
{
	const struct tl_request *r = any_request(s);

	if (r && any(s, 5))
		e->request = r->id;
}

/* Mostly of the newest token of a request. */
static void mend_price(struct source *s, struct ev_price *e)
{
	const struct tl_request *r = any_request(s);

	if (!r || !r->n_tokens || !any(s, 5))
		return;
	e->request = r->id;
	e->pos = r->token[r->n_tokens - 1].pos;
	e->id = r->token[r->n_tokens - 1].id;
}

/* Now and then the one that has the answer of a search. */
static void mend_request(struct source *s, struct ev_request *e)
{
	const struct tl_search *newest = timeline_search(s->live, 0);

	if (newest && newest->winner && any(s, 2)) {
		e->kind = EV_REQUEST_KIND_chat;
		e->parent = newest->winner;
	} else if (!any(s, 3)) {
		e->kind = EV_REQUEST_KIND_search;
	} else if (any(s, 2)) {
		e->kind = any(s, 2);
	}
}

/* Requests that are there, and some that are not. */
static void mend_queue(struct source *s, struct ev_queue *e)
{
	static struct ev_queued order[4];
	const uint32_t n = any(s, 5);

	for (uint32_t i = 0; i < n; i++) {
		const struct tl_request *r = any_request(s);

		order[i] =
			(struct ev_queued){ r && any(s, 5) ? r->id : 1 + any(s, 40), (int64_t)any(s, 3) - 1 };
	}
	e->order = (struct ev_span){ order, n * sizeof *order };
	e->step = s->random.step;
}

/* Steps follow each other: a number far ahead would be the last one that counts. */
static void mend_step(const struct source *s, struct event *ev)
{
	const struct ev_info *info = &ev_info[ev->kind];
	char *member = (char *)&ev->u;

	for (int i = 0; i < info->n_fields; i++) {
		int64_t *step = (int64_t *)(void *)member;

		if (!strcmp(info->fields[i].name, "step") &&
			(*step > s->random.step + 2 || *step < s->random.step - 2))
			*step = s->random.step;
		member += ev_field_size(info->fields[i].type);
	}
}

/* Pools of 100000 pages would be most of what the test looks at, and have nothing in them. */
static void mend_memory(struct ev_memory *e)
{
	if (e->pages > 3000 && e->pages <= TL_PAGES_MAX)
		e->pages %= 3000;
}

/* Ranks are told in order; a lane has whole numbers. */
static void mend_traffic(struct source *s, struct ev_traffic *e)
{
	e->step = s->random.step;
	e->rank = any(s, 4);
	e->lane.size = e->lane.size < 5 ? 0 : e->lane.size / 4 * 4;
}

static void mend(struct source *s, struct event *ev)
{
	mend_step(s, ev);
	switch (ev->kind) {
	case EV_memory: mend_memory(&ev->u.memory); break;
	case EV_search: mend_search(s, &ev->u.search); break;
	case EV_rewind: mend_rewind(s, &ev->u.rewind); break;
	case EV_sharing: ev->u.sharing.search = s->n_searches; break;
	case EV_token: mend_token(s, &ev->u.token); break;
	case EV_price: mend_price(s, &ev->u.price); break;
	case EV_queue: mend_queue(s, &ev->u.queue); break;
	case EV_traffic: mend_traffic(s, &ev->u.traffic); break;
	case EV_rank: ev->u.rank.rank = any(s, 5) - 1; break;
	case EV_request: mend_request(s, &ev->u.request); break;
	case EV_finish: ev->u.finish.reason %= EV_N_finish; break;
	default: break;
	}
}

/* A file has each seq once, and they grow. */
static void next_event(struct source *s, struct event *ev)
{
	do
		demo_random_event(&s->random, ev);
	while (ev->seq <= s->last_seq);
	s->last_seq = ev->seq;
	if (ev->kind == EV_score)
		ev->kind = EV_search; /* all of it is mended */
	mend(s, ev);
}

/* ---- a keyframe is the timeline ---- */

/* Texts of tokens a timeline may know too early; they come last. */
static char *dump_of(const struct timeline *t)
{
	char *text = timeline_dump(t), *vocab = strstr(text, "\nvocab ");

	if (vocab)
		*vocab = '\0';
	return text;
}

static void expect_equal(const struct timeline *t, const char *live, int64_t step, int64_t from)
{
	char *text = dump_of(t);
	const char *a = text, *b = live;

	if (strcmp(a, b) != 0) {
		const char *line;

		while (*a && *a == *b)
			a++, b++;
		for (line = a; line > text && line[-1] != '\n';)
			line--;
		fail_msg("restored at %lld, at step %lld: %.40s … %.60s%.80s\nlive: … %.80s",
			(long long)from, (long long)step, line, a - line > 60 ? a - 60 : line, a, b);
	}
	free(text);
}

/* What is written of the restored timeline is what it was read from. */
static void expect_written(const struct timeline *t, const struct key_row *row)
{
	struct key_out b = { 0 };

	key_put_struct(&b, &tl_shape_timeline, t, NULL);
	assert_true(!b.failed && b.size < row->state.size);
	assert_memory_equal(b.data, (const char *)row->state.data + row->state.size - b.size, b.size);
	free(b.data);
}

struct restored {
	struct timeline t;
	int64_t from; /* step; 0: none */
};

static void restore(struct restored *c, const struct key_row *row)
{
	c->t.older = (struct tl_older){ NULL, older_row, older_rows, older_keys, NULL };
	assert_int_equal(timeline_restore(&c->t, row), 1);
	expect_written(&c->t, row);
	c->from = row->step;
}

/* From the first slide on that has let go of all steps before the keyframe, a copy is the live
 * one. */
static void compare(struct restored *c, const struct timeline *live, int64_t slid)
{
	char *text = slid >= c->from + KEY_WINDOW ? dump_of(live) : NULL;

	if (text)
		expect_equal(&c->t, text, live->last_step, c->from);
	free(text);
	if (live->last_step >= c->from + KEY_WINDOW + AFTER + KEY_STEPS) {
		timeline_free(&c->t);
		c->from = 0;
	}
}

/* A page's older events are in the live one alone. */
static void forget_page_histories(struct timeline *t)
{
	for (int32_t i = 0; i < t->n_pages; i++)
		memset(t->page[i].history, 0, sizeof t->page[i].history);
}

static void a_keyframe_is_the_timeline(void **state)
{
	struct source s = { .random = { .state = 14 }, .state = 5 };
	struct keyframer *keyframer = keyframer_open();
	struct restored restored[COPIES] = { 0 };
	struct timeline live;
	int64_t slid = 0, compared = 0;
	struct key_row row;
	struct event ev;

	(void)state;
	timeline_init(&live);
	s.live = &live;
	while (live.last_step < STEPS) {
		int64_t step = live.last_step;

		next_event(&s, &ev);
		store(&ev);
		timeline_fold(&live, &ev);
		for (int i = 0; i < COPIES; i++)
			if (restored[i].from)
				timeline_fold(&restored[i].t, &ev);
		if (keyframer_add(keyframer, &ev, &row)) {
			store_key(&row);
			for (int i = 0; i < COPIES; i++)
				if (!restored[i].from) {
					restore(&restored[i], &file.key[file.n_keys - 1]);
					break;
				}
		}
		if (live.last_step == step)
			continue;
		slid = live.last_step % KEY_STEPS ? slid : live.last_step;
		for (int i = 0; i < COPIES; i++)
			if (restored[i].from) {
				forget_page_histories(&live);
				forget_page_histories(&restored[i].t);
				compare(&restored[i], &live, slid);
				compared++;
			}
	}
	assert_true(file.n_keys > COPIES && compared > 1000);
	assert_true(live.n_ranks == 4 && live.rank[0].sum.steps > 5);
	assert_true(live.n_abandoned > 0 && live.n_searches == TL_SEARCHES && live.n_odd > 100);
	for (int i = 0; i < COPIES; i++)
		timeline_free(&restored[i].t);
	timeline_free(&live);
	keyframer_close(keyframer);
}

/* One changed byte: it is refused, or what comes of it can be folded on and dumped. */
static void a_keyframe_may_lie(void **state)
{
	uint64_t random = 3;
	int refused = 0;

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct key_row *row = &file.key[random_u64(&random) % (uint64_t)file.n_keys];
		struct ev_span *span = i % 3 ? &row->state : &row->tokens;
		unsigned char *byte = (unsigned char *)span->data + random_u64(&random) % span->size,
					  was = *byte;
		struct timeline t = { .older = { NULL, older_row, older_rows, older_keys, NULL } };
		int got;

		*byte ^= (unsigned char)(1 + random_u64(&random) % 255);
		got = timeline_restore(&t, row);
		assert_true(got == 0 || got == 1);
		refused += !got;
		if (got) {
			struct source s = {
				.random = { .state = random, .seq = t.last_seq + 1, .step = t.last_step + 1 },
				.state = random,
				.live = &t
			};
			struct event ev;

			for (int k = 0; k < 200; k++) {
				next_event(&s, &ev);
				timeline_fold(&t, &ev);
			}
			free(timeline_dump(&t));
		}
		timeline_free(&t);
		*byte = was;
	}
	assert_true(refused > 100);
	forget_file();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tables_have_every_member),
		cmocka_unit_test(a_keyframe_is_the_timeline),
		cmocka_unit_test(a_keyframe_may_lie),
	};

	return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
