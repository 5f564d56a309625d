/* Part of the timeline: what it lets go of, so that its memory does not grow with the session, and
 * how it comes by what it let go of or never had.
 *
 * What is kept depends on the events alone, so live and replay agree. */
#include "fold/timeline_fields.h"
#include "fold/timeline_fold.h"

/* Older tokens than `seq` have no draft. */
static void move_drafts(struct tl_token *k, int32_t n, int32_t by, int64_t seq)
{
	while (n-- > 0 && k[n].seq > seq)
		if (k[n].draft >= 0)
			k[n].draft = k[n].draft >= by ? k[n].draft - by : -1;
}

/* The first `by` drafts are gone. */
static void drafts_moved(struct timeline *t, int32_t by)
{
	for (int32_t i = 0; by && i < t->n_requests; i++)
		move_drafts(t->request[i].token, t->request[i].n_tokens, by, t->slid_seq);
	for (int32_t i = 0; by && i < t->n_abandoned; i++)
		move_drafts(t->abandoned[i].token, t->abandoned[i].n_tokens, by, t->slid_seq);
}

/* The first `by` of *n items go. */
static void drop_first(void *items, int32_t *n, int32_t by, size_t size)
{
	*n -= by;
	if (by)
		memmove(items, (char *)items + (size_t)by * size, (size_t)*n * size);
}

static void move_lists(struct tl_step *s, const struct tl_step *by)
{
	s->batch_at -= by->batch_at;
	s->draft_at -= by->draft_at;
	s->window_at -= by->window_at;
	s->ahead_at -= by->ahead_at;
	s->traffic_at -= by->traffic_at;
}

/* What belongs to steps before this one. */
static void drop_lists(struct timeline *t, const struct tl_step *by)
{
	const int32_t ids =
		by->window_at < t->n_windows ? t->window[by->window_at].ids_at : t->n_window_ids;

	drop_first(t->batch, &t->n_batch, by->batch_at, sizeof *t->batch);
	drop_first(t->draft, &t->n_drafts, by->draft_at, sizeof *t->draft);
	drop_first(t->window, &t->n_windows, by->window_at, sizeof *t->window);
	drop_first(t->window_id, &t->n_window_ids, ids, sizeof *t->window_id);
	drop_first(t->ahead, &t->n_aheads, by->ahead_at, sizeof *t->ahead);
	drop_first(t->traffic, &t->n_traffic, by->traffic_at, sizeof *t->traffic);
	for (int32_t i = 0; i < t->n_windows; i++)
		t->window[i].ids_at -= ids;
}

/* Steps and what belongs to them, and what came before the first one kept and belongs to none. */
static void drop_steps(struct timeline *t, int64_t before)
{
	int32_t first = 0;
	int64_t slid_seq;
	struct tl_step by;

	while (first < t->n_steps && t->step[first].s.step <= before)
		first++;
	by = first < t->n_steps ? t->step[first] : t->open;
	slid_seq = first ? t->step[first - 1].seq : t->slid_seq;
	drop_first(t->step, &t->n_steps, first, sizeof *t->step);
	drop_lists(t, &by);
	for (int32_t i = 0; i < t->n_steps; i++)
		move_lists(&t->step[i], &by);
	move_lists(&t->open, &by);
	drafts_moved(t, by.draft_at);
	t->slid_seq = slid_seq;
}

static void drop_attention(struct tl_attention *a, int64_t before)
{
	if (a->step <= before) {
		free(a->share);
		free(a->near_zero);
		free(a->read);
		a->share = a->near_zero = a->read = NULL;
		a->n_read = 0;
		a->step = EV_NULL_I;
		a->pos = 0;
		a->n_layers = a->n_pages = 0;
		a->threshold = 0;
	}
	if (a->head >= 0 && a->head_step <= before) {
		free(a->head_share);
		a->head_share = NULL;
		a->head_layer = a->head = -1;
		a->head_step = 0;
		a->head_pages = 0;
	}
}

static void drop_sparsity(struct tl_sparsity *s, int64_t before)
{
	if (s->step > before)
		return;
	free(s->share);
	*s = (struct tl_sparsity){ .step = EV_NULL_I };
}

