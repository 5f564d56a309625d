/* See player.h. Forwards, the events of the next steps are folded; backwards or far ahead, the
 * timeline is restored from the keyframe KEY_WINDOW steps before (rounded down), and the steps
 * after it are folded: so the timeline's history of steps comes from events, and keyframes need not
 * hold it.
 *
 * Invariant: the reader's next event follows the last one that t has folded. */
#include "tui/app/player.h"

#include "base/array.h"
#include "fold/timeline_fold.h"
#include "base/clock.h"

struct player {
	char *path;
	struct reader *reader;
	struct timeline *t;   /* the one at the reader's position */
	int64_t current, seq; /* its step, and seq of that event */
	bool at_end;          /* the events after the last step are folded, too */
	struct err *err;      /* of the call in progress; may be NULL */
	int64_t base_seq;     /* of the keyframe that it was restored from; 0: none */

	struct reader *scan; /* reads ahead for keyframes; NULL: not needed, or done */
	struct keyframer *keyframer;
	/* [n_keys] made here, by step: KEY_STEPS, 2 * KEY_STEPS …; their spans are ours */
	struct key_row *key;
	int64_t n_keys, cap_keys, n_scanned;

	struct player_mark *mark;
	int n_marks, cap_marks;
	bool coarse;        /* a mark is the last step of its span */
	int64_t marked_seq; /* marks of keyframes up to here are added */
};

enum { NEAR_STEPS = 2 * KEY_STEPS, EXACT_MARKS = 20000 };

_Static_assert(TL_INT_MAX == INT64_C(1) << READER_STEPS_BITS,
	"a step's number has the bounds of the timeline's");

static void add_mark(void *arg, enum reader_mark kind, int64_t step)
{
	struct player *p = arg;

	if (step < 0 || step > TL_INT_MAX)
		return;
	if (ARRAY_ROOM(p->mark, p->cap_marks, p->n_marks + 1)) /* without memory the scrubber lacks a
															  mark */
		p->mark[p->n_marks++] = (struct player_mark){ kind, step };
}

/* Adds the marks of a keyframe, if it is newer than those added. */
static bool add_marks_of(void *player, const struct key_row *row)
{
	struct player *p = player;

	if (row->seq <= p->marked_seq)
		return true;
	p->marked_seq = row->seq;
	if (row->marks.turns > 0)
		add_mark(p, MARK_TURN, row->step);
	if (row->marks.rejected > 0)
		add_mark(p, MARK_REJECTED, row->step);
	if (row->marks.evicted > 0)
		add_mark(p, MARK_EVICTED, row->step);
	return true;
}

/* Keyframes of a recording that has none (an older one), made in the background. They are the
 * same as the writer's, and are kept in memory: about 50 bytes a step. */
enum { EVENTS_BETWEEN_LOOKS = 32 };

static bool copy_span(struct ev_span *s)
{
	void *data = malloc(s->size + 1);

	if (data)
		memcpy(data, s->data, s->size);
	s->data = data;
	return data != NULL;
}

static int keep(struct player *p, struct key_row row, struct err *e)
{
	bool tokens = copy_span(&row.tokens), state = copy_span(&row.state);

	if (!ARRAY_ROOM(p->key, p->cap_keys, p->n_keys + 1) || !tokens || !state) {
		free((void *)row.tokens.data);
		free((void *)row.state.data);
		return err_set(e, ERR_MEMORY, "the recording does not fit the memory");
	}
	p->key[p->n_keys++] = row;
	if (p->coarse)
		add_marks_of(p, &row);
	return 0;
}

static void scan_close(struct player *p)
{
	reader_close(p->scan);
	keyframer_close(p->keyframer);
	p->scan = NULL;
	p->keyframer = NULL;
}

