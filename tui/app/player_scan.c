/* Part of the player: keyframes of a recording that has none (an older one), made in the
 * background. They are the same as the writer's, and are kept in memory: about 50 bytes a step. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "tui/app/player_impl.h"

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
	p->key[p->n_keys++].row = row;
	if (p->coarse)
		player_add_marks(p, &row);
	return 0;
}

int player_scan(struct player *p, int64_t budget_ns, struct err *e)
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
		player_scan_close(p);
	return got;
}

void player_scan_close(struct player *p)
{
	reader_close(p->scan);
	keyframer_close(p->keyframer);
	p->scan = NULL;
	p->keyframer = NULL;
}
