/* Part of the player: a timeline from a keyframe. What it says of a request is in rows that the file has already:
 * they are folded as ever, in order with the tokens; the rest is set. A keyframe of a foreign file may lie, but what
 * it sets obeys the bounds of timeline.h. */
#include <stdlib.h>
#include <string.h>

#include "tui/player_impl.h"
#include "fold/timeline_fold.h"

_Static_assert((int)KEY_STEPS == (int)TL_SLIDE && (int)KEY_WINDOW == (int)TL_WINDOW &&
				   (int)KEY_REQUESTS == (int)TL_REQUESTS && (int)KEY_TOKENS == (int)TL_TOKENS,
			   "keyframes hold what the timeline keeps");

struct past_row { /* a row that is folded again */
	int64_t seq;
	enum ev_kind kind;
};

struct restore {
	struct player *p;
	struct timeline *t;
	const struct key_row *row;
	struct keyframe key;
	struct past_row *past; /* by seq */
	int64_t n_past, at_past;
	int64_t first_seq;			 /* of the tokens that are kept */
	int64_t before_seq, before_step; /* of the keyframe before the one whose tokens come */
	bool damaged;
	struct err *e;
};

void player_empty(struct timeline *t)
{
	struct tl_vocab *vocab = t->vocab;
	struct tl_older older = t->older;
	int32_t n = t->n_vocab;

	t->vocab = NULL;
	t->n_vocab = 0;
	timeline_free(t);
	t->vocab = vocab;
	t->n_vocab = n;
	t->older = older;
}

/* Folds an event that lies before what was folded last. */
static void fold_past(struct timeline *t, const struct event *ev)
{
	t->last_seq = ev->seq - 1;
	timeline_fold(t, ev);
}

/* The session and its settings, and texts of tokens that are not known yet. */
static int fold_kinds(struct restore *s, uint64_t kinds, int64_t from, int64_t to)
{
	struct reader *r = s->p->reader;
	struct event ev;
	int got;

	reader_only(r, kinds);
	if (reader_seek(r, from, s->e) < 0)
		return -1;
	while ((got = reader_next(r, &ev, s->e)) == 1 && ev.seq <= to)
		fold_past(s->t, &ev);
	reader_rest(r);
	return got < 0 ? -1 : 0;
}

static int by_seq(const void *a, const void *b)
{
	int64_t x = ((const struct past_row *)a)->seq, y = ((const struct past_row *)b)->seq;

	return (x > y) - (x < y);
}

static int list_rows(struct restore *s)
{
	s->past = malloc((size_t)(5 * s->key.n_requests + 1) * sizeof *s->past);
	if (!s->past)
		return err_set(s->e, ERR_MEMORY, "no memory for the requests of a step");
	s->first_seq = INT64_MAX;
	for (int64_t i = 0; i < s->key.n_requests; i++) {
		const struct key_request *q = &s->key.request[i];
		const struct past_row row[] = { { q->request_seq, EV_request }, { q->fork_seq, EV_fork },
										{ q->trim_seq, EV_trim },		{ q->lookup_seq, EV_lookup },
										{ q->finish_seq, EV_finish } };

		for (int k = 0; k < 5; k++)
			if (row[k].seq > 0 && row[k].seq <= s->row->seq)
				s->past[s->n_past++] = row[k];
		if (q->first_seq > 0 && q->first_seq < s->first_seq)
			s->first_seq = q->first_seq;
	}
	qsort(s->past, (size_t)s->n_past, sizeof *s->past, by_seq);
	return 0;
}

/* The rows before an event. */
static int fold_rows(struct restore *s, int64_t before)
{
	struct event ev;

	for (; s->at_past < s->n_past && s->past[s->at_past].seq < before; s->at_past++) {
		const struct past_row *row = &s->past[s->at_past];
		int got = reader_one(s->p->reader, row->kind, row->seq, &ev, s->e);

		if (got < 0)
			return -1;
		if (got == 1)
			fold_past(s->t, &ev);
	}
	return 0;
}

static void put_token(struct timeline *t, const struct key_token *k)
{
	struct tl_request *r = tl_request_find(t, k->request);
	struct tl_token *more;

	if (!r || k->pos < 0 || k->pos > INT32_MAX || k->id < 0 || k->id >= t->n_vocab ||
		k->source >= EV_N_source || k->step > TL_INT_MAX ||
		(r->n_tokens && (k->pos <= r->token[r->n_tokens - 1].pos || k->step < r->token[r->n_tokens - 1].step)))
		return;
	more = tl_grow(t, r->token, r->n_tokens, &r->cap_tokens, sizeof *more);
	if (!more)
		return;
	r->token = more;
	r->token[r->n_tokens++] = (struct tl_token){ .step = k->step, .seq = k->seq, .pos = k->pos,
												 .id = (int32_t)k->id, .p = tl_part((double)k->p),
												 .source = (uint8_t)k->source, .is_end = k->is_end,
												 .survivors = -1, .draft = -1, .light = true };
}