int player_read(struct player *p, int64_t budget_ns, struct err *e)
{
	int64_t until = now_ns() + budget_ns;
	struct key_row row;
	struct event ev;
	int got = 0;

	if (!p->scan)
		return 0;
	for (int i = 1; (got = reader_next(p->scan, &ev, e)) == 1; i++) {
		if (ev.kind == EV_step)
			p->n_scanned = ev.u.step.step;
		if (keyframer_add(p->keyframer, &ev, &row) && keep(p, row, e) < 0)
			return -1;
		if (i % EVENTS_BETWEEN_LOOKS == 0 && now_ns() > until)
			break;
	}
	if (got <= 0)
		scan_close(p);
	return got;
}

/* A long recording's marks are those of its keyframes: which of their spans has one. */
static int find_marks(struct player *p, struct err *e)
{
	const struct reader_info *info = reader_info(p->reader);
	int64_t last;

	p->coarse |= info->n_steps > EXACT_MARKS;
	if (p->coarse)
		return reader_keyframes(p->reader, p->marked_seq + 1, INT64_MAX, false, add_marks_of, p, e);
	last = info->last_seq;
	if (reader_marks(p->reader, p->marked_seq + 1, last, add_mark, p, e) < 0)
		return -1;
	p->marked_seq = last;
	return 0;
}

/* ---- what the timeline asks for (struct tl_older) ---- */

static int older_row(void *arg, enum ev_kind kind, int64_t seq, struct event *ev)
{
	struct player *p = arg;

	return reader_one(p->reader, kind, seq, ev, p->err);
}

static int older_rows(void *arg, uint64_t kinds, int64_t first, int64_t last,
	void (*fn)(struct timeline *t, const struct event *ev), struct timeline *t)
{
	struct player *p = arg;
	struct event ev;
	int got;

	reader_only(p->reader, kinds);
	if (reader_seek(p->reader, first, p->err) < 0)
		return -1;
	while ((got = reader_next(p->reader, &ev, p->err)) == 1 && ev.seq <= last)
		fn(t, &ev);
	return got < 0 ? -1 : 0;
}

/* Keyframes of the file, or those made here. */
static int older_keys(void *arg, int64_t first, int64_t last,
	bool (*fn)(void *to, const struct key_row *row), void *to)
{
	struct player *p = arg;

	if (reader_info(p->reader)->keyframes)
		return reader_keyframes(p->reader, first, last, true, fn, to, p->err);
	for (int64_t i = 0; i < p->n_keys && p->key[i].seq <= last; i++)
		if (p->key[i].seq >= first && !fn(to, &p->key[i]))
			break;
	return 0;
}

struct history {
	struct tl_page_event *out;
	int n;
};

static void add_history(void *arg, const struct event *ev, int64_t step)
{
	const struct ev_page *e = &ev->u.page;
	struct history *s = arg;

	if (e->action < 0 || e->action >= EV_N_page_action || e->other > TL_INT_MAX ||
		e->request > TL_INT_MAX || (e->other < -1 && e->other != EV_NULL_I) || ev->t_ns < 0 ||
		ev->t_ns > TL_INT_MAX)
		return;
	s->out[s->n++] = (struct tl_page_event){ .step = step < 0 || step > TL_INT_MAX ? 0 : step,
		.t_ns = ev->t_ns,
		.request = e->request > 0 ? e->request : 0,
		.other = e->other,
		.action = (enum ev_code_page_action)e->action,
		.block = tl_int32(e->block),
		.refs = e->refs > 0 ? tl_int32(e->refs) : 0 };
}

static int older_history(void *arg, int32_t page, struct tl_page_event *out, int max)
{
	struct player *p = arg;
	struct history s = { out, 0 };

	reader_page_history(p->reader, page, p->base_seq + 1, max, add_history, &s, NULL);
	return s.n;
}

int player_open(struct player **out, const char *path, struct err *e)
{
	struct player *p = calloc(1, sizeof *p);

	*out = NULL;
	if (!p)
		return err_no_memory(e, "a replay");
	if (reader_open(&p->reader, path, e) < 0 || find_marks(p, e) < 0)
		goto fail;
	if (!reader_info(p->reader)->keyframes && reader_info(p->reader)->n_steps > 2 * NEAR_STEPS) {
		p->keyframer = keyframer_open();
		if (!p->keyframer || reader_open(&p->scan, path, e) < 0)
			goto fail;
	}
	*out = p;
	return 0;
fail:
	player_close(p);
	return -1;
}

