/* See player.h. */
#include "tui/player.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { CHUNK = 64 << 10, EVENTS_BETWEEN_LOOKS = 32 };

/* Where a step's event ends in the log, and when it was. */
struct player_step {
	size_t end;
	int64_t t_ns;
};

struct player {
	struct reader *reader;
	int64_t n_steps;
	bool closed, read_all;
	unsigned char *log; /* events behind one another: size (8 bytes), packed bytes */
	size_t size, cap, at; /* at: folded so far */
	struct player_step *step; /* step[i] is step i + 1 */
	int64_t n_read, cap_step, current;
	struct player_mark *mark;
	int n_marks, cap_marks;
};

static void add_mark(void *arg, enum reader_mark kind, int64_t step)
{
	struct player *p = arg;

	if (p->n_marks == p->cap_marks) {
		int cap = p->cap_marks ? 2 * p->cap_marks : 256;
		struct player_mark *grown = realloc(p->mark, (size_t)cap * sizeof *grown);

		if (!grown)
			return; /* a mark less on the scrubber */
		p->mark = grown;
		p->cap_marks = cap;
	}
	p->mark[p->n_marks++] = (struct player_mark){ kind, step };
}

int player_open(struct player **out, const char *path, struct err *e)
{
	struct player *p = calloc(1, sizeof *p);

	*out = NULL;
	if (!p)
		return err_set(e, ERR_MEMORY, "no memory for a replay");
	if (reader_open(&p->reader, path, e) < 0 || reader_marks(p->reader, add_mark, p, e) < 0 ||
		reader_seek(p->reader, 1, e) < 0) {
		player_close(p);
		return -1;
	}
	p->n_steps = reader_info(p->reader)->n_steps;
	p->closed = reader_info(p->reader)->closed;
	*out = p;
	return 0;
}

void player_close(struct player *p)
{
	if (!p)
		return;
	reader_close(p->reader);
	free(p->log);
	free(p->step);
	free(p->mark);
	free(p);
}

int64_t player_n_steps(const struct player *p)
{
	return p->n_read > p->n_steps || p->read_all ? p->n_read : p->n_steps;
}

int64_t player_at(const struct player *p)
{
	return p->current;
}

bool player_closed(const struct player *p)
{
	return p->closed;
}

const struct player_mark *player_marks(const struct player *p, int *n)
{
	*n = p->n_marks;
	return p->mark;
}

static int keep_step(struct player *p, int64_t t_ns, struct err *e)
{
	if (p->n_read == p->cap_step) {
		int64_t cap = p->cap_step ? 2 * p->cap_step : 1024;
		struct player_step *grown = realloc(p->step, (size_t)cap * sizeof *grown);

		if (!grown)
			return err_set(e, ERR_MEMORY, "the recording does not fit the memory");
		p->step = grown;
		p->cap_step = cap;
	}
	p->step[p->n_read++] = (struct player_step){ p->size, t_ns };
	return 0;
}

static int keep(struct player *p, const struct event *ev, struct err *e)
{
	size_t size = ev_pack(ev, NULL, 0), need = p->size + 8 + size, cap = p->cap ? p->cap : CHUNK;
	unsigned char *grown;

	while (cap < need)
		cap += cap / 2;
	if (cap > p->cap) {
		grown = realloc(p->log, cap);
		if (!grown)
			return err_set(e, ERR_MEMORY, "the recording does not fit the memory");
		p->log = grown;
		p->cap = cap;
	}
	memcpy(p->log + p->size, &size, 8);
	ev_pack(ev, p->log + p->size + 8, size);
	p->size = need;
	return ev->kind == EV_step ? keep_step(p, ev->t_ns, e) : 0;
}

/* 1: one more event, 0: there is none. */
static int read_one(struct player *p, struct err *e)
{
	struct event ev;
	int got = p->read_all ? 0 : reader_next(p->reader, &ev, e);

	if (got == 1)
		return keep(p, &ev, e) < 0 ? -1 : 1;
	p->read_all = true;
	return got;
}

int player_read(struct player *p, int64_t budget_ns, struct err *e)
{
	int64_t until = now_ns() + budget_ns;
	int got = 0;

	for (int i = 1; (got = read_one(p, e)) == 1; i++)
		if (i % EVENTS_BETWEEN_LOOKS == 0 && now_ns() > until)
			break;
	return got;
}

/* Where the log ends for a timeline that stands at `step`. */
static size_t end_of(const struct player *p, int64_t step)
{
	return step >= p->n_read ? p->size : step > 0 ? p->step[step - 1].end : 0;
}

static void fold_to(struct player *p, struct timeline *t, size_t end)
{
	struct event ev;
	uint64_t size;

	while (p->at < end) {
		memcpy(&size, p->log + p->at, 8);
		if (ev_unpack(&ev, p->log + p->at + 8, size) == 0)
			timeline_fold(t, &ev);
		p->at += 8 + size;
	}
}

/* Before the first step the session event and the settings are shown, but no request. */
static size_t end_of_begin(const struct player *p)
{
	uint64_t size, kind;
	size_t at = 0;

	while (at < p->size) {
		memcpy(&size, p->log + at, 8);
		memcpy(&kind, p->log + at + 8, 8);
		if (kind != EV_session && kind != EV_setting)
			break;
		at += 8 + size;
	}
	return at;
}

int player_go(struct player *p, struct timeline *t, int64_t step, struct err *e)
{
	size_t end;
	int got = 1;

	step = step < 0 ? 0 : step;
	/* One more than asked for: only then is it known whether the step is the last. */
	while (p->n_read <= step && got == 1)
		got = read_one(p, e);
	if (step > p->n_read)
		step = p->n_read;
	end = step ? end_of(p, step) : end_of_begin(p);
	if (end < p->at) {
		timeline_free(t);
		timeline_init(t);
		p->at = 0;
	}
	fold_to(p, t, end);
	p->current = step;
	return got < 0 ? -1 : 0;
}

int64_t player_next_ns(struct player *p, struct err *e)
{
	while (p->n_read <= p->current && read_one(p, e) == 1)
		;
	if (p->n_read <= p->current)
		return -1;
	return p->step[p->current].t_ns - (p->current ? p->step[p->current - 1].t_ns : 0);
}