static int put_rewind(struct restore *s, const struct key_token *k)
{
	struct event ev;
	int got = reader_step_from(s->p->reader, k->seq, &ev, s->e);

	if (got == 1 && ev.u.step.step > 0 && ev.u.step.step < TL_INT_MAX)
		s->t->last_step = ev.u.step.step - 1; /* a future says when it was left */
	if (got == 1)
		got = reader_one(s->p->reader, EV_rewind, k->seq, &ev, s->e);
	if (got == 1)
		fold_past(s->t, &ev);
	return got;
}

static bool put_tokens(void *arg, const struct key_row *row)
{
	struct restore *s = arg;
	struct key_tokens c = key_tokens_of(row, s->before_seq, s->before_step);
	struct key_token k;
	int got;

	s->before_seq = row->seq;
	s->before_step = row->step;
	if (row->seq < s->first_seq)
		return true; /* only to count from */
	while ((got = key_tokens_next(&c, &k)) == 1) {
		if (!keyframe_request(&s->key, k.request))
			continue;
		if (fold_rows(s, k.seq) < 0 || (k.is_rewind && put_rewind(s, &k) < 0))
			return false;
		if (!k.is_rewind)
			put_token(s->t, &k);
	}
	s->damaged |= got < 0;
	return !s->damaged && !s->e->code;
}

/* Tokens of the keyframes up to this one, wherever those are. */
static int all_tokens(struct restore *s)
{
	struct player *p = s->p;

	if (s->first_seq < INT64_MAX && reader_info(p->reader)->keyframes)
		return reader_keyframes(p->reader, s->first_seq, s->row->seq, true, put_tokens, s, s->e);
	for (int64_t i = 0; i < p->n_keys && p->key[i].row.seq <= s->row->seq; i++)
		if (p->key[i].row.seq >= s->first_seq ||
			(i + 1 < p->n_keys && p->key[i + 1].row.seq >= s->first_seq))
			if (!put_tokens(s, &p->key[i].row))
				return s->e->code ? -1 : 0;
	return 0;
}

static int64_t bounded(int64_t v, int64_t most)
{
	return v < 0 ? 0 : v > most ? most : v;
}

static int64_t time_or_none(int64_t v)
{
	return v < 0 || v > TL_INT_MAX ? EV_NULL_I : v;
}

static void set_request(struct timeline *t, struct tl_request *r, const struct key_request *q)
{
	static const enum tl_state states[] = { TL_WAITING, TL_RUNNING, TL_PREEMPTED, TL_FINISHED };

	if (!r->finished && q->state >= KEY_WAITING && q->state < KEY_FINISHED)
		r->state = states[q->state];
	r->slot = r->state == TL_RUNNING ? tl_int32(q->slot) : -1;
	r->computed = tl_int32(q->computed);
	r->n_drafted = (int32_t)bounded(q->n_drafted, INT32_MAX);
	r->n_accepted = (int32_t)bounded(q->n_accepted, r->n_drafted);
	r->n_preempted = (int32_t)bounded(q->n_preempted, INT32_MAX);
	r->n_rewinds = (int32_t)bounded(q->n_rewinds, INT32_MAX);
	r->admitted_ns = time_or_none(q->admitted_ns);
	r->first_token_ns = time_or_none(q->first_token_ns);
	r->n_pages = 0;
	for (int64_t i = 0; i < q->n_pages && q->pages[i] < t->n_pages; i++) {
		int32_t *more = tl_grow(t, r->pages, r->n_pages, &r->cap_pages, sizeof *more);

		if (!more)
			return;
		r->pages = more;
		r->pages[r->n_pages++] = q->pages[i];
	}
}

static void set_pages(struct timeline *t, const struct keyframe *key)
{
	for (int32_t i = 0; i < t->n_pages && i < key->counts.pages; i++) {
		const struct key_page *q = &key->page[i];

		if (q->n_story < 1)
			continue;
		t->page[i].refs = (int32_t)bounded(q->refs, INT32_MAX);
		t->page[i].cached = q->cached;
		t->page[i].owner = bounded(q->owner, TL_INT_MAX);
		t->page[i].block = tl_int32(q->block);
		t->page[i].last_used_step = bounded(q->last_used_step, TL_INT_MAX);
		t->page[i].n_story = t->page[i].n_untold = (int32_t)bounded(q->n_story, INT32_MAX / 2);
	}
}