void player_close(struct player *p)
{
	if (!p)
		return;
	scan_close(p);
	for (int64_t i = 0; i < p->n_keys; i++) {
		free((void *)p->key[i].tokens.data);
		free((void *)p->key[i].state.data);
	}
	reader_close(p->reader);
	free(p->key);
	free(p->mark);
	free(p);
}

int64_t player_n_steps(const struct player *p)
{
	int64_t n = reader_info(p->reader)->n_steps;

	return p->current > n ? p->current : n;
}

int64_t player_at(const struct player *p)
{
	return p->current;
}

bool player_closed(const struct player *p)
{
	return reader_info(p->reader)->closed;
}

const struct player_mark *player_marks(const struct player *p, int *n)
{
	*n = p->n_marks;
	return p->mark;
}

int player_refresh(struct player *p, struct err *e)
{
	int64_t before = reader_info(p->reader)->last_seq;

	reader_rest(p->reader);
	reader_refresh(p->reader);
	if (reader_info(p->reader)->last_seq == before)
		return 0;
	return find_marks(p, e) < 0 ? -1 : 1;
}

/* 1: the keyframe after a step; spans live until the next call. 0: there is none. */
static int key_at(struct player *p, int64_t step, struct key_row *row, struct err *e)
{
	int64_t seq;
	int got;

	if (!reader_info(p->reader)->keyframes) {
		if (step / KEY_STEPS < 1 || step / KEY_STEPS > p->n_keys)
			return 0;
		*row = p->key[step / KEY_STEPS - 1];
		return row->step == step;
	}
	seq = reader_step_seq(p->reader, step);
	if (seq < 0)
		return 0;
	got = reader_keyframe(p->reader, seq, row, e);
	return got == 1 && row->step != step ? 0 : got;
}

/* To the very beginning. */
static int rewind_all(struct player *p, struct timeline *t, struct err *e)
{
	timeline_empty(t);
	p->t = t;
	p->current = p->seq = p->base_seq = 0;
	p->at_end = false;
	reader_only(p->reader, UINT64_MAX);
	return reader_seek(p->reader, 1, e);
}

/* Restores the nearest state before the step. The caller folds the rest. */
static int jump(struct player *p, struct timeline *t, int64_t step, struct err *e)
{
	struct key_row row = { .seq = 0 };
	int64_t at = (step - KEY_WINDOW) / KEY_STEPS * KEY_STEPS;
	int got = 0;

	if (!reader_info(p->reader)->keyframes && at > p->n_keys * KEY_STEPS)
		at = p->n_keys * KEY_STEPS;
	if (at > 0 && (step < p->current || at > p->current || t != p->t))
		got = key_at(p, at, &row, e);
	if (got == 1) {
		p->t = t;
		p->current = row.step;
		p->seq = p->base_seq = row.seq;
		p->at_end = false;
		got = timeline_restore(t, &row);
		reader_only(p->reader, UINT64_MAX);
		if (got == 1 && reader_seek(p->reader, row.seq + 1, e) < 0)
			got = -1;
	}
	if (got < 0)
		return -1;
	if (got == 0 && (step < p->current || t != p->t || p->at_end || t->last_seq < p->seq))
		return rewind_all(p, t, e);
	return 0;
}

/* Before the first step the session event, the settings and what steps cost are shown, but no
 * request. */
static int fold_begin(struct player *p, struct timeline *t, struct err *e)
{
	struct event ev;
	int got;

	if (rewind_all(p, t, e) < 0)
		return -1;
	while ((got = reader_next(p->reader, &ev, e)) == 1) {
		if (ev.kind != EV_session && ev.kind != EV_memory && ev.kind != EV_product &&
			ev.kind != EV_roof && ev.kind != EV_setting && ev.kind != EV_cost)
			return reader_seek(p->reader, ev.seq, e);
		timeline_fold(t, &ev);
	}
	return got < 0 ? -1 : 0;
}