static void drop_abandoned(struct timeline *t, int32_t at)
{
	tl_free(&tl_shape_abandoned, &t->abandoned[at]);
	memmove(t->abandoned + at, t->abandoned + at + 1,
		(size_t)(--t->n_abandoned - at) * sizeof *t->abandoned);
	for (int32_t i = 0; i < t->n_requests + t->n_abandoned; i++) {
		struct tl_branch *s =
			i < t->n_requests ? &t->request[i].origin : &t->abandoned[i - t->n_requests].origin;

		if (s->abandoned == at)
			*s = (struct tl_branch){ .abandoned = -1 };
		else if (s->abandoned > at)
			s->abandoned--;
	}
}

static void forget_stems(struct timeline *t)
{
	for (int32_t i = t->n_abandoned; i-- > 0;)
		if (!timeline_request(t, t->abandoned[i].request))
			drop_abandoned(t, i);
	/* Sought anew among what is left, oldest first. */
	for (int32_t i = 0; i < t->n_requests; i++) {
		struct tl_request *r = &t->request[i];

		if (r->origin.request && !timeline_request(t, r->origin.request))
			tl_find_origin(t, r, r->fork_pos >= 0 ? r->parent : 0);
	}
}

void tl_drop_requests(struct timeline *t)
{
	int32_t n[2] = { 0 }, end = t->n_requests;
	int64_t tokens[2] = { 0 };

	for (int32_t i = t->n_requests; i-- > 0;) {
		struct tl_request r = t->request[i];
		int sort = timeline_of_conversation(r.kind);

		if (r.state != TL_FINISHED || (n[sort] < TL_REQUESTS && tokens[sort] < TL_TOKENS)) {
			n[sort]++;
			tokens[sort] += r.n_tokens;
			t->request[--end] = r;
		} else {
			tl_free(&tl_shape_request, &r);
		}
	}
	if (!end)
		return;
	t->n_requests -= end;
	memmove(t->request, t->request + end, (size_t)t->n_requests * sizeof *t->request);
	forget_stems(t);
}

void tl_slide(struct timeline *t, int64_t step)
{
	int64_t before = step - TL_WINDOW;
	int32_t n = 0;

	if (step % TL_SLIDE)
		return;
	drop_steps(t, before);
	tl_drop_requests(t);
	tl_drop_shadows(t, before);
	tl_drop_lanes(t, before);
	for (int32_t i = 0; i < t->n_requests; i++) {
		drop_attention(&t->request[i].attention, before);
		drop_sparsity(&t->request[i].sparsity, before);
		tl_drop_watched(&t->request[i], before);
	}
	for (int32_t i = 0; i < t->n_pages; i++)
		if (t->page[i].heat_step <= before)
			t->page[i].heat = t->page[i].skipped = t->page[i].selected = 0;
	while (n < t->n_preempts && t->preempt[n].step <= before)
		n++;
	t->n_preempts -= n;
	if (n)
		memmove(t->preempt, t->preempt + n, (size_t)t->n_preempts * sizeof *t->preempt);
}

/* What is filled in here was so all the time: a timeline that is only looked at may do it. */
const struct tl_token *timeline_whole(const struct timeline *t, const struct tl_token *k)
{
	struct tl_token *mine = (struct tl_token *)k;
	const struct tl_price price = k ? k->price : (struct tl_price){ 0 };
	const int64_t ns = k ? k->ns : 0;
	struct event ev;

	if (!k || !k->light)
		return k;
	if (!t->older.row || t->older.row(t->older.arg, EV_token, k->seq, &ev) != 1 ||
		ev.u.token.step < 0 || ev.u.token.id != k->id || ev.u.token.pos != k->pos)
		return k;
	tl_unpack_token(mine, &ev.u.token, k->seq);
	mine->ns = ns; /* known also where the row has none: see tl_note_token() */
	mine->price = price;
	return k;
}

const struct tl_page *timeline_page(const struct timeline *t, int32_t page)
{
	struct tl_page_event old[TL_PAGE_HISTORY];
	struct tl_page *p = &t->page[page];
	int32_t n = p->n_history - p->n_unfolded;

	if (!p->n_unfolded || n >= TL_PAGE_HISTORY || !t->older.history)
		return p;
	n = at_most(TL_PAGE_HISTORY - n, p->n_unfolded);
	n = t->older.history(t->older.arg, page, old, n); /* the newest first */
	for (int32_t i = 0; i < n; i++)
		p->history[(p->n_unfolded - 1 - i) % TL_PAGE_HISTORY] = old[i];
	p->n_unfolded = 0;
	return p;
}