static void set_counts(struct timeline *t, const struct key_counts *c)
{
	const int64_t most = TL_INT_MAX;

	t->n_tokens = bounded(c->n_tokens, most);
	t->n_drafted = bounded(c->n_drafted, most);
	t->n_accepted = bounded(c->n_accepted, t->n_drafted);
	t->n_rejected = bounded(c->n_rejected, t->n_drafted);
	t->n_evicted = bounded(c->n_evicted, most);
	t->n_prompt_tokens = bounded(c->n_prompt_tokens, most);
	t->n_hit_tokens = bounded(c->n_hit_tokens, t->n_prompt_tokens);
	t->last_step = bounded(c->step, most);
	t->last_seq = bounded(c->seq, most);
	t->last_t_ns = bounded(c->t_ns, most);
	t->n_lost = bounded(c->n_lost, most);
	t->n_odd = 0;
}

/* The texts that are known go on being known: what a token says never changes. */
static int begin(struct restore *s)
{
	struct timeline *t = s->t;
	struct tl_vocab *vocab = t->vocab;
	int32_t n = t->n_vocab;

	player_empty(t);
	t->vocab = NULL;
	t->n_vocab = 0;
	if (fold_kinds(s, UINT64_C(1) << EV_session | UINT64_C(1) << EV_setting | UINT64_C(1) << EV_cost, 1, s->row->seq) < 0 ||
		t->n_vocab != n) {
		for (int32_t i = 0; i < n; i++)
			free(vocab[i].bytes);
		free(vocab);
		s->p->vocab_seq = 0;
	} else {
		free(t->vocab);
		t->vocab = vocab;
	}
	if (s->e->code || fold_kinds(s, UINT64_C(1) << EV_vocab, s->p->vocab_seq + 1, INT64_MAX) < 0)
		return -1;
	s->p->vocab_seq = reader_info(s->p->reader)->last_seq;
	return 0;
}

/* The newest searches, from where the oldest of them begins. */
static int fold_searches(struct restore *s)
{
	struct reader *r = s->p->reader;
	int64_t begins[TL_SEARCHES], n = 0, to = s->row->seq;
	struct event ev;
	int got;

	reader_only(r, UINT64_C(1) << EV_search);
	if (reader_seek(r, 1, s->e) < 0)
		return -1;
	while ((got = reader_next(r, &ev, s->e)) == 1 && ev.seq <= to)
		if (ev.u.search.action == EV_SEARCH_begin)
			begins[n++ % TL_SEARCHES] = ev.seq;
	if (got < 0 || !n)
		return got < 0 ? -1 : 0;
	reader_only(r, TL_SEARCH_KINDS);
	tl_searches_free(s->t);
	if (reader_seek(r, begins[n < TL_SEARCHES ? 0 : n % TL_SEARCHES], s->e) < 0)
		return -1;
	while ((got = reader_next(r, &ev, s->e)) == 1 && ev.seq <= to)
		tl_fold_search_again(s->t, &ev);
	reader_rest(r);
	return got < 0 ? -1 : 0;
}

/* The newest of those that were folded again is none of the events before it. */
static void finish(struct restore *s)
{
	for (int64_t i = 0; i < s->key.n_requests; i++) {
		struct tl_request *r = tl_request_find(s->t, s->key.request[i].id);

		if (r)
			set_request(s->t, r, &s->key.request[i]);
	}
	set_pages(s->t, &s->key);
	set_counts(s->t, &s->key.counts);
}

int player_restore(struct player *p, struct timeline *t, const struct key_row *row, struct err *e)
{
	struct err mine = { 0 };
	struct restore s = { .p = p, .t = t, .row = row, .e = e ? e : &mine };
	int rc = 0;

	if (keyframe_unpack(&s.key, row->state) || s.key.counts.seq != row->seq ||
		s.key.counts.step != row->step) {
		keyframe_free(&s.key);
		player_empty(t);
		return 0;
	}
	if (begin(&s) < 0 || list_rows(&s) < 0 || all_tokens(&s) < 0 || s.e->code || fold_rows(&s, INT64_MAX) < 0 ||
		fold_searches(&s) < 0)
		rc = -1;
	else
		finish(&s);
	free(s.past);
	keyframe_free(&s.key);
	reader_only(p->reader, UINT64_MAX);
	if (rc < 0)
		return -1;
	if (s.damaged) {
		player_empty(t);
		return 0;
	}
	p->base.seq = row->seq;
	return reader_seek(p->reader, row->seq + 1, s.e) < 0 ? -1 : 1;
}