/* An impossible step number is ignored, as in the timeline. */
static void fold_one(struct player *p, struct timeline *t, const struct event *ev)
{
	timeline_fold(t, ev);
	if (ev->kind != EV_step || ev->u.step.step <= p->current || ev->u.step.step > TL_INT_MAX)
		return;
	p->current = ev->u.step.step;
	p->seq = ev->seq;
}

static int fold_to(struct player *p, struct timeline *t, int64_t step, struct err *e)
{
	struct event ev;
	int got = 1;

	while (p->current < step && (got = reader_next(p->reader, &ev, e)) == 1)
		fold_one(p, t, &ev);
	if (got != 1 || p->current < reader_info(p->reader)->n_steps)
		return got < 0 ? -1 : 0;
	/* The last step includes the events that follow it. */
	while ((got = reader_next(p->reader, &ev, e)) == 1)
		fold_one(p, t, &ev);
	p->at_end = true;
	return got < 0 ? -1 : 0;
}

static int go_to(struct player *p, struct timeline *t, int64_t step, struct err *e)
{
	int64_t n = reader_info(p->reader)->n_steps;

	if (step <= 0)
		return fold_begin(p, t, e);
	if (step > n)
		step = n;
	if (p->at_end && p->current == step && t == p->t && step == n)
		step++; /* the steps that were added since */
	if ((step < p->current || (p->at_end && step == p->current) || t != p->t ||
			step > p->current + NEAR_STEPS) &&
		jump(p, t, step, e) < 0)
		return -1;
	return fold_to(p, t, step, e);
}

int player_go(struct player *p, struct timeline *t, int64_t step, struct err *e)
{
	int rc;

	p->err = e;
	t->older = (struct tl_older){ p, older_row, older_rows, older_keys, older_history };
	rc = go_to(p, t, step, e);
	p->err = NULL;
	reader_rest(p->reader);
	return rc;
}

int64_t player_next_ns(struct player *p, struct err *e)
{
	struct event ev, now = { .t_ns = 0 };
	int got;

	if (p->current >= reader_info(p->reader)->n_steps)
		return -1;
	got = reader_step_from(p->reader, p->seq + 1, &ev, e);
	if (got == 1 && p->seq)
		reader_one(p->reader, EV_step, p->seq, &now, e);
	reader_rest(p->reader);
	return got < 1 ? -1 : now.t_ns >= 0 && ev.t_ns > now.t_ns ? ev.t_ns - now.t_ns : 0;
}

struct nearest {
	int64_t at, best;
	bool forward;
};

static void nearer_mark(void *arg, enum reader_mark kind, int64_t step)
{
	struct nearest *n = arg;

	(void)kind;
	if (n->forward ? step > n->at && (n->best < 0 || step < n->best)
				   : step < n->at && step > n->best)
		n->best = step;
}

/* The marks of steps first … last. */
static void look_between(struct player *p, int64_t first, int64_t last, struct nearest *n)
{
	int64_t from = reader_step_seq(p->reader, first - 1), to = reader_step_seq(p->reader, last);

	reader_marks(p->reader, from < 0 ? 1 : from + 1, to < 0 ? INT64_MAX : to, nearer_mark, n, NULL);
}

int64_t player_next_mark(struct player *p, bool forward)
{
	struct nearest n = { p->current, -1, forward };
	int64_t end = reader_info(p->reader)->n_steps, tail = end / KEY_STEPS * KEY_STEPS;

	if (!forward && p->coarse)
		look_between(p, tail + 1, end, &n);
	for (int i = forward ? 0 : p->n_marks - 1; n.best < 0 && i >= 0 && i < p->n_marks;
		 i += forward ? 1 : -1) {
		int64_t step = p->mark[i].step;

		if (!p->coarse)
			nearer_mark(&n, p->mark[i].kind, step);
		else if (forward ? step > p->current : step - KEY_STEPS < p->current)
			look_between(p, step - KEY_STEPS + 1, step, &n);
	}
	if (forward && n.best < 0 && p->coarse)
		look_between(p, tail + 1, end, &n);
	return n.best;
}
